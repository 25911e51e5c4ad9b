"""Weights and biases as integers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.nn.numbers.fixed import MOST_SHIFT, MULTIPLIER_BITS, fixed_point
from vtakit.compiler.quantize.factors import PARTS, fused, held, lift, reached, short, whole

Floats = npt.NDArray[np.float32]

BITS = (8, 4, 2, 1)  # that a weight may have
CLIPPED = np.linspace(0.3, 1, 36)  # candidates for the clipping range, as shares of the channel's maximum
NOTHING = 1e-30  # a magnitude that is taken for zero: float32 would not hold products of scales for it
OF_ZEROS = 1e-12  # the scale of weights that are all zero
LEAST_UNIT = 2.0**-120  # of the sums: float32 holds its parts, too, with all bits
MOST_BIAS = 1 << 23  # of a bias: float32 holds such an integer exactly
LEAST_FACTOR, MOST_FACTOR = 4, 1 << 20  # of a residual: fewer would cost the weights too much of their precision
TRIED = 256  # integers that stand for a residual


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Symmetric weights of 8 bits or fewer, as int8. Those of one bit are 1 and -1.

    scale : the real value of 1, one number or one for each index of an axis
    lift  : by how many parts of `PARTS` the bias is more than a whole number of sums, beside each scale; None if it is none
    """

    numbers: npt.NDArray[np.int8]
    scale: Floats
    axis: int
    lift: npt.NDArray[np.int64] | None = None

    @property
    def real(self) -> npt.NDArray[Any]:
        """Return the real values of the weights."""
        found: npt.NDArray[Any] = self.numbers * _spread(self.scale, self.axis, self.numbers.ndim)
        return found


def _spread(scale: npt.NDArray[Any], axis: int, ndim: int) -> npt.NDArray[Any]:
    shape = [1] * ndim
    if scale.size > 1:
        shape[axis] = scale.size
    return scale.reshape(shape)


def least_scale(
    weight: npt.NDArray[Any], axis: int | None, data_scale: float, bias: npt.NDArray[Any] | None, lifted: bool = False,
    bits: int = 8, highest: int | None = None,
) -> npt.NDArray[np.float64]:
    """The finest scales of the weights of an anchor, for each index of an axis or, where that is None, for all.

    bias   : a scale is no finer than the bias, in its quanta, allows
    lifted : these quanta are parts of a unit of the sums
    bits   : of a weight; where they are fewer than 8 the scale is the one with the least square error, which clips some weights.
             Source for one bit, whose scale is the mean magnitude: Rastegari et al., "XNOR-Net" (ECCV 2016), section 3.1
    highest : the greatest integer, if it is less than that of the bits
    """
    others, whole = tuple([at for at in range(weight.ndim) if at != axis]), axis is None
    more = 1.0 if highest is None else most_of(bits) / highest
    largest = np.maximum(weight.max(others, keepdims=whole) * more, -weight.min(others, keepdims=whole)).reshape(-1)
    wanted: npt.NDArray[np.float64] = np.where(largest > NOTHING, largest.astype(np.float64) / most_of(bits), OF_ZEROS)
    if bits == 1:
        wanted = np.minimum(wanted, np.abs(weight).mean(others, dtype=np.float64, keepdims=axis is None).reshape(-1) + OF_ZEROS)
    elif bits < 8:
        wanted = _of_least_error(weight.astype(np.float64), axis, others, wanted, bits)
    scale: npt.NDArray[np.float64] = np.maximum(wanted, LEAST_UNIT / data_scale)
    if bias is not None:
        per = np.abs(bias.astype(np.float64)) * (PARTS if lifted else 1) / (data_scale * MOST_BIAS)
        scale = np.maximum(scale, per if axis is not None else per.max())
    return scale


