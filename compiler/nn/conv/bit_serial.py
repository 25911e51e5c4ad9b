"""Bit-serial convolutions: data of few bits as planes of bits, weights as digits, sums by counting bits.

Source: Chen et al., "TVM" (OSDI'18, section 6.2); Cowan et al., "Automating Generation of Low Precision Deep Learning Operators"
(2018). `bit_encodings` says what planes, digits and words are, and `bit_weights` makes the words of weights. The meaning is the
convolution of the integers, whatever the encoding; `excess` of a filter is to be taken off its sums.
"""

from collections.abc import Sequence
from math import prod

from vtakit.compiler.codegen.llvm.kernels.bit_encodings import MOST_BITS, WORD_BITS, WORDS
from vtakit.compiler.codegen.llvm.kernels.bit_kernels import bit_of, product
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.conv.conv import spatial, window_sizes
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

UINT8, UINT32 = dtype("uint8"), dtype("uint32")
Numbers = Sequence[int] | None
_MOST_BYTE = 255


@operator("pack_bits", kind=Kind.OPAQUE)
def pack_bits(
    x: Tensor, *, planes: int, channels: int | None = None, zero: int = 0, pads: Numbers = None, fill: int | None = None,
) -> Tensor:
    """x uint8 [N, C / u, H, W, u]  ->  uint32 [N, H', W', words, planes]: the bits of x - zero, which is less than 2**planes.

    u        : at most 32, or a multiple of 32; words are ceil(u / 32) for each block
    channels : of all; bits of those beyond them are 0. C by default
    pads     : rows and columns around the image, in front, then behind, of bytes `fill`, by default `zero`

    Raises OperatorError for another type or shape, for more than 8 planes, and for a fill that the planes do not hold.
    """
    if x.dtype is not UINT8 or x.ndim != 5:
        raise OperatorError(f"pack_bits takes uint8 data of five dimensions, not {x.dtype}{dims(x)}")
    images, blocks, height, width, u = dims(x)
    if u > WORD_BITS and u % WORD_BITS:
        raise OperatorError(f"pack_bits of data {dims(x)}: blocks of {u} channels; give at most {WORD_BITS}, or a multiple of it")
    if not 1 <= planes <= MOST_BITS or not 0 <= zero <= _MOST_BYTE:
        raise OperatorError(f"pack_bits: {planes} planes of data less {zero}: give 1 to {MOST_BITS} planes, 0 to {_MOST_BYTE}")
    count = blocks * u if channels is None else channels
    if not (blocks - 1) * u < count <= blocks * u:
        raise OperatorError(f"pack_bits: data {dims(x)} does not hold {count} channels in blocks of {u}")
    code = (zero if fill is None else fill) - zero
    if not 0 <= code < 1 << planes:
        raise OperatorError(f"pack_bits: pads of {fill} less {zero}: {planes} planes hold 0 to {(1 << planes) - 1}")
    top, left, bottom, right = spatial(pads, 0, 4, "pack_bits: pads", least=0)
    each = min(u, WORD_BITS)
    parts = u // each
    t = reduce_axis((0, each), "t")

    def word(n: Expr, y: Expr, z: Expr, w: Expr, i: Expr) -> Expr:
        read = x(n, w // parts, y, z, w % parts * each + t)
        found: Expr = sum_of(bit_of(read, i, t.var, zero), axis=t)
        return found
    shape = (images, height, width, blocks * parts, planes)
    words = made(shape, word, "words", tag="pack_bits", attrs={"zero": zero})
    rest, last = count % each, count // each  # words from `last` on hold fewer channels
    if not any((top, left, bottom, right)) and not rest and last == blocks * parts:
        return words

    def mask(w: Expr) -> Expr:
        full: Expr = const((1 << each) - 1, UINT32)
        if last == blocks * parts:
            return full
        return if_then_else(w < last, full, if_then_else(w == last, const((1 << rest) - 1, UINT32), const(0, UINT32)))

    def around(n: Expr, y: Expr, z: Expr, w: Expr, i: Expr) -> Expr:
        inside = [y >= top] * bool(top) + [y < top + height] * bool(bottom)
        inside += [z >= left] * bool(left) + [z < left + width] * bool(right)
        found = words(n, y - top, z - left, w, i) & mask(w)
        if not inside:
            return found
        outside = if_then_else((const(code, "int32") >> i & 1) > 0, mask(w), const(0, UINT32)) if code else const(0, UINT32)
        return if_then_else(all_of(*inside), found, outside)
    return made((images, top + height + bottom, left + width + right, *shape[3:]), around, "planes")


@operator("conv_bits", kind=Kind.ANCHOR)
def conv_bits(
    x: Tensor, weight: Tensor, *, block: int, encoding: str, strides: Numbers = None, dilations: Numbers = None,
) -> Tensor:
    """Convolution of planes of bits by digits of weights: the sums, each too large by the `excess` of its filter.

    x       uint32  [N, H, W, C'', planes]                    made by `pack_bits`, with pads
    weight  uint32  [K / n, R, S, C'', digits, words, n]      made by `bit_weights.packed_bits`
    result  int32   [N, K / block, OH, OW, block]             a block of all filters is [N, 1, OH, OW, K], as NHWC

    encoding : of the weights' digits: "unipolar", "bipolar", "ternary" or "signed"

    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    if encoding not in WORDS:
        raise OperatorError(f"conv_bits of {encoding!r} weights: the encodings are {', '.join(WORDS)}")
    if (x.dtype, weight.dtype, x.ndim, weight.ndim) != (UINT32, UINT32, 5, 7):
        raise OperatorError(f"conv_bits of {x.dtype}{dims(x)} by {weight.dtype}{dims(weight)}: give uint32 data of five "
                            "dimensions and uint32 weights of seven")
    images, height, width, chunks, planes = dims(x)
    count, *kernel, depth, digits, words, n = dims(weight)
    if (depth, words) != (chunks, WORDS[encoding]) or block % n or count * n % block:
        raise OperatorError(f"conv_bits: data {dims(x)} and {encoding} weights {dims(weight)} do not fit blocks of {block}")
    if max(planes, digits) > MOST_BITS:
        raise OperatorError(f"conv_bits: {planes} planes of data and {digits} digits of weights: give at most {MOST_BITS}")
    steps, spread = spatial(strides, 1, 2, "conv_bits: strides"), spatial(dilations, 1, 2, "conv_bits: dilations")
    out = window_sizes("conv_bits", (height, width), tuple(kernel), steps, (0,) * 4, spread)
    i, j, c, p, d = (reduce_axis((0, extent), name)
                     for extent, name in zip((*kernel, chunks, planes, digits), "ijcpd", strict=True))
    wide, macs = block // n, images * prod(out) * count * n * prod(kernel) * chunks * WORD_BITS

    def term(b: Expr, m: Expr, y: Expr, z: Expr, k: Expr) -> Expr:
        read = x(b, y * steps[0] + i * spread[0], z * steps[1] + j * spread[1], c, p)
        total: Expr = sum_of(product(
            encoding, read, lambda word: weight(m * wide + k // n, i, j, c, d, word, k % n), p.var + d.var, d.var == digits - 1,
        ), axis=[i, j, c, p, d])
        return total
    return made((images, count // wide, *out, block), term, "sums", tag="conv_bits", attrs={
        "strides": steps, "dilations": spread, "filters": n, "encoding": encoding, "digits": digits, "planes": planes,
        "macs": macs})
