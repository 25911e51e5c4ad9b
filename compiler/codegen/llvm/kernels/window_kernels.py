"""The micro-kernels of convolutions as tensor intrinsics, for `Stage.tensorize`, and their meaning for the interpreter.

As those of `micro_kernels`, a record holds for every target. The whole reduction is one call, so that its sums stay in registers.
`MEANING` is what the calls do, in Python.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import Evaluate, Stmt
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

KINDS = {  # of data -> the call, the type of weights, of sums, and how many channels an instruction adds up
    "uint8": ("window_u8s8s32", "int8", "int32", 4), "bfloat16": ("window_bf16", "bfloat16", "float32", 2),
}


def window(
    kind: str, pixels: tuple[int, int], filters: int, reduction: tuple[int, int, int, int], *, strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
) -> TensorIntrin:
    """A convolution of a tile of pixels: the sum over i0, i1, i2, r of ``a[i0, y * sy + i1 * dy, x * sx + i2 * dx, r] * b[…]``.

    a  uint8 or bfloat16  [k0, height, width, channels]                what the windows of the tile read, r being a channel
    b  int8 or bfloat16   [k0, k1, k2, channels / g, filters, g]       read at [i0, i1, i2, r // g, j, r % g]; g is 4 or 2
    c  int32 or float32   [rows, columns, filters]                     at [y, x, j]

    kind       : of a: "uint8" or "bfloat16"
    pixels     : rows and columns of the tile
    reduction  : k0, k1, k2, channels; k0 may count blocks of channels, k1 and k2 are the kernel's size
    Raises CodegenError for a type or a number of channels that it does not take.
    """
    call, b_kind, sums, together = _kind(kind, reduction[3])
    rows, columns = pixels
    *outer, channels = reduction
    reach = [(count - 1) * step + (size - 1) * spread + 1
             for count, step, size, spread in zip(pixels, strides, outer[1:], dilations, strict=True)]
    a = placeholder((outer[0], *reach, channels), kind, name="a")
    b = placeholder((*outer, channels // together, filters, together), b_kind, name="b")
    i0, i1, i2, r = (reduce_axis((0, extent), name) for extent, name in zip(reduction, ("i0", "i1", "i2", "r"), strict=True))
    c = compute((rows, columns, filters), lambda y, x, j: sum_of(
        a[i0, y * strides[0] + i1 * dilations[0], x * strides[1] + i2 * dilations[1], r].astype(sums)
        * b[i0, i1, i2, r // together, j, r % together].astype(sums), axis=[i0, i1, i2, r]), name="c")
    s0, sy, sx = (var(name) for name in ("s0", "sy", "sx"))
    binds = _binds({a: [s0, sy, sx, 1]}, b, c, together)
    steps = [sy * strides[0], sx * strides[1], s0, sy * dilations[0], sx * dilations[1]]
    return _declared(call, c, binds, (rows, columns, filters, *outer, channels // together), steps)


def word_window(
    pixels: tuple[int, int], filters: int, reduction: tuple[int, int], *, strides: tuple[int, int],
) -> TensorIntrin:
    """A convolution of an image of at most four channels, the bytes of a word: the sum over i1, r of a byte of a by one of b.

    a  uint32  [height, width]                  byte r % 4 of [y * sy + i1, x * sx + r // 4] is read, 0 being in the lowest bits
    b  int8    [k1, bytes / 4, filters, 4]      at [i1, r // 4, j, r % 4]
    c  int32   [rows, columns, filters]         at [y, x, j]

    reduction : rows of a window, and bytes that it reads of each
    Raises CodegenError for bytes that are not whole words.
    """
    _kind("uint8", reduction[1])
    rows, columns = pixels
    lines, bytes_ = reduction
    a = placeholder(((rows - 1) * strides[0] + lines, (columns - 1) * strides[1] + bytes_ // 4), "uint32", name="a")
    b = placeholder((lines, bytes_ // 4, filters, 4), "int8", name="b")
    i1, r = reduce_axis((0, lines), "i1"), reduce_axis((0, bytes_), "r")
    c = compute((rows, columns, filters), lambda y, x, j: sum_of(
        byte_of(a[y * strides[0] + i1, x * strides[1] + r // 4], r) * b[i1, r // 4, j, r % 4].astype("int32"), axis=[i1, r]),
        name="c")
    sy = var("sy")
    counts = (rows, columns, filters, 1, lines, 1, bytes_ // 4)
    steps = [sy * (4 * strides[0]), 4 * strides[1], 0, sy * 4, 0]
    return _declared("window_words", c, _binds({a: [sy, 1]}, b, c, 4), counts, steps)


def byte_of(word: Expr, at: IterVar) -> Expr:
    """Byte ``at % 4`` of a uint32, counted from the lowest bits, in int32."""
    found: Expr = (word >> (at.var % 4 * 8).astype("uint32") & 255).astype("int32")
    return found


def _kind(kind: str, channels: int) -> tuple[str, str, str, int]:
    if kind not in KINDS:
        raise CodegenError(f"a window of {kind}: there are those of {' and '.join(KINDS)}")
    found = KINDS[kind]
    if channels % found[3]:
        raise CodegenError(f"{found[0]} of {channels} channels: it takes {found[3]} at a time, so give a multiple of that")
    return found


def _binds(a: Mapping[Tensor, list[Any]], b: Tensor, c: Tensor, together: int) -> dict[Tensor, Buffer]:
    apart = {**a, b: [*[var(f"b{at}") for at in range(b.ndim - 2)], together, 1], c: [var("c0"), var("c1"), 1]}
    return {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=strides, data_alignment=0)
            for tensor, strides in apart.items()}


def _declared(call: str, c: Tensor, binds: dict[Tensor, Buffer], counts: tuple[int, ...], steps: list[Any]) -> TensorIntrin:
    """The record: `steps` are how far a's elements lie apart along y, x, i0, i1 and i2."""
    *_, b, out = binds.values()
    of_b = [*b.strides[:-2]]
    along = [0] * (4 - len(of_b)) + of_b  # i0, i1, i2, p
    if len(of_b) == 2:  # of a row: i1 and p
        along = [0, of_b[0], 0, of_b[1]]

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        pointers = *(source.access_ptr("r") for source in ins), outs[0].access_ptr("w")
        return Evaluate(hardware_intrin(call, *pointers, *counts, *steps, *along, *out.strides[:2]))
    name = f"{call}_{'x'.join(map(str, counts))}"
    return decl_tensor_intrin(c.op, code, name, binds)


def _window(a: Any, b: Any, c: Any, *numbers: int, together: int, zero: Any) -> int:
    rows, columns, n, k0, k1, k2, k = numbers[:7]
    ly, lx, a0, a1, a2, b0, b1, b2, ldb, cy, cx = numbers[7:]
    for y, x, j in np.ndindex(rows, columns, n):
        found = zero
        for i0, i1, i2, p, q in np.ndindex(k0, k1, k2, k, together):
            left = a[y * ly + x * lx + i0 * a0 + i1 * a1 + i2 * a2 + together * p + q]
            right = b[i0 * b0 + i1 * b1 + i2 * b2 + p * ldb + together * j + q]
            found = found + type(zero)(left) * type(zero)(right)
        c[y * cy + x * cx + j] = found
    return 0


def _window_u8s8s32(a: Any, b: Any, c: Any, *numbers: int) -> int:
    return _window(a, b, c, *numbers, together=4, zero=0)


def _window_bf16(a: Any, b: Any, c: Any, *numbers: int) -> int:
    return _window(a, b, c, *numbers, together=2, zero=np.float32(0))


class _Bytes:
    """The bytes of words."""

    def __init__(self, words: Any) -> None:
        self.words = words

    def __getitem__(self, at: int) -> int:
        return int(self.words[at // 4]) >> at % 4 * 8 & 255


def _window_words(a: Any, b: Any, c: Any, *numbers: int) -> int:
    return _window(_Bytes(a), b, c, *numbers, together=4, zero=0)


MEANING: Mapping[str, Callable[..., Any]] = {
    "window_u8s8s32": _window_u8s8s32, "window_words": _window_words, "window_bf16": _window_bf16,
}
