"""The accelerator behind two pins, so that a part with few pins can be placed and every path runs from register to register."""

from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top
from vtakit.hw.verilog import no_garbage_collection

PINS_NAME = "pins"
CORE_MODULE = f"{PINS_NAME}.{TOP_NAME}"  # Amaranth's name of the module of the submodule


class Pins(wiring.Component):
    """A shift register gives every input of the accelerator, another takes up every output.

    Members
    -------
    serial_in : ``In(1)``      shifted through the inputs
    serial_out : ``Out(1)``    depends on all outputs, so that nothing is optimised away
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({"serial_in": In(1), "serial_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m, core = Module(), Top(self._params)
        m.submodules[TOP_NAME] = core
        ports = [(member.flow, Value.cast(value)) for _, member, value in core.signature.flatten(core)]
        inputs = Cat(value for flow, value in ports if flow is In)
        outputs = Cat(value for flow, value in ports if flow is Out)
        shifted, taken = Signal(len(inputs)), Signal(len(outputs))
        m.d.sync += [shifted.eq(Cat(self.serial_in, shifted)), taken.eq(outputs ^ (taken << 1))]
        m.d.comb += [inputs.eq(shifted), self.serial_out.eq(taken[-1])]
        return m


def to_rtlil(params: CoreParams) -> str:
    """Return the accelerator behind its pins in yosys's own language; each name carries the place of its source."""
    with no_garbage_collection():
        return str(rtlil.convert(Pins(params), name=PINS_NAME, emit_src=True))
