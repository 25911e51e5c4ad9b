"""The expressions of `expressions` in NumPy: from the inputs, in order, to the result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[Any]


def stencil_3d(a: Array) -> Array:
    inner = slice(1, -1)
    near = [a[:-2, inner, inner], a[2:, inner, inner], a[inner, :-2, inner], a[inner, 2:, inner], a[inner, inner, :-2],
            a[inner, inner, 2:]]
    return a[inner, inner, inner] * 0.4 + sum(near) * 0.1


def box_3d(a: Array, w: Array) -> Array:
    return np.einsum("zyxcba,cba->zyx", sliding_window_view(a, w.shape), w)


def grouped_conv1d(x: Array, w: Array, b: Array) -> Array:
    half = w.shape[-1] // 2
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (half, half))), w.shape[-1], axis=2)
    return np.maximum(np.einsum("gcxt,goct->gox", windows, w) + b[:, :, None], 0)


def triangular_product(lower: Array, b: Array) -> Array:
    return np.tril(lower) @ b


def pairwise_distance(a: Array, b: Array) -> Array:
    return np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))


def min_plus(a: Array, b: Array) -> Array:
    return (a[:, :, None] + b[None]).min(1)


def cost_volume(a: Array, b: Array) -> Array:
    return np.einsum("cyx,cvuyx->vuyx", a, sliding_window_view(b, a.shape[1:], axis=(1, 2)))


def contraction(s: Array, t: Array) -> Array:
    return np.einsum("apbq,pcqd->abcd", s, t)


def dilation(a: Array, k: Array) -> Array:
    return (sliding_window_view(a, k.shape) + k).max((2, 3))


def involution(x: Array, w: Array) -> Array:
    return np.einsum("cyxvu,vuyx->cyx", sliding_window_view(x, w.shape[:2], axis=(1, 2)), w)


def affine_bytes(a: Array, b: Array) -> Array:
    return (a.astype(np.int32) - 7) @ (b.astype(np.int32) - 3).T


def softmax_bias(s: Array, b: Array) -> Array:
    n = s.shape[1]
    t = s * 0.125 + b[:, np.arange(n)[:, None] - np.arange(n) + n]
    e = np.exp(t - t.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


TRUTHS: dict[str, Callable[..., Array]] = {
    each.__name__: each for each in (
        stencil_3d, box_3d, grouped_conv1d, triangular_product, pairwise_distance, min_plus, cost_volume, contraction, dilation,
        involution, affine_bytes, softmax_bias)
}
