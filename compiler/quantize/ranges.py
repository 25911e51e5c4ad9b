"""The range that int8 spans, chosen from a histogram of magnitudes."""

from collections.abc import Callable
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


class Histogram:
    """Histogram of magnitudes, in bins of equal width. The width doubles where a greater magnitude comes.

    width : of a bin     most : the greatest magnitude
    """

    def __init__(self) -> None:
        self.counts: Floats = np.zeros(BINS)
        self.width = self.most = 0.0

    def add(self, values: npt.NDArray[Any]) -> None:
        """Count the magnitudes of finite numbers."""
        found = np.abs(values.reshape(-1).astype(np.float32, copy=False))
        if not found.size:
            return
        most = float(found.max())
        self.most = max(self.most, most)
        if not self.width and most:
            self.width = max(most, _LEAST) / BINS
        while most > self.width * BINS:
            self.counts = np.pad(self.counts.reshape(-1, 2).sum(1), (0, BINS // 2))
            self.width *= 2
        places = (found * (1 / self.width)).astype(np.int32) if self.width else np.zeros(found.size, np.int32)
        self.counts += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)

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
