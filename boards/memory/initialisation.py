"""Commands of a chip between power-up and its first access."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from vtakit.boards.memory.chips import MODE_CLOCKS
from vtakit.boards.memory.signals import PRECHARGE_ALL_BIT, Kind, bits, command
from vtakit.hw.dram import Dram

REFRESHES = 8  # some chips need two


def mode_word(dram: Dram) -> int:
    """Return the mode register: sequential bursts of reads and writes, and the CAS latency."""
    return bits(dram.burst) | dram.tcas << 4


class Initialisation(wiring.Component):
    """Waits for power-up; then PRECHARGE of all banks, REFRESHes, LOAD MODE REGISTER.

    Members
    -------
    command : ``Out(command)``   from a register; NOP when it is done
    done : ``Out(1)``            accesses may begin
    """

    def __init__(self, dram: Dram, power_up_clocks: int) -> None:
        self._dram, self._power_up_clocks = dram, power_up_clocks
        super().__init__({"command": Out(command(dram)), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m, dram = Module(), self._dram
        # Each step's command, its address pins, and the clocks to the next.
        steps = [
            (Kind.NOP, 0, self._power_up_clocks), (Kind.PRECHARGE, 1 << PRECHARGE_ALL_BIT, dram.trp),
            *[(Kind.REFRESH, 0, dram.trfc)] * REFRESHES, (Kind.LOAD_MODE, mode_word(dram), MODE_CLOCKS),
        ]
        step, left = Signal(range(len(steps) + 1)), Signal(range(self._power_up_clocks + 1))
        table = Array(clocks - 1 for _, _, clocks in steps)
        m.d.sync += [self.command.kind.eq(Kind.NOP), self.command.address.eq(0)]
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Elif(step == len(steps)):
            m.d.sync += self.done.eq(1)
        with m.Else():
            m.d.sync += [step.eq(step + 1), left.eq(table[step])]
            with m.Switch(step):
                for n, (kind, address, _) in enumerate(steps):
                    with m.Case(n):
                        m.d.sync += [self.command.kind.eq(kind), self.command.address.eq(address)]
        return m
