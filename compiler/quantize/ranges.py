"""The range that int8 spans, chosen from a histogram of values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 4096
Method = Literal["max", "percentile", "mse", "entropy"]

_LEAST = 1e-30  # that bins resolve: the inverse of their width must be a float32

BITS = (8, 4, 2)  # that an activation may have
LEVELS = 128  # magnitudes of a symmetric int8; of fewer bits 8 and 2
PERCENTILE = 99.999  # of the magnitudes that are kept whole
# Chosen by hand, no sweep is kept. `python benchmarks/quantization_peers.py --folder FOLDER` has the results on trained networks
# (docs/quantization.md, "Beside onnxruntime's quantizer").
CLIPPING = 4.0  # weight, without unit, of the squared error of clipping, which is of one sign and at the greatest values
SHARES = np.linspace(1, 0.2, 81)  # candidates for an end of a range, as shares of that extreme: hundredths, down to a fifth


@dataclass(frozen=True, slots=True)
class Range:
    """Real numbers that an activation should hold; 0 is always among them."""

    low: float
    high: float

    def __or__(self, other: "Range") -> "Range":
        """Return the range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    @property
    def most(self) -> float:
        """Greatest magnitude."""
        return max(-self.low, self.high)


class Histogram:
    """Histogram of magnitudes, in bins of equal width. The width doubles where a greater magnitude comes.

    counts : of all numbers     below : of those less than 0
    width  : of a bin           low, high : the least and the greatest number, or 0
    """

    def __init__(self) -> None:
        self.counts: Floats = np.zeros(BINS)
        self.below: Floats = np.zeros(BINS)
        self.width = self.low = self.high = 0.0

    @property
    def most(self) -> float:
        """Greatest magnitude."""
        return max(-self.low, self.high)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Count the magnitudes of finite numbers."""
        signed = values.reshape(-1).astype(np.float32, copy=False)
        if not signed.size:
            return
        found = np.abs(signed)
        most = float(found.max())
        self.low, self.high = min(self.low, float(signed.min())), max(self.high, float(signed.max()))
        if not self.width and most:
            self.width = max(most, _LEAST) / BINS
        while most > self.width * BINS:
            self.counts, self.below = (np.pad(each.reshape(-1, 2).sum(1), (0, BINS // 2)) for each in (self.counts, self.below))
            self.width *= 2
        places = (found * (1 / self.width)).astype(np.int32) if self.width else np.zeros(found.size, np.int32)
        places = np.minimum(places, BINS - 1)
        self.counts += np.bincount(places, minlength=BINS)
        self.below += np.bincount(places[signed < 0], minlength=BINS)

    @property
    def middles(self) -> Floats:
        """The magnitude in the middle of each bin."""
        found: Floats = (np.arange(BINS, dtype=np.float64) + 0.5) * self.width
        return found


def by_maximum(histogram: Histogram, levels: int = LEVELS) -> float:
    """The greatest magnitude."""
    return histogram.most


def by_percentile(histogram: Histogram, levels: int = LEVELS) -> float:
    """The magnitude that all but 0.001 % stay below."""
    total = np.cumsum(histogram.counts)
    at = int(np.searchsorted(total, total[-1] * PERCENTILE / 100))
    return min(histogram.most, (at + 1) * histogram.width)


def by_error(histogram: Histogram, levels: int = LEVELS) -> float:
    """The range with the least mean squared error, of rounding within it and of clipping beyond."""
    there = histogram.counts > 0
    values, counts = histogram.middles[there], histogram.counts[there]
    best, least = histogram.most, np.inf
    for share in np.linspace(1, 0.2 if levels == LEVELS else 0.05, 81) if best else ():
        limit = histogram.most * float(share)
        step = limit / (levels - 1)
        kept = np.minimum(np.rint(values / step), levels - 1) * step
        error = float(np.sum(counts * (values - kept) ** 2))
        if error < least:
            best, least = limit, error
    return best


def by_entropy(histogram: Histogram, levels: int = LEVELS) -> float:
    """The range whose quantized distribution tells least apart from the true one.

    Source: Migacz, "8-bit inference with TensorRT" (GTC 2017): the Kullback-Leibler divergence over candidate ranges. What is
    zero, as half of what a Relu leaves, stays zero in every range: counted, its spike would favour ranges that clip nearly
    all of the rest. And of few samples no bin has what its neighbours have: what this alone adds to the divergence of counts,
    half a count for each freedom, is taken off.
    """
    counts = histogram.counts.copy()
    counts[0] = min(counts[0], counts[1])
    total = max(float(counts.sum()), 1.0)
    last = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
    best, least = histogram.most, np.inf
    for end in range(last, levels - 1, -16):  # of ranges that tell as little apart, the widest
        true = counts[:end].copy()
        true[-1] += counts[end:].sum()
        level = np.minimum(np.arange(end) * levels // end, levels - 1)
        filled = counts[:end] > 0
        sums = np.bincount(level, counts[:end], levels)
        share = np.bincount(level, filled, levels)
        spread = np.where(filled, (sums / np.maximum(share, 1))[level], 0)
        p, q = true / total, spread / max(spread.sum(), 1e-30)
        at = p > 0
        freedoms = int(filled.sum()) - np.count_nonzero(share)
        error = float(np.sum(p[at] * np.log(p[at] / np.maximum(q[at], 1e-10)))) - freedoms / (2 * total)
        if error < least:
            best, least = min(histogram.most, end * histogram.width), error
    return best


METHODS: dict[Method, Callable[[Histogram, int], float]] = {
    "max": by_maximum, "percentile": by_percentile, "mse": by_error, "entropy": by_entropy,
}
DEFAULT_METHOD: Method = "mse"


def range_of(histogram: Histogram, method: Method, bits: int = 8, symmetric: bool = False) -> Range:
    """Return the range of an activation of so many bits; with a zero point, unless it is to be symmetric."""
    if symmetric or bits < 8:
        most = METHODS[method](histogram, 1 << bits - 1)
        return Range(-most, most)
    if method == "mse":
        return _of_least_error(histogram)
    one_sided = not histogram.low or not histogram.high
    most = METHODS[method](histogram, LEVELS * (2 if one_sided else 1))
    return Range(max(histogram.low, -most), min(histogram.high, most))


def _of_least_error(histogram: Histogram) -> Range:
    """Return the range with the least mean squared error among shares of both extremes, clipping weighed by `CLIPPING`.

    Within the range rounding errs by a twelfth of the squared step, but for zeros, which are exact. Beyond it the error is that
    of clipping.
    """
    middles = histogram.middles
    above = histogram.counts - histogram.below
    above[0] = 0  # mostly exact zeros
    highs, beyond_high, inside_high = _clipped(middles, above, histogram.high)
    lows, beyond_low, inside_low = _clipped(middles, histogram.below, -histogram.low)
    step = (highs[:, None] + lows) / (2 * LEVELS - 1)
    error = (inside_high[:, None] + inside_low) * step**2 / 12 + CLIPPING * (beyond_high[:, None] + beyond_low)
    high, low = np.unravel_index(int(np.argmin(error)), error.shape)
    return Range(-float(lows[low]), float(highs[high]))


def _clipped(values: Floats, counts: Floats, most: float) -> tuple[Floats, Floats, Floats]:
    """Return candidates for a limit, the squared error of clipping at each, and how many values lie within."""
    limits = most * SHARES if most else np.zeros(1)
    beyond = values[:, None] > limits
    error = (np.square(values[:, None] - limits) * beyond * counts[:, None]).sum(0)
    return limits, error, (counts[:, None] * ~beyond).sum(0)
