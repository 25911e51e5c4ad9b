"""A matmul of 1024 x 1024 float32 scheduled by hand, on one core: beside the core's measured peak and NumPy's BLAS.

    python benchmarks/cpu_matmul.py [--repeat N] [--json FILE]

The loop nest is that of K. Goto and R. van de Geijn (Anatomy of high-performance matrix multiplication, 2008): blocks of both
matrices are packed so that the innermost loop reads them in order, and a tile of the result stays in registers. The three are
measured in turns, so that a change of the machine's speed meets all alike; the table shows medians.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is loaded

import numpy as np

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32, INT32
from vtakit.compiler.ir.values import const
from vtakit.runtime.cpu.function import build, empty

N = 1024
STEPS = 100_000  # of the loop that measures the peak


def _ramp(base: ir.Expr | int, lanes: int) -> ir.Ramp:
    return ir.Ramp(base if isinstance(base, ir.Expr) else const(base, INT32), const(1, INT32), lanes)


def _loop(name: str, extent: int, body: Callable[[ir.Var], st.Stmt]) -> st.Stmt:
    var = ir.Var(name)
    return st.For(var, const(extent, INT32), body(var))


def matmul(lanes: int, rows: int, vectors: int, *, tiles: int, column_block: int, depth: int) -> st.Function:
    """``C = A @ B`` with tiles of `rows` x `vectors` in registers, and smaller tiles for the rows that are left.

    A is packed by `tiles` tiles and B by `column_block` columns, `depth` steps of the reduction at a time.
    """
    full = N // (rows * tiles)
    rest = N - full * rows * tiles
    bands = [(0, rows, tiles, full)]  # first row, rows of a tile, tiles of a block, blocks
    while rest:
        height = min(rows, rest)
        while rest % height:
            height -= 1
        bands.append((N - rest, height, rest // height, 1))
        rest = 0
    a, b, c = (Buffer(name, (N, N), FLOAT32) for name in "ABC")
    flat_a, flat_b, flat_c = map(_flat, (a, b, c))
    width = vectors * lanes
    packed_a = Buffer("packed_A", (max(height * count for _, height, count, _ in bands) * depth,), FLOAT32)
    packed_b = Buffer("packed_B", (column_block * depth,), FLOAT32)

    def tile(height: int, row: ir.Expr, column: ir.Expr, i: ir.Expr, j: ir.Expr) -> st.Stmt:
        sums = Buffer("sums", (height * width,), FLOAT32)
        parts = [(r, v) for r in range(height) for v in range(vectors)]
        where = {(r, v): _ramp(r * width + v * lanes, lanes) for r, v in parts}
        place = {(r, v): _ramp((row + (i * height + r)) * N + column + j * width + v * lanes, lanes) for r, v in parts}

        def step(k: ir.Var) -> st.Stmt:
            return st.seq(*(
                st.Store(sums, (where[r, v],), math_call(
                    "fma", ir.Broadcast(ir.Load(packed_a, ((i * depth + k) * height + r,)), lanes),
                    ir.Load(packed_b, (_ramp((j * depth + k) * width + v * lanes, lanes),)), ir.Load(sums, (where[r, v],)),
                )) for r, v in parts
            ))

        return st.Allocate(sums, st.seq(
            *(st.Store(sums, (where[p],), ir.Load(flat_c, (place[p],))) for p in parts),
            _loop("k", depth, step),
            *(st.Store(flat_c, (place[p],), ir.Load(sums, (where[p],))) for p in parts),
        ))

    def pack_a(height: int, count: int, row: ir.Expr, k0: ir.Expr) -> st.Stmt:
        return _loop("i", count, lambda i: _loop("k", depth, lambda k: st.seq(*(
            st.Store(packed_a, ((i * depth + k) * height + r,), ir.Load(flat_a, ((row + (i * height + r)) * N + k0 + k,)))
            for r in range(height)
        ))))

    def pack_b(column: ir.Expr, k0: ir.Expr) -> st.Stmt:
        return _loop("j", column_block // width, lambda j: _loop("k", depth, lambda k: st.seq(*(
            st.Store(packed_b, (_ramp((j * depth + k) * width + v * lanes, lanes),),
                     ir.Load(flat_b, (_ramp((k0 + k) * N + column + j * width + v * lanes, lanes),)))
            for v in range(vectors)
        ))))

    def block(height: int, count: int, row: ir.Expr, column: ir.Expr, k0: ir.Expr) -> st.Stmt:
        return st.seq(pack_a(height, count, row, k0), _loop("j", column_block // width, lambda j: _loop(
            "i", count, lambda i: tile(height, row, column, i, j))))

    def body(column: ir.Expr, k0: ir.Expr) -> st.Stmt:
        return st.seq(pack_b(column, k0), *(
            _loop("band", blocks, lambda i, first=first, height=height, count=count: block(  # type: ignore[misc]
                height, count, first + i * (height * count), column, k0))
            for first, height, count, blocks in bands
        ))

    zero = _loop("z", N * N // lanes, lambda z: st.Store(
        flat_c, (_ramp(z * lanes, lanes),), ir.Broadcast(const(0.0, FLOAT32), lanes)))
    nest = _loop("columns", N // column_block, lambda j: _loop("depths", N // depth, lambda k: body(j * column_block, k * depth)))
    return st.Function("matmul", (a, b, c), st.seq(zero, st.Allocate(packed_a, st.Allocate(packed_b, nest))))


def _flat(buffer: Buffer) -> Buffer:
    flat = Buffer(buffer.name, (N * N,), FLOAT32)
    flat.data = buffer.data
    return flat


def peak(lanes: int, sums: int) -> st.Function:
    """Independent multiply-adds in registers: as many as a processor needs to be busy in every cycle."""
    out, given = Buffer("out", (sums * lanes,), FLOAT32), Buffer("given", (2 * lanes,), FLOAT32)
    held = Buffer("held", (sums * lanes,), FLOAT32)
    at = [_ramp(i * lanes, lanes) for i in range(sums)]
    x, y = (ir.Var(name, FLOAT32.with_lanes(lanes)) for name in "xy")
    steps = st.seq(*(st.Store(held, (i,), math_call("fma", ir.Load(held, (i,)), x, y)) for i in at))
    body = st.Allocate(held, st.seq(
        *(st.Store(held, (i,), ir.Load(out, (i,))) for i in at),
        st.For(ir.Var("k"), const(STEPS, INT32), steps),
        *(st.Store(out, (i,), ir.Load(held, (i,))) for i in at),
    ))
    values = st.LetStmt(x, ir.Load(given, (at[0],)), st.LetStmt(y, ir.Load(given, (at[1],)), body))
    return st.Function("peak", (out, given), values)


def seconds(run: Callable[[], object]) -> float:
    """The processor's time for one run, after one that is not counted: what other processes take is left out."""
    run()
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description="1024 x 1024 float32 matmul on one core")
    parser.add_argument("--repeat", type=int, default=15, help="measurements of each (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    target = Target.host()
    lanes = target.vector_bytes // 4
    # 28 sums, 2 vectors of B and one of A fill AVX-512's 32 registers; 12, 2 and 1 AVX2's 16.
    rows, vectors = (14, 2) if lanes == 16 else (6, 2)
    rows=int(os.environ.get("R",rows)); vectors=int(os.environ.get("V",vectors)); RB=int(os.environ.get("RB",8)); CB=int(os.environ.get("CB",1024)); KB=int(os.environ.get("KB",256))
    sums = rows * vectors
    begin = time.perf_counter()
    ours = build(matmul(lanes, rows, vectors, tiles=RB, column_block=CB, depth=KB))
    seconds_to_build = time.perf_counter() - begin
    limit = build(peak(lanes, 10))

    rng = np.random.default_rng(0)
    a, b, c = (empty((N, N)) for _ in range(3))
    a[...], b[...] = rng.standard_normal((2, N, N), dtype=np.float32)
    registers, numbers = np.zeros(10 * lanes, np.float32), np.r_[np.full(lanes, 0.5), np.full(lanes, 0.25)].astype(np.float32)
    ours(a, b, c)
    assert np.allclose(c, a @ b, atol=1e-3), "the result differs from NumPy's"

    work = 2 * N**3
    rates: dict[str, list[float]] = {"peak of one core": [], "vtakit, scheduled by hand": [], "NumPy's BLAS, one thread": []}
    for _ in range(given.repeat):
        rates["peak of one core"].append(2 * 10 * lanes * STEPS / seconds(lambda: limit(registers, numbers)))
        rates["vtakit, scheduled by hand"].append(work / seconds(lambda: ours(a, b, c)))
        rates["NumPy's BLAS, one thread"].append(work / seconds(lambda: np.matmul(a, b, out=c)))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    best = medians["peak of one core"]
    print(f"{N} x {N} float32 matmul on {target}; medians of {given.repeat}; compiled in {seconds_to_build * 1e3:.0f} ms")
    for name, rate in medians.items():
        print(f"  {name:28} {rate / 1e9:8.1f} GFLOP/s {rate / best:7.1%}")
    if given.json:
        given.json.write_text(json.dumps({"tile": [rows, vectors * lanes], "accumulators": sums, **medians}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
