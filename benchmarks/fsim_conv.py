"""How fast the functional simulator runs ResNet's 56x56 64->64 3x3 convolution, on one core, machine code already compiled.

Timed is the whole `run_image` call: checking, ordering and running the program, and copying DRAM. In turn with it, in the same
process, runs what one would write first: the GEMM instruction's meaning as scalar loops in numba, without loads, stores or
requantisation. Both results are compared with NumPy's before anything is timed.

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

from vtakit.hw.isa.config import DEFAULT
from vtakit.sim import run_image
from vtakit.sim.workloads import Conv2d, conv2d_program, conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result

SHAPE = Conv2d(height=56, width=56, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)


def scalar_loops(inp: Any, wgt: Any, acc: Any) -> None:
    """acc[o, y, x] += wgt[o, i, ky, kx] times inp[i, y + ky, x + kx]: a stride of 1, one image.

    inp  int8   [in blocks, padded height, padded width, block]
    wgt  int8   [out blocks, in blocks, kernel, kernel, block of outputs, block of inputs]
    acc  int32  [out blocks, height, width, block]
    """
    for o in range(acc.shape[0]):
        for y in range(acc.shape[1]):
            for x in range(acc.shape[2]):
                for i in range(inp.shape[0]):
                    for ky in range(wgt.shape[2]):
                        for kx in range(wgt.shape[3]):
                            for lane in range(acc.shape[3]):
                                total = acc[o, y, x, lane]
                                for at in range(inp.shape[3]):
                                    total += np.int32(inp[i, y + ky, x + kx, at]) * np.int32(wgt[o, i, ky, kx, lane, at])
                                acc[o, y, x, lane] = total


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

    block, pads = DEFAULT.block, (SHAPE.pad, SHAPE.pad)
    pixels = np.frombuffer(inputs["data"], np.int8).reshape(-1, SHAPE.height, SHAPE.width, block)
    inp = np.pad(pixels, ((0, 0), pads, pads, (0, 0)))
    wgt = np.frombuffer(inputs["weights"], np.int8).reshape(-1, len(inp), SHAPE.kernel, SHAPE.kernel, block, block)
    acc = np.zeros((len(wgt), SHAPE.out_height, SHAPE.out_width, block), np.int32)
    compiled_loops = njit(error_model="numpy")(scalar_loops)

    def peer() -> npt.NDArray[np.int32]:
        acc[:] = 0
        compiled_loops(inp, wgt, acc)
        return acc

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
    parser.add_argument("--plain", action="store_true", help="also time the plain path, once: it takes some ten seconds")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write the figures as JSON; to the terminal without FILE")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {args.repeats}")
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    figures = measure(args.repeats, args.contexts, args.plain)
    text = json.dumps(figures, indent=2) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
        return
    if args.json is not None:
        Path(args.json).write_text(text, encoding="utf-8")
    print(f"program       {figures['insns']} instructions, {figures['uops']} micro-ops, {figures['dram_bytes']:,} bytes of DRAM")
    print(f"fsim          {figures['fsim_gmacs']:8.3f} GMAC/s  {figures['fsim_seconds'] * 1e3:10.2f} ms, median of {args.repeats}")
    print(f"scalar loops  {figures['naive_gmacs']:8.3f} GMAC/s  {figures['naive_seconds'] * 1e3:10.2f} ms, median of {args.repeats}")
    print(f"ratio         {figures['ratio']:8.2f}")
    if args.plain:
        print(f"plain path    {figures['plain_gmacs']:8.5f} GMAC/s  {figures['plain_seconds'] * 1e3:10.2f} ms, one run")


if __name__ == "__main__":
    main()
