"""load_port against a list of elements: every memory type, pads, strides, page ends; guard bytes in the scratchpads."""

import cocotb
from board import blocks, load_targets, params
from loads import GUARD, MEMORY, Scratchpads, random_load, without_noise, word_of

from vtakit.hw.isa.faults import Fault
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import BurstMemory, Timing

LOADS = 40


async def started(dut, seed, timing, stall, **inputs):
    p = params()
    inputs = {"window_high": MEMORY, "may_write": 1} | inputs
    bench = await Bench.start(dut, "load_port", blocks()["load_port"], seed, **inputs)
    dram = bench.random.randbytes(MEMORY)
    memory = bench.add(BurstMemory(dram, p.bus_bytes, timing, bench.port("requests"), bench.port("returned"), bench.random))
    pads = Scratchpads(p)
    for n in range(len(pads.targets)):
        bench.sink(f"write{n}", stall, lambda item, n=n: pads.write(n, item)).means = without_noise
    return p, bench, dram, memory, pads


def command(p, targets, number, base, f, index):
    word = word_of(p, targets[number], f)
    return {"command": word | index << 128, "base": base}


@cocotb.test()
@cocotb.parametrize(stall=STALLS, slow=STALLS, small=[False, True], latency=[1, 40])
async def fills_scratchpads(dut, stall, slow, small, latency):
    p, bench, dram, memory, pads = await started(dut, stall + slow + latency + small, Timing(latency=latency, stall=stall), slow)
    commands = bench.source("commands", slow)
    counts = {"begins": 0, "done": 0}

    def see(now):
        for name in counts:
            counts[name] += now[name]

    bench.watch("begins", "done", see=see)
    bench.chance("may_write", 70)
    state = bench.watch("starved", "fault")
    for index in range(LOADS):
        number, base, f = random_load(p, bench.random, pads.targets, small)
        commands.queue.append(command(p, pads.targets, number, base, f, index))
        pads.load(number, f, dram, base)
    await bench.run(lambda: counts["done"] == LOADS, 60_000, "every LOAD done")
    await bench.rest()
    pads.check()
    assert counts == {"begins": LOADS, "done": LOADS}
    assert state.now == {"starved": 0, "fault": 0}
    assert memory.idle


@cocotb.test()
async def moves_a_beat_a_cycle(dut):
    """Without stalls and with a row for each LOAD, beats follow one another but for the first latency."""
    p, bench, dram, memory, pads = await started(dut, 0, Timing(latency=10), 0)
    number = 1  # weights: wider than a narrow bus
    f = dict.fromkeys(("sram_base", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"), 0)
    f |= {"x_size": pads.targets[number].depth, "y_size": 1, "x_stride": 1, "dram_base": 0}
    done = []
    bench.watch("done", see=lambda now: now["done"] and done.append(bench.cycle))
    bench.source("commands", 0, [command(p, pads.targets, number, 0, f, 0)])
    pads.load(number, f, dram, 0)
    await bench.run(lambda: bool(done), 2000, "the LOAD done")
    beats = sum(n for _, n in memory.bursts)
    assert done[0] <= beats + 10 + 12, f"{done[0]} cycles for {beats} beats"
    pads.check()


@cocotb.test()
@cocotb.parametrize(stall=[0, 50], number=[0, 1, 3], beyond=[1, 2])
async def nothing_is_written_outside_the_scratchpad(dut, stall, number, beyond):
    """Nothing of a LOAD that does not fit, by however little; it stops the port for good, with its number."""
    p, bench, _, _, pads = await started(dut, stall, Timing(stall=stall), stall)
    f = dict.fromkeys(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "dram_base"), 0)
    f |= {"x_size": 5, "y_size": 1, "x_stride": 5, "sram_base": pads.targets[number].depth - 5 + beyond}
    state = bench.watch("fault", "fault_index", "done")
    bench.source("commands", 0, [command(p, pads.targets, number, 0, f, 9)])
    await bench.run(lambda: bool(state.now.get("fault")), 500, "a fault")
    await bench.rest(50)
    assert state.now == {"fault": int(Fault.SRAM_RANGE), "fault_index": 9, "done": 0}
    pads.check()


@cocotb.test()
@cocotb.parametrize(side=["low", "high"])
async def a_row_outside_the_window_is_not_read(dut, side):
    p, bench, _, memory, pads = await started(dut, 1, Timing(), 0, window_low=0x1000, window_high=0x2000)
    size = pads.targets[0].element_bytes
    f = dict.fromkeys(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "sram_base"), 0) | {"x_size": 2, "y_size": 2}
    first = 0x1000 // size - 1 if side == "low" else 0x2000 // size - 3
    f |= {"dram_base": first, "x_stride": 2}
    state = bench.watch("fault", "fault_index")
    bench.source("commands", 0, [command(p, pads.targets, 0, 0, f, 4)])
    await bench.run(lambda: bool(state.now.get("fault")), 500, "a fault")
    await bench.rest(30)
    assert state.now == {"fault": int(Fault.DRAM_RANGE), "fault_index": 4}
    beats = p.bus_bytes
    assert all(address >= 0x1000 and address + n * beats <= 0x2000 for address, n in memory.bursts)
    assert len(memory.bursts) == (0 if side == "low" else 1)


@cocotb.test()
@cocotb.parametrize(stall=STALLS, number=[0, 1, 3])
async def an_error_is_not_written(dut, stall, number):
    """The beat that the memory answered with an error stops the port, with the number of its LOAD."""
    p, bench, dram, memory, pads = await started(dut, stall, Timing(stall=stall), stall)
    f = dict.fromkeys(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "sram_base", "dram_base"), 0)
    size = pads.targets[number].element_bytes
    f |= {"x_size": min(pads.targets[number].depth, 2 * p.bus_bytes // size + 4), "y_size": 1}
    bad = p.bus_bytes * 1
    memory.bad = frozenset([bad])
    state = bench.watch("fault", "fault_index", "done")
    bench.source("commands", 0, [command(p, pads.targets, number, 0, f, 6)])
    await bench.run(lambda: bool(state.now.get("fault")), 1000, "a fault")
    await bench.rest(50)
    assert state.now == {"fault": int(Fault.BUS_READ), "fault_index": 6, "done": 0}
    for byte in range(p.bus_bytes):
        assert pads.images[number][byte] == dram[byte]
    assert set(pads.images[number][bad:]) == {GUARD}


@cocotb.test()
async def waits_until_it_may_write(dut):
    p, bench, dram, memory, pads = await started(dut, 2, Timing(), 0, may_write=0)
    number, base, f = random_load(p, bench.random, load_targets(p), False)
    f |= {"y_size": max(1, f["y_size"]), "y_pad_0": 0, "y_pad_1": 0}
    bench.source("commands", 0, [command(p, pads.targets, number, base, f, 0)])
    pads.load(number, f, dram, base)
    await bench.rest(100)
    assert pads.writes == 0
    assert memory.bursts, "the reads of DRAM go ahead"
    bench.pins.set("may_write", 1)
    await bench.rest(300)
    pads.check()
