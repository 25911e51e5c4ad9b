"""Programs made by hand for the tests of the verifier."""

from collections.abc import Sequence

import pytest

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import TRUE, const, wrap
from vtakit.compiler.lower import Limits, VerifyError, verify
from vtakit.compiler.lower.blocks import with_regions

F32, I32 = dtype("float32"), dtype("int32")
DATA, REDUCE = IterKind.DATA, IterKind.REDUCE


def buffer(name: str, *shape: int | Expr, scope: str = "global") -> Buffer:
    return Buffer(name, shape, I32, scope)


def loop(name: str, extent: int | Expr, body, kind: LoopKind = LoopKind.SERIAL, thread: str = "") -> st.For:
    """A loop; `body` is made from its variable."""
    var = Var(name)
    return st.For(var, wrap(extent), body(var), kind, thread)


def block(
    name: str, iters: Sequence[tuple[int | Expr, IterKind, Expr]], body, where=lambda *v: TRUE, reads=None, writes=None,
) -> st.Block:
    """A block over iterators (extent, kind, binding); `body` is made from their variables; what it touches is declared."""
    vars_ = [Var(f"v{at}") for at in range(len(iters))]
    made = [
        st.BlockIter(var, Range(const(0, I32), wrap(extent)), kind, wrap(binding))
        for var, (extent, kind, binding) in zip(vars_, iters, strict=True)
    ]
    inner = body(*vars_)
    found = with_regions(name, made, where(*vars_), inner)
    parts = {key: value for key, value in (("reads", reads), ("writes", writes)) if value is not None}
    return found.replace(**parts) if parts else found


def store(to: Buffer, indices, value) -> st.Store:
    return st.Store(to, tuple(map(wrap, indices)), wrap(value))


def function(*params, body) -> st.Function:
    return st.Function("main", params, body)


def broken(program: st.Function, limits: Limits | None = None) -> str:
    with pytest.raises(VerifyError) as error:
        verify(program, limits)
    return f"{error.value.rule}: {error.value.found}; {error.value.cure}"


A, C = buffer("A", 8), buffer("C", 8)


def copy_over(n: int = 8, kind: LoopKind = LoopKind.SERIAL, thread: str = "") -> st.Function:
    return function(A, C, body=loop(
        "i", n, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], A[v] + 1)), kind, thread,
    ))


SIZE, OTHER = Var("m", size=True), Var("l", size=True)
ROWS, GIVEN = buffer("R", SIZE), buffer("G", OTHER)
