"""A matmul of 1024 x 1024 float32 scheduled by hand, on one core: beside the core's measured peak and NumPy's BLAS.

    python benchmarks/cpu_matmul.py [--repeat N] [--json FILE]

The schedule is that of examples/matmul.py, which docs/matmul.md explains. The three are measured in turns, so that a change of
the machine's speed meets all alike, and in processor time; the table shows medians, and the best beside them, which other
processes on the same processor disturb least.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is loaded

import numpy as np

from vtakit.compiler.codegen.llvm.micro_kernels import tile
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

EXAMPLE = Path(__file__).parents[1] / "examples" / "matmul.py"
STEPS = 1_000_000  # of the loop that measures the peak


def example() -> ModuleType:
    """The module with the product and its schedule."""
    spec = importlib.util.spec_from_file_location(EXAMPLE.stem, EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


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
    matmul = example()
    n = matmul.N
    parser = argparse.ArgumentParser(description=f"{n} x {n} float32 matmul on one core")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="measurements of each (default 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    target = Target.host()
    rows, columns = tile(target)
    lanes = target.vector_bytes // 4
    sums = 24 if lanes == 16 else 12  # enough to hide the latency of a multiply-add, few enough for the registers

    begin = time.perf_counter()
    x, y, product = matmul.product()
    low = lower_late(lower(matmul.schedule(product, rows, columns), [x, y, product], name="matmul"))
    lowered = time.perf_counter()
    ours = build(low)
    built = time.perf_counter()
    limit = build(peak(lanes, sums))

    rng = np.random.default_rng(0)
    a, b, c = (empty((n, n)) for _ in range(3))
    a[...], b[...] = rng.standard_normal((2, n, n), dtype=np.float32)
    registers = np.zeros(sums * lanes, np.float32)
    numbers = np.r_[np.full(lanes, 0.5), np.full(lanes, 0.25)].astype(np.float32)
    ours(a, b, c)
    if not np.allclose(c, a @ b, atol=1e-3):
        print("the result differs from NumPy's", file=sys.stderr)
        return 1

    flops = {"peak of one core": 2 * sums * lanes * STEPS, "vtakit": 2 * n**3, "NumPy's BLAS": 2 * n**3}
    runs: dict[str, Callable[[], object]] = {
        "peak of one core": lambda: limit(registers, numbers), "vtakit": lambda: ours(a, b, c),
        "NumPy's BLAS": lambda: np.matmul(a, b, out=c),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeat):
        for name, run in runs.items():
            rates[name].append(flops[name] / seconds(run))
    print(f"{n} x {n} float32 matmul, one thread, {target}; tile {rows} x {columns}; "
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
