"""read_buffer against a list: no burst without room for all its beats, beats in order, with every mix of stalls."""

import cocotb
from board import blocks, params

from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import BurstMemory, Timing

BURSTS = 40


@cocotb.test()
@cocotb.parametrize(stall=STALLS, slow=STALLS, longest=[1, 3, 8])
async def asks_only_for_what_fits(dut, stall, slow, longest):
    p = params()
    bench = await Bench.start(dut, "read_buffer", blocks()["read_buffer"], seed=stall + slow + longest)
    pick = bench.random
    dram = pick.randbytes(1 << 14)
    memory = bench.add(BurstMemory(
        dram, p.bus_bytes, Timing(latency=5, stall=stall), bench.port("requests"), bench.port("returned"), pick
    ))
    group = p.burst_beats * p.bus_bytes
    work = []
    for n in range(BURSTS):
        beats = pick.randint(1, longest)
        address = n * group % (1 << 14) + p.bus_bytes * pick.randint(0, p.burst_beats - beats)
        work.append({"address": address, "last": beats - 1, "final": n & 1})
    memory.bad = frozenset(burst["address"] for burst in work[::7])
    bursts = bench.source("bursts", stall, work)
    beats = bench.sink("beats", slow)
    room = []

    def see(now):
        room.append(sum(n for _, n in memory.bursts) - len(beats.items))

    bench.watch("beats__valid", see=see)
    total = sum(burst["last"] + 1 for burst in work)
    await bench.run(lambda: len(beats.items) == total, 60 * total + 500, f"{total} beats")
    await bench.rest()
    assert bursts.taken == BURSTS
    assert max(room) <= p.buffer_beats, "more beats on their way than there is room for"
    wanted = [{"data": int.from_bytes(dram[at : at + p.bus_bytes], "little"), "error": int(at in memory.bad)}
              for b in work for at in range(b["address"], b["address"] + (b["last"] + 1) * p.bus_bytes, p.bus_bytes)]
    assert beats.items == wanted


@cocotb.test()
async def fills_to_the_brim(dut):
    """A reader that takes nothing gets exactly the buffer's beats, and then the bursts wait."""
    p = params()
    bench = await Bench.start(dut, "read_buffer", blocks()["read_buffer"], seed=0)
    dram = bytes(1 << 14)
    memory = bench.add(BurstMemory(dram, p.bus_bytes, Timing(), bench.port("requests"), bench.port("returned"), bench.random))
    size = p.burst_beats
    bench.source("bursts", 0, [{"address": n * size * p.bus_bytes, "last": size - 1} for n in range(p.buffer_beats // size + 3)])
    beats = bench.sink("beats")
    beats.open = lambda: bench.cycle > 300
    await bench.rest(300)
    assert sum(n for _, n in memory.bursts) == p.buffer_beats
    assert not beats.items
    await bench.rest(200)
    assert len(beats.items) == p.buffer_beats + 3 * size
