"""Products in tile registers as tensor intrinsics, for `Stage.tensorize`: clear sums, add products to them, store them.

The sums of some runs of neighbouring pixels are a stage in the scope `held_tiles.SCOPE`. `product` computes a run, within loops
over the reduction, and `store` copies it to memory, as a GPU's matrix fragments are filled, multiplied and stored. Where the
system refuses tile registers, each call does the same by vectors. `MEANING` gives the interpreter what the calls do: of products
the record's own tensor expression.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.kernels.dot_kernels import KINDS, byte_of, weights_at
from vtakit.compiler.codegen.llvm.kernels.held_tiles import SCOPE, fits
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.intrin.meaning import updating
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import Evaluate, Stmt, seq
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.reduce import sum as sum_of

_CALLS = {"uint8": "tiles_u8s8s32", "bfloat16": "tiles_bf16", "uint32": "tiles_words"}


class Group(NamedTuple):
    """Sums that are in tile registers together: `runs` of `pixels` neighbours by `filters`, and the steps of a product."""

    runs: int
    pixels: int
    filters: int
    steps: int


def takes(group: Group) -> bool:
    """Return whether tile registers hold a group's sums beside the operands of a product."""
    return fits(group.runs, group.pixels, group.filters) and 1 <= group.steps <= amx.ROWS


def product(kind: str, group: Group, stride: int = 1) -> TensorIntrin:
    """``c[x, j] += a[x * stride, r] * b[r // g, j, r % g]`` over the channels r of some steps, for a run; g is 4 (bfloat16: 2).

    a  uint8 or bfloat16  [.., steps * g]            or uint32 [..], whose bytes are those of a[x * stride + r // 4]
    b  int8 or bfloat16   [steps, filters, g]
    c  int32 or float32   [pixels, filters]          in the scope `SCOPE`

    Raises CodegenError for another type, and for what tile registers do not hold.
    """
    if kind not in KINDS:
        raise CodegenError(f"a product of {kind}: it takes {', '.join(KINDS)}")
    if not takes(group):
        raise CodegenError(f"{group}: tile registers do not hold that")
    found, words = KINDS[kind], kind == "uint32"
    reach = (group.pixels - 1) * stride + 1
    a = placeholder((reach + group.steps - 1,) if words else (reach, group.steps * found.together), kind, name="a")
    b = placeholder((group.steps, group.filters, found.together), found.b, name="b")
    r = reduce_axis((0, group.steps * found.together), "r")

    def element(x: Expr, r: IterVar) -> Expr:
        return byte_of(a[x * stride + r // found.together], r) if words else a[x * stride, r].astype(found.c)
    c = compute((group.pixels, group.filters), lambda x, j: sum_of(
        element(x, r) * b[r // found.together, j, r % found.together].astype(found.c), axis=r), name="c")
    lda, ldb = var("lda"), var("ldb")
    strides: dict[Any, list[Any]] = {a: [1] if words else [lda, 1], b: [ldb, found.together, 1]}
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=apart, data_alignment=0)
             for tensor, apart in strides.items()}
    binds[c] = decl_buffer(c.shape, c.dtype, "c", scope=SCOPE, data_alignment=0)
    along = stride if words else lda * stride

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        sums = outs[0].access_ptr("rw")
        reset = Evaluate(hardware_intrin("tiles_zero", sums, *group))
        update = Evaluate(hardware_intrin(
            _CALLS[kind], *(source.access_ptr("r") for source in ins), sums, *group, along, ldb))
        return seq(reset, update), reset, update
    sizes = "x".join(map(str, (*group, stride)))
    return decl_tensor_intrin(c.op, code, f"{_CALLS[kind]}_{sizes}", binds)


def store(sums: str, group: Group) -> TensorIntrin:
    """``d[x, j] = c[x, j]`` for a run: c in the scope `SCOPE`, d in memory whose rows are any number of elements apart.

    sums : the type of both, "int32" or "float32"
    """
    c = placeholder((group.pixels, group.filters), sums, name="c")
    d = compute((group.pixels, group.filters), lambda x, j: c[x, j], name="d")
    ldd = var("ldd")
    binds = {c: decl_buffer(c.shape, c.dtype, "c", scope=SCOPE, data_alignment=0),
             d: decl_buffer(d.shape, d.dtype, "d", strides=[ldd, 1], data_alignment=0)}

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return Evaluate(hardware_intrin("tiles_store", ins[0].access_ptr("r"), outs[0].access_ptr("w"), *group, ldd))
    return decl_tensor_intrin(d.op, code, f"tiles_store_{'x'.join(map(str, group))}", binds)


def has_tiles(target: Target, kind: str) -> bool:
    """Return whether the target has tile registers for a data type."""
    return amx.has(target, "gemm_bf16" if kind == "bfloat16" else "gemm_u8s8s32")


# What the calls mean.


@cache
def _product_update(kind: str, group: Group, stride: int) -> Callable[..., int]:
    return updating(product(kind, group, stride))


def _product_meaning(kind: str) -> Callable[..., int]:
    def run(a: Any, b: Any, c: Any, *numbers: int) -> int:
        group, (lda, ldb) = Group(*numbers[:4]), numbers[4:]
        rows, together = np.arange(group.pixels)[:, None], KINDS[kind].together
        weights = weights_at(group.steps, group.filters, together, ldb)
        if kind == "uint32":
            data = np.arange((group.pixels - 1) * lda + group.steps)
        else:
            data = rows * lda + np.arange(group.steps * together)
        places = data, weights, rows * group.filters + np.arange(group.filters)
        return _product_update(kind, group, lda if kind == "uint32" else 1)([a, b, c], places)
    return run


def _zero(c: Any, *numbers: int) -> int:
    group = Group(*numbers)
    for i in range(group.pixels * group.filters):
        c[i] = 0
    return 0


def _store(c: Any, d: Any, *numbers: int) -> int:
    group, ldd = Group(*numbers[:4]), numbers[4]
    for x, j in np.ndindex(group.pixels, group.filters):
        d[x * ldd + j] = c[x * group.filters + j]
    return 0


MEANING: Mapping[str, Callable[..., Any]] = {
    "tiles_zero": _zero, "tiles_store": _store, **{call: _product_meaning(kind) for kind, call in _CALLS.items()},
}
