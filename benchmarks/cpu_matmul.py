"""A matmul of 1024 x 1024 on one core, beside the measured peak of the instruction and what else computes it here.

    python benchmarks/cpu_matmul.py [--dtype float32|bfloat16|uint8|int8] [--repeat N] [--json FILE]

float32 is scheduled by hand, as in examples/matmul.py, which docs/matmul.md explains, beside NumPy's BLAS. bfloat16, and uint8 or
int8 by int8, are micro-kernels over packed weights (docs/micro_kernels.md), with and without AMX where the processor has it;
onnxruntime, where it is installed, has the products of bytes, and of bfloat16 nobody here.

All are measured in turns, so that a change of the machine's speed meets all alike, and in processor time; the table shows
medians, and the best beside them, which other processes on the same processor disturb least.
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
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is loaded

import numpy as np

from vtakit import te
from vtakit.compiler.codegen.llvm.kernels import micro_kernels
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect, math_call
from vtakit.compiler.ir.dtypes import FLOAT32, dtype
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.function import Function, build, empty
from vtakit.runtime.cpu.packed import numpy_dtype

EXAMPLE = Path(__file__).parents[1] / "examples" / "matmul.py"
STEPS = 1_000_000  # of the loop that measures the peak
N = 1024
KERNELS = {  # of a's type: the micro-kernel, the types of b and c, elements of a that a step takes
    "bfloat16": (micro_kernels.gemm_bf16, "bfloat16", "float32", 2), "uint8": (micro_kernels.gemm_u8s8s32, "int8", "int32", 4),
    "int8": (micro_kernels.gemm_s8s8s32, "int8", "int32", 4),
}
Array = np.ndarray[Any, Any]


class Contender(NamedTuple):
    """What is measured: arithmetic operations of a run, the run, and the one whose rate is its peak."""

    operations: int
    run: Callable[[], object]
    peak: str = ""


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


def of_floats() -> tuple[dict[str, Contender], str]:
    """float32, by the example's schedule; and what to say of it."""
    matmul, target = example(), Target.host()
    rows, columns = micro_kernels.tile(target)
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
    a, b, c = (empty((N, N)) for _ in range(3))
    a[...], b[...] = rng.standard_normal((2, N, N), dtype=np.float32)
    registers = np.zeros(sums * lanes, np.float32)
    numbers = np.r_[np.full(lanes, 0.5), np.full(lanes, 0.25)].astype(np.float32)
    ours(a, b, c)
    _must_be(c, a @ b)
    return {
        "peak": Contender(2 * sums * lanes * STEPS, lambda: limit(registers, numbers), "peak"),
        "vtakit": Contender(2 * N**3, lambda: ours(a, b, c), "peak"),
        "NumPy's BLAS": Contender(2 * N**3, lambda: np.matmul(a, b, out=c), "peak"),
    }, f"tile {rows} x {columns}; lowered in {(lowered - begin) * 1e3:.0f} ms, compiled in {(built - lowered) * 1e3:.0f} ms"


def of_kernels(kind: str) -> tuple[dict[str, Contender], str]:
    """Products by a micro-kernel; and what to say of them."""
    host = Target.host()
    targets = {"": host}
    if micro_kernels.tile(host, _name(kind)) != micro_kernels.tile(host):
        targets[" without AMX"] = Target(host.triple, host.cpu, (*host.features, "-amx-tile"))
    found, said = {}, []
    for suffix, target in targets.items():
        rows, columns = micro_kernels.tile(target, _name(kind))
        said.append(f"tile {rows} x {columns}{suffix}")
        limit, operations = kernel_alone(kind, target)
        found[f"peak{suffix}"] = Contender(operations, limit, f"peak{suffix}")
        found[f"vtakit{suffix}"] = Contender(2 * N**3, by_kernel(kind, target), f"peak{suffix}")
    if kind != "bfloat16" and importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        found["onnxruntime"] = Contender(2 * N**3, by_onnxruntime(kind), "peak")
    return found, ", ".join(said)


def _name(kind: str) -> str:
    return KERNELS[kind][0].__name__


def operands(kind: str) -> tuple[Array, Array, Array]:
    """Matrices of small numbers, and their product."""
    rng = np.random.default_rng(0)
    of_b = KERNELS[kind][1]
    a, b = rng.integers(0 if kind == "uint8" else -20, 20, (N, N)), rng.integers(-20, 20, (N, N))
    types = [numpy_dtype(dtype(name)) for name in (kind, of_b)]
    return a.astype(types[0]), b.astype(types[1]), a.astype(np.float64) @ b


