"""A slice against two places, a queue and a FIFO against a list: order, room, latency, full rate."""

import cocotb
from board import QUEUE, blocks

from vtakit.sim.bench.agents import STALLS, Bench

COUNT = 300
LATENCY = {"pipeline_slice": 1, "pipeline_queue": 3}
ROOM = {"pipeline_slice": 2, "pipeline_queue": QUEUE + 3}  # the queue's one place more, since it learns late that it is full


@cocotb.test()
@cocotb.parametrize(name=list(ROOM), withheld=STALLS, stall=STALLS)
async def gives_all_in_order(dut, name, withheld, stall):
    bench = await Bench.start(dut, name, blocks()[name], seed=withheld + stall)
    items = [bench.random.getrandbits(16) for _ in range(COUNT)]
    source, sink = bench.source("i", withheld, items), bench.sink("o", stall)
    held = bench.watch("o__valid", "i__ready")
    while len(sink.items) < COUNT:
        there = source.taken - len(sink.items)
        await bench.step()
        if name == "pipeline_slice":
            assert held.now == {"o__valid": there > 0, "i__ready": there < 2}, f"cycle {bench.cycle}"
        assert bench.cycle < 40 * COUNT, f"{len(sink.items)} of {COUNT} came out"
    assert sink.items == items
    if not withheld and not stall:
        assert bench.cycle == COUNT + LATENCY[name], "not at full rate"
    await bench.rest()
    assert len(sink.items) == COUNT


@cocotb.test()
@cocotb.parametrize(name=list(ROOM))
async def has_the_room_it_promises(dut, name):
    bench = await Bench.start(dut, name, blocks()[name], seed=0)
    source = bench.source("i", 0, range(1, COUNT))
    sink = bench.sink("o")
    sink.open = lambda: False
    await bench.rest(COUNT)
    assert source.taken == ROOM[name]
    sink.open = lambda: True
    await bench.run(lambda: len(sink.items) == COUNT - 1, 2 * COUNT, "all items out of a full queue")
    assert sink.items == list(range(1, COUNT))


@cocotb.test()
@cocotb.parametrize(writes=[20, 60, 100], stall=STALLS)
async def a_head_fifo_is_a_list_in_every_cycle(dut, writes, stall):
    bench = await Bench.start(dut, "pipeline_head", blocks()["pipeline_head"], seed=writes + stall)
    inside, most = [], 0
    comes, goes = bench.chance("w_en", writes), bench.chance("r_en", 100 - stall)
    seen = bench.watch("w_rdy", "r_rdy", "level")
    for _ in range(2 * COUNT):
        item = bench.random.getrandbits(16)
        bench.pins.set("w_data", item)
        await bench.step()
        assert seen.now == {"w_rdy": len(inside) < QUEUE, "r_rdy": bool(inside), "level": len(inside)}, bench.cycle
        full = len(inside) == QUEUE
        if inside and goes.now:
            inside.pop(0)
        if comes.now and not full:
            inside.append(item)
        most = max(most, len(inside))
        assert not inside or bench.pins.get("r_data") == inside[0], bench.cycle
    assert most == QUEUE or writes <= 100 - stall
