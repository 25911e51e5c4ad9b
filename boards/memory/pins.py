"""The registers between the controller and the chip's pins. On an FPGA they are those of the I/O cells."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.memory.signals import chip_pins
from vtakit.hw.dram import Dram


class ChipRegisters(wiring.Component):
    """One clock both ways.

    Members
    -------
    inside : ``In``    the controller's side
    chip : ``Out``     the pins
    """

    def __init__(self, dram: Dram) -> None:
        super().__init__({"inside": In(chip_pins(dram)), "chip": Out(chip_pins(dram))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, member in self.chip.signature.members.items():
            inside, pin = getattr(self.inside, name), getattr(self.chip, name)
            m.d.sync += pin.eq(inside) if member.flow is Out else inside.eq(pin)
        return m
