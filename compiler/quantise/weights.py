"""Weights and biases as integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.nn.fixed import MOST_SHIFT, MULTIPLIER_BITS, fixed_point

Floats = npt.NDArray[np.float32]

MOST = 127  # of a symmetric int8
MOST_BIAS = 1 << 23  # of a bias: float32 holds such an integer exactly
LEAST_FACTOR, MOST_FACTOR = 4, 1 << 20  # of a residual: fewer would cost the weights too much of their precision
FACTOR_BITS = 9  # so few that multiples of 2**-17 or so are rounded, and so many that of odd ones no middle lies between bounds
TRIED = 256  # integers that stand for a residual


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Symmetric int8 weights.

    scale : the real value of 1, one number or one for each index of an axis
    """

    numbers: npt.NDArray[np.int8]
    scale: Floats
    axis: int

    @property
    def real(self) -> npt.NDArray[Any]:
        """What they stand for."""
        return self.numbers * _spread(self.scale, self.axis, self.numbers.ndim)


def _spread(scale: Floats, axis: int, ndim: int) -> Floats:
    shape = [1] * ndim
    if scale.size > 1:
        shape[axis] = scale.size
    return scale.reshape(shape)


def quantised_weights(
    weight: npt.NDArray[Any], axis: int | None, data_scale: float, bias: npt.NDArray[Any] | None, skip_scale: float | None,
    result_scale: float | None = None,
) -> Weights:
    """The weights of an anchor, with a scale for each index of an axis, or one for all where that is None.

    bias       : a scale is no finer than the bias, in its quanta, allows
    skip_scale : of a residual; the scales are made coarser by so much that a whole number of accumulators is one quantum of it
    result_scale : of what the layer makes; the scales are moved to where what is rounded seldom lies next to the middle between
                   two integers: to factors that `held` gives, with a residual to those that a requantisation has next to exactly
    """
    others = tuple([at for at in range(weight.ndim) if at != axis])
    most = np.abs(weight).max(others) if axis is not None else np.abs(weight).max(keepdims=False).reshape(1)
    scale = np.maximum(most.astype(np.float64) / MOST, 1e-12)
    if bias is not None:
        per = np.abs(bias.astype(np.float64)) / (data_scale * MOST_BIAS)
        scale = np.maximum(scale, per if axis is not None else per.max())
    if skip_scale is not None:
        factor = np.clip(np.floor(skip_scale / (data_scale * scale)), 1, MOST_FACTOR)
        if result_scale is not None:
            factor = _best_factors(factor, skip_scale / result_scale)
        scale = skip_scale / (data_scale * factor)
    elif result_scale is not None:
        ratio = data_scale * scale / result_scale
        scale = scale * np.where(_reaches(ratio), held(ratio) / ratio, 1.0)
    kept = scale.astype(np.float32)
    whole = np.rint(weight / _spread(kept, axis or 0, weight.ndim))
    return Weights(np.clip(whole, -MOST, MOST).astype(np.int8), kept, axis or 0)


def held(ratio: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The factors next to ratios that are an odd number of nine bits times a power of two."""
    _, exponent = np.frexp(ratio)
    step = np.ldexp(1.0, exponent - FACTOR_BITS)
    found: npt.NDArray[np.float64] = (2 * np.floor(ratio / step / 2) + 1) * step
    return found


def _exact(ratio: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The factor that a requantisation has for one."""
    multiplier, shift = fixed_point(ratio, MULTIPLIER_BITS, MOST_SHIFT)
    return np.ldexp(multiplier.astype(np.float64), -shift)


def _reaches(ratio: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether a requantisation holds a factor with all its bits."""
    multiplier, shift = fixed_point(ratio, MULTIPLIER_BITS, MOST_SHIFT)
    return (shift >= 0) & (multiplier >= 1 << MULTIPLIER_BITS - 1)


def _best_factors(most: npt.NDArray[np.float64], ratio: float) -> npt.NDArray[np.float64]:
    """Of the integers up to those given, less a 16th at most, those by which a ratio is most exact in 16 bits."""
    tried = np.maximum(most[..., None] - np.minimum(np.arange(TRIED), most[..., None] // 16), 1)
    wanted = ratio / tried
    best = np.argmin(np.abs(_exact(wanted) - wanted) / wanted, -1)
    found: npt.NDArray[np.float64] = np.take_along_axis(tried, best[..., None], -1)[..., 0]
    return found


def fits_residual(weight: npt.NDArray[Any], axis: int | None, data_scale: float, skip_scale: float) -> bool:
    """Whether one quantum of a residual is several accumulators of every channel, so that it can be added to them."""
    return bool((skip_scale / (data_scale * quantised_weights(weight, axis, data_scale, None, None).scale) >= LEAST_FACTOR).all())