def _of_least_error(
    weight: npt.NDArray[np.float64], axis: int | None, others: tuple[int, ...], scale: npt.NDArray[np.float64], bits: int
) -> npt.NDArray[np.float64]:
    """Return the per-channel scale with the least square error, searched over the clipping ranges `CLIPPED`."""
    def error(tried: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        step = _spread(tried, axis or 0, weight.ndim)
        off = np.square(weight - integers(weight / step, bits) * step)
        return np.asarray(off.sum(others, keepdims=axis is None).reshape(-1))
    return np.asarray(scale * CLIPPED[np.argmin([error(scale * share) for share in CLIPPED], 0)])


def power_above(scale: float) -> float:
    """Return the least power of two that is not below a scale."""
    return float(2.0 ** np.ceil(np.log2(scale)))


def power_of_two_weights(
    weight: npt.NDArray[Any], data_scale: float, bias: npt.NDArray[Any] | None, skip_scale: float | None, bits: int = 8
) -> Weights:
    """The weights of an anchor with one scale for all, a power of two.

    It is the one with the least square error, of those that hold the bias, and of which a residual's quantum is a whole number.

    Arguments as of `quantized_weights`.
    """
    above = power_above(float(least_scale(weight, None, data_scale, bias, bits=bits)[0]))
    least = 0.0 if bias is None else float(np.abs(bias).max(initial=0)) / (data_scale * MOST_BIAS)
    most = np.inf if skip_scale is None else skip_scale / data_scale
    tried = [min(each, most) for each in (above / 2, above, above * 2) if each >= least]
    made = [_rounded(weight, None, np.array([each]), bits) for each in tried]
    errors = [float(((weight.astype(np.float64) - each.real) ** 2).sum()) for each in made]
    return made[int(np.argmin(errors))]


def most_of(bits: int) -> int:
    """Return the maximum of a symmetric integer type of `bits` bits; 1 for one bit, whose values are 1 and -1."""
    return max(1, (1 << bits - 1) - 1)


def integers(quotient: npt.NDArray[Any], bits: int, highest: int | None = None) -> npt.NDArray[np.int8]:
    """Round weights, divided by their scale, to the nearest integer of `bits` bits, at most `highest`, and saturate."""
    if bits == 1:
        return np.where(quotient < 0, np.int8(-1), np.int8(1))
    most = most_of(bits)
    return np.asarray(np.clip(np.rint(quotient), -most, most if highest is None else highest).astype(np.int8))


def quantized_weights(
    weight: npt.NDArray[Any], axis: int | None, data_scale: float, bias: npt.NDArray[Any] | None, skip_scale: float | None,
    result_scale: float | None = None, *, lifted: bool = False, bits: int = 8, highest: int | None = None,
    zero: int = 0,
) -> Weights:
    """The weights of an anchor, with a scale for each index of an axis, or one for all where that is None.

    bias         : a scale is no finer than the bias, in its quanta, allows
    skip_scale   : of a residual; the scales are made coarser by so much that a whole number of accumulators is one quantum of it
    result_scale : of what the layer makes; the scales are moved to where integers and float32 round alike: to factors that
                   `short` gives if the sums are lifted, else to those that `held` gives, or with a residual to those that a
                   requantization has next to exactly
    lifted       : whether the layer's bias may be more than a whole number of sums
    bits, highest : of a weight, and its greatest integer if that is less than theirs
    zero         : the result's zero point
    """
    scale = least_scale(weight, axis, data_scale, bias, lifted, bits, highest)
    if result_scale is not None and lifted:
        factors = short(data_scale * scale / result_scale)
        fits = reached(factors)
        if skip_scale is not None:
            fits &= whole(skip_scale / result_scale / factors)
        if fits[1:].any(0).all():
            return _lifted(weight, axis, factors, fits, result_scale / data_scale, bits, highest)
    if skip_scale is not None:
        units = np.clip(np.floor(skip_scale / (data_scale * scale)), 1, MOST_FACTOR)
        scale = skip_scale / (data_scale * (units if result_scale is None else _best_factors(units, skip_scale / result_scale)))
    elif result_scale is not None:
        ratio = data_scale * scale / result_scale
        scale = np.where(reached(held(ratio)), fused(ratio, data_scale, result_scale, zero), scale)
    return _rounded(weight, axis, scale, bits, highest)


def _rounded(
    weight: npt.NDArray[Any], axis: int | None, scale: npt.NDArray[np.float64], bits: int, highest: int | None = None,
) -> Weights:
    kept = scale.astype(np.float32)
    return Weights(integers(weight / _spread(kept, axis or 0, weight.ndim), bits, highest), kept, axis or 0)


def _lifted(
    weight: npt.NDArray[Any], axis: int | None, factors: npt.NDArray[np.float64], fits: npt.NDArray[np.bool_], unit: float,
    bits: int, highest: int | None,
) -> Weights:
    """Weights by factors that `short` gave, of those that fit: the least from the second on, or the first if it errs less."""
    above = 1 + fits[1:].argmax(0)
    chosen = np.take_along_axis(factors, above[None], 0)[0]
    others = tuple([at for at in range(weight.ndim) if at != axis])
    given = weight.astype(np.float64)
    rounded = [_rounded(weight, axis, each * unit, bits, highest).real for each in (factors[0], chosen)]
    errors = [((given - each) ** 2).sum(others, keepdims=axis is None).reshape(-1) for each in rounded]
    chosen = np.where(fits[0] & (errors[0] < errors[1]), factors[0], chosen)
    found = _rounded(weight, axis, chosen * unit, bits, highest)
    return replace(found, lift=lift(chosen))


def _exact(ratio: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The factor that a requantization has for one."""
    multiplier, shift = fixed_point(ratio, MULTIPLIER_BITS, MOST_SHIFT)
    return np.ldexp(multiplier.astype(np.float64), -shift)


def _best_factors(most: npt.NDArray[np.float64], ratio: float) -> npt.NDArray[np.float64]:
    """Return integers at most a 16th below `most`, by which the ratio can be divided most exactly in 16 bits."""
    tried = np.maximum(most[..., None] - np.minimum(np.arange(TRIED), most[..., None] // 16), 1)
    wanted = ratio / tried
    best = np.argmin(np.abs(_exact(wanted) - wanted) / wanted, -1)
    found: npt.NDArray[np.float64] = np.take_along_axis(tried, best[..., None], -1)[..., 0]
    return found


def fits_residual(
    weight: npt.NDArray[Any], axis: int | None, data_scale: float, skip_scale: float, bits: int = 8, highest: int | None = None,
) -> bool:
    """Return whether one quantum of a residual is several accumulators of every channel, so that it can be added to them."""
    scale = least_scale(weight, axis, data_scale, None, bits=bits, highest=highest)
    return bool((skip_scale / (data_scale * scale) >= LEAST_FACTOR).all())
