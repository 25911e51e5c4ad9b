"""A design behind two pins, so that a part with few pins can be placed and every path runs from register to register."""

from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.verilog import no_garbage_collection

PINS_NAME = "pins"


def module_of(name: str) -> str:
    """Amaranth's name of the module of the design `name` behind its pins."""
    return f"{PINS_NAME}.{name}"


class Pins(wiring.Component):
    """A shift register gives every input of a design, another takes up every output.

    inside, name    the design, and its name as a submodule

    Members
    -------
    serial_in : ``In(1)``      shifted through the inputs
    serial_out : ``Out(1)``    depends on all outputs, so that nothing is optimised away
    """

    def __init__(self, inside: wiring.Component, name: str) -> None:
        self._inside, self._name = inside, name
        super().__init__({"serial_in": In(1), "serial_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m, inside = Module(), self._inside
        m.submodules[self._name] = inside
        ports = [(member.flow, Value.cast(value)) for _, member, value in inside.signature.flatten(inside)]
        inputs = Cat(value for flow, value in ports if flow is In)
        outputs = Cat(value for flow, value in ports if flow is Out)
        shifted, taken = Signal(len(inputs)), Signal(len(outputs))
        m.d.sync += [shifted.eq(Cat(self.serial_in, shifted)), taken.eq(outputs ^ (taken << 1))]
        m.d.comb += [inputs.eq(shifted), self.serial_out.eq(taken[-1])]
        return m


def to_rtlil(inside: wiring.Component, name: str) -> str:
    """Return a design behind its pins in yosys's own language; each name carries the place of its source."""
    return rtlil_of(Pins(inside, name), PINS_NAME)


def rtlil_of(design: wiring.Component, name: str) -> str:
    """Return a design in yosys's own language; each name carries the place of its source."""
    with no_garbage_collection():
        return str(rtlil.convert(design, name=name, emit_src=True))
