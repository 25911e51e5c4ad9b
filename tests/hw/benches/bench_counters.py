"""counters against a dictionary."""

import cocotb
from board import blocks

from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.sim.bench.agents import Bench

CYCLES, CAUSES = 500, tuple(CYCLE_CAUSES)


@cocotb.test()
@cocotb.parametrize(block=["counters", "counters_total"], enable=[20, 100], clear=[0, 2])
async def counts_each_cycle_of_a_stage_once(dut, block, enable, clear):
    """`counters_total` counts all cycles only."""
    bench = await Bench.start(dut, block, blocks()[block], seed=enable + clear)
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
            of_stages = [f"{stage}_{CAUSES[number]}" for stage, number in now.items()]
            for name in ("cycles", *(of_stages if block == "counters" else ())):
                counts[name] += 1
    assert clear or all(counts.values()) == (block == "counters")
