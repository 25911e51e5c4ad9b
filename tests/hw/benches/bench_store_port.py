"""store_port against a byte image: strobes of exactly the bytes of each row, page ends, a shared read port."""

import cocotb
import numpy as np
from board import blocks, params

from vtakit.hw.isa.codec import encode
from vtakit.hw.params import PAGE_BYTES
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import ScratchpadReads, check_burst
from vtakit.sim.values import pack

STORES = 30
MEMORY = 1 << 16
GUARD = 0xAA


def random_store(p, pick, small):
    cfg = p.cfg
    base = 64 * pick.randrange(8)
    f = {"x_size": pick.randint(1, 3 if small else 10), "y_size": pick.randint(1, 3)}
    f["x_size"] = min(f["x_size"], cfg.acc_depth // f["y_size"])
    count = f["x_size"] * f["y_size"]
    f["sram_base"] = pick.choice((0, cfg.acc_depth - count, pick.randint(0, cfg.acc_depth - count)))
    f["x_stride"] = pick.choice((f["x_size"], f["x_size"] + pick.randint(1, 40)))
    edge = PAGE_BYTES * pick.randint(1, 4) - base
    first = pick.choice((edge - cfg.out_bytes, edge, edge - f["x_size"] * cfg.out_bytes // 2, pick.randrange(MEMORY // 2)))
    return base, f | {"dram_base": max(0, first // cfg.out_bytes)}


async def started(dut, seed, stall, free, **inputs):
    p, cfg = params(), params().cfg
    inputs = {"window_high": MEMORY, "read_ready": 1} | inputs
    bench = await Bench.start(dut, "store_port", blocks()["store_port"], seed, **inputs)
    half = 1 << (cfg.acc_bits - 1)
    acc = np.random.default_rng(seed).integers(-half, half, (cfg.acc_depth, cfg.batch * cfg.block))
    held = [int.from_bytes(pack(tile, cfg.acc_bits).tobytes(), "little") for tile in acc]
    ready = bench.chance("read_ready", free)
    reads = bench.add(ScratchpadReads(bench.pins.at("read"), held, 1, 8 * cfg.acc_bytes, bench.random, kept=False))
    reads.served = lambda: ready.now
    return p, bench, acc, bench.source("commands", stall), bench.sink("bursts", stall), bench.sink("beats", stall)


def moved(p, bursts, beats):
    """DRAM after the bursts with their beats, from GUARD."""
    image, given = bytearray([GUARD]) * MEMORY, iter(beats)
    for burst in bursts:
        check_burst(burst["address"], burst["last"] + 1, p.bus_bytes, MEMORY)
        for n in range(burst["last"] + 1):
            beat = next(given)
            for byte in range(p.bus_bytes):
                if beat["strb"] >> byte & 1:
                    image[burst["address"] + n * p.bus_bytes + byte] = beat["data"] >> 8 * byte & 0xFF
    assert next(given, None) is None, "beats are left over"
    return image


@cocotb.test()
@cocotb.parametrize(stall=STALLS, free=[100, 50, 20], small=[False, True])
async def writes_exactly_its_rows(dut, stall, free, small):
    p, bench, acc, commands, bursts, beats = await started(dut, stall + free + small, stall, free)
    cfg, wanted, finals = p.cfg, bytearray([GUARD]) * MEMORY, 0
    for index in range(STORES):
        base, f = random_store(p, bench.random, small)
        commands.queue.append({"command": encode(cfg, "store", memory_type=4, **f) | index << 128, "base": base})
        for row in range(f["y_size"]):
            data = pack(acc[f["sram_base"] + row * f["x_size"] :][: f["x_size"]], cfg.out_bits).tobytes()
            at = base + (f["dram_base"] + row * f["x_stride"]) * cfg.out_bytes
            wanted[at : at + len(data)] = data
        finals += 1
    state = bench.watch("active", "outside", "dram_outside")
    await bench.run(lambda: sum(b["final"] for b in bursts.items) == finals and
                    len(beats.items) == sum(b["last"] + 1 for b in bursts.items), 40_000, "all beats of all STOREs")
    await bench.rest()
    got = moved(p, bursts.items, beats.items)
    wrong = [n for n in range(MEMORY) if got[n] != wanted[n]]
    assert not wrong, f"byte 0x{wrong[0]:x}: got 0x{got[wrong[0]]:02x}, want 0x{wanted[wrong[0]]:02x}; {len(wrong)} bytes differ"
    assert state.now == {"active": 0, "outside": 0, "dram_outside": 0}


@cocotb.test()
@cocotb.parametrize(stall=[0, 50])
async def stops_at_the_end_of_the_scratchpad(dut, stall):
    p, bench, _, commands, _, _ = await started(dut, stall, stall, 100)
    word = encode(p.cfg, "store", memory_type=4, x_size=4, y_size=1, sram_base=p.cfg.acc_depth - 2, x_stride=4)
    commands.queue.append({"command": word | 7 << 128, "base": 0})
    state = bench.watch("outside", "index", "read__enable", "read__index",
                        see=lambda now: now["read__enable"] and reads.append(now["read__index"]))
    reads = []
    await bench.run(lambda: bool(state.now.get("outside")), 200, "outside")
    await bench.rest(20)
    assert (state.now["outside"], state.now["index"]) == (1, 7)
    assert all(index >= p.cfg.acc_depth - 2 for index in reads)


@cocotb.test()
async def a_row_outside_the_window_is_not_written(dut):
    p, bench, _, commands, bursts, _ = await started(dut, 3, 0, 100, window_low=0x1000, window_high=0x2000)
    size = p.cfg.out_bytes
    word = encode(p.cfg, "store", memory_type=4, x_size=2, y_size=2, x_stride=2, dram_base=0x2000 // size - 3)
    commands.queue.append({"command": word | 5 << 128, "base": 0})
    state = bench.watch("dram_outside", "index")
    await bench.run(lambda: bool(state.now.get("dram_outside")), 200, "dram_outside")
    await bench.rest(20)
    assert state.now == {"dram_outside": 1, "index": 5}
    assert all(b["address"] + (b["last"] + 1) * p.bus_bytes <= 0x2000 for b in bursts.items)
    assert len(bursts.items) == 1
