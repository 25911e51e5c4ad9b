"""Building low-form functions in tests."""

from typing import Any

import numpy as np

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32, dtype
from vtakit.compiler.ir.values import const, wrap
from vtakit.runtime.cpu.function import Function, build
from vtakit.runtime.cpu.packed import numpy_dtype

X86 = "x86_64-unknown-linux-gnu"
LEVELS = {  # of x86-64, as far as they differ in what is made of products
    "plain": Target(X86, "x86-64"),
    "avx2": Target(X86, "x86-64-v3"),
    "avx2-vnni": Target(X86, "x86-64-v3", ("+avxvnni",)),
    "avx512": Target(X86, "x86-64-v4", ("-prefer-256-bit",)),
    "avx512-vnni": Target(X86, "x86-64-v4", ("+avx512vnni", "-prefer-256-bit")),
    "avx512-bf16": Target(X86, "x86-64-v4", ("+avx512bf16", "-prefer-256-bit")),
    "amx": Target(X86, "x86-64-v4", ("+avx512vnni", "+avx512bf16", "+amx-int8", "+amx-bf16", "-prefer-256-bit")),
}
HERE = [name for name, target in LEVELS.items() if Target.host().runs(target)]  # what this machine runs


def buffer(name: str, *shape: ir.Expr | int, kind: str = "float32", **more: Any) -> Buffer:
    return Buffer(name, shape, dtype(kind), **more)


def flat(of: Buffer, size: int) -> Buffer:
    """The same memory with one dimension, as the flatten pass leaves it."""
    found = Buffer(of.name, (size,), of.dtype)
    found.data = of.data
    return found


def ramp(base: ir.Expr | int, lanes: int, stride: int = 1) -> ir.Ramp:
    return ir.Ramp(wrap(base), const(stride, INT32), lanes)


def loop(var: ir.Var, extent: ir.Expr | int, *body: st.Stmt, kind: st.LoopKind = st.LoopKind.SERIAL) -> st.For:
    return st.For(var, wrap(extent), st.seq(*body), kind)


def compiled(
    name: str, params: tuple[Buffer | ir.Var, ...], *body: st.Stmt, target: Target | None = None, **more: Any
) -> Function:
    return build(st.Function(name, params, st.seq(*body)), target, **more)


def elementwise(value: Any, kind: str = "float32", result: str = "", lanes: int = 1, **more: Any) -> Function:
    """``B[i] = value(A[i])`` for all i, `lanes` at a time."""
    n, i = ir.Var("n", size=True), ir.Var("i")
    a, b = buffer("A", n, kind=kind), buffer("B", n, kind=result or kind)
    at: ir.Expr = ramp(i * lanes, lanes) if lanes > 1 else i
    body = st.Store(b, (at,), value(ir.Load(a, (at,))))
    return compiled("elementwise", (a, b), loop(i, n // lanes if lanes > 1 else n, body), **more)


def applied(function: Function, given: "np.ndarray[Any, Any]", kind: str = "") -> "np.ndarray[Any, Any]":
    """What an `elementwise` function makes of an array."""
    found = np.zeros(given.shape, numpy_dtype(dtype(kind)) if kind else given.dtype)
    function(given, found)
    return found
