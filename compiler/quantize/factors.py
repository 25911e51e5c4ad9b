"""Factors from a unit of a layer's sums to quanta of its result, such that integers and float32 round alike.

Integers round ``sum * factor`` half up, onnxruntime computes it in float32, with errors of its own, and rounds half to even. Both
give the same number unless a result lies in the middle between two integers, or nearer to it than float32 errs.
"""

import numpy as np
import numpy.typing as npt

from vtakit.compiler.nn.numbers.fixed import MOST_SHIFT, MULTIPLIER_BITS, fixed_point

Floats = npt.NDArray[np.float64]

FACTOR_BITS = 10  # so few that multiples of 2**-17 or so are rounded, and so many that of odd ones no middle lies between bounds
SYMMETRIC_BITS = 9  # the same of results without a zero point
SHORT_BITS = 3  # of the factors of layers whose sums are lifted: results are multiples of 2**-12 or so
PARTS = 32  # of a unit of the sums, in which a bias that lifts them counts
MOST_LIFT = 12  # of them: a quantized bias is read as the next integer below, also where float32 has rounded it
TRIED = 24  # factors, from the next on: up to 5 % coarser
TOLERANCE = 2.0**-20  # of a quotient of two float32 scales that is meant to be a number
MOST_PART = 15  # of a unit of a sum of two values
COARSER = 1.2  # by which a scale may be made coarser for its quotient to another
MOST_NUMERATOR = 1 << 10  # of such a quotient


def held(ratio: Floats, place: int = 0, bits: int = FACTOR_BITS) -> Floats:
    """The factors next to ratios that are an odd number of so many bits times a power of two.

    Of ten bits no multiple from -255 to 255, as far as a zero point lets results reach, is a half; of nine none from -128 to
    127.

    place : 0 for the next, 1 for that above it and so on, within the same power of two
    """
    _, exponent = np.frexp(ratio)
    step = np.ldexp(1.0, exponent - bits)
    number = 2 * (np.floor(ratio / step / 2) + place) + 1
    found: Floats = np.clip(number, (1 << bits - 1) + 1, (1 << bits) - 1) * step
    return found


def fused(ratio: Floats, data_scale: float, result_scale: float, zero: int = 0) -> npt.NDArray[np.float32]:
    """Scales of weights for which a layer in integers and onnxruntime's, which is fused to integers too, give the same bytes.

    ratio : what one unit of the sums is in quanta of the result, next to which factors are sought
    zero  : the result's zero point

    onnxruntime multiplies sums by ``data_scale * scale / result_scale``, in float32. Where no scale is found for which the bytes
    are shown to be the same, results that differ are a few in a million.
    """
    tried, good = [], []
    for place in range(TRIED):  # upwards: coarser scales clip no weight
        factor = held(ratio, place)
        near = (factor * result_scale / data_scale).astype(np.float32)
        for scale in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0))):
            tried.append(scale)
            good.append(alike(factor, np.float32(data_scale) * scale / np.float32(result_scale), zero))
    found: npt.NDArray[np.float32] = np.select(good, tried, tried[0])
    return found


def alike(factor: Floats, single: npt.NDArray[np.float32], zero: int = 0) -> npt.NDArray[np.bool_]:
    """Return whether an odd factor of ten bits and one product in float32 round all sums to the same int8 numbers.

    Both are steps that rise with the sum, so they are the same if they rise at the same sums.
    """
    middles = np.arange(-128, 127) - zero + 0.5
    first = np.ceil(middles / factor[..., None])  # never next to an integer: the quotient of a half and ten bits
    above, below = (np.rint((first - back).astype(np.float32) * single[..., None]) for back in (0, 1))
    found: npt.NDArray[np.bool_] = ((above > middles) & (below < middles)).all(-1)
    return found


def reached(ratio: Floats) -> npt.NDArray[np.bool_]:
    """Return whether a requantization holds a factor with all its bits."""
    multiplier, shift = fixed_point(ratio, MULTIPLIER_BITS, MOST_SHIFT)
    return (shift >= 0) & (multiplier >= 1 << MULTIPLIER_BITS - 1)


def short(ratio: Floats) -> Floats:
    """The factors of few bits around each ratio, ascending along a new first dimension: one below, more above."""
    _, exponent = np.frexp(ratio)
    first = np.floor(np.ldexp(ratio, SHORT_BITS - exponent)).astype(int)
    least, count = 1 << SHORT_BITS - 1, (1 << SHORT_BITS) // 2 + 2
    place = first - least + np.arange(count).reshape(-1, *[1] * ratio.ndim)
    found: Floats = np.ldexp((least + place % least).astype(np.float64), exponent - SHORT_BITS + place // least)
    return found


def whole(quotient: Floats) -> npt.NDArray[np.bool_]:
    """Return whether quotients of float32 numbers are meant to be integers, 1 or more."""
    nearest = np.rint(quotient)
    return (nearest >= 1) & (np.abs(quotient - nearest) <= TOLERANCE * nearest)


def lift(factor: Floats) -> npt.NDArray[np.int64]:
    """By how many parts of a unit sums are lifted: half of a step of the result, so that none is next to the middle.

    A result in the middle between two integers is then above it, and rounded up in floating point too; others stay on their side.
    """
    mantissa, _ = np.frexp(factor)
    number = np.rint(np.ldexp(mantissa, SHORT_BITS)).astype(np.int64)
    odd = number // (number & -number)
    found: npt.NDArray[np.int64] = np.minimum(PARTS // 2 // odd, MOST_LIFT)
    return found


def quotient(given: float, ratios: Floats) -> float | None:
    """The quotient of a residual's scale and its result's, next to one given, with which short factors exist near all ratios.

    given  : the wanted quotient; the result is within `COARSER` of it
    ratios : what one unit of each channel's sums is in quanta of the result, at least

    The residual, multiplied by an integer for each channel, is then a residual in units of the sums. Of those that are possible
    the one is taken that makes weights and activations least coarse; None where none is.
    """
    odd = np.arange(1, MOST_NUMERATOR, 2, dtype=np.float64)
    _, exponent = np.frexp(given / odd)
    tried = np.concatenate([np.ldexp(odd, exponent), np.ldexp(odd, exponent - 1)])
    tried = tried[(tried <= given) & (tried * COARSER >= given)]
    factors = short(ratios)[1:]
    fits = whole(tried[:, None, None] / factors)
    coarse = np.where(fits, (factors / ratios) ** 2, np.inf).min(1).mean(1)
    cost = coarse + (given / tried) ** 2
    best = int(np.argmin(cost)) if tried.size else 0
    return float(tried[best]) if tried.size and np.isfinite(cost[best]) else None


def proportion(a: float, b: float) -> tuple[int, int] | None:
    """Small integers p and q so that b, made coarser by `COARSER` at most, is q units of a / p; None where there are none."""
    p = np.arange(1, MOST_PART + 1)
    q = np.ceil(p * b / a - TOLERANCE)
    off = np.where(q <= MOST_PART, q / p * a / b, np.inf)
    best = int(np.argmin(off))
    return (int(p[best]), int(q[best])) if off[best] <= COARSER else None
