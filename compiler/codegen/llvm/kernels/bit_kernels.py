"""Bit-serial dot products and the packing of bit planes as tensor intrinsics, for `Stage.tensorize`.

`bit_encodings` says what words, planes, digits and encodings are. A record holds for every target: `bit_dots` makes instructions
of its call. `MEANING` gives the interpreter what the calls do.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels.bit_encodings import MOST_BITS, WORD_BITS, WORDS
from vtakit.compiler.codegen.llvm.kernels.micro_kernels import run_of, spread
from vtakit.compiler.intrin.meaning import updating
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import select
from vtakit.compiler.ir.stmt import Evaluate, Stmt, Store, seq
from vtakit.compiler.ir.values import const
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.math import popcount
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


def product(encoding: str, x: Expr, words: Callable[[int], Expr], shift: Expr, last: Expr) -> Expr:
    """Return what a word of data adds to a sum, as int32.

    words : of the digit     shift : place of the plane plus place of the digit     last : whether this is the last digit
    """
    if encoding in ("unipolar", "signed"):
        matched = x & words(0)
    else:
        matched = x ^ words(0)
        if encoding == "ternary":
            matched = matched & words(1)
    count: Expr = popcount(matched).astype("int32") << shift
    return select(last, -count, count) if encoding == "signed" else count


def bit_dot(encoding: str, planes: int, digits: int, filters: int, steps: int) -> TensorIntrin:
    """``c[j] += sum over p < steps, i < planes, d < digits of product(a[p, i], b[p, d, j])``.

    a  uint32  [steps, planes]
    b  uint32  [steps, digits, filters]    for each word of a digit; steps and digits are any number of elements apart
    c  int32   [filters]

    Raises CodegenError for an unknown encoding, sizes below 1, and more than 8 planes or digits.
    """
    if encoding not in WORDS:
        raise CodegenError(f"bit_dot of {encoding!r} weights: the encodings are {', '.join(WORDS)}")
    if min(planes, digits, filters, steps) < 1 or max(planes, digits) > MOST_BITS:
        raise CodegenError(f"bit_dot of {planes!r} planes, {digits!r} digits, {filters!r} filters and {steps!r} steps: give at "
                           f"least 1 of each, and at most {MOST_BITS} planes and digits")
    a = placeholder((steps, planes), "uint32", name="a")
    words = [placeholder((steps, digits, filters), "uint32", name=f"b{word}") for word in range(WORDS[encoding])]
    p, i, d = (reduce_axis((0, extent), name) for extent, name in ((steps, "p"), (planes, "i"), (digits, "d")))

    def term(j: Expr) -> Expr:
        found: Expr = sum_of(product(encoding, a[p, i], lambda word: words[word][p, d, j], i.var + d.var, d.var == digits - 1),
                             axis=[p, i, d])
        return found
    c = compute((filters,), term, name="c")
    step, digit = var("step"), var("digit")
    strides: dict[Tensor, list[Any]] = {a: [planes, 1], **{b: [step, digit, 1] for b in words}, c: [1]}
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=apart, data_alignment=0)
             for tensor, apart in strides.items()}

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        update = Evaluate(hardware_intrin(
            "dot_bits", encoding, *(source.access_ptr("r") for source in ins), outs[0].access_ptr("rw"), filters, steps, planes,
            digits, step, digit))
        reset = Store(outs[0], (run_of(filters),), spread(const(0, INT32), filters))
        return seq(reset, update), reset, update
    return decl_tensor_intrin(c.op, code, f"dot_bits_{encoding}_{planes}x{digits}_{filters}x{steps}", binds)


def bit_pack(channels: int, planes: int, zero: int) -> TensorIntrin:
    """``w[i] = sum over t < channels of bit i of (x[t] - zero) << t`` for i < planes.

    x  uint8   [channels]    w  uint32  [planes]

    Raises CodegenError for less than one channel or plane, more than 32 channels or 8 planes, and a `zero` beyond a byte.
    """
    if not (1 <= channels <= WORD_BITS and 1 <= planes <= MOST_BITS and 0 <= zero <= 255):
        raise CodegenError(f"bit_pack of {channels!r} channels in {planes!r} planes, less {zero!r}: give 1 to {WORD_BITS} "
                           f"channels in 1 to {MOST_BITS} planes, less 0 to 255")
    x, t = placeholder((channels,), "uint8", name="x"), reduce_axis((0, channels), "t")
    w = compute((planes,), lambda i: sum_of(bit_of(x[t], i, t, zero), axis=t), name="w")
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[1], data_alignment=0) for tensor in (x, w)}

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return Evaluate(hardware_intrin(
            "pack_bits", ins[0].access_ptr("r"), outs[0].access_ptr("w"), channels, planes, zero))
    return decl_tensor_intrin(w.op, code, f"pack_bits_{channels}x{planes}_{zero}", binds)


def bit_of(x: Expr, plane: Any, place: Any, zero: int) -> Expr:
    """Return bit `plane` of ``x - zero`` at a place of a word."""
    found: Expr = ((x.astype("int32") - zero) >> plane & 1).astype("uint32") << place.astype("uint32")
    return found


# What the calls mean.


@cache
def _dot(encoding: str, planes: int, digits: int, filters: int, steps: int) -> Callable[..., int]:
    return updating(bit_dot(encoding, planes, digits, filters, steps))


def _dot_bits(encoding: str, a: Any, *args: Any) -> int:
    *words, c, filters, steps, planes, digits, step, digit = args
    places = (np.arange(steps)[:, None, None] * step + np.arange(digits)[:, None] * digit) + np.arange(filters)
    data = np.arange(steps * planes).reshape(steps, planes)
    return _dot(encoding, planes, digits, filters, steps)([a, *words, c], (data, *[places] * len(words), np.arange(filters)))


def _pack_bits(x: Any, w: Any, channels: int, planes: int, zero: int) -> int:
    for plane in range(planes):
        w[plane] = sum(((int(x[t]) - zero) >> plane & 1) << t for t in range(channels))
    return 0


MEANING: Mapping[str, Callable[..., Any]] = {"dot_bits": _dot_bits, "pack_bits": _pack_bits}
