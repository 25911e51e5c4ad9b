"""The files of `vtakit verilog`: they say what the hardware does, tools read them, and a folder holds one core."""

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from verilog_lint import lint

from vtakit.hw.integration import WRAPPER_NAME, files
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.regs import REGISTERS, offset_of
from vtakit.hw.lint import waiver_file
from vtakit.hw.params import CoreParams
from vtakit.runtime import cli
from vtakit.sim.rtl.build import kept_verilog

NAMES = {"vta.v", "vta_axi.v", "vta.f", "vta.svd", "vta_registers.h", "vta.json", "README.md"}


@pytest.fixture(scope="module")
def made():
    params = CoreParams(cfg=NAMED["tiny"], bus_bits=128, windows=False, axi_cache=15, axi_qos=2)
    return files(params, kept_verilog(params))


def test_the_wrapper_is_clean_and_joins_every_pin(made, tmp_path):
    text = made["vta.v"] + made["vta_axi.v"]
    assert lint(text, waiver_file(), tmp_path, top=WRAPPER_NAME) == ""
    pins = json.loads(made["vta.json"])["pins"]
    joined = set(re.findall(r"^    \.(\w+)\(\1\)", made["vta_axi.v"], re.MULTILINE))
    assert joined == pins.keys()
    assert (pins["m_axi_rdata"], pins["irq"]) == ({"direction": "in", "width": 128}, {"direction": "out", "width": 1})
    assert made["vta.f"].split() == ["vta.v", "vta_axi.v"]


def test_every_pin_has_the_name_that_block_designs_know(made):
    """AXI4 and AXI4-Lite of ARM's specification, each with all that it must have."""
    found = set(re.findall(r'aximm:1\.0 (\w+) (\w+)"', made["vta_axi.v"]))
    lite = {"AWADDR", "AWPROT", "AWVALID", "AWREADY", "WDATA", "WSTRB", "WVALID", "WREADY", "BRESP", "BVALID", "BREADY", "ARADDR",
            "ARPROT", "ARVALID", "ARREADY", "RDATA", "RRESP", "RVALID", "RREADY"}
    full = lite | {"WLAST", "RLAST", "RID", "BID"} | {
        f"{channel}{name}" for channel in ("AW", "AR") for name in ("ID", "LEN", "SIZE", "BURST", "LOCK", "CACHE", "QOS")}
    assert found == {("s_axil", name) for name in lite} | {("m_axi", name) for name in full}


def test_the_register_map_is_that_of_the_instruction_set(made):
    """What hardware reads is compared with `resets` in the core's bench."""
    device = ElementTree.fromstring(made["vta.svd"])
    registers = {one.findtext("name"): one for one in device.iter("register")}
    assert list(registers) == [register.name.upper() for register in REGISTERS]
    for register in REGISTERS:
        one = registers[register.name.upper()]
        assert int(one.findtext("addressOffset"), 0) == offset_of(register.name)
        assert int(one.findtext("size")) == 32 * register.words
        spans = [(int(field.findtext("bitOffset")), int(field.findtext("bitWidth"))) for field in one.iter("field")]
        assert [width for _, width in spans] == [field.width for field in register.fields]
        assert all(at + width == after for (at, width), (after, _) in pairwise(spans))
        assert sum(width for _, width in spans) <= 32 * register.words
    assert int(registers["ATTRIBUTES"].findtext("resetValue"), 0) == 15 | 2 << 7
    assert int(registers["IDENTITY"].findtext("resetValue"), 0) == 0x56544131


def test_the_page_and_the_parameters_say_what_was_built(made):
    about = json.loads(made["vta.json"])
    assert about["config"] == NAMED["tiny"].to_dict()
    assert (about["core"]["bus_bits"], about["core"]["windows"]) == (128, False)
    assert "DWCONV" not in about["features"]
    assert "REQUANT" in about["features"]
    assert "AXI4 manager, 128 bits, addresses of 40 bits" in made["README.md"]
    assert "at first 0x10f" in made["README.md"]


def test_the_command_writes_a_folder_and_replaces_it(tmp_path, capsys):
    folder = tmp_path / "core"
    assert cli.main(["verilog", "tiny", "-o", str(folder), "--without", "windows", "lookups"]) == 0
    assert {path.name for path in folder.iterdir()} == {*NAMES, "vtakit.json"}
    assert "7 files" in capsys.readouterr().out
    first = (folder / "vta.v").read_text()
    small = ["--gemm-passes", "2", "--mul-passes", "4", "--acc-copies", "1", "--without", "windows"]
    assert cli.main(["verilog", "tiny", "-o", str(folder), *small]) == 0
    assert (folder / "vta.v").read_text() != first
    core = json.loads((folder / "vta.json").read_text())["core"]
    assert [core[name] for name in ("gemm_passes", "mul_passes", "acc_copies", "windows")] == [2, 4, 1, False]
    (folder / "vta.v").write_text("mine")
    capsys.readouterr()
    assert cli.main(["verilog", "tiny", "-o", str(folder)]) == 2
    assert "vta.v" in capsys.readouterr().err
    assert (folder / "vta.v").read_text() == "mine"


@pytest.mark.parametrize(("words", "message"), [
    (["tinny"], "unknown configuration 'tinny'; did you mean 'tiny'?"),
    (["tiny", "--without", "window"],
     "--without: 'window' is no part that can be left out; did you mean 'windows'? Known: counters, lookups"),
    (["tiny", "--bus-bits", "96"], "bus_bits must be one of (64, 128, 256, 512), got 96"),
    (["tiny", "--axi-cache", "16"], "axi_cache must be from 0 to 15, got 16"),
    (["tiny", "--gemm-passes", "8"], "gemm_passes must be a power of two up to the block of 4, got 8"),
    (["tiny", "--mul-passes", "3"], "mul_passes must be a power of two up to the 4 lanes of the ALU, got 3"),
    (["tiny", "--acc-copies", "0"], "acc_copies must be 1 or 2, got 0"),
    (["tiny", "--address-bits", "20"], "address_bits must be from 32 to 64, got 20"),
])
def test_what_is_wrong_is_one_sentence_and_leaves_no_folder(words, message, tmp_path, capsys):
    assert cli.main(["verilog", *words, "-o", str(tmp_path / "core")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vtakit verilog: {message}")
    assert said.count("\n") == 1
    assert not Path(tmp_path, "core").exists()
