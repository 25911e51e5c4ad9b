"""`vtakit vivado`: its scripts under tclsh against a stand-in for Vivado (vivado.tcl), planted mistakes in them, the other files.

No Vivado has run them. The stand-in knows commands, options, properties and pins by AMD's documents, and refuses all others.
"""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.boards.vivado.device_tree import overlay
from vtakit.boards.vivado.project import core_params, project_files
from vtakit.boards.vivado.targets import VIVADO_BOARDS, ZYNQ_7000, ZYNQ_ULTRASCALE, find_vivado_target
from vtakit.hw.integration import wrapper
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.runtime.cli import main

STUB = Path(__file__).with_name("vivado.tcl")
SECONDS = 60
needs_tcl = pytest.mark.skipif(shutil.which("tclsh") is None, reason="apt install tcl")
# A board of each family, a part of each, and a part without a processor.
TARGETS = ("pynq-z1", "ultra96", "xc7z010clg400-1", "xck26-sfvc784-2LV-c", "xc7a100tcsg324-1")
ZYNQS = TARGETS[:4]


def written(folder: Path, name: str, *, coherent: bool = False, bus_bits: int | None = None, **more) -> dict[str, str]:
    """The files of a project in a folder; its Verilog is a module of the name alone."""
    target = find_vivado_target(name)
    params = core_params(target, CoreParams(cfg=NAMED["tiny"]), coherent=coherent, bus_bits=bus_bits)
    found = project_files(target, params, "module vta(clk);\nendmodule\n", coherent=coherent, **more)
    folder.mkdir(exist_ok=True)
    for file, text in found.items():
        (folder / file).write_text(text)
    return found


