"""Lane instructions a second of the emulator of PTX, on a matrix product of float32 with shared tiles.

    python benchmarks/ptx_speed.py [--size 256]
"""

import argparse
import time
from typing import Any

import numpy as np

from vtakit import te
from vtakit.compiler.codegen.gpu import split
from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import compile_launches
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.sim.ptx import DeviceMemory, load

TILE, THREADS, DEPTH = 64, 16, 16


def product(size: int) -> Function:
    """Return a product of square matrices in low form: 64 x 64 results and 16 x 16 threads a block."""
    a, b = (te.placeholder((size, size), "float32", name=name) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    sums: Any = local.op
    caches: list[Any] = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, TILE, TILE)
    ty, yi = s[c].split(yi, nparts=THREADS)
    tx, xi = s[c].split(xi, nparts=THREADS)
    s[c].reorder(by, bx, ty, tx, yi, xi)
    for axis, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s[c].bind(axis, te.thread_axis(tag))
    s[local].compute_at(s[c], tx)
    ko, ki = s[local].split(sums.reduce_axis[0], DEPTH)
    s[local].reorder(ko, ki, *sums.axis)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
        rest, inner = s[cache].split(s[cache].fuse(*cache.op.axis), THREADS)
        _, outer = s[cache].split(rest, THREADS)
        s[cache].bind(outer, te.thread_axis("threadIdx.y"))
        s[cache].bind(inner, te.thread_axis("threadIdx.x"))
    return lower_late(lower(s, [a, b, c]), "gpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the matrices, a multiple of 64")
    size = parser.parse_args().size
    (kernel,) = split(product(size)).launches
    module = load(compile_launches([kernel], Arch(), cubin=False).ptx)
    x, y = np.random.default_rng(0).standard_normal((2, size, size)).astype(np.float32)
    memory = DeviceMemory()
    args = [memory.put(x), memory.put(y), memory.allocate(x.nbytes)]
    grid = (size // TILE, size // TILE)
    module.launch(kernel.name, grid, kernel.block, args, memory)  # makes the machine code
    error = np.abs(memory.read(args[2], x.shape, np.float32) - x.astype(np.float64) @ y).max()
    print(f"largest error {error:.2g}")
    for checks in (True, False):
        began = time.process_time()
        counters = module.launch(kernel.name, grid, kernel.block, args, memory, checks=checks)
        seconds = time.process_time() - began
        rate = counters.lanes / seconds / 1e6
        print(f"checks {checks}: {counters.lanes:,} lane instructions, {rate:.0f} million a second of processor time")


if __name__ == "__main__":
    main()
