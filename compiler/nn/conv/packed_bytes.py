"""Convolutions of bytes (and of bfloat16) whose channels lie in blocks, and what lies between those of a network in integers.

Activations are uint8 with the zero point 128, x + 128 of an int8 x, since processors multiply unsigned by signed bytes. Channels
lie in blocks of `u`, which is 16, 32 or 64: [N, ceil(C / u), H, W, u]. What a last block has beyond C is any number, and weights
there are 0. A filter's sums are larger than those of int8 data, by 128 times the sum of its weights; what requantizes them takes
that off (`vtakit.compiler.graph.passes.packed_bytes`).
"""

from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.kernels.dot_kernels import KINDS, byte_of
from vtakit.compiler.ir.dtypes import INT32, DType, dtype
from vtakit.compiler.ir.expr import BitXor, Expr
from vtakit.compiler.ir.ops import all_of, binary, if_then_else, maximum, minimum
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import broadcast_read, dims, made
from vtakit.compiler.nn.conv.conv import padded, spatial, window_sizes
from vtakit.compiler.nn.conv.packed_weights import FEW, ZERO
from vtakit.compiler.nn.product.matmul import in_type
from vtakit.compiler.nn.reduction.pool import Window
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

UINT8, INT8 = dtype("uint8"), dtype("int8")
Numbers = Sequence[int] | None


def _types(what: str, x: Tensor, weight: Tensor) -> tuple[DType, int]:
    """The type of sums, and how many channels an instruction adds up."""
    found = KINDS.get(str(x.dtype))
    if found is None or str(weight.dtype) != found.b or str(x.dtype) == "uint32":
        raise OperatorError(f"{what} of {x.dtype} by {weight.dtype}: give uint8 by int8, or bfloat16 by bfloat16")
    return dtype(found.c), found.together


