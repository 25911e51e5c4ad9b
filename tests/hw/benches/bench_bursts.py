"""bursts against a list of beats: every byte of every row, no page crossed, nothing outside the window."""

import cocotb
from board import blocks, params

from vtakit.hw.params import PAGE_BYTES
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import check_burst
from vtakit.sim.bench.models import row_beats

MEMORY = 1 << 16


def pieces(p, pick, size):
    """Pieces of DRAM around page boundaries, with rows of up to `size` bytes."""
    for _ in range(20):
        count, row_bytes = pick.randint(0, 4), pick.choice((0, 1, pick.randint(1, size), p.bus_bytes, size))
        pitch = pick.choice((row_bytes, row_bytes + pick.randrange(200), 0, PAGE_BYTES))
        edge = PAGE_BYTES * pick.randint(1, 4)
        address = max(0, edge + pick.choice((-row_bytes, -1, 0, 1, -p.bus_bytes, -row_bytes // 2, pick.randint(-300, 300))))
        yield {"address": address, "count": count, "row_bytes": row_bytes, "pitch_bytes": pitch}


@cocotb.test()
@cocotb.parametrize(stall=STALLS, withheld=STALLS, size=[16, 600, 5000])
async def covers_every_row(dut, stall, withheld, size):
    p = params()
    bench = await Bench.start(dut, "bursts", blocks()["bursts"], seed=stall + withheld + size, window_high=1 << p.address_bits)
    work = list(pieces(p, bench.random, size))
    bench.source("rows", withheld, work)
    sink = bench.sink("bursts", stall)
    outside = bench.watch("outside")
    wanted = [row_beats(p, piece) for piece in work]
    beats = sum(len(row) for piece in wanted for row in piece)
    await bench.run(lambda: sum(b["last"] + 1 for b in sink.items) >= beats, 20 * beats + 2000, f"{beats} beats in bursts")
    await bench.rest()
    got = iter(sink.items)
    longest = p.burst_beats * p.bus_bytes
    for piece, rows in zip(work, wanted, strict=True):
        finals = []
        for row in rows:
            left = list(row)
            while left:
                burst = next(got)
                count = burst["last"] + 1
                check_burst(burst["address"], count, p.bus_bytes, MEMORY * 2)
                addresses = [burst["address"] + n * p.bus_bytes for n in range(count)]
                assert addresses == left[:count], f"{piece}: burst {burst}"
                left = left[count:]
                end = addresses[-1] + p.bus_bytes
                assert not left or end % longest == 0, f"{piece}: {burst} ends too early"
                finals.append(burst["final"])
        assert finals == [0] * (len(finals) - 1) + [1] * bool(finals), f"{piece}: final flags {finals}"
    assert next(got, None) is None
    assert outside.now["outside"] == 0


@cocotb.test()
@cocotb.parametrize(stall=STALLS, side=["low", "high"])
async def stops_at_the_window(dut, stall, side):
    """Rows before the one that leaves the window are moved, of that one nothing."""
    p = params()
    low, high = 0x2000, 0x3000
    first, pitch, inside = (low + 3 * 64, -64, 4) if side == "low" else (high - 4 * 64, 64, 4)
    bench = await Bench.start(dut, "bursts", blocks()["bursts"], seed=stall, window_low=low, window_high=high)
    sink = bench.sink("bursts", stall)
    outside = bench.watch("outside")
    if side == "low":  # rows only go up: begin below
        bench.source("rows", 0, [{"address": low - 1, "count": 3, "row_bytes": 64, "pitch_bytes": 64}])
        inside = 0
    else:
        bench.source("rows", 0, [{"address": first, "count": 6, "row_bytes": 64, "pitch_bytes": pitch}])
    await bench.rest(200)
    assert outside.now["outside"] == 1
    assert sum(b["last"] + 1 for b in sink.items) == sum(len(row) for row in row_beats(p, {
        "address": first, "count": inside, "row_bytes": 64, "pitch_bytes": 64}))


@cocotb.test()
async def a_row_may_end_where_the_window_ends(dut):
    p = params()
    bench = await Bench.start(dut, "bursts", blocks()["bursts"], seed=0, window_low=0x2000, window_high=0x3000)
    sink = bench.sink("bursts")
    outside = bench.watch("outside")
    bench.source("rows", 0, [{"address": 0x2000, "count": 1, "row_bytes": 0x1000, "pitch_bytes": 0}])
    await bench.rest(200)
    assert outside.now["outside"] == 0
    assert sum(b["last"] + 1 for b in sink.items) == 0x1000 // p.bus_bytes
