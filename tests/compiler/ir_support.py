"""Short ways to write loop IR in tests."""

import numpy as np

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import cast, wrap
from vtakit.compiler.ir.walk import expressions, statements, subexpressions
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.lower.interpreter.numbers import numpy_type

SYNC = st.Evaluate(effect("sync", "shared"))


def buffer(name: str, *shape: Expr | int, kind: str = "float32", scope: str = "global") -> Buffer:
    return Buffer(name, shape, dtype(kind), scope)


def loop(var: Var, extent: Expr | int, *body: Stmt, kind: LoopKind = LoopKind.SERIAL, **notes: int) -> st.For:
    return st.For(var, wrap(extent), st.seq(*body), kind, "", notes)


def vectorized(var: Var, extent: Expr | int, *body: Stmt) -> st.For:
    return loop(var, extent, *body, kind=LoopKind.VECTORIZED)


def threads(tag: str, var: Var, extent: int, *body: Stmt) -> st.For:
    return st.For(var, IntImm(extent), st.seq(*body), LoopKind.THREAD, tag)


def store(to: Buffer, index: Expr | int | tuple[Expr | int, ...], value: Expr | float) -> st.Store:
    indices = index if isinstance(index, tuple) else (index,)
    return st.Store(to, tuple(map(wrap, indices)), cast(value, to.dtype))


def allocate(of: Buffer, *body: Stmt, **notes: int) -> st.Allocate:
    return st.Allocate(of, st.seq(*body), notes)


def function(params: list[Buffer | Var], *body: Stmt, **notes: int) -> Function:
    return Function("main", tuple(params), st.seq(*body), notes)


def run(f: Function, *inputs: np.ndarray, **sizes: int) -> np.ndarray:
    """The last parameter's array after a run on the inputs; an extent that is a variable is `sizes[its name]`."""
    out = f.params[-1]
    assert isinstance(out, Buffer)
    shape = [extent.value if isinstance(extent, IntImm) else sizes[extent.name] for extent in out.shape]
    result = np.zeros(shape, numpy_type(out.dtype))
    interpret(f, [*(array.copy() for array in inputs), result])
    return result


def of_kind(f: Function | Stmt, kind: type) -> list:
    """All statements of a kind, or all expressions of it."""
    body = f.body if isinstance(f, Function) else f
    if issubclass(kind, Stmt):
        return [s for s in statements(body) if isinstance(s, kind)]
    return [x for e in expressions(body) for x in subexpressions(e) if isinstance(x, kind)]


def calls(f: Function | Stmt, name: str) -> list[Call]:
    return [call for call in of_kind(f, Call) if call.name == name]


def numbers(*shape: int, kind: str = "float32", seed: int = 0) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(0, 9, shape).astype(numpy_type(dtype(kind)))