def kernel_alone(kind: str, target: Target) -> tuple[Callable[[], object], int]:
    """The micro-kernel on one row of each operand, which stays in the first-level cache; and how many operations a run has."""
    _, of_b, of_c, group = KERNELS[kind]
    (m, n), steps, times = micro_kernels.tile(target, _name(kind)), 4096, 5
    sizes = steps * group, n * group, m * n
    a, b, c = (Buffer(name, (size,), dtype(each)) for name, size, each in zip("abc", sizes, (kind, of_b, of_c), strict=True))
    pointers = a.access_ptr("r"), b.access_ptr("r"), c.access_ptr("rw")
    call = st.Evaluate(effect(_name(kind), *pointers, m, n, steps, 0, 0, n, 1))
    run = build(st.Function("peak", (a, b, c), st.For(ir.Var("i"), wrap(times), call)), target)
    arrays = [empty((size,), numpy_dtype(dtype(each))) for size, each in zip(sizes, (kind, of_b, of_c), strict=True)]
    for array in arrays:
        array[...] = 0
    return (lambda: run(*arrays)), 2 * m * n * steps * group * times


def by_kernel(kind: str, target: Target) -> Callable[[], object]:
    """The product with b packed in panels of a tile's columns, as weights are; rows that fill no tile are padding."""
    make, of_b, of_c, group = KERNELS[kind]
    rows, columns = micro_kernels.tile(target, _name(kind))
    m = -(-N // rows) * rows
    a_in = te.placeholder((m, N), kind, name="A")
    b_in = te.placeholder((N // columns, N // group, columns, group), of_b, name="B")
    k = te.reduce_axis((0, N), "k")
    product = te.compute((m, N), lambda y, x: te.sum(
        a_in[y, k].astype(of_c) * b_in[x // columns, k // group, x % columns, k % group].astype(of_c), axis=k), name="C")
    s = te.create_schedule(product)
    yi = s[product].tile("y", "x", "k", rows, columns, N)[3]
    s[product].tensorize(yi, make(N, target))
    ours: Function = build(lower_late(lower(s, [a_in, b_in, product], name="matmul")), target)

    a, b, wanted = operands(kind)
    padded, packed, c = empty((m, N), a.dtype), empty((N // columns, N // group, columns, group), b.dtype), empty((m, N), of_c)
    padded[:N], padded[N:] = a, 0
    packed[...] = b.reshape(N // group, group, N // columns, columns).transpose(2, 0, 3, 1)
    ours(padded, packed, c)
    _must_be(c[:N], wanted)
    return lambda: ours(padded, packed, c)


def by_onnxruntime(kind: str) -> Callable[[], object]:
    """MatMulInteger with a constant b, on one thread."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    a, b, wanted = operands(kind)
    of_a = TensorProto.UINT8 if kind == "uint8" else TensorProto.INT8
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["c"])], "matmul", [helper.make_tensor_value_info("a", of_a, (N, N))],
        [helper.make_tensor_value_info("c", TensorProto.INT32, (N, N))], [numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    _must_be(session.run(None, {"a": a})[0], wanted)
    return lambda: session.run(None, {"a": a})


def _must_be(found: Array, wanted: Array) -> None:
    if not np.allclose(found, wanted, atol=1e-3):
        sys.exit("the result differs from NumPy's")


def main() -> int:
    parser = argparse.ArgumentParser(description=f"{N} x {N} matmul on one core")
    parser.add_argument("--dtype", choices=("float32", *KERNELS), default="float32", help="of the left operand (default float32)")
    parser.add_argument("--repeat", type=int, default=40, metavar="N", help="measurements of each (default 40)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    runs, said = of_floats() if given.dtype == "float32" else of_kernels(given.dtype)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeat):
        for name, one in runs.items():
            rates[name].append(one.operations / seconds(one.run))
    print(f"{N} x {N} {given.dtype} matmul, one thread, {Target.host()}; {said}")
    median = {name: statistics.median(found) for name, found in rates.items()}
    best = {name: max(found) for name, found in rates.items()}
    print(f"  {'':19}{'median GOP/s':>16}{'of peak':>9}{'best GOP/s':>16}{'of peak':>9}")
    for name, one in runs.items():
        shares = [found[name] / found[one.peak] for found in (median, best)]
        print(f"  {name:19}{median[name] / 1e9:16.1f}{shares[0]:9.1%}{best[name] / 1e9:16.1f}{shares[1]:9.1%}")
    if given.json:
        figures = {"dtype": given.dtype, "said": said, "median": median, "best": best}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
