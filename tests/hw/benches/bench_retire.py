"""retire against a list: in order, each only when its unit has finished it, tokens once each."""

from collections import deque

import cocotb
from board import blocks

from vtakit.hw.timing import INSNS_STARTED
from vtakit.sim.bench.agents import STALLS, Bench

UNITS = 2
COUNT = 150


@cocotb.test()
@cocotb.parametrize(stall=STALLS, slow=[10, 60, 100])
async def retires_in_order(dut, stall, slow):
    bench = await Bench.start(dut, "retire", blocks()["retire"], seed=stall + slow)
    pick = bench.random
    running = {unit: 0 for unit in range(1, UNITS + 1)}  # started and not finished
    finished = dict(running)
    order: deque[dict[str, int]] = deque()

    def started(item):
        order.append(item)
        if item["unit"]:
            running[item["unit"]] += 1

    items = [
        {"unit": pick.randint(0, UNITS), "index": n, **{name: pick.randrange(2) for name in ("push_prev", "push_next", "finish")}}
        for n in range(COUNT)
    ]
    source = bench.source("started", stall, items)
    source.gave = started
    pulses = bench.watch("push_prev", "push_next", "finish", "empty", "retires", "index")
    retired = 0
    most = 0
    for _ in range(COUNT * 40):
        done = 0
        for unit, count in running.items():
            if count and pick.randrange(100) < slow:
                done |= 1 << (unit - 1)
                running[unit] -= 1
        bench.pins.set("done", done)
        before = len(order)
        await bench.step()
        assert pulses.now["empty"] == (before == 0)
        head = order[0] if before else None
        ready = head is not None and (head["unit"] == 0 or finished[head["unit"]] > 0)
        want = {name: head[name] if ready else 0 for name in ("push_prev", "push_next", "finish")} | {"retires": int(ready)}
        want |= {"index": head["index"]} if ready else {}
        assert {name: pulses.now[name] for name in want} == want, f"cycle {bench.cycle}, instruction {retired}"
        if ready:
            order.popleft()
            retired += 1
            if head["unit"]:
                finished[head["unit"]] -= 1
        for unit in finished:
            finished[unit] += done >> (unit - 1) & 1
        most = max(most, len(order))
        if retired == COUNT:
            break
    assert retired == COUNT
    assert most <= INSNS_STARTED
    assert most == INSNS_STARTED or stall or slow > 10, "the queue was never full"
