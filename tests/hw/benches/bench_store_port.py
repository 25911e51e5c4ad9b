"""store_port against a byte image: strobes of exactly the bytes of each row, page ends, a shared read port; REQUANTs too."""

from dataclasses import replace
from math import prod

import cocotb
import numpy as np
from board import PARTS, blocks, params

from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.pools import POOL_FIELDS, pooled_extents
from vtakit.hw.params import PAGE_BYTES
from vtakit.hw.values import pack, unpack
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import ScratchpadReads, check_burst
from vtakit.sim.plain import greatest, requantized
from vtakit.sim.random_parameters import random_parameters

STORES = 30
SETS = 3  # of parameters, in the first elements
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


def params_of(block):
    return replace(params(), cfg=PARTS) if block == "store_port_parts" else params()


async def started(dut, seed, stall, free, block="store_port", **inputs):
    p = params_of(block)
    cfg = p.cfg
    inputs = {"window_high": MEMORY, "read_ready": 1} | inputs
    bench = await Bench.start(dut, block, blocks()[block], seed, **inputs)
    half = 1 << (cfg.acc_bits - 1)
    acc = np.random.default_rng(seed).integers(-half, half, (cfg.acc_depth, cfg.batch, cfg.block))
    if cfg.has_requant:
        words = np.frombuffer(random_parameters(cfg, SETS, seed), np.uint8)
        acc[: 3 * SETS] = unpack(words, 32).reshape(-1, cfg.batch, cfg.block)
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
@cocotb.parametrize(stall=STALLS, free=[100, 50, 20], small=[False, True], block=["store_port", "store_port_parts"])
async def writes_exactly_its_rows(dut, stall, free, small, block):
    p, bench, acc, commands, bursts, beats = await started(dut, stall + free + small, stall, free, block)
    cfg, wanted, finals = p.cfg, bytearray([GUARD]) * MEMORY, 0
    for index in range(STORES):
        base, f = random_store(p, bench.random, small)
        op, values = "store", acc[f["sram_base"] :][: f["y_size"] * f["x_size"]]
        if cfg.has_requant and bench.random.randrange(2):
            lookup = int(cfg.has_lookup and bench.random.randrange(2))
            f |= dict.fromkeys(POOL_FIELDS, 0)
            pool = bench.random.randrange(4)
            if pool or bench.random.randrange(2):
                windows = {"pool": pool, "pool_step": bench.random.randrange(2)} | {
                    name: bench.random.randrange(2) * (pool > 0) for name in ("pool_above", "pool_left")}
                room = cfg.acc_depth - prod(pooled_extents(f | windows))
                f |= windows | {"sram_base": min(f["sram_base"], room)} if room >= 0 else {}
            most = cfg.acc_depth - 3 - lookup * cfg.table_elements
            op, f = "requant", f | {"params": min(most, bench.random.choice((3 * bench.random.randrange(SETS), most)))}
            values = requantized(cfg, greatest(acc, f), acc[f["params"] : f["params"] + 3])
            if lookup:
                f["lookup"] = 1
                held = acc[f["params"] + 3 : f["params"] + 3 + cfg.table_elements]
                values = held.astype("<i4").reshape(-1).view(np.int8)[:256].astype(np.int64)[values + 128]
        commands.queue.append({"command": encode(cfg, op, memory_type=4, **f) | index << 128, "base": base})
        for row in range(f["y_size"]):
            data = pack(values[row * f["x_size"] :][: f["x_size"]], cfg.out_bits).tobytes()
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


@cocotb.test()
@cocotb.parametrize(params_at=[-3, -2, -1, 0])
async def parameters_stop_at_the_end_of_the_scratchpad(dut, params_at):
    p, bench, _, commands, _, beats = await started(dut, 0, 0, 100, "store_port_parts")
    word = encode(p.cfg, "requant", memory_type=4, x_size=1, y_size=1, params=p.cfg.acc_depth + params_at)
    commands.queue.append({"command": word | 9 << 128, "base": 0})
    state = bench.watch("outside", "index", "active")
    await bench.rest(60)
    assert (state.now["outside"], len(beats.items) == 0) == ((0, False) if params_at == -3 else (1, True))
    assert state.now["index"] == 9


@cocotb.test()
async def a_part_a_cycle(dut):
    """Neither a STORE nor a REQUANT loses cycles but those of its parameters and its way, once."""
    p, bench, _, commands, _, beats = await started(dut, 0, 0, 100, "store_port_parts")
    count = p.cfg.acc_depth
    parts = count * max(1, p.cfg.out_bytes // p.bus_bytes)
    for op in ("store", "requant"):
        word = encode(p.cfg, op, memory_type=4, x_size=count, y_size=1)
        beats.items.clear()
        begin = bench.cycle
        commands.queue.append({"command": word, "base": 0})
        await bench.run(lambda: len(beats.items) == count * p.cfg.out_bytes // p.bus_bytes, 500, "all beats")
        assert bench.cycle - begin <= parts + 20, op
        await bench.rest()
