"""acc_writer against whole elements: beats gathered, 8-bit values widened, zeros, and the scratchpad taken by others."""

import cocotb
import numpy as np
from board import blocks, params

from vtakit.hw.isa.insns import MEMORIES, MemType
from vtakit.hw.values import pack
from vtakit.sim.bench.agents import STALLS, Bench

ELEMENTS = 60


def pieces(p, size, index, data, pick):
    """The writes of a load writer for one element of `size` bytes."""
    bus = p.bus_bytes
    if size <= bus:
        noise = pick.getrandbits(8 * (bus - size)) << 8 * size  # what follows the element in its beat
        return [{"index": index, "count": 1, "last": 1, "meant": 1, "data": int.from_bytes(data, "little") | noise}]
    return [{"index": index, "count": 1, "beat": n, "last": int(n == size // bus - 1), "meant": 1,
             "data": int.from_bytes(data[n * bus : (n + 1) * bus], "little")} for n in range(size // bus)]


@cocotb.test()
@cocotb.parametrize(withheld=STALLS, busy=[0, 50, 90], kind=[MemType.ACC, MemType.ACC_8BIT])
async def writes_whole_elements(dut, withheld, busy, kind):
    p, cfg = params(), params().cfg
    if kind is MemType.ACC_8BIT and not cfg.has_acc8:
        return  # the block has no such stream
    bench = await Bench.start(dut, "acc_writer", blocks()["acc_writer"], seed=withheld + busy)
    pick, size = bench.random, MEMORIES[kind].bytes_in(cfg)
    taken = bench.chance("busy", busy)
    writes, blocked = [], []

    def see(now):
        assert not (now["write__valid"] and taken.now), "written while the port is taken"
        if now["write__valid"]:
            writes.append((now["write__index"], now["write__data"]))
        if now["blocked"]:
            blocked.append(bench.cycle)

    bench.watch("write__valid", "write__index", "write__data", "blocked", see=see)
    source = bench.source("acc" if kind is MemType.ACC else "acc8", withheld)
    wanted = []
    for _ in range(ELEMENTS):
        index = pick.randrange(cfg.acc_depth)
        if pick.randrange(4) == 0:
            noise = pick.getrandbits(p.bus_bits)
            source.queue.append({"index": index, "count": 1, "pad": 1, "last": 1, "meant": 1, "data": noise})
            wanted.append((index, 0))
            continue
        data = pick.randbytes(size)
        source.queue.extend(pieces(p, size, index, data, pick))
        if kind is MemType.ACC_8BIT:
            values = np.frombuffer(data, np.int8).astype(np.int64)
            data = pack(values, cfg.acc_bits).tobytes()
        wanted.append((index, int.from_bytes(data, "little")))
    await bench.run(lambda: len(writes) >= ELEMENTS, 20_000, f"{ELEMENTS} elements")
    await bench.rest()
    assert writes == wanted
    assert bool(blocked) == bool(busy)
