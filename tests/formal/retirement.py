"""Retirement: in order, each instruction once, and none before its unit has said that it is done."""

from unittest.mock import patch

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from formal.checker import Checker, Scoreboard

from vtakit.hw.issue.retire import Retire


class InstructionsRetireInOrder(Checker):
    """Two units with any instructions; a unit says `done` only of an instruction that it was given.

    `entries` replaces the product's number of instructions under way. Numbers have one bit.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        super().__init__()

    def properties(self, m: Module) -> None:
        entries = self._entries

        class FewerEntries(Retire):
            def elaborate(self, platform: object) -> Module:
                with patch("vtakit.hw.issue.retire.INSNS_STARTED", entries):
                    return super().elaborate(platform)

        m.submodules.retire = dut = FewerEntries(2)
        entry = data.StructLayout({"unit": 2, "push_prev": 1, "push_next": 1, "finish": 1, "index": 1})
        started, given = self.free("started", entry), Signal()
        m.d.comb += [
            dut.started.valid.eq(self.free("valid")), dut.done.eq(self.free("done", 2)),
            given.eq(dut.started.valid & dut.started.ready),
            *(dut.started.payload[name].eq(started[name]) for name in entry.members),
        ]
        self.assume(m, "there are two units", started.unit <= 2)
        waiting = Scoreboard(m, "waiting", entry, entries + 1)
        waiting.update(given, started, dut.retires)
        oldest = waiting.oldest
        # Of each unit: instructions given to it and not yet done; instructions done and not yet retired.
        for n in range(2):
            busy, finished = (Signal(range(2 * entries + 2), name=f"{name}{n}") for name in ("busy", "finished"))
            gives, retires = given & (started.unit == n + 1), dut.retires & (oldest.unit == n + 1)
            m.d.sync += [busy.eq(busy + gives - dut.done[n]), finished.eq(finished + dut.done[n] - retires)]
            self.assume(m, f"unit {n + 1} finishes only what it was given", ~dut.done[n] | (busy != 0))
            self.prove(m, f"an instruction of unit {n + 1} retires only after it is done", ~retires | (finished != 0))
            with m.If((waiting.count != 0) & (oldest.unit == n + 1)):
                self.prove(m, f"an instruction of unit {n + 1} that is done and the oldest retires",
                           dut.retires == (finished != 0))
        self.watch(retires=dut.retires, waiting=waiting.count, unit=oldest.unit)
        self.prove(m, "what retires was started", ~dut.retires | (waiting.count != 0))
        self.prove(m, "empty: nothing is under way", dut.empty == (waiting.count == 0))
        for name in ("push_prev", "push_next", "finish"):
            self.prove(m, f"{name} when its instruction retires, once", getattr(dut, name) == (dut.retires & oldest[name]))
        with m.If(dut.retires):
            self.prove(m, "the number of the one that retires", dut.index == oldest.index)
        self.reach(m, "all entries in use", waiting.count == entries)
        self.reach(m, "FINISH retires behind both units' instructions", dut.finish & (oldest.unit == 0) & (oldest.index == 1))
