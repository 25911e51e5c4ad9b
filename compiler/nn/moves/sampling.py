"""Images read at places that are data. Source: ONNX GridSample, AffineGrid."""

from collections.abc import Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.moves.indexing import cell_at
from vtakit.compiler.nn.moves.resize import cubic
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

MODES, PADDING = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
KEYS = -0.75  # the coefficient of the cubic


@operator("grid_sample", kind=Kind.OPAQUE)
def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False,
) -> Tensor:
    """The values of images at places from -1 to 1 across them, the last spatial dimension first.

    x [N, C, D...]   grid [N, O..., number of spatial dimensions]   result [N, C, O...]
    mode : between pixels "linear", "nearest" or "cubic"      padding_mode : outside "zeros", "border" or "reflection"
    align_corners : whether -1 and 1 are the middles of the outermost pixels, not their edges
    Raises OperatorError for shapes, types or words that do not fit.
    """
    check_float(x, "grid_sample")
    check_float(grid, "grid_sample: the grid")
    count = x.ndim - 2
    if mode not in MODES or padding_mode not in PADDING:
        raise OperatorError(f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}: give one of {', '.join(MODES)}, and one "
                            f"of {', '.join(PADDING)}")
    if count < 1 or grid.ndim != x.ndim or dims(grid)[0] != dims(x)[0] or dims(grid)[-1] != count or 0 in dims(x)[2:]:
        raise OperatorError(f"grid_sample: a grid of {dims(grid)} does not fit images {dims(x)}")
    sizes, kind = dims(x)[2:], x.dtype

    def bounds(extent: int) -> tuple[float, float]:
        return (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)

    def place(at: Sequence[Expr], axis: int) -> Expr:
        given = grid(at[0], *at[2:], count - 1 - axis).astype(kind)
        low, high = bounds(sizes[axis])
        where = (given + 1) * ((high - low) / 2) + low
        if mode == "cubic" or padding_mode == "zeros":
            return where
        return _reflected(where, low, high) if padding_mode == "reflection" else maximum(minimum(where, sizes[axis] - 1), 0)

    def read(*at: Expr) -> Expr:
        taps = [_taps(place(at, axis), mode) for axis in range(count)]

        def pixel(where: Sequence[Expr]) -> Expr:
            inside, index = [], []
            for axis, cell in enumerate(where):
                extent = sizes[axis]
                if padding_mode == "reflection":
                    cell = _reflected(cell, *bounds(extent))
                inside += [cell >= 0, cell <= extent - 1]
                index.append(cell_at(cell, extent))
            found: Expr = x(at[0], at[1], *index)
            return select(all_of(*inside), found, const(0, kind)) if padding_mode == "zeros" else found

        def total(axis: int, where: tuple[Expr, ...]) -> Expr:
            if axis == count:
                return pixel(where)
            parts = [weight * total(axis + 1, (*where, cell)) for cell, weight in taps[axis]]
            value = parts[0]
            for part in parts[1:]:
                value = value + part
            return value
        return total(0, ())
    return made((*dims(x)[:2], *dims(grid)[1:-1]), read, "grid_sample")


def _taps(where: Expr, mode: str) -> list[tuple[Expr, Expr]]:
    """The pixels around a place, as whole numbers of its type, and the weight of each."""
    one = const(1, where.dtype)
    if mode == "nearest":
        return [(math.nearbyint(where), one)]
    low = math.floor(where)
    t = where - low
    if mode == "linear":
        return [(low, one - t), (low + 1, t)]
    return [(low + off, weight) for off, weight in zip(range(-1, 3), cubic(t, KEYS), strict=True)]


def _reflected(where: Expr, low: float, high: float) -> Expr:
    """A place as often turned back at the bounds as needed to lie within them."""
    span = high - low
    if not span:
        return where * 0 + low
    off = where - low
    turn = off - math.floor(off / const(2 * span, where.dtype)) * (2 * span)
    return low + select(turn > span, 2 * span - turn, turn)


@operator("affine_grid", kind=Kind.INJECTIVE)
def affine_grid(theta: Tensor, *, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """A grid for `grid_sample`: theta [N, d, d + 1] applied to the places of images of a size [N, C, D...]."""
    check_float(theta, "affine_grid")
    count = len(size) - 2
    if count < 1 or dims(theta) != (size[0], count, count + 1):
        raise OperatorError(f"affine_grid: theta {dims(theta)} for images {list(size)}: give [N, d, d + 1], d spatial dimensions")

    def place(index: Expr, extent: int) -> Expr:
        whole = index.astype(theta.dtype)
        if align_corners:
            return whole * (2 / (extent - 1)) - 1 if extent > 1 else whole * 0 - 1
        return (whole * 2 + 1) * (1 / extent) - 1

    def value(*at: Expr) -> Expr:
        n, *where, row = at
        found: Expr = theta(n, row, count)
        for column in range(count):
            axis = count - 1 - column
            found = found + theta(n, row, column) * place(where[axis], size[2 + axis])
        return found
    return made((size[0], *size[2:], count), value, "affine_grid")
