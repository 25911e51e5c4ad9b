"""read_master against lists: several readers, each gets its own beats in order, nobody starves, the limit holds, errors show."""

from itertools import pairwise

import cocotb
from board import READERS, blocks, params
from cocotb.triggers import FallingEdge, ReadOnly

from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import AxiMemory, Timing

BURSTS = 25
MEMORY = 1 << 14


def work_of(p, pick, longest):
    group = p.burst_beats * p.bus_bytes
    for _ in range(BURSTS):
        beats = pick.randint(1, longest)
        yield {"address": group * pick.randrange(MEMORY // group) + p.bus_bytes * pick.randint(0, p.burst_beats - beats),
               "last": beats - 1}


async def started(dut, seed, timing, stall, longest):
    p = params()
    bench = await Bench.start(dut, "read_master", blocks()["read_master"], seed)
    memory = AxiMemory(bytearray(bench.random.randbytes(MEMORY)), p.bus_bytes, timing, bench.random)
    memory.reads(bench.port("axi__ar"), bench.port("axi__r"))
    bench.add(memory)
    work = [list(work_of(p, bench.random, longest)) for _ in range(READERS)]
    sources = [bench.source(f"requests{n}", stall, work[n]) for n in range(READERS)]
    items = [[] for _ in range(READERS)]
    for n in range(READERS):
        names = (f"returned{n}__valid", f"returned{n}__payload")
        bench.watch(*names, see=lambda now, n=n, names=names: now[names[0]] and items[n].append(now[names[1]]))
    return p, bench, memory, work, sources, items


def beats_of(p, dram, work):
    return [int.from_bytes(dram[at : at + p.bus_bytes], "little")  # the bit above the data marks an error
            for b in work for at in range(b["address"], b["address"] + (b["last"] + 1) * p.bus_bytes, p.bus_bytes)]


@cocotb.test()
@cocotb.parametrize(stall=STALLS, withheld=STALLS, longest=[1, 8], latency=[1, 30])
async def each_reader_gets_its_beats(dut, stall, withheld, longest, latency):
    timing = Timing(latency=latency, stall=stall)
    p, bench, memory, work, _, items = await started(dut, stall + withheld + longest, timing, withheld, longest)
    idle = bench.watch("idle")
    most = [0]
    bench.watch("idle", see=lambda now: most.__setitem__(0, max(most[0], memory.open_reads)))
    wanted = [beats_of(p, memory.dram, each) for each in work]
    await bench.run(lambda: [len(i) for i in items] == [len(w) for w in wanted], 40_000, "all beats of all readers")
    await bench.rest()
    assert items == wanted
    bench.pins.set("stop", 1)  # a master that may still begin is not idle
    await bench.rest(3)
    assert idle.now == {"idle": 1}
    assert most[0] <= p.outstanding
    assert most[0] == p.outstanding or latency < 30 or withheld, "never as many bursts in flight as allowed"


@cocotb.test()
async def readers_take_turns(dut):
    """With all readers asking always, none gets two bursts in a row."""
    _, bench, _, _, sources, _ = await started(dut, 7, Timing(), 0, 1)
    owners = []
    for n, source in enumerate(sources):
        source.gave = lambda item, n=n: owners.append(n)
    await bench.run(lambda: len(owners) >= BURSTS, 2000, "bursts")
    assert all(a != b for a, b in pairwise(owners)), owners


@cocotb.test()
@cocotb.parametrize(stall=[0, 50], withheld=STALLS, accepted=[1, 8])
async def a_reader_waits_for_one_burst_of_each_other(dut, stall, withheld, accepted):
    timing = Timing(stall=stall, outstanding=accepted)
    _, bench, _, _, sources, _ = await started(dut, stall + withheld, timing, withheld, 3)
    passed, longest = [[0] * READERS for _ in range(READERS)], [0]

    def see(now):
        valid, ready = ([now[f"requests{n}__{pin}"] for n in range(READERS)] for pin in ("valid", "ready"))
        goes = [n for n in range(READERS) if valid[n] and ready[n]]
        for n in range(READERS):
            for other in goes:
                passed[n][other] += 1
            if not valid[n] or n in goes:
                passed[n] = [0] * READERS
            longest[0] = max(longest[0], *passed[n])

    bench.watch(*(f"requests{n}__{pin}" for n in range(READERS) for pin in ("valid", "ready")), see=see)
    await bench.run(lambda: all(source.taken == BURSTS for source in sources), 40_000, "all bursts")
    assert longest[0] == 1


@cocotb.test()
@cocotb.parametrize(after=range(20, 28))
async def in_a_reset_no_beat_is_taken(dut, after):
    _, bench, *_ = await started(dut, after, Timing(latency=2), 0, 8)
    await bench.rest(after)
    dut.rst.value = 1
    bench.pins.set("axi__r__valid", 1)
    await ReadOnly()
    assert not bench.pins.get("axi__r__ready")
    assert not any(bench.pins.get(f"returned{n}__valid") for n in range(READERS))
    await FallingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(stall=[0, 50])
async def an_error_marks_its_beat_and_stop_lets_what_is_in_flight_end(dut, stall):
    p, bench, memory, work, _, items = await started(dut, 3 + stall, Timing(latency=10, stall=stall), 0, 8)
    memory.bad = frozenset(each[2]["address"] for each in work)
    state = bench.watch("idle")
    marked = [[beat >> p.bus_bits for beat in items[n]] for n in range(READERS)]

    def look():
        marked[:] = [[beat >> p.bus_bits for beat in items[n]] for n in range(READERS)]
        return any(map(any, marked))

    await bench.run(look, 5000, "an error")
    for n, marks in enumerate(marked):
        beats = [at in memory.bad for b in work[n]
                 for at in range(b["address"], b["address"] + (b["last"] + 1) * p.bus_bytes, p.bus_bytes)]
        assert marks == beats[: len(marks)], f"reader {n}"
    bench.pins.set("stop", 1)
    await bench.rest(3)  # an address that was already offered may still go
    asked = len(memory.read_bursts)
    await bench.run(lambda: bool(state.now["idle"]) and memory.idle, 2000, "idle after stop")
    await bench.rest(30)
    assert len(memory.read_bursts) <= asked + 1
    assert sum(len(i) for i in items) == sum(beats for _, beats in memory.read_bursts), "every burst ends"
