"""mac_array against NumPy: random tiles and extremes, one a cycle."""

import cocotb
import numpy as np
from board import blocks, params

from vtakit.hw.compute.mac_array import sum_bits
from vtakit.hw.timing import mac_latency
from vtakit.hw.values import pack, wrap
from vtakit.sim.bench.agents import Bench

TILES = 150


@cocotb.test()
@cocotb.parametrize(seed=[0, 1], block=["mac_array", "mac_array_mixed"])
async def multiplies_a_tile_a_cycle(dut, seed, block):
    cfg = params().cfg
    latency, bits = mac_latency(cfg), sum_bits(cfg)
    bench = await Bench.start(dut, block, blocks()[block], seed)
    rng = np.random.default_rng(seed)

    def tiles(bits, *shape):
        extremes = np.array([-(1 << (bits - 1)), (1 << (bits - 1)) - 1])
        kind = rng.integers(3)
        return rng.choice(extremes, shape) if kind == 0 else rng.integers(extremes[0], extremes[1] + 1, shape)

    wanted = []
    for number in range(TILES + latency):
        inp, wgt = tiles(cfg.inp_bits, cfg.batch, cfg.block), tiles(cfg.wgt_bits, cfg.block, cfg.block)
        bench.pins.set("inp", int.from_bytes(pack(inp, cfg.inp_bits).tobytes(), "little"))
        bench.pins.set("wgt", int.from_bytes(pack(wgt, cfg.wgt_bits).tobytes(), "little"))
        wanted.append(wrap(inp @ wgt.T, bits))
        await bench.step()
        if number >= latency - 1:
            raw = bench.pins.get("sums")
            lanes = [raw >> at & (1 << bits) - 1 for at in range(0, cfg.batch * cfg.block * bits, bits)]
            got = np.array([lane - (lane >> bits - 1 << bits) for lane in lanes]).reshape(cfg.batch, cfg.block)
            np.testing.assert_array_equal(got, wanted[number - latency + 1], f"tile {number - latency + 1}")
