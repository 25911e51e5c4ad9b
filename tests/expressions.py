"""Tensor expressions that no operator of the library knows, written as a user would: its arguments, the result last."""

from collections.abc import Callable

from vtakit import te
from vtakit.compiler.te.tensor import Tensor

Made = list[Tensor]


def stencil_3d(n: int = 96) -> Made:
    """One step of the heat equation: seven points of a volume."""
    A = te.placeholder((n + 2, n + 2, n + 2), name="A")
    B = te.compute((n, n, n), lambda z, y, x: A[z + 1, y + 1, x + 1] * 0.4 + (
        A[z, y + 1, x + 1] + A[z + 2, y + 1, x + 1] + A[z + 1, y, x + 1] + A[z + 1, y + 2, x + 1] + A[z + 1, y + 1, x]
        + A[z + 1, y + 1, x + 2]) * 0.1, name="B")
    return [A, B]


def box_3d(n: int = 48, window: int = 3) -> Made:
    """A weighted sum of the cube around each point of a volume."""
    A = te.placeholder((n + window - 1,) * 3, name="A")
    W = te.placeholder((window,) * 3, name="W")
    c, b, a = (te.reduce_axis((0, window), name) for name in "cba")
    B = te.compute((n, n, n), lambda z, y, x: te.sum(A[z + c, y + b, x + a] * W[c, b, a], axis=[c, b, a]), name="B")
    return [A, W, B]


