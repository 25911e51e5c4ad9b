"""Cycle counters: all cycles, and each cycle of each stage, attributed to one cause."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES

COUNTER_BITS = 48  # a month at 100 MHz


class Counters(wiring.Component):
    """Members
    -------
    enable : ``In(1)``                            count this cycle
    clear : ``In(1)``                             set all to 0
    cause_load, cause_compute, cause_store        a `Cause`
    cycles, load_busy, … : ``Out``                registers of `hw.isa.regs` of these names; without `stages` 0 but for cycles
    """

    def __init__(self, *, stages: bool = True) -> None:
        self._stages = tuple(Stage) if stages else ()
        super().__init__({
            "enable": In(1), "clear": In(1), "cycles": Out(COUNTER_BITS), **{f"cause_{s.name.lower()}": In(3) for s in Stage},
            **{f"{s.name.lower()}_{cause}": Out(COUNTER_BITS) for s in Stage for cause in CYCLE_CAUSES},
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counters = [(self.cycles, self.enable)]
        for stage in self._stages:
            name = stage.name.lower()
            for number, cause in enumerate(CYCLE_CAUSES):
                counters.append((getattr(self, f"{name}_{cause}"), self.enable & (getattr(self, f"cause_{name}") == number)))
        for counter, counts in counters:
            with m.If(self.clear):
                m.d.sync += counter.eq(0)
            with m.Elif(counts):
                m.d.sync += counter.eq(counter + 1)
        return m
