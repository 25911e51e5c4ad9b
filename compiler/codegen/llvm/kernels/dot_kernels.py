"""Dot products of a few channels as tensor intrinsics, for `Stage.tensorize`: steps of a convolution's reduction.

A record holds for every target: `channel_dots` makes instructions of its call by the target's features, and portable code where
there are none. The loops around it belong to a schedule, those of the register tile too. `MEANING` gives the interpreter what the
calls do: the record's own tensor expression.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels.micro_kernels import run_of, spread
from vtakit.compiler.intrin.meaning import updating
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import Evaluate, Stmt, Store, seq
from vtakit.compiler.ir.values import const
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


class Kind(NamedTuple):
    """The types of a call.

    call : its name     b, c : types of weights and of sums     together : channels that a step adds up
    """

    call: str
    b: str
    c: str
    together: int


KINDS = {  # by the type of data; a uint32 holds four bytes, the first in the lowest bits
    "uint8": Kind("dot_u8s8s32", "int8", "int32", 4), "bfloat16": Kind("dot_bf16", "bfloat16", "float32", 2),
    "uint32": Kind("dot_words", "int8", "int32", 4),
}


def dot(kind: str, filters: int, steps: int = 1) -> TensorIntrin:
    """``c[j] += a[r] * b[r // g, j, r % g]`` over the channels r < steps * g; g is 4, or 2 of bfloat16.

    a  uint8 or bfloat16  [steps * g]            or uint32 [steps], whose bytes are those channels
    b  int8 or bfloat16   [steps, filters, g]    steps are any number of elements apart
    c  int32 or float32   [filters]

    Sums of bytes wrap. A product of two bfloat16 is exact in float32, and each sum is rounded to float32; see
    `micro_kernels.gemm_bf16` for the order and for subnormal numbers.
    Raises CodegenError for another type of a, and for less than one filter or step.
    """
    if kind not in KINDS:
        raise CodegenError(f"dot of {kind}: it takes {', '.join(KINDS)}")
    if min(filters, steps) < 1:
        raise CodegenError(f"dot of {filters!r} filters and {steps!r} steps: give at least 1")
    found = KINDS[kind]
    a = placeholder((steps if kind == "uint32" else steps * found.together,), kind, name="a")
    b = placeholder((steps, filters, found.together), found.b, name="b")
    r = reduce_axis((0, steps * found.together), "r")

    def element() -> Expr:
        return byte_of(a[r // found.together], r) if kind == "uint32" else a[r].astype(found.c)
    c = compute((filters,), lambda j: sum_of(
        element() * b[r // found.together, j, r % found.together].astype(found.c), axis=r), name="c")
    ldb = var("ldb")
    strides: dict[Tensor, list[Any]] = {a: [1], b: [ldb, found.together, 1], c: [1]}
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=apart, data_alignment=0)
             for tensor, apart in strides.items()}

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        update = Evaluate(hardware_intrin(
            found.call, *(source.access_ptr("r") for source in ins), outs[0].access_ptr("rw"), filters, steps, ldb))
        reset = Store(outs[0], (run_of(filters),), spread(const(0, found.c), filters))
        return seq(reset, update), reset, update
    return decl_tensor_intrin(c.op, code, f"{found.call}_{filters}x{steps}", binds)


def byte_of(word: Expr, at: IterVar) -> Expr:
    """Byte ``at % 4`` of a uint32, counted from the lowest bits, in int32."""
    found: Expr = (word >> (at.var % 4 * 8).astype("uint32") & 255).astype("int32")
    return found


def weights_at(steps: int, filters: int, together: int, ldb: int) -> "np.ndarray[Any, Any]":
    """Return which element a weight [step, filter, channel of a step] is, of steps that are `ldb` elements apart."""
    return np.arange(steps)[:, None, None] * ldb + np.arange(filters * together).reshape(-1, together)


# What the calls mean.


@cache
def _update(kind: str, filters: int, steps: int) -> Callable[..., int]:
    return updating(dot(kind, filters, steps))


def _meaning(kind: str) -> Callable[..., int]:
    def run(a: Any, b: Any, c: Any, filters: int, steps: int, ldb: int) -> int:
        together = KINDS[kind].together
        channels = np.arange(steps if kind == "uint32" else steps * together)
        places = channels, weights_at(steps, filters, together, ldb), np.arange(filters)
        return _update(kind, filters, steps)([a, b, c], places)
    return run


MEANING: Mapping[str, Callable[..., Any]] = {found.call: _meaning(kind) for kind, found in KINDS.items()}
