"""Cases of `gpu_suite.py`: single functions, first whether they are right, then how fast."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gpu_bench import Suite
from gpu_schedules import elements, gemm, naive_gemm, row_sums, softmax, vector_add

import vtakit
from vtakit import te
from vtakit.base.errors import VtakitError

erf = np.vectorize(math.erf)
TESTS = Path(__file__).resolve().parents[1] / "tests" / "compiler"


def _applied(function: Any, a: Any, positive: bool, i: Any) -> Any:
    return function(te.abs(a[i]) if positive else a[i])


def correctness(suite: Suite) -> None:
    build, target = vtakit.build, suite.target

    def symbolic() -> str:
        s, args = vector_add(te.var("n"))
        f = build(s, args, target, "vadd")
        for n in (0, 1, 255, 256, 257, 1_000_003):
            x, y = suite.floats(n), suite.floats(n)
            z = np.full(n, 7, "float32")
            f(x, y, z)
            np.testing.assert_array_equal(z, x + y)
        return "sizes 0 to 1,000,003, NumPy arrays"
    suite.case("vector add of a symbolic size", symbolic)

    def streams() -> str:
        s, args = vector_add(1 << 20, lanes=4)
        f = build(s, args, target, "vadd4")
        x, y = suite.floats(1 << 20), suite.floats(1 << 20)
        dx, dy, dz = (vtakit.device_array(array) for array in (x, y, np.zeros_like(x)))
        f(dx, dy, dz)
        np.testing.assert_array_equal(dz.numpy(), x + y)
        f.bound(dx, dz, dy)()
        np.testing.assert_array_equal(dy.numpy(), x + (x + y))
        graph = f.recorded(dx, dy, dz, times=2)
        graph.launch()
        np.testing.assert_array_equal(np.asarray(dz), x + (x + (x + y)))
        return f"device arrays, bound calls, a CUDA graph; {f.time(dx, dy, dz)}"
    suite.case("device arrays", streams)

    def torch_tensors() -> str:
        if suite.torch is None:
            return "no torch"
        s, args = vector_add(1 << 16)
        f = build(s, args, target, "vaddt")
        x, y = suite.tensor(suite.floats(1 << 16)), suite.tensor(suite.floats(1 << 16))
        z = suite.torch.zeros_like(x)
        f(x, y, z)
        assert suite.torch.equal(z, x + y)
        stream = suite.torch.cuda.Stream()
        with suite.torch.cuda.stream(stream):
            f(x, z, y, stream=stream)
        suite.torch.cuda.synchronize()
        assert suite.torch.equal(y, x + z)
        back = suite.torch.from_dlpack(vtakit.device_array(np.arange(8, dtype="float32")))
        assert back.is_cuda
        assert back.tolist() == [*range(8)]
        half = suite.torch.arange(8, device="cuda", dtype=suite.torch.bfloat16)
        assert vtakit.device_array(half).numpy().astype("float32").tolist() == [*range(8)]
        del back
        return "torch tensors in without a copy, on a stream of torch, DLPack both ways, bfloat16"
    suite.case("torch tensors", torch_tensors)

    def refusals() -> str:
        s, args = vector_add(64)
        f = build(s, args, target, "vadd64")
        good = np.zeros(64, "float32")
        said = []
        for arrays in ((good, good.astype("float64"), good.copy()), (good, good[:63], good.copy()),
                       (vtakit.device_array(np.zeros(65, "float32")), good, good.copy())):
            try:
                f(*arrays)
            except VtakitError as error:
                said.append(str(error))
        assert len(said) == 3, said
        return said[-1]
    suite.case("wrong arguments", refusals)

    def functions() -> str:
        names: dict[str, Callable[[Any], Any]] = {
            "exp": np.exp, "log": lambda x: np.log(np.abs(x)), "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
            "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sqrt": lambda x: np.sqrt(np.abs(x)), "exp2": np.exp2, "erf": erf,
            "atan": np.arctan, "log1p": lambda x: np.log1p(np.abs(x)), "expm1": np.expm1,
        }
        positive = ("log", "sqrt", "log1p")
        x = np.concatenate([suite.floats(1 << 16), 20 * suite.floats(1 << 16)]).astype("float32")
        worst = {}
        for name, truth in names.items():
            a = te.placeholder(x.shape, name="A")
            function = getattr(te, name, None)
            if function is None:
                continue
            b = te.compute(x.shape, partial(_applied, function, a, name in positive), name="B")
            s = te.create_schedule(b.op)
            elements(s, b)
            found = np.empty_like(x)
            build(s, [a, b], target, f"f_{name}")(x, found)
            with np.errstate(all="ignore"):
                want = truth(x.astype("float64"))
                rounded = want.astype("float32")
                step = np.abs(np.spacing(rounded)).astype("float64")
                wrong = np.where(np.isfinite(rounded), np.abs(found - want) / step, 0)
            worst[name] = float(np.nanmax(wrong))
            assert worst[name] < 4, (name, worst[name], x[int(np.nanargmax(wrong))])
        return "largest error in units of the last place: " + ", ".join(f"{k} {v:.2f}" for k, v in worst.items())
    suite.case("math functions", functions)

    def fuzz() -> str:
        sys.path += [str(TESTS), str(TESTS.parent)]
        run_seeds = import_module("gpu_fuzz").run_seeds
        return str(run_seeds(suite.seed, suite.seeds, target, min(100.0, suite.end - time.monotonic())))
    suite.case("random schedules", fuzz)


def kernels(suite: Suite) -> None:
    build, target, torch = vtakit.build, suite.target, suite.torch

    def gemm_case(name: str, n: int, kind: str, into: str, make: Callable[[], Any]) -> None:
        def run() -> str:
            s, args = make()
            f = build(s, args, target, f"gemm{n}")
            if suite.dry:
                return str(dict(f.resources))
            if kind.startswith("int"):
                x, y = (suite.rng.integers(-100, 100, (n, n)).astype(kind) for _ in range(2))
            else:
                number = np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)
                x, y = suite.floats(n, n, kind=number), suite.floats(n, n, kind=number)
            dx, dy, dz = (vtakit.device_array(array) for array in (x, y, np.zeros((n, n), into)))
            f(dx, dy, dz)
            found = dz.numpy().astype("float64")
            rows = suite.rng.integers(0, n, 16)
            want = x[rows].astype("float64") @ y.astype("float64")
            error = float(np.abs(found[rows] - want).max() / np.abs(want).max())
            assert error < (1e-5 if into == "float32" else 1e-12), error
            peer = None
            if torch is not None:
                peer = partial(torch._int_mm if kind == "int8" else torch.matmul, suite.tensor(x), suite.tensor(y))
            return suite.measured(name, f, [dx, dy, dz], peer, 2.0 * n**3, "FLOP", error)
        suite.case(name, run)
    gemm_case("gemm float32 1024 naive", 1024, "float32", "float32", lambda: naive_gemm(1024))
    for n, tile, deep, pad, double in (
        (1024, 64, 16, 0, False), (4096, 64, 16, 0, False), (4096, 128, 8, 0, False), (4096, 128, 16, 0, False),
        (4096, 128, 8, 0, True),
    ):
        gemm_case(f"gemm float32 {n} shared {tile}x{tile}x{deep}{' double' if double else ''}",
            n, "float32", "float32",
            partial(gemm, n, "float32", "float32", tile, deep, 16, pad=pad, double=double))
    gemm_case("gemm bfloat16 2048 shared, float32 multiply-adds",
        2048, "bfloat16", "float32", lambda: gemm(2048, "bfloat16", "float32", 128, 16, 16, vector=8))
    gemm_case("gemm float16 2048 shared, float32 multiply-adds",
        2048, "float16", "float32", lambda: gemm(2048, "float16", "float32", 128, 16, 16, vector=8))
    gemm_case("gemm int8 2048 shared, int32 multiply-adds",
        2048, "int8", "int32", lambda: gemm(2048, "int8", "int32", 128, 16, 16, vector=8))

    def moved(name: str, make: Callable[[], Any], inputs: Sequence[Any], out: Any, truth: Callable[..., Any], peer: Any) -> None:
        def run() -> str:
            s, args = make()
            f = build(s, args, target, "kernel")
            if suite.dry:
                return str(dict(f.resources))
            arrays = [vtakit.device_array(array) for array in (*inputs, np.zeros_like(out))]
            f(*arrays)
            found, want = arrays[-1].numpy().astype("float64"), truth(*[array.astype("float64") for array in inputs])
            error = float(np.abs(found - want).max() / np.abs(want).max())
            assert error < (2e-2 if out.dtype.itemsize < 4 else 1e-5), error
            tensors = [suite.tensor(array) for array in inputs]
            call = (lambda: peer(*tensors)) if torch is not None and peer else None
            work = sum(array.nbytes for array in (*inputs, out))
            return suite.measured(name, f, arrays, call, work, "B", error)
        suite.case(name, run)
    n = 1 << 26
    x, y = suite.floats(n), suite.floats(n)
    for lanes in (1, 4):
        moved(f"add float32 2**26, {lanes} a thread", partial(vector_add, n, lanes=lanes), [x, y], x,
              lambda a, b: a + b, lambda a, b: a + b)
    bx, by = (array.astype(ml_dtypes.bfloat16) for array in (x, y))
    moved("add bfloat16 2**26, 8 a thread", lambda: vector_add(n, "bfloat16", lanes=8), [bx, by], bx, lambda a, b: a + b,
          lambda a, b: a + b)
    rows = x.reshape(8192, 8192)
    for threads in (32, 256, 1024):
        moved(f"row sums float32 8192x8192, {threads} threads", partial(row_sums, 8192, 8192, threads), [rows],
              np.zeros(8192, "float32"), lambda a: a.sum(1), lambda a: a.sum(1))
    wide = suite.floats(8192, 4096)

    def plain(a: Any) -> Any:
        e = np.exp(a - a.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    moved("softmax float32 8192x4096", lambda: softmax(8192, 4096), [wide], wide, plain, lambda a: torch.softmax(a, 1))
