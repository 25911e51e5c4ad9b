"""Images of another size, and elements read between others."""

from collections.abc import Callable, Sequence
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

REAL = "float64"  # of coordinates: in float32 the middle between two elements is missed
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
ROUNDING: dict[str, Callable[[Expr], Expr]] = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5), "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor, "ceil": math.ceil,
}


@operator("resize", kind=Kind.INJECTIVE)
def resize(
    x: Tensor, *, sizes: Sequence[int], scales: Sequence[float] | None = None, roi: Sequence[float] | None = None,
    mode: str = "nearest", coordinates: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, exclude_outside: bool = False, extrapolation_value: float = 0.0,
) -> Tensor:
    """x with other extents, each dimension on its own. Source: ONNX Resize.

    sizes  : of the result, one a dimension     scales : of each dimension, where they are not the ratios of the extents
    roi    : of tf_crop_and_resize, the first normalized place of each dimension, then the last
    mode   : "nearest", "linear" or "cubic"     coordinates : how a place in the result is one in x, by ONNX's names
    Dimensions that keep extent and scale are left alone. Raises OperatorError for unknown words, or numbers that do not match.
    """
    ratio = [float(scale) for scale in scales] if scales is not None else [
        new / old if old else 1.0 for new, old in zip(sizes, dims(x), strict=False)]
    words = {"mode": (mode, ("nearest", "linear", "cubic")), "coordinates": (coordinates, COORDINATES),
             "nearest_mode": (nearest_mode, tuple(ROUNDING))}
    for word, (given, known) in words.items():
        if given not in known:
            raise OperatorError(f"resize: {word}={given!r}: give one of {', '.join(known)}")
    if len(sizes) != x.ndim or len(ratio) != x.ndim or min(sizes, default=0) < 0 or (
            coordinates == "tf_crop_and_resize" and len(roi or ()) != 2 * x.ndim):
        raise OperatorError(f"resize: sizes {list(sizes)} and scales {scales} for {dims(x)}: give one number a dimension, and "
                            "for tf_crop_and_resize a roi of two")
    if any(new and not old for new, old in zip(sizes, dims(x), strict=True)):
        raise OperatorError(f"resize: sizes {list(sizes)} of {dims(x)}: a dimension of no elements cannot grow")
    axes = [axis for axis, (new, old) in enumerate(zip(sizes, dims(x), strict=True))
            if new != old or ratio[axis] != 1 or coordinates == "tf_crop_and_resize"]
    place = {axis: _coordinate(axis, dims(x)[axis], sizes[axis], ratio[axis], coordinates, roi, x.ndim) for axis in axes}
    outside = x.dtype if coordinates == "tf_crop_and_resize" else None

    def read(*at: Expr) -> Expr:
        where = {axis: place[axis](at[axis]) for axis in axes}
        found = _sampled(x, at, where, mode, nearest_mode, cubic_coeff_a, exclude_outside)
        if outside is not None:
            for axis in axes:
                known = (where[axis] >= 0) & (where[axis] <= dims(x)[axis] - 1)
                found = select(known, found, const(extrapolation_value, found.dtype))
        if found.dtype is x.dtype:
            return found
        cut: Expr = (found if x.dtype.is_float else math.nearbyint(found)).astype(x.dtype)
        return cut
    return made(sizes, read, "resize")


def _coordinate(
    axis: int, old: int, new: int, scale: float, kind: str, roi: Sequence[float] | None, ndim: int,
) -> Callable[[Expr], Expr]:
    """From a place in the result to one in x."""
    if kind == "align_corners":
        step = (old - 1) / (old * scale - 1) if new > 1 else 0.0  # of the extent before it was rounded
        return lambda i: i.astype(REAL) * step
    if kind == "asymmetric":
        return lambda i: i.astype(REAL) / scale
    if kind == "tf_crop_and_resize":
        assert roi is not None, "checked by resize"
        first, last = float(roi[axis]), float(roi[axis + ndim])
        if new == 1:
            return lambda i: i.astype(REAL) * 0.0 + 0.5 * (first + last) * (old - 1)
        return lambda i: i.astype(REAL) * ((last - first) * (old - 1) / (new - 1)) + first * (old - 1)
    if kind == "pytorch_half_pixel" and new == 1:
        return lambda i: i.astype(REAL) * 0.0
    shift = -0.5
    if kind == "half_pixel_symmetric":
        shift += old / 2 * (1 - new / (old * scale))
    return lambda i: (i.astype(REAL) + 0.5) / scale + shift


def _sampled(
    x: Tensor, at: Sequence[Expr], where: dict[int, Expr], mode: str, nearest_mode: str, a: float, exclude_outside: bool,
) -> Expr:
    """The value at a place between elements, dimension after dimension."""
    def read(index: dict[int, Expr]) -> Expr:
        found: Expr = x(*[index.get(axis, place) for axis, place in enumerate(at)])
        return found
    if mode == "nearest":
        return read({axis: _inside(ROUNDING[nearest_mode](place), dims(x)[axis]) for axis, place in where.items()})
    real = x.dtype if x.dtype.is_float else "float32"
    taps = {axis: _taps(place, dims(x)[axis], mode, a, exclude_outside) for axis, place in where.items()}
    axes = [*where]

    def total(depth: int, index: dict[int, Expr]) -> Expr:
        if depth == len(axes):
            found: Expr = read(index).astype(real)
            return found
        axis = axes[depth]
        parts = [total(depth + 1, index | {axis: place}) * weight.astype(real) for place, weight in taps[axis]]
        value = parts[0]
        for part in parts[1:]:
            value = value + part
        return value
    return total(0, {})


def _inside(place: Expr, extent: int) -> Expr:
    found: Expr = maximum(minimum(place, extent - 1), 0).astype("int32")
    return found


def _taps(place: Expr, extent: int, mode: str, a: float, exclude_outside: bool) -> list[tuple[Expr, Expr]]:
    """The elements around a place, and the weight of each."""
    low = math.floor(place)
    t = place - low
    if mode == "linear":
        return [(_inside(low, extent), const(1.0, REAL) - t), (_inside(low + 1, extent), t)]
    weights: list[Any] = cubic(t, a)
    if exclude_outside:
        kept = [select((low + off >= 0) & (low + off <= extent - 1), weight, const(0.0, REAL))
                for off, weight in zip(range(-1, 3), weights, strict=True)]
        whole = kept[0] + kept[1] + kept[2] + kept[3]
        weights = [weight / whole for weight in kept]
    return [(_inside(low + off, extent), weight) for off, weight in zip(range(-1, 3), weights, strict=True)]


def cubic(t: Expr, a: float) -> list[Expr]:
    """Weights of four neighbours for a place t behind the second of them. Source: Keys, 1981."""
    def near(d: Expr) -> Expr:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Expr) -> Expr:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
