"""How fast the functional simulator runs ResNet's 56x56 64->64 3x3 convolution, on one core, machine code already compiled.

Timed is the whole `run_image` call: checking, ordering and running the program, and copying DRAM. In turn with it, in the same
process, runs what one would write first: the GEMM instruction's meaning as scalar loops in numba, the whole layer as one
instruction on scratchpads without bounds, so without loads, stores and requantization. Both results are compared with NumPy's
before anything is timed.

    python benchmarks/fsim_conv.py [--repeats N] [--contexts N] [--plain] [--json [FILE]]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.sim import run_image
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.workloads import Conv2d, conv2d_program

SHAPE = Conv2d(height=56, width=56, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)


def scalar_gemm(uops: Any, outer_steps: Any, inner_steps: Any, outer: Any, inner: Any, acc: Any, inp: Any, wgt: Any) -> None:
    """For o < outer, i < inner and each micro-op: acc[dst] += inp[src] x transpose(wgt[tile]).

    uops                      int64  [micro-ops, 3]         dst, src and tile
    outer_steps, inner_steps  int64  [3]                    added to them each iteration
    acc                       int32  [tiles, batch, block]
    inp                       int8   [tiles, batch, block]
    wgt                       int8   [tiles, block, block]  [.., out, in]
    """
    for o in range(outer):
        for i in range(inner):
            for uop in range(uops.shape[0]):
                dst = uops[uop, 0] + o * outer_steps[0] + i * inner_steps[0]
                src = uops[uop, 1] + o * outer_steps[1] + i * inner_steps[1]
                tile = uops[uop, 2] + o * outer_steps[2] + i * inner_steps[2]
                for row in range(acc.shape[1]):
                    for lane in range(acc.shape[2]):
                        total = acc[dst, row, lane]
                        for at in range(inp.shape[2]):
                            total += np.int32(inp[src, row, at]) * np.int32(wgt[tile, lane, at])
                        acc[dst, row, lane] = total


def scalar_peer(inputs: dict[str, bytes]) -> Callable[[], npt.NDArray[np.int32]]:
    """The layer's sums by `scalar_gemm`, int32 [out blocks x out_height x out_width, batch, block], from the program's inputs."""
    block, side, pads = DEFAULT.block, SHAPE.kernel, (SHAPE.pad, SHAPE.pad)
    pixels = np.frombuffer(inputs["data"], np.int8).reshape(-1, SHAPE.height, SHAPE.width, DEFAULT.batch, block)
    padded = np.pad(pixels, ((0, 0), pads, pads, (0, 0), (0, 0)))
    in_blocks, height, width = padded.shape[:3]
    inp, wgt = padded.reshape(-1, DEFAULT.batch, block), np.frombuffer(inputs["weights"], np.int8).reshape(-1, block, block)
    out_blocks, area = len(wgt) // (in_blocks * side * side), SHAPE.out_height * SHAPE.out_width
    uops = np.array([
        (co * area, (ci * height + ky) * width + kx, ((co * in_blocks + ci) * side + ky) * side + kx)
        for ci, ky, kx, co in np.ndindex(in_blocks, side, side, out_blocks)
    ])
    outer_steps, inner_steps = np.array([SHAPE.out_width, SHAPE.stride * width, 0]), np.array([1, SHAPE.stride, 0])
    acc = np.zeros((out_blocks * area, DEFAULT.batch, block), np.int32)
    compiled = njit(error_model="numpy")(scalar_gemm)

    def peer() -> npt.NDArray[np.int32]:
        acc[:] = 0
        compiled(uops, outer_steps, inner_steps, SHAPE.out_height, SHAPE.out_width, acc, inp, wgt)
        return acc

    return peer


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(repeats: int, contexts: int, plain: bool) -> dict[str, float]:
    """Median rates in GMAC/s, their ratio and the program's size."""
    rng = np.random.default_rng(0)
    data = rng.integers(-128, 128, (1, SHAPE.in_channels, SHAPE.height, SHAPE.width), np.int8)
    weights = rng.integers(-128, 128, (SHAPE.out_channels, SHAPE.in_channels, SHAPE.kernel, SHAPE.kernel), np.int8)
    want = conv2d_reference(DEFAULT, SHAPE, data, weights)
    program = conv2d_program(DEFAULT, SHAPE, contexts)
    inputs = pack_conv2d_inputs(DEFAULT, SHAPE, data, weights)
    image = program.link(inputs)

    def fsim(path: str = "compiled") -> bytes:
        return run_image(image.dram, image.insn_addr, image.insn_count, DEFAULT, path=path).dram

    peer = scalar_peer(inputs)
    at, size = image.addresses["result"], program.buffer("result").size_bytes
    np.testing.assert_array_equal(unpack_conv2d_result(DEFAULT, SHAPE, fsim()[at : at + size]), want)
    clipped = (peer() >> SHAPE.shift).clip(-128, 127).astype(np.int8)
    np.testing.assert_array_equal(unpack_conv2d_result(DEFAULT, SHAPE, clipped.tobytes()), want)

    times = [(seconds(fsim), seconds(peer)) for _ in range(repeats)]
    ours, naive = (median(column) for column in zip(*times, strict=True))
    figures = {
        "insns": len(program.insns), "uops": len(program.uops), "dram_bytes": len(image.dram), "macs": SHAPE.macs,
        "repeats": repeats, "fsim_seconds": ours, "naive_seconds": naive,
        "fsim_gmacs": SHAPE.macs / ours / 1e9, "naive_gmacs": SHAPE.macs / naive / 1e9, "ratio": naive / ours,
    }
    if plain:
        figures["plain_seconds"] = seconds(lambda: fsim("plain"))
        figures["plain_gmacs"] = SHAPE.macs / figures["plain_seconds"] / 1e9
    return figures


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=21, help="runs of each, in turn; the median counts (default 21)")
    parser.add_argument("--contexts", type=int, default=2, help="contexts in the scratchpads (default 2)")
    parser.add_argument("--plain", action="store_true", help="also time the plain path, once: it takes seconds")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-",
                        help="write the figures as JSON, to the terminal if no file is given")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {args.repeats}")
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        figures = measure(args.repeats, args.contexts, args.plain)
    except VtakitError as error:
        parser.error(str(error))
    text = json.dumps(figures, indent=2) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
        return
    if args.json is not None:
        Path(args.json).write_text(text, encoding="utf-8")
    runs = f"median of {args.repeats}"
    print(f"program      {figures['insns']} instructions, {figures['uops']} micro-ops, {figures['dram_bytes']:,} bytes of DRAM")
    print(f"fsim         {figures['fsim_gmacs']:8.3f} GMAC/s  {figures['fsim_seconds'] * 1e3:9.2f} ms, {runs}")
    print(f"scalar loops {figures['naive_gmacs']:8.3f} GMAC/s  {figures['naive_seconds'] * 1e3:9.2f} ms, {runs}")
    print(f"ratio        {figures['ratio']:8.3f}")
    if args.plain:
        print(f"plain path   {figures['plain_gmacs']:8.3f} GMAC/s  {figures['plain_seconds'] * 1e3:9.2f} ms, one run")


if __name__ == "__main__":
    main()
