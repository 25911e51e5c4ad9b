"""write_master against a byte image: bursts and beats at any pace, data complete before their burst starts, guard bytes."""

import cocotb
from board import blocks, params
from cocotb.triggers import FallingEdge, ReadOnly

from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import AxiMemory, Timing

BURSTS = 25
MEMORY = 1 << 14
GUARD = 0xAA


async def started(dut, seed, timing, withheld, late):
    p = params()
    bench = await Bench.start(dut, "write_master", blocks()["write_master"], seed)
    pick = bench.random
    memory = AxiMemory(bytearray([GUARD]) * MEMORY, p.bus_bytes, timing, pick)
    memory.writes(*(bench.port(f"axi__{channel}") for channel in ("aw", "w", "b")))
    bench.add(memory)
    group, image = p.burst_beats * p.bus_bytes, bytearray([GUARD]) * MEMORY
    bursts, beats = [], []
    for n in range(BURSTS):
        size = pick.randint(1, p.burst_beats)
        address = group * (n % (MEMORY // group)) + p.bus_bytes * pick.randint(0, p.burst_beats - size)
        bursts.append({"address": address, "last": size - 1, "final": int(pick.randrange(3) == 0)})
        for k in range(size):
            data, strb = pick.getrandbits(p.bus_bits), pick.choice((pick.getrandbits(p.bus_bytes), (1 << p.bus_bytes) - 1, 0))
            beats.append({"data": data, "strb": strb})
            for byte in range(p.bus_bytes):
                if strb >> byte & 1:
                    image[address + k * p.bus_bytes + byte] = data >> 8 * byte & 0xFF
    return bench, memory, bench.source("bursts", withheld, bursts), bench.source("beats", late, beats), bursts, beats, image


@cocotb.test()
@cocotb.parametrize(
    ("stall", STALLS), ("withheld", STALLS), ("late", STALLS),
    (("latency", "wants"), [(1, "any"), (20, "data"), (20, "both")]),
)
async def writes_what_the_strobes_name(dut, stall, withheld, late, latency, wants):
    timing = Timing(latency=latency, stall=stall, wants=wants)
    bench, memory, _, data, bursts, beats, image = await started(dut, stall + withheld + late, timing, withheld, late)
    done = []
    state = bench.watch("done", "error", "idle", see=lambda now: now["done"] and done.append(bench.cycle))
    finals = sum(burst["final"] for burst in bursts)

    def enough(now):  # a burst is offered only when all its data have been taken
        need = sum(beats for _, beats in memory.write_bursts)
        assert data.taken >= need

    bench.watch("idle", see=enough)
    await bench.run(lambda: len(memory.write_bursts) == BURSTS and memory.idle, 20_000, "all bursts answered")
    await bench.rest()
    assert data.taken == len(beats)
    assert memory.dram == image
    assert len(done) == finals
    assert state.now == {"done": 0, "error": 0, "idle": 1}


@cocotb.test()
@cocotb.parametrize(wants=["any", "data"])
async def data_are_offered_beside_their_address(dut, wants):
    """Within two cycles of it, whether or not the memory takes it."""
    bench, memory, _, _, _, _, _ = await started(dut, 4, Timing(stall=60, wants=wants), 0, 0)
    waits, longest, first = [0], [0], [0]

    def see(now):
        alone = now["axi__aw__valid"] and not now["axi__w__valid"] and not memory.ahead
        waits[0] = waits[0] + 1 if alone else 0
        longest[0] = max(longest[0], waits[0])
        first[0] += memory.ahead > 0

    bench.watch("axi__aw__valid", "axi__w__valid", see=see)
    await bench.run(lambda: len(memory.write_bursts) == BURSTS and memory.idle, 20_000, "all bursts answered")
    assert longest[0] <= 2
    assert first[0], "no data came before their address"


@cocotb.test()
@cocotb.parametrize(after=range(30, 38))
async def in_a_reset_no_answer_is_taken(dut, after):
    bench, *_ = await started(dut, after, Timing(latency=2), 0, 0)
    await bench.rest(after)
    dut.rst.value = 1
    bench.pins.set("axi__b__valid", 1)
    await ReadOnly()
    assert not bench.pins.get("axi__b__ready")
    assert not bench.pins.get("done")
    await FallingEdge(dut.clk)


@cocotb.test()
async def an_error_answer_shows_and_stop_lets_what_is_in_flight_end(dut):
    bench, memory, _, _, bursts, _, _ = await started(dut, 5, Timing(latency=8, stall=30), 0, 0)
    memory.bad = frozenset([bursts[3]["address"]])
    errors = []
    state = bench.watch("error", "idle", see=lambda now: now["error"] and errors.append(bench.cycle))
    await bench.run(lambda: bool(errors), 5000, "an error")
    bench.pins.set("stop", 1)
    await bench.rest(3)
    begun = len(memory.write_bursts)
    await bench.run(lambda: bool(state.now["idle"]) and memory.idle, 2000, "idle after stop")
    await bench.rest(30)
    assert len(memory.write_bursts) <= begun + 1
    assert len(memory.write_bursts) < BURSTS
