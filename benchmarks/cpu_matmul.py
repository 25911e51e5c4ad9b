"""A matmul of 1024 x 1024 float32 scheduled by hand, on one core: beside the core's measured peak and NumPy's BLAS.

    python benchmarks/cpu_matmul.py [--repeat N] [--json FILE]

B is packed into panels that the innermost loop reads in order, and a tile of the result stays in registers. The three are
measured in turns, so that a change of the machine's speed meets all alike, and in processor time; the table shows medians, and
the best beside them, which other processes on the same processor disturb least.
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

from vtakit import te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.function import build, empty

N = 1024
STEPS = 1_000_000  # of the loop that measures the peak


def matmul(lanes: int, rows: int, columns: int) -> st.Function:
    """``C = A @ B`` with tiles of `rows` x `columns` in registers, in vectors of `lanes`."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    packed = te.compute((N // columns, N, columns), lambda j, k, c: b[k, j * columns + c], name="packed")
    c = te.compute((N, N), lambda y, x: te.sum(a[y, k] * packed[x // columns, k, x % columns], axis=k), name="C")

    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    y, x, y_in, x_in = s[c].tile(*s[c].op.axis, rows, columns)
    vectors, lane = s[c].split(x_in, factor=lanes)
    s[c].reorder(x, y, y_in, vectors, lane)
    s[c].unroll(y_in)
    s[c].unroll(vectors)
    s[c].vectorize(lane)

    s[tile].compute_at(s[c], y)
    y_in, x_in = s[tile].op.axis
    (step,) = s[tile].op.reduce_axis
    vectors, lane = s[tile].split(x_in, factor=lanes)
    s[tile].reorder(step, y_in, vectors, lane)
    s[tile].unroll(y_in)
    s[tile].unroll(vectors)
    s[tile].vectorize(lane)

    vectors, lane = s[packed].split(s[packed].op.axis[2], factor=lanes)
    s[packed].unroll(vectors)
    s[packed].vectorize(lane)
    return lower_late(lower(s, [a, b, c], name="matmul"))


def peak(lanes: int, sums: int) -> st.Function:
    """Independent multiply-adds in registers: as many as a processor needs to be busy in every cycle."""
    out, given = Buffer("out", (sums * lanes,), FLOAT32), Buffer("given", (2 * lanes,), FLOAT32)
    held = Buffer("held", (sums * lanes,), FLOAT32)
    at = [ir.Ramp(wrap(i * lanes), wrap(1), lanes) for i in range(sums)]
    x, y = (ir.Var(name, FLOAT32.with_lanes(lanes)) for name in "xy")
    steps = st.seq(*(st.Store(held, (i,), math_call("fma", ir.Load(held, (i,)), x, y)) for i in at))
    body = st.Allocate(held, st.seq(
        *(st.Store(held, (i,), ir.Load(out, (i,))) for i in at),
        st.For(ir.Var("k"), wrap(STEPS), steps),
        *(st.Store(out, (i,), ir.Load(held, (i,))) for i in at),
    ))
    values = st.LetStmt(x, ir.Load(given, (at[0],)), st.LetStmt(y, ir.Load(given, (at[1],)), body))
    return st.Function("peak", (out, given), values)


def seconds(run: Callable[[], object]) -> float:
    """The processor's time for one run, after one that is not counted."""
    run()
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=f"{N} x {N} float32 matmul on one core")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="measurements of each (default 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    target = Target.host()
    lanes = target.vector_bytes // 4
    # Enough sums to hide the latency of a multiply-add, few enough for the registers: 16 of AVX-512's 32, 8 of AVX2's 16.
    rows, columns = (8, 2 * lanes) if lanes == 16 else (4, 2 * lanes)
    sums = 24 if lanes == 16 else 12

    begin = time.perf_counter()
    low = matmul(lanes, rows, columns)
    lowered = time.perf_counter()
    ours = build(low)
    built = time.perf_counter()
    limit = build(peak(lanes, sums))

    rng = np.random.default_rng(0)
    a, b, c = (empty((N, N)) for _ in range(3))
    a[...], b[...] = rng.standard_normal((2, N, N), dtype=np.float32)
    registers = np.zeros(sums * lanes, np.float32)
    numbers = np.r_[np.full(lanes, 0.5), np.full(lanes, 0.25)].astype(np.float32)
    ours(a, b, c)
    if not np.allclose(c, a @ b, atol=1e-3):
        print("the result differs from NumPy's", file=sys.stderr)
        return 1

    flops = {"peak of one core": 2 * sums * lanes * STEPS, "vtakit": 2 * N**3, "NumPy's BLAS": 2 * N**3}
    runs: dict[str, Callable[[], object]] = {
        "peak of one core": lambda: limit(registers, numbers), "vtakit": lambda: ours(a, b, c),
        "NumPy's BLAS": lambda: np.matmul(a, b, out=c),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeat):
        for name, run in runs.items():
            rates[name].append(flops[name] / seconds(run))
    print(f"{N} x {N} float32 matmul, one thread, {target}; tile {rows} x {columns}; "
          f"lowered in {(lowered - begin) * 1e3:.0f} ms, compiled in {(built - lowered) * 1e3:.0f} ms")
    median = {name: statistics.median(found) for name, found in rates.items()}
    best = {name: max(found) for name, found in rates.items()}
    print(f"  {'':18}{'median GFLOP/s':>16}{'of peak':>9}{'best GFLOP/s':>16}{'of peak':>9}")
    for name in rates:
        shares = [found[name] / found["peak of one core"] for found in (median, best)]
        print(f"  {name:18}{median[name] / 1e9:16.1f}{shares[0]:9.1%}{best[name] / 1e9:16.1f}{shares[1]:9.1%}")
    if given.json:
        given.json.write_text(json.dumps({"tile": [rows, columns], "median": median, "best": best}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
