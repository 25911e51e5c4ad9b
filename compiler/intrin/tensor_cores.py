"""Tensor intrinsics of NVIDIA's tensor cores: their meaning as tensor expressions, their code as calls that lanes make together.

`mma` and `wgmma` are products, `load` copies a box of shared memory to fragments. A stage that they compute is not bound to
threadIdx.x: its lanes make each call together. What follows elementwise is bound to lanes by `bind_lanes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.fragments import FRAGMENTS
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import Evaluate, seq
from vtakit.compiler.ir.values import const
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.reduce import sum as sum_of


@dataclass(frozen=True, slots=True)
class Kind:
    """Types that tensor cores multiply: a times b into c.

    k : of one mma.sync and one wgmma, 32 bytes of a row
    """

    a: str
    c: str
    k: int

    @property
    def bits(self) -> int:
        return 256 // self.k


KINDS = {
    "float16": Kind("float16", "float32", 16), "bfloat16": Kind("bfloat16", "float32", 16),
    "float32": Kind("float32", "float32", 8), "int8": Kind("int8", "int32", 32),
}
WARP = 32  # lanes
M, N = 16, 8  # of mma.sync
WARPGROUP_M = 64  # of wgmma
MOST_N = 256


def _rows(shape: tuple[int, ...], dtype: str, name: str, scope: str) -> Buffer:
    """Return an operand whose rows are any number of elements apart."""
    return decl_buffer(shape, dtype, name, strides=[var(f"{name}_row"), 1], scope=scope, data_alignment=0)


def _product(
    name: str, kind: Kind, sizes: tuple[int, int, int], scopes: tuple[str, str, str], turned: tuple[bool, bool],
) -> TensorIntrin:
    m, n, k = sizes
    a = placeholder((k, m) if turned[0] else (m, k), kind.a, name="a")
    b = placeholder((n, k) if turned[1] else (k, n), kind.a, name="b")
    r = reduce_axis((0, k), name="r")

    def term(i: Expr, j: Expr) -> Expr:
        left, right = a[(r, i) if turned[0] else (i, r)], b[(j, r) if turned[1] else (r, j)]
        if kind.a != kind.c:
            left, right = left.astype(kind.c), right.astype(kind.c)
        found: Expr = sum_of(left * right, axis=r)
        return found
    c = compute((m, n), term, name="c")
    binds = {t: _rows(tuple(int(e) for e in map(_number, t.shape)), str(t.dtype), t.name, scope)
             for t, scope in zip((c, a, b), scopes, strict=True)}
    flags = [int(flag) for flag in (turned if name == "wgmma_tile" else turned[1:])]

    def code(ins: list[Buffer], outs: list[Buffer]) -> Any:
        by = {buffer.name: buffer for buffer in (*ins, *outs)}
        d, x, y = by["c"], by["a"], by["b"]
        update = Evaluate(hardware_intrin(name, f"m{m}n{n}k{k}", d.access_ptr("rw"), x.access_ptr("r"), y.access_ptr("r"),
                                 d.strides[0], x.strides[0], y.strides[0], *flags))
        reset = Evaluate(hardware_intrin("fill_tile", d.access_ptr("w"), m, n, d.strides[0], _zero(kind.c)))
        return seq(reset, update), reset, update
    return decl_tensor_intrin(c.op, code, name=f"{name}.m{m}n{n}k{k}.{kind.a}{'.bt' if turned[1] else ''}", binds=binds)


def _number(e: Any) -> int:
    return int(getattr(e, "value", e))


def _zero(dtype: str) -> Expr:
    return const(0, dtype)


@cache
def mma(dtype: str, *, turned: bool = False) -> TensorIntrin:
    """Return ``c[i, j] += sum over r of a[i, r] * b[r, j]`` of fragments, 16 x 8 sums; `turned`: of ``b[j, r]``.

    dtype : of a and b, one of `KINDS`
    """
    kind = KINDS[dtype]
    return _product("mma_tile", kind, (M, N, kind.k), ("mma.c", "mma.a", "mma.bt" if turned else "mma.b"), (False, turned))


@cache
def wgmma(dtype: str, n: int, *, turned_a: bool = False, turned_b: bool = False) -> TensorIntrin:
    """Return the product of 64 x `n` sums by a warpgroup, a and b in shared memory; `n` is a multiple of 8, at most 256.

    turned_a : rows of a are r; turned_b : rows of b are j. Types of more or less than 16 bits need rows that are i and j.
    """
    kind = KINDS[dtype]
    return _product("wgmma_tile", kind, (WARPGROUP_M, n, kind.k), ("wgmma.c", "shared", "shared"), (turned_a, turned_b))


@cache
def load(scope: str, dtype: str, rows: int, columns: int) -> TensorIntrin:
    """Return the copy of a box of shared memory to fragments of a scope, whole tiles of them: ldmatrix."""
    s = placeholder((rows, columns), dtype, name="s")
    d = compute((rows, columns), lambda i, j: s[i, j], name="d")
    binds = {s: _rows((rows, columns), dtype, "s", "shared"), d: _rows((rows, columns), dtype, "d", scope)}

    def code(ins: list[Buffer], outs: list[Buffer]) -> Any:
        (x,), (y,) = ins, outs
        return hardware_intrin("load_tile", y.access_ptr("w"), x.access_ptr("r"), rows, columns, y.strides[0], x.strides[0])
    return decl_tensor_intrin(d.op, code, name=f"load_tile.{scope}.{dtype}.{rows}x{columns}", binds=binds)


def bind_lanes(stage: Stage, i: IterVar, j: IterVar, scope: str, threads: Sequence[IterVar]) -> tuple[list[IterVar], IterVar]:
    """Bind the loops over a box of fragments' elements so that each lane takes those that it holds.

    i, j    : adjacent loops over rows and columns
    threads : threadIdx.x, of 32 indices; for a warpgroup also threadIdx.y, of its 4 warps
    Returns the loops over tiles and over registers, outermost first, and the loop over a lane's neighbouring columns.
    """
    fragment = FRAGMENTS.get((scope, 32))
    if fragment is None or scope not in ("mma.c", "wgmma.c"):
        raise ExpressionError(f"bind_lanes is for sums, not for fragments of {scope!r}: give 'mma.c' or 'wgmma.c'")
    down, i = stage.split(i, fragment.rows)
    across, j = stage.split(j, fragment.columns)
    warp, i = stage.split(i, 16)
    half, row = stage.split(i, 8)
    quad, pair = stage.split(j, 2)
    stage.reorder(down, across, half, warp, row, quad, pair)
    stage.bind(stage.fuse(row, quad), threads[0])
    if fragment.lanes > WARP:
        stage.bind(warp, threads[1])
    return [down, across, half, *([] if fragment.lanes > WARP else [warp])], pair
