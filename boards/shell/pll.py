"""Clocks of an ECP5: the dividers of its PLL."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Instance, Signal

from vtakit.base.errors import VtakitError

_VCO_MHZ = (400, 800)
_COMPARED_MHZ = (3.125, 400)  # what the phase detector takes
_MOST_DIVISOR = 128
_USB_MHZ, _USB_IO_MHZ = 12, 48  # of full speed: a bit, and the samples of the pins
_USB_FED_BACK = (60, 80, 72, 96)  # MHz, of which the first that can be made is taken
_STEPS = 8  # of the phase, in a period of the VCO


@dataclass(frozen=True, slots=True, kw_only=True)
class Dividers:
    """Dividers of input, feedback and outputs.

    output    of the first output, `mhz`, which is fed back too
    second    of the second output and of the late one, where they are of another frequency; else 0
    """

    input: int
    feedback: int
    output: int
    mhz: float
    second: int = 0

    @property
    def late(self) -> int:
        """Divider of the late output."""
        return self.second or self.output

    def phase(self, degrees: float) -> tuple[int, int]:
        """The two parameters of an output that comes so late, `CPHASE` and `FPHASE`."""
        steps = round(degrees / 360 * self.late * _STEPS)
        return self.base + steps // _STEPS, steps % _STEPS

    @property
    def base(self) -> int:
        """`CPHASE` of an output in phase with the feedback."""
        return (self.output - 1) // 2


def dividers(from_mhz: float, to_mhz: float, second_mhz: float | None = None) -> Dividers:
    """The dividers that make exactly a frequency, or two, with the fastest phase detector.

    Raises `VtakitError` if there are none.
    """
    found = []
    for divisor in range(1, _MOST_DIVISOR + 1):
        compared = from_mhz / divisor
        feedback = round(to_mhz / compared)
        if not (_COMPARED_MHZ[0] <= compared <= _COMPARED_MHZ[1] and 1 <= feedback <= _MOST_DIVISOR):
            continue
        outputs = [n for n in range(1, _MOST_DIVISOR + 1)
                   if _VCO_MHZ[0] <= to_mhz * n <= _VCO_MHZ[1] and (second_mhz is None or _divides(second_mhz, to_mhz * n))]
        if outputs and abs(compared * feedback - to_mhz) < 1e-6:
            middle = sum(_VCO_MHZ) / 2
            output = min(outputs, key=lambda n: abs(to_mhz * n - middle))
            second = 0 if second_mhz is None else round(to_mhz * output / second_mhz)
            found.append(Dividers(input=divisor, feedback=feedback, output=output, mhz=to_mhz, second=second))
    if not found:
        wanted = f"{to_mhz:g} MHz" if second_mhz is None else f"{to_mhz:g} and {second_mhz:g} MHz"
        raise VtakitError(
            f"the PLL of an ECP5 makes no {wanted} from {from_mhz:g} MHz: whole dividers up to {_MOST_DIVISOR} and a VCO "
            f"of {_VCO_MHZ[0]} to {_VCO_MHZ[1]} MHz do not meet; try a multiple of {from_mhz / 5:g} MHz")
    return min(found, key=lambda each: each.input)


def _divides(mhz: float, vco_mhz: float) -> bool:
    """Return whether an output can have a frequency."""
    divisor = round(vco_mhz / mhz)
    return 1 <= divisor <= _MOST_DIVISOR and abs(vco_mhz / divisor - mhz) < 1e-6


def usb_dividers(from_mhz: float) -> Dividers:
    """The dividers of a PLL for USB: `second` makes 48 MHz; the first output is only fed back.

    Raises `VtakitError` if there are none.
    """
    found: list[Dividers] = []
    for fed_back in _USB_FED_BACK:
        with suppress(VtakitError):
            found.append(dividers(from_mhz, fed_back, _USB_IO_MHZ))
    if not found:
        raise VtakitError(f"the PLL of an ECP5 makes no clock of USB, {_USB_IO_MHZ} MHz, from {from_mhz:g} MHz")
    return found[0]


def usb_pll(made: Dividers, source: Any, out: Signal, io: Signal, usb: Signal, locked: Signal) -> Instance:
    """A PLL with 48 MHz at `io` and 12 MHz at `usb`, whose edges meet; `out` is only fed back."""
    slow = made.second * _USB_IO_MHZ // _USB_MHZ
    return _pll(made, source, out, locked, (made.second, made.base, 0, io), (slow, made.base, 0, usb))


def pll(
    made: Dividers, source: Any, out: Signal, late: Signal, locked: Signal, degrees: float, second: Signal | None = None,
) -> Instance:
    """A PLL with the outputs `out`, `second` if it is of another frequency, and so many degrees behind the latter `late`.

    Between `out` and `second` no phase is promised.
    """
    others = [] if second is None else [(made.second, made.base, 0, second)]
    return _pll(made, source, out, locked, (made.late, *made.phase(degrees), late), *others)


def _pll(made: Dividers, source: Any, out: Signal, locked: Signal, *others: tuple[int, int, int, Signal]) -> Instance:
    """A PLL with `out`, and others: each with its divider, `CPHASE` and `FPHASE`."""
    more: dict[str, Any] = {"o_CLKOP": out, "o_CLKOS": others[0][-1], "o_LOCK": locked}
    for name, (divisor, coarse, fine, clock) in zip(("CLKOS", "CLKOS2", "CLKOS3"), others, strict=False):
        more |= {f"p_{name}_ENABLE": "ENABLED", f"p_{name}_DIV": divisor, f"p_{name}_CPHASE": coarse, f"p_{name}_FPHASE": fine,
                 f"o_{name}": clock}
    return Instance(
        "EHXPLLL",
        a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
        p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED",
        p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB", p_OUTDIVIDER_MUXC="DIVC", p_OUTDIVIDER_MUXD="DIVD",
        p_CLKI_DIV=made.input, p_CLKFB_DIV=made.feedback, p_FEEDBK_PATH="CLKOP",
        p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=made.output, p_CLKOP_CPHASE=made.base, p_CLKOP_FPHASE=0,
        i_CLKI=source, i_CLKFB=out, i_RST=Const(0), i_STDBY=Const(0), i_PHASESEL0=Const(0), i_PHASESEL1=Const(0),
        i_PHASEDIR=Const(1), i_PHASESTEP=Const(1), i_PHASELOADREG=Const(1), i_PLLWAKESYNC=Const(0), i_ENCLKOP=Const(0),
        **more,
    )
