"""Zynq boards, families and parts that Vivado projects are for. Nothing here needs Amaranth."""

import re
from dataclasses import dataclass

from vtakit.base.errors import VtakitError, one_of

NORMAL_UNCACHED = 0b0011  # AxCACHE of a port that snoops nothing: modifiable, bufferable
WRITE_BACK = 0b1111  # AxCACHE of a port that looks into the processor's caches: write-back, read and write allocate
NON_SECURE = 0b010  # AxPROT: Linux on an UltraScale+ runs in the non-secure world, and its cache lines are marked so


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of Zynq: its processor system as Vivado and Linux know it.

    script           file of `scripts` that adds the processor to a block design
    address_bits     width of an address at its memory ports
    bus_bits, bus_widths   widths of a memory port: the usual one, and all that it can have
    prot             AxPROT of the core
    registers        byte address of the core's registers, in the window of the first general-purpose port
    irq              number of the shared peripheral interrupt of the fabric's first interrupt line
    cells            cells of an address or a size in its device tree
    gic, clock       labels of the interrupt controller, and of the fabric's first clock, in its device tree
    port, coherent_port   the memory ports, in words
    bootgen          architecture, as AMD's bootgen calls it
    mhz              clock of the core, unless the user gives another
    """

    name: str
    title: str
    script: str
    address_bits: int
    bus_bits: int
    bus_widths: tuple[int, ...]
    prot: int
    registers: int
    irq: int
    cells: int
    gic: str
    clock: str
    port: str
    coherent_port: str
    bootgen: str
    mhz: float


ZYNQ_7000 = Family(
    name="zynq7", title="Zynq-7000", script="zynq7.tcl", address_bits=32, bus_bits=64, bus_widths=(64,), prot=0,
    registers=0x43C00000, irq=29, cells=1, gic="intc", clock="clkc 15", port="S_AXI_HP0", coherent_port="S_AXI_ACP",
    bootgen="zynq", mhz=100,
)
ZYNQ_ULTRASCALE = Family(
    name="zynqmp", title="Zynq UltraScale+", script="zynqmp.tcl", address_bits=40, bus_bits=128, bus_widths=(64, 128),
    prot=NON_SECURE, registers=0xA0000000, irq=89, cells=2, gic="gic", clock="zynqmp_clk 71", port="S_AXI_HP0_FPD",
    coherent_port="S_AXI_HPC0_FPD", bootgen="zynqmp", mhz=200,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VivadoTarget:
    """A board or a part.

    family    None: a part without a processor, which gets IP and no block design
    boards    pattern of its board files in Vivado; empty: a part
    ddr       parameters of Zynq-7000's DDR controller, for a Vivado without board files; (name, value)
    system    memory system of `vtakit.hw.system` that stands for the board; empty: none
    """

    name: str
    title: str
    part: str
    family: Family | None
    boards: str = ""
    ddr: tuple[tuple[str, str], ...] = ()
    system: str = ""


# 512 MB of DDR3, 16 bits.
_PYNQ_DDR = (("PCW_UIPARAM_DDR_PARTNO", "MT41J256M16 RE-125"), ("PCW_UIPARAM_DDR_BUS_WIDTH", "16 Bit"))
VIVADO_BOARDS = {target.name: target for target in (
    VivadoTarget(name="pynq-z1", title="Digilent PYNQ-Z1", part="xc7z020clg400-1", family=ZYNQ_7000, boards="*:pynq-z1:*",
                 ddr=_PYNQ_DDR, system="pynq"),
    VivadoTarget(name="pynq-z2", title="TUL PYNQ-Z2", part="xc7z020clg400-1", family=ZYNQ_7000, boards="*:pynq-z2:*",
                 ddr=_PYNQ_DDR, system="pynq"),
    VivadoTarget(name="ultra96", title="Avnet Ultra96", part="xczu3eg-sbva484-1-e", family=ZYNQ_ULTRASCALE,
                 boards="*:ultra96v1:*", system="ultra96"),
    VivadoTarget(name="ultra96-v2", title="Avnet Ultra96-V2", part="xczu3eg-sbva484-1-i", family=ZYNQ_ULTRASCALE,
                 boards="*:ultra96v2:*", system="ultra96"),
    VivadoTarget(name="zcu104", title="AMD ZCU104", part="xczu7ev-ffvc1156-2-e", family=ZYNQ_ULTRASCALE,
                 boards="*:zcu104:*"),
)}
# Letters behind the grade, which is the second one: commercial, automotive or defence. Kria's modules are xck.
_FAMILIES = (("7z", ZYNQ_7000), ("zu", ZYNQ_ULTRASCALE), ("k", ZYNQ_ULTRASCALE))
_GRADE = len("xc")


def find_vivado_target(name: str) -> VivadoTarget:
    """Return the board of a name, or the part if the name is that of one.

    Raises VtakitError for what is neither.
    """
    if name in VIVADO_BOARDS:
        return VIVADO_BOARDS[name]
    if not re.fullmatch(r"x[acq][a-z0-9]{3,}(-[a-z0-9]+)*", name, re.IGNORECASE):
        raise VtakitError(f"{name!r:.40} is neither a board nor a part such as xc7z020clg400-1; {one_of(VIVADO_BOARDS, name)}")
    family = next((family for prefix, family in _FAMILIES if re.match(rf"{prefix}\d", name[_GRADE:].lower())), None)
    return VivadoTarget(name=name, title=family.title if family else "part without a processor", part=name, family=family)
