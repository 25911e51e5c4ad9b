"""scratchpad against a list: several neighbours written at once, wrap from row to row, slices of an element, several readers."""

import cocotb
from board import SCRATCHPADS, blocks

from vtakit.sim.bench.agents import Bench

CYCLES = 600


@cocotb.test()
@cocotb.parametrize(name=list(SCRATCHPADS), writes=[20, 100])
async def keeps_what_is_written(dut, name, writes):
    shape = SCRATCHPADS[name]
    bits, depth, lanes = shape["element_bits"], 1 << shape["depth_log2"], shape.get("lanes", 1)
    slices, readers, latency = shape.get("slices", 1), shape.get("readers", 1), 1 + shape.get("registered", True)
    piece = bits // slices
    bench = await Bench.start(dut, name, blocks()[name], seed=writes)
    pins, pick = bench.pins, bench.random
    model: list[int | None] = [None] * depth  # unknown at first: the memory may hold anything after reset
    line: list[list[int | None]] = [[] for _ in range(readers)]
    checked = 0
    for cycle in range(depth + CYCLES):
        if cycle < depth:  # every element once, so that all are known
            valid, index, count, mask = 1, cycle, 1, (1 << slices) - 1
        else:
            valid, index = int(pick.randrange(100) < writes), pick.randrange(depth)
            count, mask = pick.randint(0, min(lanes, depth - index)), pick.getrandbits(slices)
        values = [pick.getrandbits(bits) for _ in range(lanes)]
        pins.set("write__valid", valid)
        pins.set("write__index", index)
        pins.set("write__count", count)
        pins.set("write__mask", mask)
        pins.set("write__data", sum(value << n * bits for n, value in enumerate(values)))
        for n in range(readers):
            at, enable = pick.randrange(depth), pick.randrange(4) > 0
            pins.set(f"read{n}__index", at)
            pins.set(f"read{n}__enable", enable)
            previous = line[n][-1] if line[n] else None  # without enable, the data stay
            line[n].append(model[at] if enable else previous)
        await bench.step()
        if valid:
            for n in range(count):
                keep = sum(((1 << piece) - 1) << s * piece for s in range(slices) if not mask >> s & 1)
                model[index + n] = (model[index + n] or 0) & keep | values[n] & ~keep
        for n in range(readers):
            want = line[n][-latency] if len(line[n]) >= latency else None
            if want is not None:
                got = pins.get(f"read{n}__data")
                assert got == want, f"cycle {cycle} reader {n}: got 0x{got:x}, want 0x{want:x}"
                checked += 1
    assert checked > CYCLES // 2
