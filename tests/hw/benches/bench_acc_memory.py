"""acc_memory against a list: results that none replaces, loads where the bank is free, two readers that see old values."""

import cocotb
from board import blocks, params

from vtakit.hw.compute.acc_memory import acc_banks
from vtakit.sim.bench.agents import Bench

CYCLES = 800
READERS = ("read0", "read1")


def meet(cfg, one, other):
    """Return True for two elements of one bank, by the parity of every third bit of their indices."""
    return acc_banks(cfg) == 1 or ((one ^ other) & 0o1111111).bit_count() % 2 == 0


def bank(cfg, index):
    return int(acc_banks(cfg) > 1 and meet(cfg, index, 1))


@cocotb.test()
@cocotb.parametrize(
    result=[0, 50, 100], replaced=[0, 50], load=[30, 100], near=[True, False], block=["acc_memory", "acc_memory_one"],
)
async def loads_find_the_free_bank(dut, result, replaced, load, near, block):
    """`near`: few elements, so that writes and reads of one element meet. With one copy, `read0` goes before `read1`."""
    cfg = params().cfg
    bench = await Bench.start(dut, block, blocks()[block], seed=result + replaced + load + near)
    pins, pick, bits = bench.pins, bench.random, 8 * cfg.acc_bytes
    used = min(cfg.acc_depth, 4 if near else 64)
    model: list[int | None] = [None] * used  # the memory may hold anything after reset
    loads = bench.chance("load__valid", load)
    reads = {name: bench.chance(f"{name}__enable", 70) for name in READERS}
    seen = bench.watch("load_busy", "read1_busy")
    want: dict[str, int | None] = dict.fromkeys(READERS)  # without enable, the data stay
    places = dict.fromkeys(READERS, 0)  # that they were read from
    refused, beside, checked = 0, 0, 0
    for _ in range(CYCLES):
        at = {name: pick.randrange(used) for name in ("result", "load", *READERS)}
        data = {name: pick.getrandbits(bits) for name in ("result", "load")}
        for name, index in at.items():
            pins.set(f"{name}__index", index)
        for name, value in data.items():
            pins.set(f"{name}__data", value)
        writes = pick.randrange(100) < result and pick.randrange(100) >= replaced
        pins.set("writes", writes << bank(cfg, at["result"]))
        await bench.step()
        busy = writes and meet(cfg, at["result"], at["load"])
        assert seen.now["load_busy"] == busy, f"cycle {bench.cycle}: {at}"
        crossed = bool(block == "acc_memory_one" and reads["read0"].now and meet(cfg, at["read0"], at["read1"]))
        assert seen.now["read1_busy"] == crossed, f"cycle {bench.cycle}: {at}"
        for name in READERS:
            if reads[name].now:
                want[name], places[name] = model[at[name]], at[name]
            elif block == "acc_memory_one" and any(reads[other].now and meet(cfg, at[other], places[name]) for other in READERS):
                want[name] = None  # what is read for the other one takes the place of its data
        if crossed and reads["read1"].now:
            want["read1"] = None
        if writes:
            model[at["result"]] = data["result"]
        if loads.now and not busy:
            model[at["load"]] = data["load"]
        refused += bool(loads.now) and busy
        beside += bool(loads.now) and writes and not busy
        for name, value in want.items():
            if value is not None:
                got = pins.get(f"{name}__data")
                assert got == value, f"cycle {bench.cycle} {name}: got 0x{got:x}, want 0x{value:x}"
                checked += 1
    assert checked > CYCLES
    assert (refused > 0, beside > 0) == (result > 0, result > 0)
