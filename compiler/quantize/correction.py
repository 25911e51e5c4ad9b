"""By how much rounding the weights moves the mean of a layer's sums, which its bias takes up.

Source: Nagel et al., "Data-free quantization through weight equalization and bias correction" (ICCV 2019), section 4.2: the
expected error of a sum is the sum of the weights' errors times the expected data.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.quantize.network import attributes

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]


def mean_error(node: "onnx.NodeProto", mean: Array, error: Array, out: Sequence[int]) -> Array:
    """The mean error of an anchor's sums, over all places of each channel.

    mean  : of what it reads, over samples, [1, channels, …]     error : of its weights     out : its result's shape
    """
    given = attributes(node)
    if node.op_type in ("Gemm", "MatMul"):
        columns = error.T if given.get("transB") else error
        found: Array = mean.reshape(-1, len(columns)).mean(0) @ columns
        return found
    groups = given.get("group", 1)
    kernel = error.shape[2:]
    transposed = node.op_type == "ConvTranspose"
    parts = []
    for data, weight in zip(np.split(mean[0], groups), np.split(error, groups), strict=True):
        met = _met_transposed(data, kernel, given, out[2:]) if transposed else _met(data, kernel, given, out[2:])
        parts.append(np.einsum("cmk,ck->m" if transposed else "mck,ck->m", weight.reshape(*weight.shape[:2], -1), met))
    return np.concatenate(parts)


def _met(data: Array, kernel: Sequence[int], given: dict[str, Any], out: Sequence[int]) -> Array:
    """[channels, cells]: the mean of what each cell of a kernel meets as it moves over data [channels, …]."""
    count = len(kernel)
    steps, spread = given.get("strides") or (1,) * count, given.get("dilations") or (1,) * count
    mode, pads = given.get("auto_pad", "NOTSET"), given.get("pads") or (0,) * count
    found = np.zeros((len(data), prod(kernel)))
    for cell, at in enumerate(product(*map(range, kernel))):
        part = data
        for axis in range(count):
            size, reach = data.shape[1 + axis], (kernel[axis] - 1) * spread[axis] + 1
            total = max(0, (out[axis] - 1) * steps[axis] + reach - size)
            front = {"SAME_UPPER": total // 2, "SAME_LOWER": total - total // 2, "VALID": 0}.get(mode, pads[axis])
            places = np.arange(out[axis]) * steps[axis] + at[axis] * spread[axis] - front
            part = part.take(places[(places >= 0) & (places < size)], axis=1 + axis)
        found[:, cell] = part.reshape(len(data), -1).sum(1) / prod(out)
    return found


def _met_transposed(data: Array, kernel: Sequence[int], given: dict[str, Any], out: Sequence[int]) -> Array:
    """[channels, cells]: the sum of the data that a cell puts into the result, for each of the result's places."""
    count = len(kernel)
    steps, spread = given.get("strides") or (1,) * count, given.get("dilations") or (1,) * count
    pads = given.get("pads") or (0,) * count
    found = np.zeros((len(data), prod(kernel)))
    for cell, at in enumerate(product(*map(range, kernel))):
        part = data
        for axis in range(count):
            places = np.arange(data.shape[1 + axis]) * steps[axis] + at[axis] * spread[axis] - pads[axis]
            part = part.compress((places >= 0) & (places < out[axis]), axis=1 + axis)
        found[:, cell] = part.reshape(len(data), -1).sum(1) / prod(out)
    return found
