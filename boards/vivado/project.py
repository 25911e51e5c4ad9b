"""The files of a Vivado project: Verilog, Tcl, constraints, device tree, and a script that runs all of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.boards.vivado.device_tree import DMA_NAME, UIO_NAME, overlay
from vtakit.boards.vivado.targets import NORMAL_UNCACHED, WRITE_BACK, Family, VivadoTarget
from vtakit.hw.integration import files as core_files
from vtakit.hw.params import CoreParams

LEAST_MHZ, MOST_MHZ = 10, 500
LEAST_DMA_MIB, MOST_DMA_MIB = 1, 1024
_SCRIPTS = Path(__file__).with_name("scripts")
_NS = 1e3  # in a period of one MHz
NOT_TRIED = "No Vivado has run these scripts and no board has run the result: tests run them against a stand-in for Vivado."


def core_params(target: VivadoTarget, params: CoreParams, *, coherent: bool, bus_bits: int | None) -> CoreParams:
    """Return the parameters of a core for a target: widths of its memory port, and the attributes that this port wants.

    Raises VtakitError for a part without a processor that is to have a coherent port, and a width that the port cannot have.
    """
    family = target.family
    if family is None:
        if coherent:
            raise VtakitError(f"--coherent joins the core to the processor's caches, and {target.part} has no processor: leave "
                              "it out")
        return replace(params, bus_bits=params.bus_bits if bus_bits is None else bus_bits)
    bits = family.bus_bits if bus_bits is None else bus_bits
    if bits not in family.bus_widths:
        widths = " or ".join(map(str, family.bus_widths))
        raise VtakitError(f"--bus-bits is {bits}, and a memory port of a {family.title} has {widths} bits")
    cache = WRITE_BACK if coherent else NORMAL_UNCACHED
    return replace(params, bus_bits=bits, address_bits=family.address_bits, axi_cache=cache, axi_prot=family.prot)


def project_files(
    target: VivadoTarget, params: CoreParams, verilog: str, *, mhz: float | None = None, coherent: bool = False,
    dma_mib: int = 64,
) -> dict[str, str]:
    """Return every file by its name.

    params     those of `core_params`; `verilog` is what `vtakit.hw.verilog.to_verilog` makes of them
    mhz        clock of the core; None: the family's
    coherent   data go through the port that looks into the caches
    dma_mib    MiB of memory that u-dma-buf reserves

    Raises VtakitError for a clock or a size that cannot be.
    """
    clock = mhz if mhz is not None else target.family.mhz if target.family else 100.0
    if not LEAST_MHZ <= clock <= MOST_MHZ:
        raise VtakitError(f"--mhz must be from {LEAST_MHZ} to {MOST_MHZ}, got {clock:g}")
    if not LEAST_DMA_MIB <= dma_mib <= MOST_DMA_MIB:
        raise VtakitError(f"--dma-mib must be from {LEAST_DMA_MIB} to {MOST_DMA_MIB}, got {dma_mib}")
    found = {name: text for name, text in core_files(params, verilog).items() if name != "README.md"}
    found |= {"CORE.md": core_files(params, verilog)["README.md"], "package_ip.tcl": _script("package_ip.tcl"),
              "vta_ooc.xdc": f"create_clock -name aclk -period {_NS / clock:.3f} [get_ports aclk]\n"}
    settings: dict[str, str] = {"part": target.part}
    if target.family is not None:
        settings |= {
            "board_files": target.boards, "core_mhz": f"{clock:g}", "bus_bits": str(params.bus_bits),
            "coherent": str(int(coherent)), "registers": f"0x{target.family.registers:x}", "jobs": "4",
            "ddr": " ".join(f"CONFIG.{name} {{{value}}}" for name, value in target.ddr),
        }
        found |= {
            "project.tcl": _script("project.tcl"), "processor.tcl": _script(target.family.script),
            "build.tcl": _script("build.tcl"),
            "vta.xdc": "set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]\n",
            "vta.bif": "all:\n{\n  [destination_device = pl] vta.bit\n}\n",
            "vta.dts": overlay(target.family, mhz=clock, dma_bytes=dma_mib << 20, coherent=coherent),
        }
    found["settings.tcl"] = _settings(settings)
    found["build.sh"] = _build_script(target.family)
    found["README.md"] = "\n\n".join(_readme(target, params, clock, coherent, dma_mib)) + "\n"
    return found


def _script(name: str) -> str:
    return (_SCRIPTS / name).read_text(encoding="utf-8")


def _settings(values: Mapping[str, str]) -> str:
    lines = "".join(f"set {name} {{{value}}}\n" for name, value in values.items())
    return f"# The choices of this project, which the scripts read. Written by `vtakit vivado`.\n{lines}"


def _build_script(family: Family | None) -> str:
    steps = ["package_ip.tcl"] if family is None else ["package_ip.tcl", "project.tcl", "build.tcl"]
    lines = [
        "#!/bin/sh", "# From Verilog to the files of a board. Written by `vtakit vivado`; its tools are AMD's and dtc.",
        "set -eu",
        'cd "$(dirname "$0")"',
        *_needs("vivado", "load AMD's settings64.sh first"),
        *(f"vivado -mode batch -nojournal -log build_{Path(step).stem}.log -source {step}" for step in steps),
    ]
    if family is not None:
        lines += [
            *_needs("bootgen", "it comes with Vivado"),
            f"bootgen -image vta.bif -arch {family.bootgen} -process_bitstream bin -w",
            *_needs("dtc", "apt install device-tree-compiler"),
            "dtc -@ -I dts -O dtb -o vta.dtbo vta.dts",
        ]
    return "\n".join(lines) + "\n"


def _needs(tool: str, cure: str) -> list[str]:
    return [f'command -v {tool} >/dev/null || {{ echo "build.sh needs {tool}: {cure}" >&2; exit 2; }}']


def _readme(target: VivadoTarget, params: CoreParams, mhz: float, coherent: bool, dma_mib: int) -> Iterator[str]:
    family = target.family
    yield f"# The accelerator for {target.title}, {target.part}"
    yield f"Written by `vtakit vivado`. **{NOT_TRIED}**"
    yield ("| file | |\n|---|---|\n"
           "| `vta.v`, `vta_axi.v` | the accelerator and its wrapper; CORE.md says what they ask for |\n"
           "| `settings.tcl` | the choices of this project |\n"
           "| `package_ip.tcl` | packages them as IP: `ip/component.xml` |\n"
           "| `vta_ooc.xdc` | the clock, for synthesis out of context |")
    if family is None:
        yield ("    sh build.sh\n\nmakes `ip`, a folder for the setting `ip_repo_paths` of a project. "
               "The part has no processor: memory and host are those of your design.")
        return
    port = family.coherent_port if coherent else family.port
    system = f" --system {target.system}" if target.system else ""
    yield ("| file | |\n|---|---|\n"
           f"| `project.tcl`, `processor.tcl` | block design: registers at 0x{family.registers:08x}, data through {port}, "
           f"interrupt {family.irq}, {mhz:g} MHz |\n"
           "| `build.tcl` | bitstream, reports, `.hwh` for PYNQ, `.xsa` |\n"
           "| `vta.xdc` | constraints |\n"
           f"| `vta.dts` | overlay of the device tree: UIO device `{UIO_NAME}`, {dma_mib} MiB of u-dma-buf as /dev/{DMA_NAME} |\n"
           "| `build.sh` | runs all of it: `vta.bit`, `vta.hwh`, `vta.bit.bin`, `vta.dtbo` |")
    yield ("On the board, with Linux's FPGA manager and u-dma-buf (its module loaded, and "
           "`uio_pdrv_genirq.of_id=generic-uio` among the kernel's boot arguments):")
    yield ("    cp vta.bit.bin /lib/firmware/\n    mkdir /sys/kernel/config/device-tree/overlays/vta\n"
           "    cp vta.dtbo /sys/kernel/config/device-tree/overlays/vta/dtbo\n"
           f"    vtakit run MODEL --target vta{system} --device uio:{UIO_NAME}")
    yield (f"With the PYNQ image: `vta.bit` and `vta.hwh` side by side, and `vtakit run MODEL --target vta{system} --device "
           "pynq:vta.bit`.")
    if coherent and family.address_bits > 32:
        yield ("Coherent requests reach the caches only if the processor broadcasts inner shareable ones: AMD's boot image sets "
               "that by `.set. 0xFF41A040 = 0x3;` in the `[init]` file of its `.bif`.")
    yield (f"The core's first AxCACHE is 0b{params.axi_cache:04b} and its AxPROT 0b{params.axi_prot:03b}, as {port} wants them.")