def run(folder: Path, script: str, **environment: str) -> tuple[int, str, list[str]]:
    """The exit status of a script, what it says, and the commands that it gave Vivado."""
    log = folder / "commands.log"
    log.unlink(missing_ok=True)
    around = os.environ | {"STUB_LOG": str(log)} | environment
    done = subprocess.run(["tclsh", str(STUB), str(folder / script)], cwd=folder, env=around, capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    return done.returncode, done.stderr, log.read_text().splitlines() if log.exists() else []


def scripts_of(folder: Path) -> list[str]:
    return [name for name in ("package_ip.tcl", "project.tcl", "build.tcl") if (folder / name).exists()]


def run_all(folder: Path, **environment: str) -> list[str]:
    """Run every script, as build.sh does; the commands of all."""
    commands = []
    for script in scripts_of(folder):
        status, said, given = run(folder, script, **environment)
        assert (status, said) == (0, ""), f"{script}: {said}"
        commands += given
    return commands


@needs_tcl
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("coherent", [False, True])
def test_the_scripts_build_a_design_without_open_pins(tmp_path, name, coherent):
    if coherent and name not in ZYNQS:
        return
    written(tmp_path, name, coherent=coherent)
    commands = run_all(tmp_path)
    assert (tmp_path / "ip" / "component.xml").read_text().startswith("ip vtakit:user:vta:1.0 ")
    assert (tmp_path / "vta.bit").exists() == (tmp_path / "vta.hwh").exists() == (name in ZYNQS)
    assert f"create_project -force vta_ip {tmp_path}/build/ip_project -part {find_vivado_target(name).part}" in commands


@needs_tcl
def test_ports_clocks_and_addresses_are_those_of_the_family(tmp_path):
    expected = {
        ("pynq-z1", False): ("ps/S_AXI_HP0", "ps/S_AXI_HP0/HP0_DDR_LOWOCM", "PCW_FPGA0_PERIPHERAL_FREQMHZ 90", "0x43c00000"),
        ("pynq-z1", True): ("ps/S_AXI_ACP", "ps/S_AXI_ACP/ACP_DDR_LOWOCM", "PCW_USE_DEFAULT_ACP_USER_VAL 1", "0x43c00000"),
        ("ultra96", False): ("ps/S_AXI_HP0_FPD", "ps/SAXIGP2/HP0_DDR_LOW", "PL0_REF_CTRL__FREQMHZ 90", "0xa0000000"),
        ("ultra96", True): ("ps/S_AXI_HPC0_FPD", "ps/SAXIGP0/HPC0_DDR_LOW", "PSU__SAXIGP0__DATA_WIDTH 128", "0xa0000000"),
    }
    for (name, coherent), (port, segment, setting, registers) in expected.items():
        folder = tmp_path / f"{name}{coherent}"
        written(folder, name, coherent=coherent, mhz=90)
        commands = run_all(folder)
        text = "\n".join(commands)
        assert f"connect_bd_intf_net data_0/M00_AXI {port}" in commands
        assert f"get_bd_addr_segs {segment}" in commands
        assert setting in text
        assert f"assign_bd_address -offset {registers} -range 4K" in text
        # One clock for all, and the core's reset from the block whose resets last 16 cycles.
        (clocks,) = [line for line in commands if line.startswith("connect_bd_net") and "vta_0/aclk" in line]
        assert {"reset_0/slowest_sync_clk", "control_0/aclk", "data_0/aclk"} <= set(clocks.split())
        assert "connect_bd_net reset_0/peripheral_aresetn vta_0/aresetn" in commands
        assert any(re.fullmatch(r"connect_bd_net vta_0/irq ps/(IRQ_F2P|pl_ps_irq0)", line) for line in commands)


@needs_tcl
def test_board_files_are_used_where_they_are_installed(tmp_path):
    written(tmp_path, "pynq-z1")
    board = "www.digilentinc.com:pynq-z1:part0:1.0"
    commands = run_all(tmp_path, STUB_BOARDS=f"em.avnet.com:zed:part0:1.4 {board}")
    assert f"set_property board_part {board}" in "\n".join(commands)
    assert "apply_board_preset 1" in "\n".join(commands)
    assert "PCW_UIPARAM_DDR_PARTNO" not in "\n".join(commands)
    commands = run_all(tmp_path)
    assert "CONFIG.PCW_UIPARAM_DDR_PARTNO {MT41J256M16 RE-125}" in "\n".join(commands)


@needs_tcl
def test_a_packager_that_makes_no_memory_map_gets_one(tmp_path):
    written(tmp_path, "pynq-z1")
    assert any("ipx::add_address_block" in line for line in run_all(tmp_path, STUB_NO_MAP="1"))
    assert not any("ipx::add_address_block" in line for line in run_all(tmp_path))


@needs_tcl
@pytest.mark.parametrize(("script", "environment", "says"), [
    ("build.tcl", {"STUB_SLACK": "-0.3"}, "the slowest path is -0.3 ns too long for 100 MHz; it is in timing.rpt"),
    ("build.tcl", {"STUB_PROGRESS": "40%"}, "Vivado did not finish: place_design ERROR; its log is "),
    ("project.tcl", {"STUB_VERSION": "2019.2"}, "this script needs Vivado 2020.2 or newer, and this is 2019.2"),
])
def test_what_goes_wrong_is_said(tmp_path, script, environment, says):
    written(tmp_path, "pynq-z1")
    run_all(tmp_path)
    (tmp_path / "vta.bit").unlink()
    status, said, _ = run(tmp_path, script, **environment)
    assert status == 1
    assert said.startswith(says)
    assert not (tmp_path / "vta.bit").exists()


# A script, what stands there, what stands there instead, and the words with which the stand-in refuses it.
MISTAKES = [
    ("project.tcl", "connect_bd_net [get_bd_pins vta_0/irq]", "# [get_bd_pins vta_0/irq]", "the pin ps/IRQ_F2P is open"),
    ("project.tcl", "[get_bd_pins $ps(data_clock)]", "", "is open"),
    ("project.tcl", "vta_0/aresetn", "vta_0/resetn", "vta_0 has no pin resetn"),
    ("project.tcl", "[get_bd_pins control_0/aresetn]", "", "the pin control_0/aresetn is open"),
    ("project.tcl", "reset_0/peripheral_aresetn", "reset_0/peripheral_reset", "a net joins high_reset reset"),
    ("project.tcl", "[get_bd_intf_pins vta_0/m_axi] [get_bd_intf_pins data_0/S00_AXI]",
     "[get_bd_intf_pins vta_0/s_axil] [get_bd_intf_pins data_0/S00_AXI]", "joined already"),
    ("project.tcl", "xilinx.com:ip:smartconnect", "xilinx.com:ip:smartconect", "the catalog has no"),
    ("project.tcl", "vtakit:user:vta:1.0", "vtakit:user:vta:1.1", "the catalog has no vtakit:user:vta:1.1"),
    ("project.tcl", "validate_bd_design", "validate_design", "invalid command name"),
    ("project.tcl", "-offset $registers", "-offset 0x0", "the port has no such addresses"),
    ("project.tcl", "CONFIG.NUM_SI 1", "CONFIG.NUM_SI 2", "the pin control_0/S01_AXI is open"),
    ("project.tcl", "assign_bd_address -target_address_space", "# ", "addresses are not assigned"),
    ("processor.tcl", "PCW_USE_FABRIC_INTERRUPT 1", "PCW_USE_FABRIC_INTERRUPT 0", "ps has no pin IRQ_F2P"),
    ("processor.tcl", "PCW_USE_S_AXI_HP0 1", "PCW_USE_S_AXI_HP 1", "has no parameter PCW_USE_S_AXI_HP"),
    ("processor.tcl", 'make_external "FIXED_IO, DDR"', 'make_external "FIXED_IO"', "the pin ps/DDR is open"),
    ("processor.tcl", "HP0_DDR_LOWOCM", "HP0_DDR_LOW", "no segment"),
    ("package_ip.tcl", "set_property range 4096", "set_property range 64", "the registers are no page"),
    ("package_ip.tcl", "-import_files", "-import", "has no option -import"),
    ("package_ip.tcl", "set_property version", "set_property versions", "a core has no property versions"),
    ("package_ip.tcl", "[file join $here vta.v]", "", "the project lacks vta.v"),
    ("build.tcl", "-to_step write_bitstream", "-to_step bitstream", "launch impl_1"),
    ("vta_ooc.xdc", "aclk]", "clk]", "no port clk"),
]


@needs_tcl
@pytest.mark.parametrize(("script", "right", "wrong", "says"), MISTAKES)
def test_the_stand_in_notices_mistakes(tmp_path, script, right, wrong, says):
    text = written(tmp_path, "pynq-z1")[script]
    assert right in text
    (tmp_path / script).write_text(text.replace(right, wrong, 1))
    for each in scripts_of(tmp_path):
        status, said, _ = run(tmp_path, each)
        if status:
            assert says in said
            return
    pytest.fail("all scripts ran")


@needs_tcl
def test_ports_of_an_ultrascale_that_are_not_used_are_switched_off(tmp_path):
    text = written(tmp_path, "ultra96")["processor.tcl"]
    for name in ("PSU__USE__M_AXI_GP1", "PSU__USE__M_AXI_GP2"):
        (tmp_path / "processor.tcl").write_text(text.replace(f"CONFIG.{name} 0", ""))
        assert run(tmp_path, "package_ip.tcl")[0] == 0
        status, said, _ = run(tmp_path, "project.tcl")
        assert status == 1
        assert "is open" in said


@pytest.mark.parametrize(("name", "coherent", "cache", "prot", "bits"), [
    ("pynq-z1", False, 0b0011, 0b000, 64), ("pynq-z1", True, 0b1111, 0b000, 64),
    ("ultra96", False, 0b0011, 0b010, 128), ("ultra96", True, 0b1111, 0b010, 128),
])
def test_attributes_and_widths_are_what_the_port_wants(name, coherent, cache, prot, bits):
    params = core_params(find_vivado_target(name), CoreParams(), coherent=coherent, bus_bits=None)
    assert (params.axi_cache, params.axi_prot, params.bus_bits) == (cache, prot, bits)
    assert params.burst_beats <= 16, "a port of a Zynq-7000 is AXI3"
    assert f"DATA_WIDTH {bits}" in wrapper(params)


def parse_tree(text: str) -> dict[str, object]:
    """A device tree's source as nested mappings: a plain reader of braces and semicolons."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    tokens = re.findall(r"[{}]|;|[^{};]+", text)
    stack: list[dict[str, object]] = [{}]
    word = ""
    for token in map(str.strip, tokens):
        if token == "{":
            inner: dict[str, object] = {}
            assert word not in stack[-1], word
            stack[-1][word] = inner
            stack.append(inner)
            word = ""
        elif token == "}":
            stack.pop()
            word = "}"
        elif token == ";":
            if word != "}":
                key, _, value = word.partition("=")
                stack[-1][key.strip()] = value.strip()
            word = ""
        elif token:
            assert word == "", f"no semicolon before {token}"
            word = token
    assert len(stack) == 1
    return stack[0]


@pytest.mark.parametrize(("family", "registers", "interrupts", "parent", "clock"), [
    (ZYNQ_7000, "<0x43c00000 0x1000>", "<0 29 4>", "<&intc>", "<&clkc 15>"),
    (ZYNQ_ULTRASCALE, "<0x0 0xa0000000 0x0 0x1000>", "<0 89 4>", "<&gic>", "<&zynqmp_clk 71>"),
])
@pytest.mark.parametrize("coherent", [False, True])
def test_the_overlay_has_registers_interrupt_clock_and_memory(family, registers, interrupts, parent, clock, coherent):
    found = parse_tree(overlay(family, mhz=100, dma_bytes=64 << 20, coherent=coherent))
    assert {"/dts-v1/", "/plugin/", "/"} == set(found)
    assert found["/"]["fragment@0"]["target"] == "<&fpga_full>"
    region = found["/"]["fragment@0"]["__overlay__"]
    (name,) = [name for name in region if name.startswith("vta@")]
    assert (region[name]["reg"], region[name]["interrupts"], region[name]["interrupt-parent"]) == (registers, interrupts, parent)
    assert region[name]["compatible"] == '"generic-uio"'
    assert region["vta-clock"]["clocks"] == region["vta-clock"]["assigned-clocks"] == clock
    assert region["vta-clock"]["assigned-clock-rates"] == "<100000000>"
    memory = found["/"]["fragment@1"]["__overlay__"]["udmabuf0"]
    assert memory["compatible"] == '"ikwzm,u-dma-buf"'
    assert memory["size"] == "<0x4000000>"
    assert ("dma-coherent" in memory) == coherent


BASE = """/dts-v1/;
/ {
    #address-cells = <CELLS>;
    #size-cells = <CELLS>;
    GIC: controller { #interrupt-cells = <3>; interrupt-controller; };
    CLOCK: clocks { #clock-cells = <1>; };
    fpga_full: fpga-full { compatible = "fpga-region"; #address-cells = <CELLS>; #size-cells = <CELLS>; ranges; };
};
"""


@pytest.mark.skipif(shutil.which("fdtoverlay") is None, reason="apt install device-tree-compiler")
@pytest.mark.parametrize("family", [ZYNQ_7000, ZYNQ_ULTRASCALE], ids=lambda family: family.name)
def test_the_overlay_compiles_and_fits_a_device_tree(tmp_path, family):
    def compiled(name: str, text: str) -> None:
        (tmp_path / f"{name}.dts").write_text(text)
        words = ["dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", f"{name}.dtb", f"{name}.dts"]
        subprocess.run(words, cwd=tmp_path, timeout=SECONDS, check=True)

    compiled("vta", overlay(family, mhz=100, dma_bytes=1 << 20, coherent=True))
    names = {"CELLS": str(family.cells), "GIC": family.gic, "CLOCK": family.clock.split()[0]}
    compiled("base", re.sub("|".join(names), lambda found: names[found[0]], BASE))
    subprocess.run(["fdtoverlay", "-i", "base.dtb", "-o", "all.dtb", "vta.dtb"], cwd=tmp_path, timeout=SECONDS, check=True)


def test_the_build_script_runs_all_of_it_and_names_what_is_missing(tmp_path):
    written(tmp_path, "pynq-z1")
    tools = tmp_path / "tools"
    tools.mkdir()
    around = {"PATH": f"{tools}:/bin:/usr/bin", "CALLS": str(tmp_path / "calls")}
    done = subprocess.run(["sh", "build.sh"], cwd=tmp_path, env=around, capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert (done.returncode, done.stderr) == (2, "build.sh needs vivado: load AMD's settings64.sh first\n")
    for name in ("vivado", "bootgen", "dtc"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> "$CALLS"\n')
        (tools / name).chmod(0o755)
    subprocess.run(["sh", "build.sh"], cwd=tmp_path, env=around, timeout=SECONDS, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [re.findall(r"-source (\S+)", call) for call in calls[:3]] == [["package_ip.tcl"], ["project.tcl"], ["build.tcl"]]
    assert calls[3:] == ["bootgen -image vta.bif -arch zynq -process_bitstream bin -w",
                         "dtc -@ -I dts -O dtb -o vta.dtbo vta.dts"]


def test_every_file_is_named_in_the_readme_and_none_is_said_to_have_run(tmp_path):
    for name in TARGETS:
        found = written(tmp_path / name, name)
        readme = found["README.md"]
        for file in found.keys() - {"vta.f", "vta.svd", "vta_registers.h", "vta.json", "README.md", "vta.bif"}:
            assert file in readme, f"{name}: {file}"
        assert "No Vivado has run these scripts and no board has run the result" in readme
    assert "0xFF41A040" in written(tmp_path / "c", "ultra96", coherent=True)["README.md"]


def test_the_command_writes_a_folder_that_scripts_run_in(tmp_path, capsys):
    folder = tmp_path / "project"
    words = ["ultra96", "--config", "tiny", "-o", str(folder), "--coherent", "--mhz", "150", "--dma-mib", "16"]
    assert main(["vivado", *words]) == 0
    assert "No Vivado has run these scripts" in capsys.readouterr().out
    assert "size = <0x1000000>;" in (folder / "vta.dts").read_text()
    if shutil.which("tclsh"):
        run_all(folder)
    assert main(["vivado", "xc7a100tcsg324-1", "--config", "tiny", "-o", str(tmp_path / "ip")]) == 0
    assert not (tmp_path / "ip" / "project.tcl").exists()


@pytest.mark.parametrize(("words", "says"), [
    (["pynq"], "'pynq' is neither a board nor a part such as xc7z020clg400-1; did you mean 'pynq-z"),
    (["xc7a35tcpg236-1", "--coherent"], "--coherent joins the core to the processor's caches, and xc7a35tcpg236-1 has"),
    (["pynq-z1", "--bus-bits", "128"], "--bus-bits is 128, and a memory port of a Zynq-7000 has 64 bits"),
    (["ultra96", "--bus-bits", "256"], "--bus-bits is 256, and a memory port of a Zynq UltraScale+ has 64 or 128 bits"),
    (["pynq-z1", "--mhz", "nan"], "--mhz must be from 10 to 500, got nan"),
    (["pynq-z1", "--dma-mib", "0"], "--dma-mib must be from 1 to 1024, got 0"),
])
def test_wrong_words_are_one_sentence_and_status_2(tmp_path, capsys, words, says):
    assert main(["vivado", *words, "--config", "tiny", "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.startswith(f"vtakit vivado: {says}")
    assert not (tmp_path / "x").exists()


def test_families_of_parts():
    families = {"xc7z020clg400-1": ZYNQ_7000, "xa7z030fbg484-1I": ZYNQ_7000, "xczu3eg-sbva484-1-e": ZYNQ_ULTRASCALE,
                "xck26-sfvc784-2LV-c": ZYNQ_ULTRASCALE, "xc7k325tffg900-2": None, "xcku040-ffva1156-2-e": None}
    assert {name: find_vivado_target(name).family for name in families} == families
    for target in VIVADO_BOARDS.values():
        assert find_vivado_target(target.part).family is target.family
    with raises(VtakitError, "'Artix' is neither a board nor a part …"):
        find_vivado_target("Artix")


def test_the_address_fits_the_port():
    for name in ZYNQS:
        target = find_vivado_target(name)
        params = core_params(target, replace(CoreParams(), address_bits=48), coherent=False, bus_bits=None)
        assert params.address_bits == target.family.address_bits
