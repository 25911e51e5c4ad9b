"""counters against a dictionary."""

import cocotb
from board import blocks

from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.sim.bench.agents import Bench

CYCLES, CAUSES = 500, tuple(CYCLE_CAUSES)


@cocotb.test()
@cocotb.parametrize(enable=[20, 100], clear=[0, 2])
async def counts_each_cycle_of_a_stage_once(dut, enable, clear):
    bench = await Bench.start(dut, "counters", blocks()["counters"], seed=enable + clear)
    stages = [stage.name.lower() for stage in Stage]
    zero = {"cycles": 0} | {f"{stage}_{cause}": 0 for stage in stages for cause in CAUSES}
    counts = dict(zero)
    enables, clears = bench.chance("enable", enable), bench.chance("clear", clear)
    seen = bench.watch(*counts)
    for _ in range(CYCLES):
        now = {stage: bench.random.randrange(len(CAUSES)) for stage in stages}
        for stage, number in now.items():
            bench.pins.set(f"cause_{stage}", number)
        await bench.step()
        assert seen.now == counts, f"cycle {bench.cycle}"
        if clears.now:
            counts = dict(zero)
        elif enables.now:
            for name in ("cycles", *(f"{stage}_{CAUSES[number]}" for stage, number in now.items())):
                counts[name] += 1
    assert clear or all(counts.values())
