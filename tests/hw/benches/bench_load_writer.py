"""load_writer against a list of elements: beats given by hand, `next` and `end` followed, zeros without waiting for memory."""

import cocotb
from board import blocks, params
from loads import MEMORY, Scratchpads, random_load, without_noise, word_of

from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.models import row_beats

LOADS = 30


async def started(dut, seed, stall):
    p = params()
    bench = await Bench.start(dut, "load_writer", blocks()["load_writer"], seed, may_write=1)
    pads = Scratchpads(p)
    dram = bench.random.randbytes(MEMORY)
    state = bench.watch("next", "end", "starved", "begins", "done", "fault")

    def written(number, item):
        pads.write(number, item)
        progress.append((number, item))

    progress = []
    for n in range(len(pads.targets)):
        bench.sink(f"write{n}", stall, lambda item, n=n: written(n, item)).means = without_noise
    return p, bench, pads, dram, state, progress


def given(p, pads, number, base, f, dram):
    """The command, and the beats of its rows."""
    size = pads.targets[number].element_bytes
    address = base + f["dram_base"] * size
    piece = {"address": address, "count": f["y_size"], "row_bytes": f["x_size"] * size, "pitch_bytes": f["x_stride"] * size}
    beats = [{"data": int.from_bytes(dram[at : at + p.bus_bytes], "little")} for row in row_beats(p, piece) for at in row]
    word = word_of(p, pads.targets[number], f)
    return {"word": word}, beats


@cocotb.test()
@cocotb.parametrize(stall=STALLS, withheld=STALLS, small=[False, True])
async def walks_rows_and_pads(dut, stall, withheld, small):
    p, bench, pads, dram, state, progress = await started(dut, stall + 10 * withheld + small, stall)
    commands, beats = bench.source("commands", withheld), bench.source("beats", withheld)
    loads, done = [], []

    def see(now):
        if now["done"]:
            done.append(bench.cycle)

    bench.watch("done", see=see)
    for _ in range(LOADS):
        number, base, f = random_load(p, bench.random, pads.targets, small)
        command, data = given(p, pads, number, base, f, dram)
        commands.queue.append(command)
        beats.queue.extend(data)
        pads.load(number, f, dram, base)
        across = f["x_pad_0"] + f["x_size"] + f["x_pad_1"]
        loads.append((number, f["sram_base"], f["sram_base"] + across * (f["y_pad_0"] + f["y_size"] + f["y_pad_1"])))
    for _ in range(40_000):
        before = len(progress)
        await bench.step()
        for number, item in progress[before:]:  # arithmetic relies on it: what is not yet written lies from next up to end
            assert item["index"] == state.now["next"]
            want = loads[len(done) - state.now["done"]]
            assert number == want[0]
            assert state.now["end"] >= want[2]
        if len(done) == LOADS:
            break
    await bench.rest()
    assert len(done) == LOADS
    assert not beats.queue, "beats are left over"
    pads.check()


@cocotb.test()
async def pads_do_not_wait_for_memory(dut):
    p, bench, pads, dram, state, _ = await started(dut, 0, 0)
    f = dict.fromkeys(("sram_base", "dram_base", "y_pad_1", "x_pad_1"), 0)
    f |= {"x_size": 2, "y_size": 1, "x_stride": 2, "y_pad_0": 3, "x_pad_0": 1}
    command, data = given(p, pads, 0, 0, f, dram)
    beats = bench.source("beats", 0, data)
    beats.gate = lambda: bench.cycle > 60
    bench.source("commands", 0, [command])
    await bench.rest(60)
    size = pads.targets[0].element_bytes
    assert pads.images[0][: (3 * 3 + 1) * size] == bytes((3 * 3 + 1) * size)
    assert state.now["starved"] == 1
    pads.load(0, f, dram, 0)
    await bench.rest(30)
    pads.check()
