"""Winograd convolution F(m, 3): a tile of m x m results from (m + 2)^2 products a channel, where a direct one takes 9 m^2.

Each tile of the data, m + 2 pixels a side, is taken to as many values as it has, which are multiplied by those of the filter; the
sums over the channels are taken back. Channels lie in blocks, as `vtakit.compiler.nn.conv.blocked` has them.

The three transforms are evaluations at points and the way back (Toom, Cook; for tiles of two dimensions Lavin and Gray, "Fast
algorithms for convolutional neural networks", CVPR 2016). Points are 0, pairs p and -p, and infinity: of a pair, what even and
odd powers give is computed once. The pairs of F(4, 3), the roots of 1/2 and of 2, make a quarter of the error that 1 and 2 make
(docs/winograd.md). How points matter: Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution for
deep neural networks" (ACM TOMS 2020).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from math import sqrt

import numpy as np

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made, same_dtype
from vtakit.compiler.nn.conv.conv import padded, spatial, window_sizes
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

KERNEL = 3
PAIRS = {2: (1.0,), 4: (sqrt(0.5), sqrt(2.0))}  # points p and -p, by the side of a tile of the result
DIGITS = 12  # after the point: what is left of 1 - sqrt(2)**2 / 2 is to be 0
STEP = "winograd_step"  # the tag of what stands between the data and the result


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices of F(m, 3), n = m + 2: ``y = result @ ((filter @ g) * (data @ d))`` for n data d and 3 weights g.

    data [n, n]   filter [n, 3]   result [m, n]     of float64, whose rows have the order 0, p, -p, ..., infinity of points
    """

    data: np.ndarray
    filter: np.ndarray
    result: np.ndarray

    @classmethod
    @cache
    def of(cls, tile: int) -> "Transforms":
        """Return the transforms of tiles with a side of `tile` pixels: 2 or 4."""
        points = [0.0, *[sign * p for p in PAIRS[tile] for sign in (1, -1)]]
        count = len(points) + 1
        data, filters, result = np.zeros((count, count)), np.zeros((count, KERNEL)), np.zeros((tile, count))
        for at, p in enumerate(points):
            others = [q for q in points if q != p]
            data[at, :-1] = np.poly(others)[::-1]
            filters[at] = p ** np.arange(KERNEL) / np.prod(np.subtract(p, others))
            result[:, at] = p ** np.arange(tile)
        data[-1] = np.poly(points)[::-1]
        filters[-1, -1] = result[-1, -1] = 1
        return cls(np.round(data, DIGITS), filters, result)


def winograd_weight(packed: np.ndarray, tile: int) -> np.ndarray:
    """Weights of `conv_blocked`, [K / v, C / i, 3, 3, i, v], as `conv_winograd` takes them: [K / v, n, n, C / i, i, v].

    tile : pixels of a side of the tiles of the result, 2 or 4; n = tile + 2
    Computed in float64 and rounded once.
    """
    g = Transforms.of(tile).filter
    count, (blocks, chunks, _, _, inner, block) = len(g), packed.shape
    taken = np.empty((blocks, count, count, chunks, inner, block), packed.dtype)
    for into, of in zip(taken, packed, strict=True):  # one block at a time: float64 takes room
        points = np.kron(g, g) @ of.reshape(chunks, KERNEL**2, inner * block).astype(np.float64)
        into[...] = points.reshape(chunks, count, count, inner, block).transpose(1, 2, 0, 3, 4)
    return taken


