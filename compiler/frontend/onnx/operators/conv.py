"""Convolutions."""

from collections.abc import Sequence
from typing import Any

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


def pads_of(
    n: OnnxNode, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Elements added before each spatial dimension, then after each, as `auto_pad` or `pads` says."""
    mode = n.attr("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return tuple(n.attr("pads", (0,) * (2 * len(kernel))))
    if mode == "VALID":
        return (0,) * (2 * len(kernel))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise n.unsupported(f"with auto_pad {mode!r}")
    before, after = [], []
    for size, reach, step, spread in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // step) - 1) * step + (reach - 1) * spread + 1 - size)
        less, more = total // 2, total - total // 2
        before.append(less if mode == "SAME_UPPER" else more)
        after.append(more if mode == "SAME_UPPER" else less)
    return (*before, *after)


def add_bias(n: OnnxNode, y: Value, bias: Value, axis: int = 1) -> Value:
    """A bias for each channel."""
    shape = [1] * len(y.type.shape)
    shape[axis] = bias.type.shape[0]
    return n.apply("add", y, n.apply("reshape", bias, shape=tuple(shape)))


def window(n: OnnxNode, kernel: Sequence[int]) -> dict[str, Any]:
    """The attributes of a convolution with a kernel of that shape."""
    ones = (1,) * len(kernel)
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    pads = pads_of(n, n.shape(0)[2:], kernel, strides, dilations)
    return {"strides": strides, "pads": pads, "dilations": dilations, "groups": n.attr("group", 1)}


@converts("Conv")
def conv(n: OnnxNode) -> Value:
    y = n.apply("conv", n[0], n[1], **window(n, n.shape(1)[2:]))
    return add_bias(n, y, n[2]) if n.has(2) else y
