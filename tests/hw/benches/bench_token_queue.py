"""token_queue against a counter."""

import cocotb
from board import TOKENS, blocks

from vtakit.sim.bench.agents import STALLS, Bench

CYCLES = 400


@cocotb.test()
@cocotb.parametrize(push=[15, 50, 100], stall=STALLS)
async def counts_tokens(dut, push, stall):
    bench = await Bench.start(dut, "token_queue", blocks()["token_queue"], seed=push + stall)
    count, overflows, fills = 0, 0, 0
    pushes = bench.chance("push", push)
    pops = bench.chance("pop__ready", 100 - stall)
    seen = bench.watch("pop__valid", "empty", "overflow")
    giver, lost = 0, 0  # an overflow shows in the cycle after
    for number in range(CYCLES):
        bench.pins.set("index", number)
        await bench.step()
        giver = number if pushes.now else giver
        assert bench.pins.get("giver") == giver
        taken = count > 0 and pops.now
        full = count == TOKENS and not taken
        assert seen.now == {"pop__valid": count > 0, "empty": count == 0, "overflow": lost}, bench.cycle
        lost = int(pushes.now and full)
        overflows += pushes.now and full
        fills += full
        count += (pushes.now and not full) - taken
    assert overflows > 0 or push < 100 or stall == 0
    assert fills > 0 or push * 2 < 100 or stall == 0