@operator("conv_winograd", kind=Kind.ANCHOR)
def conv_winograd(x: Tensor, weight: Tensor, *, pads: Sequence[int] | None = None) -> Tensor:
    """Convolution of two spatial dimensions with a kernel of 3 x 3 and strides of 1, by Winograd's way, channels in blocks.

    x       [N, C / u, H, W, u]
    weight  [K / v, n, n, C / i, i, v]     made by `winograd_weight` for tiles of m = n - 2 pixels a side; i divides u
    result  [N, K / v, P, Q, v]            P = H + pads - 2, Q likewise

    pads : in front of both dimensions, then behind
    Where P or Q is no multiple of m, the last tiles hang over.
    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    same_dtype("conv_winograd", x, weight)
    if x.ndim != 5 or weight.ndim != 6 or dims(weight)[1] != dims(weight)[2] or dims(weight)[1] - 2 not in PAIRS:
        raise OperatorError(f"conv_winograd: data {dims(x)} and weights {dims(weight)}: data has five dimensions, the last its "
                            "block's, and weights six, the second and third both 4 or 6")
    images, outer, *sizes, width = dims(x)
    filter_blocks, points, _, chunks, inner, block = dims(weight)
    per_block = width // inner if inner else 0
    if not x.dtype.is_float or not per_block or width % inner or -(-chunks // per_block) != outer:
        raise OperatorError(f"conv_winograd: data {dims(x)} of {x.dtype} and weights {dims(weight)} do not have the same "
                            "channels of floating point")
    tile = points - 2
    pad = spatial(pads, 0, 4, "conv_winograd: pads", least=0)
    height, row = window_sizes("conv_winograd", tuple(sizes), (KERNEL, KERNEL), (1, 1), pad, (1, 1))
    down, across = -(-height // tile), -(-row // tile)
    over = down * tile - height, across * tile - row
    source = padded(x, (*pad[:2], 0, pad[2] + over[0], pad[3] + over[1], 0))
    to_data, to_result = _to_points(tile), _from_points(tile)
    tiles = down * across

    def taken_down(n: Expr, c: Expr, t: Expr, i: Expr, j: Expr, lane: Expr) -> Expr:
        y, left = t // across * tile, t % across * tile
        return to_data(i, [source(n, c, y + a, left + j, lane) for a in range(points)])
    half = made((images, outer, tiles, points, points, width), taken_down, "half", tag=STEP)
    data = made((images, points, points, outer, tiles, width), lambda n, i, j, c, t, lane: to_data(
        j, [half(n, c, t, i, b, lane) for b in range(points)]), "data", tag=STEP)
    c, part = reduce_axis((0, chunks), "c"), reduce_axis((0, inner), "lane")
    sums = made((images, filter_blocks, points, points, tiles, block), lambda n, m, i, j, t, k: sum_of(
        data(n, i, j, c // per_block, t, c % per_block * inner + part) * weight(m, i, j, c, part, k), axis=[c, part]),
        "sums", tag=STEP)
    back = made((images, filter_blocks, tiles, tile, points, block), lambda n, m, t, y, j, k: to_result(
        y, [sums(n, m, i, j, t, k) for i in range(points)]), "back", tag=STEP)
    return made((images, filter_blocks, height, row, block), lambda n, m, y, x, k: to_result(
        x % tile, [back(n, m, y // tile * across + x // tile, y % tile, j, k) for j in range(points)]),
        "conv_winograd", tag="winograd")


Combine = Callable[[Expr, Sequence[Expr]], Expr]


def _choice(at: Expr, rows: Sequence[Expr]) -> Expr:
    """One of several, by a number that is to become a constant, which leaves that one alone."""
    return reduce(lambda rest, number: select(at == number, rows[number], rest), reversed(range(len(rows) - 1)), rows[-1])


def _to_points(tile: int) -> Combine:
    """A row of the data's matrix, by its number, times a vector.

    At p and -p the even powers are the same, and the odd ones but for their sign.
    """
    matrix = Transforms.of(tile).data

    def value(at: Expr, given: Sequence[Expr]) -> Expr:
        rows = [_sum(matrix[0], given)]
        for number, p in enumerate(PAIRS[tile]):
            row = matrix[2 * number + 1]
            even, odd = _sum(row[::2], given[::2]), _sum(np.round(row[1::2] / p, DIGITS), given[1::2])
            rows += [_sum((1, sign * p), (even, odd)) for sign in (1, -1)]
        return _choice(at, [*rows, _sum(matrix[-1], given)])
    return value


def _from_points(tile: int) -> Combine:
    """A row of the result's matrix, by its number, times a vector.

    Even rows take the sum of what stands at p and -p, odd ones the difference.
    """
    matrix = Transforms.of(tile).result

    def value(at: Expr, given: Sequence[Expr]) -> Expr:
        sums, differences = [[_sum((1, sign), given[p:p + 2]) for p in range(1, len(given) - 1, 2)] for sign in (1, -1)]
        return _choice(at, [_sum([row[0], row[-1], *row[1:-1:2]], [given[0], given[-1], *(differences if number % 2 else sums)])
                            for number, row in enumerate(matrix)])
    return value


def _sum(factors: Sequence[float], given: Sequence[Expr]) -> Expr:
    """The sum of numbers times expressions, without what is times 0 or 1. One at least is positive."""
    terms = [(factor, e if abs(factor) == 1 else e * const(abs(factor), e.dtype))
             for factor, e in zip(map(float, factors), given, strict=True) if factor]
    (_, first), *rest = sorted(terms, key=lambda term: term[0] < 0)
    return reduce(lambda found, term: found + term[1] if term[0] > 0 else found - term[1], rest, first)
