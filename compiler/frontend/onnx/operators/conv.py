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


@converts("ConvTranspose")
def conv_transpose(n: OnnxNode) -> Value:
    kernel, sizes = n.shape(1)[2:], n.shape(0)[2:]
    ones = (1,) * len(kernel)
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    more = n.attr("output_padding", (0,) * len(kernel))
    mode, wanted = n.attr("auto_pad", "NOTSET"), n.attr("output_shape")
    pads = tuple(n.attr("pads", (0,) * (2 * len(kernel))))
    if wanted is not None or mode in ("SAME_UPPER", "SAME_LOWER"):
        out = wanted[-len(kernel):] if wanted else [size * step for size, step in zip(sizes, strides, strict=True)]
        total = [
            step * (size - 1) + extra + (reach - 1) * spread + 1 - to
            for step, size, extra, reach, spread, to in zip(strides, sizes, more, kernel, dilations, out, strict=True)
        ]
        less, rest = [each // 2 for each in total], [each - each // 2 for each in total]
        pads = (*less, *rest) if mode == "SAME_UPPER" else (*rest, *less)
    elif mode == "VALID":
        pads = (0,) * (2 * len(kernel))
    y = n.apply(
        "conv_transpose", n[0], n[1], strides=strides, pads=pads, dilations=dilations, groups=n.attr("group", 1),
        output_padding=more,
    )
    return add_bias(n, y, n[2]) if n.has(2) else y
