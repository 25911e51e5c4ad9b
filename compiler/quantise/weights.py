"""Weights and biases as integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

MOST = 127  # of a symmetric int8
MOST_BIAS = 1 << 23  # of a bias: float32 holds such an integer exactly
LEAST_FACTOR, MOST_FACTOR = 4, 1 << 20  # of a residual: fewer would cost the weights too much of their precision


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
) -> Weights:
    """The weights of an anchor, with a scale for each index of an axis, or one for all where that is None.

    bias       : a scale is no finer than the bias, in its quanta, allows
    skip_scale : of a residual; the scales are made coarser by so much that a whole number of accumulators is one quantum of it
    """
    others = tuple([at for at in range(weight.ndim) if at != axis])
    most = np.abs(weight).max(others) if axis is not None else np.abs(weight).max(keepdims=False).reshape(1)
    scale = np.maximum(most.astype(np.float64) / MOST, 1e-12)
    if bias is not None:
        per = np.abs(bias.astype(np.float64)) / (data_scale * MOST_BIAS)
        scale = np.maximum(scale, per if axis is not None else per.max())
    if skip_scale is not None:
        factor = np.clip(np.floor(skip_scale / (data_scale * scale)), 1, MOST_FACTOR)
        scale = skip_scale / (data_scale * factor)
    held = scale.astype(np.float32)
    whole = np.rint(weight / _spread(held, axis or 0, weight.ndim))
    return Weights(np.clip(whole, -MOST, MOST).astype(np.int8), held, axis or 0)


def fits_residual(weight: npt.NDArray[Any], axis: int | None, data_scale: float, skip_scale: float) -> bool:
    """Whether one quantum of a residual is several accumulators of every channel, so that it can be added to them."""
    return bool((skip_scale / (data_scale * quantised_weights(weight, axis, data_scale, None, None).scale) >= LEAST_FACTOR).all())