@operator("block_bytes", kind=Kind.INJECTIVE)
def block_bytes(x: Tensor, *, block: int) -> Tensor:
    """x int8 [N, C, H, W]  ->  uint8 [N, ceil(C / block), H, W, block], what is missing of a block being 0."""
    images, channels, *sizes = dims(x)

    def value(n: Expr, outer: Expr, *rest: Expr) -> Expr:
        channel = outer * block + rest[-1]
        found = _raised(x(n, channel, *rest[:-1]))
        return if_then_else(channel < channels, found, const(0, UINT8)) if channels % block else found
    return made((images, -(-channels // block), *sizes, block), value, "block_bytes")


@operator("unblock_bytes", kind=Kind.INJECTIVE)
def unblock_bytes(x: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    """x uint8 [N, C / u, H, W, u]  ->  int8 of a shape [N, C, H, W], or [N, C] where H and W are 1."""
    images, blocks, *sizes, block = dims(x)
    if len(shape) not in (2, 4) or (shape[0], -(-shape[1] // block), *(*shape[2:], 1, 1)[:2]) != (images, blocks, *sizes):
        raise OperatorError(f"unblock_bytes: data {dims(x)} does not hold {shape}")

    def value(n: Expr, c: Expr, *at: Expr) -> Expr:
        found: Expr = (x(n, c // block, *(at or (0, 0)), c % block).astype(INT32) - ZERO).astype(INT8)
        return found
    return made(shape, value, "unblock_bytes")


@operator("reblock_bytes", kind=Kind.INJECTIVE)
def reblock_bytes(x: Tensor, *, channels: int, block: int, blocks: int) -> Tensor:
    """x uint8 [N, B, H, W, u]  ->  [N, blocks, H, W, block]: the same channels in other blocks, 0 beyond `channels`."""
    images, outer, *sizes, u = dims(x)
    if channels > min(outer * u, blocks * block):
        raise OperatorError(f"reblock_bytes: data {dims(x)} in {blocks} blocks of {block} has not {channels} channels")

    def value(n: Expr, m: Expr, y: Expr, z: Expr, k: Expr) -> Expr:
        channel = m * block + k
        found: Expr = x(n, channel // u, y, z, channel % u)
        return if_then_else(channel < channels, found, const(0, UINT8)) if blocks * block > channels else found
    return made((images, blocks, *sizes, block), value, "reblock_bytes")


@operator("pixel_words", kind=Kind.INJECTIVE)
def pixel_words(x: Tensor, *, pads: Sequence[int], fill: int = ZERO) -> Tensor:
    """x int8 [N, C, H, W] of at most four channels  ->  uint32 [N, H', W'], the channels' bytes from the lowest bits up.

    pads : in rows and columns, in front, then behind, of bytes `fill`; channels that are missing of four are any byte
    """
    images, channels, height, width = dims(x)
    top, left, bottom, right = spatial(pads, 0, 4, "pixel_words: pads", least=0)
    if channels > FEW:
        raise OperatorError(f"pixel_words: {channels} channels in {dims(x)}: give at most {FEW}")

    def value(n: Expr, y: Expr, z: Expr) -> Expr:
        word: Expr = const(0x80808080, "uint32")  # x + 128 is x with its highest bit flipped
        for channel in range(channels):
            byte = x(n, channel, y - top, z - left).astype(UINT8).astype("uint32")
            word = binary(BitXor, word, byte << const(8 * channel, "uint32"))
        inside = [y >= top] * bool(top) + [y < top + height] * bool(bottom)
        inside += [z >= left] * bool(left) + [z < left + width] * bool(right)
        return if_then_else(all_of(*inside), word, const(fill * 0x01010101, "uint32")) if inside else word
    return made((images, height + top + bottom, width + left + right), value, "pixel_words")


def _raised(e: Expr) -> Expr:
    found: Expr = (e.astype(INT32) + ZERO).astype(UINT8)
    return found


@operator("conv_packed", kind=Kind.ANCHOR)
def conv_packed(
    x: Tensor, weight: Tensor, *, block: int, strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    fill: int = 0, reach: int = 0,
) -> Tensor:
    """Convolution of images whose channels are in blocks: the sums.

    x       uint8 or bfloat16  [N, C / u, H, W, u]
    weight  int8 or bfloat16   [K / n, C / u, R, S, u / g, n, g]     made by `packed_weights.packed_weight`
    result  int32 or float32   [N, K / block, OH, OW, block]

    fill  : what pads are
    reach : channels that n filters read, where they do not read all: those of the same numbers as the filters, from a multiple of
            `reach` on. Weights are [K / n, reach / r, R, S, r / g, n, g] then, with r the lesser of `reach` and u, one of which
            divides the other (`packed_weights.packed_groups`).

    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    kind, together = _types("conv_packed", x, weight)
    if x.ndim != 5 or weight.ndim != 7:
        raise OperatorError(f"conv_packed: data {dims(x)} and weights {dims(weight)}: data has five dimensions, weights seven")
    images, outer, *sizes, u = dims(x)
    parts, chunks, *kernel, groups, n, each = dims(weight)
    row, rows = (min(reach, u), -(-reach // u)) if reach else (u, outer)
    aligned = not reach or (max(reach, u) % row == reach % n == 0 and parts * n == outer * u)
    if (chunks, groups * each, each) != (rows, row, together) or block % n or parts * n % block or not aligned:
        raise OperatorError(f"conv_packed: data {dims(x)} and weights {dims(weight)} do not fit blocks of {block}")
    steps, spread = spatial(strides, 1, 2, "conv_packed: strides"), spatial(dilations, 1, 2, "conv_packed: dilations")
    pad = spatial(pads, 0, 4, "conv_packed: pads", least=0)
    out = window_sizes("conv_packed", tuple(sizes), tuple(kernel), steps, pad, spread)
    source = padded(x, (*pad[:2], 0, *pad[2:], 0), fill)
    c, i, j, r = (reduce_axis((0, extent), name) for extent, name in zip((chunks, *kernel, row), "cijr", strict=True))
    wide = block // n

    def term(b: Expr, m: Expr, y: Expr, z: Expr, k: Expr) -> Expr:
        part = m * wide + k // n
        first: Expr | int = part * n // reach * reach if reach else 0  # channel
        read = source(b, c + first // u, y * steps[0] + i * spread[0], z * steps[1] + j * spread[1], r + first % u)
        by = weight(part, c, i, j, r // together, k % n, r % together)
        total: Expr = sum_of(read.astype(kind) * by.astype(kind), axis=[c, i, j, r])
        return total
    return made((images, parts // wide, *out, block), term, "sums", tag="conv_packed", attrs={
        "strides": steps, "dilations": spread, "filters": n})


@operator("conv_words", kind=Kind.ANCHOR)
def conv_words(x: Tensor, weight: Tensor, *, block: int, strides: Numbers = None) -> Tensor:
    """Convolution of images of at most four channels, a uint32 for each pixel: the sums.

    x       uint32  [N, H, W]                      made by `pixel_words`, with pads
    weight  int8    [K / n, R, S, n, 4]            made by `packed_weights.packed_words`
    result  int32   [N, K / block, OH, OW, block]

    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    if (str(x.dtype), str(weight.dtype), x.ndim, weight.ndim) != ("uint32", "int8", 3, 5):
        raise OperatorError(f"conv_words of {x.dtype}{dims(x)} by {weight.dtype}{dims(weight)}: give uint32 data of three "
                            "dimensions and int8 weights of five")
    images, *sizes = dims(x)
    parts, *kernel, n, each = dims(weight)
    steps = spatial(strides, 1, 2, "conv_words: strides")
    if each != FEW or block % n or parts * n % block:
        raise OperatorError(f"conv_words: weights {dims(weight)} do not fit blocks of {block}")
    out = window_sizes("conv_words", tuple(sizes), tuple(kernel), steps, (0,) * 4, (1, 1))
    i, r = reduce_axis((0, kernel[0]), "i"), reduce_axis((0, FEW * kernel[1]), "r")
    wide = block // n

    def term(b: Expr, m: Expr, y: Expr, z: Expr, k: Expr) -> Expr:
        read = byte_of(x(b, y * steps[0] + i, z * steps[1] + r // FEW), r)
        total: Expr = sum_of(read * weight(m * wide + k // n, i, r // FEW, k % n, r % FEW).astype(INT32), axis=[i, r])
        return total
    return made((images, parts // wide, *out, block), term, "sums", tag="conv_words", attrs={"strides": steps, "filters": n})


@operator("depthwise_packed", kind=Kind.ANCHOR)
def depthwise_packed(
    x: Tensor, weight: Tensor, *, strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None, fill: int = 0,
) -> Tensor:
    """Convolution of each channel by itself: the sums.

    x       uint8 or bfloat16  [N, C / u, H, W, u]
    weight  int8 or bfloat16   [C / u, R, S, u]
    result  int32 or float32   [N, C / u, OH, OW, u]

    fill : what pads are. Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    sums, _ = _types("depthwise_packed", x, weight)
    if x.ndim != 5 or weight.ndim != 4 or (dims(weight)[0], dims(weight)[-1]) != (dims(x)[1], dims(x)[-1]):
        raise OperatorError(f"depthwise_packed: data {dims(x)} and weights {dims(weight)} have not the same channels in blocks")
    images, blocks, *sizes, u = dims(x)
    kernel = dims(weight)[1:-1]
    steps, spread = spatial(strides, 1, 2, "depthwise_packed: strides"), spatial(dilations, 1, 2, "depthwise_packed: dilations")
    pad = spatial(pads, 0, 4, "depthwise_packed: pads", least=0)
    out = window_sizes("depthwise_packed", tuple(sizes), kernel, steps, pad, spread)
    source = padded(x, (*pad[:2], 0, *pad[2:], 0), fill)
    i, j = (reduce_axis((0, extent), name) for extent, name in zip(kernel, "ij", strict=True))

    def term(b: Expr, c: Expr, y: Expr, z: Expr, k: Expr) -> Expr:
        read = source(b, c, y * steps[0] + i * spread[0], z * steps[1] + j * spread[1], k)
        total: Expr = sum_of(read.astype(sums) * weight(c, i, j, k).astype(sums), axis=[i, j])
        return total
    return made((images, blocks, *out, u), term, "sums", tag="depthwise_blocked")


@operator("sum_pool_bytes", kind=Kind.REDUCTION)
def sum_pool_bytes(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, fill: int = ZERO,
) -> Tensor:
    """The int32 sum of each window of uint8 data [N, C / u, H, W, u], pads being `fill`; numbers are given for H and W."""
    steps, around = spatial(strides, 1, 2, "sum_pool_bytes: strides"), spatial(pads, 0, 4, "sum_pool_bytes: pads", least=0)
    if x.dtype is not UINT8 or x.ndim != 5:
        raise OperatorError(f"sum_pool_bytes takes uint8 data of five dimensions, not {x.dtype}{dims(x)}")
    w = Window("sum_pool_bytes", x, (*kernel_shape, 1), (*steps, 1), (*around[:2], 0, *around[2:], 0), None, False)
    if max(w.kernel) == max(w.strides) == 1 and not any(w.pads):
        return in_type(x, INT32)
    source = w.padded(fill)
    return made(w.shape, lambda n, c, *at: reduce.sum(source(n, c, *w.places(at)).astype(INT32), axis=w.axes), "sum_pool_bytes",
                tag="pool")


@operator("scaled_add_bytes", kind=Kind.INJECTIVE)
def scaled_add_bytes(acc: Tensor, skip: Tensor, scale: Tensor) -> Tensor:
    """``acc + skip * scale``: acc int32 [N, C / u, H, W, u], skip uint8 of its shape, scale int32 [C / u, u]."""
    _fits("scaled_add_bytes", acc, skip, scale)
    return made(dims(acc), lambda *at: acc(*at) + skip(*at).astype(INT32) * scale(at[1], at[-1]), "scaled_add_bytes")


@operator("scaled_sum_bytes", kind=Kind.INJECTIVE)
def scaled_sum_bytes(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    """``a * a_scale + b * b_scale`` of uint8 [N, C / u, H, W, u] and int32 [C / u, u], in int32."""
    _fits("scaled_sum_bytes", a, b, a_scale, b_scale)
    return made(dims(a), lambda *at: a(*at).astype(INT32) * a_scale(at[1], at[-1])
                + b(*at).astype(INT32) * b_scale(at[1], at[-1]), "scaled_sum_bytes")


@operator("mul_bytes", kind=Kind.INJECTIVE)
def mul_bytes(a: Tensor, b: Tensor, *, a_zero: int, b_zero: int) -> Tensor:
    """``(a - a_zero) * (b - b_zero)`` in int32.

    a  uint8 [N, C / u, H, W, u]        b  uint8 of the same shape, or [N, C / u, 1, 1, u]
    """
    shape = dims(a)
    if dims(b) not in (shape, (*shape[:2], 1, 1, shape[-1])):
        raise OperatorError(f"mul_bytes: shapes {shape} and {dims(b)} do not fit together")
    return made(shape, lambda *at: (a(*at).astype(INT32) - a_zero) * (broadcast_read(b, at).astype(INT32) - b_zero), "mul_bytes")


@operator("lookup_bytes", kind=Kind.INJECTIVE)
def lookup_bytes(x: Tensor, table: Tensor) -> Tensor:
    """``table[x]`` of uint8 data and uint8 [256]."""
    if x.dtype is not UINT8 or table.dtype is not UINT8 or dims(table) != (256,):
        raise OperatorError(f"lookup_bytes of {x.dtype} by {table.dtype}{dims(table)}: give uint8, and 256 of uint8")
    return made(dims(x), lambda *at: table(x(*at).astype(INT32)), "lookup_bytes")


@operator("requantize_bytes", kind=Kind.INJECTIVE)
def requantize_bytes(acc: Tensor, least: Tensor, most: Tensor, multiplier: Tensor, offset: Tensor, shift: Tensor) -> Tensor:
    """``clip(acc, least, most) * multiplier + offset >> shift`` in uint8, computed in offset's type, which wraps.

    acc                              int32 [N, C / u, H, W, u], or rows [R, C]
    least, most, multiplier, shift   int32 [C / u, u], or [C]
    offset                           int32 or int64 of that shape

    What does not fit uint8 is not told: bounds are such that all does.
    """
    _fits("requantize_bytes", acc, acc, least, most, multiplier, offset, shift)
    kind = offset.dtype

    def value(*at: Expr) -> Expr:
        def of(vector: Tensor) -> Expr:
            found: Expr = vector(*at[1:2], *at[2:][-1:])
            return found
        kept = maximum(minimum(acc(*at), of(most)), of(least)).astype(kind)
        found: Expr = (kept * of(multiplier).astype(kind) + of(offset) >> of(shift).astype(kind)).astype(UINT8)
        return found
    return made(dims(acc), value, "requantize_bytes")


def _fits(what: str, a: Tensor, b: Tensor, *vectors: Tensor) -> None:
    each = dims(a)[1:2] + dims(a)[2:][-1:]
    if dims(a) != dims(b) or any(dims(vector) != each for vector in vectors):
        raise OperatorError(f"{what}: shapes {', '.join(str(dims(x)) for x in (a, b, *vectors))} do not fit together")


@operator("unblock_sums", kind=Kind.INJECTIVE)
def unblock_sums(x: Tensor, excess: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    """x int32 [N, C / u, H, W, u], less excess int32 [C / u, u]  ->  int32 of a shape [N, C, H, W], or [N, C]."""
    _fits("unblock_sums", x, x, excess)
    block = dims(x)[-1]

    def value(n: Expr, c: Expr, *at: Expr) -> Expr:
        found: Expr = x(n, c // block, *(at or (0, 0)), c % block) - excess(c // block, c % block)
        return found
    return made(shape, value, "unblock_sums")
