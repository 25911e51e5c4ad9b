"""Definitions of layers in plain NumPy on float32 arrays, images as [N, C, H, W].

The largest sums go through matrix products, one for each element of a kernel, so that a whole ResNet-50 takes seconds.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def conv2d(x: Array, weight: Array, *, stride: int = 1, pad: int = 0, groups: int = 1, dilation: int = 1) -> Array:
    """Cross-correlation with zeros around the image.

    x       [N, C, H, W]
    weight  [O, C / groups, KH, KW]
    result  [N, O, OH, OW]     OH = (H + 2 * pad - dilation * (KH - 1) - 1) // stride + 1, OW likewise
    """
    images, channels = x.shape[:2]
    outputs, _, high, wide = weight.shape
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    rows, columns = ((size - dilation * (taps - 1) - 1) // stride + 1 for size, taps in zip(
        padded.shape[2:], (high, wide), strict=True))
    taps = np.ascontiguousarray(weight.transpose(2, 3, 0, 1)).reshape(high, wide, groups, outputs // groups, channels // groups)
    made = np.zeros((images, groups, outputs // groups, rows * columns), x.dtype)
    for i in range(high):
        for j in range(wide):
            from_tap = padded[:, :, i * dilation :, j * dilation :]
            seen = from_tap[:, :, : rows * stride : stride, : columns * stride : stride][:, :, :rows, :columns]
            made += taps[i, j] @ seen.reshape(images, groups, channels // groups, rows * columns)
    return made.reshape(images, outputs, rows, columns)


def conv_transpose2d(x: Array, weight: Array, *, stride: int = 1, pad: int = 0) -> Array:
    """The gradient of `conv2d` with respect to its image.

    x       [N, C, H, W]
    weight  [C, O, KH, KW]
    result  [N, O, OH, OW]     OH = (H - 1) * stride + KH - 2 * pad, OW likewise
    """
    images, channels, rows, columns = x.shape
    _, outputs, high, wide = weight.shape
    made = np.zeros((images, outputs, (rows - 1) * stride + high, (columns - 1) * stride + wide), x.dtype)
    flat = x.reshape(images, channels, rows * columns)
    taps = np.ascontiguousarray(weight.transpose(2, 3, 1, 0))
    for i in range(high):
        for j in range(wide):
            part = (taps[i, j] @ flat).reshape(images, outputs, rows, columns)
            made[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride][:, :, :rows, :columns] += part
    return made[:, :, pad : made.shape[2] - pad, pad : made.shape[3] - pad]


def max_pool2d(x: Array, kernel: int, *, stride: int, pad: int = 0) -> Array:
    """The largest of each window; what is outside of the image counts as minus infinity."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    made: Array = windows[:, :, ::stride, ::stride].max(axis=(4, 5))
    return made


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    made: Array = (0.5 * (1 + np.tanh(0.5 * x))).astype(x.dtype)
    return made


def erf(x: Array) -> Array:
    """The error function of each number."""
    made: Array = np.asarray(np.frompyfunc(math.erf, 1, 1)(x), x.dtype)
    return made


def lstm(x: Array, weight: Array, recurrent: Array, bias: Array) -> Array:
    """A layer of LSTM cells that starts from zeros (Hochreiter and Schmidhuber, 1997; gates as ONNX has them).

    x          [T, N, I]
    weight     [4 * H, I]     rows: input, output and forget gate, cell
    recurrent  [4 * H, H]
    bias       [4 * H]
    result     [T, N, H]
    """
    hidden = recurrent.shape[1]
    state = cell = np.zeros((x.shape[1], hidden), x.dtype)
    made = []
    for step in x:
        gates = step @ weight.T + state @ recurrent.T + bias
        taken, shown, kept = (sigmoid(gates[:, k * hidden : (k + 1) * hidden]) for k in range(3))
        cell = kept * cell + taken * np.tanh(gates[:, 3 * hidden :])
        state = shown * np.tanh(cell)
        made.append(state)
    return np.stack(made)
