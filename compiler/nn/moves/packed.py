"""Activations in the accelerator's layout: what goes to it and comes from it, made and read by the CPU.

A value of one to three dimensions lies as one of four, [images, channels, rows, columns], with rows and columns of 1 where it has
none; blocks are filled with zeros.
"""

from math import prod

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.te.tensor import Tensor

Image = tuple[int, int, int, int]


def as_image(shape: tuple[int, ...]) -> Image:
    """A shape [N, C], [N, C, W] or [N, C, H, W] as [N, C, H, W]. Raises OperatorError for another."""
    if not 2 <= len(shape) <= 4:
        raise OperatorError(f"packed data has 2 to 4 dimensions, images and channels first, not {shape}")
    images, channels, *rest = shape
    rows, columns = ([1, 1, *rest])[-2:]
    return images, channels, rows, columns


def _read(x: Tensor, image: Expr, channel: Expr, row: Expr, column: Expr) -> Expr:
    found: Expr = x(*(image, channel, row, column)[:2], *(row, column)[4 - x.ndim:])
    return found


@operator("vta_pack", kind=Kind.INJECTIVE)
def vta_pack(x: Tensor, *, batch: int, block: int) -> Tensor:
    """x int8 [N, C, H, W]  ->  [N / batch, C / block, H, W, batch, block], what is missing of a block being 0."""
    images, channels, rows, columns = as_image(dims(x))

    def value(n: Expr, o: Expr, y: Expr, z: Expr, b: Expr, k: Expr) -> Expr:
        image, channel = n * batch + b, o * block + k
        inside = [image < images] * bool(images % batch) + [channel < channels] * bool(channels % block)
        read = _read(x, image, channel, y, z)
        return if_then_else(all_of(*inside), read, const(0, x.dtype)) if inside else read
    return made((-(-images // batch), -(-channels // block), rows, columns, batch, block), value, "vta_pack")


@operator("vta_unpack", kind=Kind.INJECTIVE)
def vta_unpack(x: Tensor, *, shape: tuple[int, ...], count: tuple[int, int] = (1, 1)) -> Tensor:
    """The inverse of `vta_pack` for a result of a shape.

    count : pixels (down, across) that one block has, as `vtakit.compiler.nn.vta.pixels.Pixels` packs them

    Raises OperatorError for data that does not hold it.
    """
    images, channels, rows, columns = as_image(shape)
    *outer, batch, block = dims(x)
    down, across = count
    lanes = channels * down * across
    if tuple(outer) != (-(-images // batch), -(-lanes // block), -(-rows // down), -(-columns // across)) or (
            down * across > 1 and lanes > block):
        raise OperatorError(f"vta_unpack: data {dims(x)} does not hold {shape}")
    spatial = len(shape) - 2

    def value(n: Expr, c: Expr, *rest: Expr) -> Expr:
        y, z = (*[const(0, "int32")] * (2 - spatial), *rest)
        lane = c if down * across == 1 else (y % down * across + z % across) * channels + c
        found: Expr = x(n // batch, lane // block, y // down, z // across, n % batch, lane % block)
        return found
    return made(shape, value, "vta_unpack")


@operator("vta_fold", kind=Kind.INJECTIVE)
def vta_fold(
    x: Tensor, *, kernel: tuple[int, int], taps: tuple[int, int], strides: tuple[int, int], pad: tuple[int, int, int, int],
    batch: int, block: int, fill: int = 0,
) -> Tensor:
    """x int8 [N, C, H, W]  ->  what `vtakit.compiler.nn.vta.fold.Fold.activations` makes of it, packed."""
    images, channels, rows, columns = as_image(dims(x))
    fold = Fold(kernel=kernel, taps=taps, strides=strides, pad=pad, fill=fill)
    down, across = fold.folded_size(rows, columns)
    lanes = prod(taps) * channels
    (step_y, step_x), (above, _, left, _) = fold.steps, pad

    def value(n: Expr, o: Expr, y: Expr, z: Expr, b: Expr, k: Expr) -> Expr:
        image, lane = n * batch + b, o * block + k
        tap, channel = lane // channels, lane % channels
        row, column = y * step_y + tap // taps[1] - above, z * step_x + tap % taps[1] - left
        inside = [row >= 0, row < rows, column >= 0, column < columns]
        inside += [image < images] * bool(images % batch) + [lane < lanes] * bool(lanes % block)
        return if_then_else(all_of(*inside), _read(x, image, channel, row, column), const(fill, x.dtype))
    return made((-(-images // batch), -(-lanes // block), down, across, batch, block), value, "vta_fold")