def grouped_conv1d(groups: int = 4, each: int = 16, length: int = 2048, taps: int = 5) -> Made:
    """A convolution over time whose channels are in groups, with pads and a bias."""
    X = te.placeholder((groups, each, length), name="X")
    W = te.placeholder((groups, each, each, taps), name="W")
    b = te.placeholder((groups, each), name="b")
    c, t = te.reduce_axis((0, each), "c"), te.reduce_axis((0, taps), "t")
    P = te.compute((groups, each, length + taps - 1), lambda g, i, x: te.if_then_else(
        te.all(x >= taps // 2, x < length + taps // 2), X[g, i, x - taps // 2], 0.0), name="P")
    S = te.compute((groups, each, length), lambda g, o, x: te.sum(P[g, c, x + t] * W[g, o, c, t], axis=[c, t]), name="S")
    T = te.compute((groups, each, length), lambda g, o, x: S[g, o, x] + b[g, o], name="T")
    Y = te.compute((groups, each, length), lambda g, o, x: te.select(T[g, o, x] > 0.0, T[g, o, x], 0.0), name="Y")
    return [X, W, b, Y]


def triangular_product(batch: int = 8, n: int = 128) -> Made:
    """Products of lower triangular matrices with others: the sum ends at the row."""
    L = te.placeholder((batch, n, n), name="L")
    B = te.placeholder((batch, n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((batch, n, n), lambda z, i, j: te.sum(L[z, i, k] * B[z, k, j], axis=k, where=k <= i), name="C")
    return [L, B, C]


def pairwise_distance(n: int = 384, m: int = 384, depth: int = 64) -> Made:
    """Euclidean distances of two sets of points."""
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((m, depth), name="B")
    k = te.reduce_axis((0, depth), "k")
    S = te.compute((n, m), lambda i, j: te.sum((A[i, k] - B[j, k]) * (A[i, k] - B[j, k]), axis=k), name="S")
    D = te.compute((n, m), lambda i, j: te.sqrt(S[i, j]), name="D")
    return [A, B, D]


def min_plus(n: int = 256) -> Made:
    """One squaring of a matrix of path lengths."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.min(A[i, k] + B[k, j], axis=k), name="C")
    return [A, B, C]


def cost_volume(channels: int = 32, side: int = 48, reach: int = 4) -> Made:
    """Correlations of the pixels of two images at small displacements, as optical flow needs them."""
    A = te.placeholder((channels, side, side), name="A")
    B = te.placeholder((channels, side + 2 * reach, side + 2 * reach), name="B")
    c = te.reduce_axis((0, channels), "c")
    span = 2 * reach + 1
    V = te.compute((span, span, side, side), lambda v, u, y, x: te.sum(A[c, y, x] * B[c, y + v, x + u], axis=c), name="V")
    return [A, B, V]


def contraction(a: int = 24, b: int = 24, c: int = 24, d: int = 32, e: int = 16, f: int = 16) -> Made:
    """A contraction of two tensors of rank four over two axes, none of them last."""
    S, T = te.placeholder((a, e, b, f), name="S"), te.placeholder((e, c, f, d), name="T")
    p, q = te.reduce_axis((0, e), "p"), te.reduce_axis((0, f), "q")
    R = te.compute((a, b, c, d), lambda i, j, k, m: te.sum(S[i, p, j, q] * T[p, k, q, m], axis=[p, q]), name="R")
    return [S, T, R]


def dilation(side: int = 256, window: int = 7) -> Made:
    """Grey dilation by a structuring element: the largest of sums."""
    A, K = te.placeholder((side + window - 1, side + window - 1), name="A"), te.placeholder((window, window), name="K")
    v, u = te.reduce_axis((0, window), "v"), te.reduce_axis((0, window), "u")
    D = te.compute((side, side), lambda y, x: te.max(A[y + v, x + u] + K[v, u], axis=[v, u]), name="D")
    return [A, K, D]


def involution(channels: int = 32, side: int = 48, window: int = 5) -> Made:
    """A filter of its own for each pixel, the same for all channels."""
    X = te.placeholder((channels, side + window - 1, side + window - 1), name="X")
    W = te.placeholder((window, window, side, side), name="W")
    v, u = te.reduce_axis((0, window), "v"), te.reduce_axis((0, window), "u")
    Y = te.compute((channels, side, side), lambda c, y, x: te.sum(W[v, u, y, x] * X[c, y + v, x + u], axis=[v, u]), name="Y")
    return [X, W, Y]


def affine_bytes(n: int = 192, m: int = 192, depth: int = 256) -> Made:
    """A product of bytes with zero points, in 32 bits."""
    A, B = te.placeholder((n, depth), "uint8", name="A"), te.placeholder((m, depth), "int8", name="B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((n, m), lambda i, j: te.sum(
        (A[i, k].astype("int32") - 7) * (B[j, k].astype("int32") - 3), axis=k), name="C")
    return [A, B, C]


def softmax_bias(heads: int = 8, n: int = 128) -> Made:
    """Attention weights with a bias by distance: a softmax over rows."""
    S, b = te.placeholder((heads, n, n), name="S"), te.placeholder((heads, 2 * n), name="b")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    T = te.compute((heads, n, n), lambda h, i, j: S[h, i, j] * 0.125 + b[h, i - j + n], name="T")
    M = te.compute((heads, n), lambda h, i: te.max(T[h, i, k], axis=k), name="M")
    E = te.compute((heads, n, n), lambda h, i, j: te.exp(T[h, i, j] - M[h, i]), name="E")
    Z = te.compute((heads, n), lambda h, i: te.sum(E[h, i, r], axis=r), name="Z")
    P = te.compute((heads, n, n), lambda h, i, j: E[h, i, j] / Z[h, i], name="P")
    return [S, b, P]


EXPRESSIONS: dict[str, Callable[..., Made]] = {
    each.__name__: each for each in (
        stencil_3d, box_3d, grouped_conv1d, triangular_product, pairwise_distance, min_plus, cost_volume, contraction, dilation,
        involution, affine_bytes, softmax_bias)
}
SMALL: dict[str, dict[str, int]] = {  # sizes for tests, most of them with rests
    "stencil_3d": {"n": 9}, "box_3d": {"n": 10, "window": 2}, "grouped_conv1d": {"groups": 2, "each": 3, "length": 21, "taps": 3},
    "triangular_product": {"batch": 2, "n": 18}, "pairwise_distance": {"n": 9, "m": 20, "depth": 40}, "min_plus": {"n": 18},
    "cost_volume": {"channels": 4, "side": 9, "reach": 1}, "contraction": {"a": 3, "b": 4, "c": 5, "d": 17, "e": 2, "f": 3},
    "dilation": {"side": 20, "window": 3}, "involution": {"channels": 3, "side": 10, "window": 3},
    "affine_bytes": {"n": 6, "m": 20, "depth": 70}, "softmax_bias": {"heads": 2, "n": 36},
}
