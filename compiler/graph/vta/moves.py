"""Pools, sums of two tensors, concatenation, pads and resizing of a graph as operators of the accelerator."""

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Array, Node
from vtakit.compiler.graph.vta.made import Made, Maker, Numbers, Skip
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.epilogue import Epilogue, made, shape_of
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.packing import blocks, concat_weights
from vtakit.compiler.nn.vta.pad import Pad2d
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
_MOST_PRODUCT = 255**2


def max_pool(m: Maker, data: Tensor, kernel: Pair, stride: Pair, pad: Pads) -> Made:
    """The greatest of each window."""
    layer = Pool2d(target=m.target, name=m.name, data=data, kernel=kernel, stride=stride, pad=pad, weights=m.identity())
    return _plain(m, layer)


def sum_pool(
    m: Maker, data: Tensor, kernel: Pair, stride: Pair, pad: Pads, fill: int, numbers: Numbers, skip: Skip | None,
) -> Made:
    """The sum of each window, requantized."""
    largest = 128 * kernel[0] * kernel[1]
    layer = SumPool2d(target=m.target, name=m.name, data=data, kernel=kernel, stride=stride, pad=pad, fill=fill,
                      weights=m.identity(), epilogue=m.epilogue(numbers, largest, skip))
    return _plain(m, layer)


def scaled_sum(m: Maker, a: Tensor, b: Tensor, a_scale: Array, b_scale: Array, numbers: Numbers) -> Made:
    """Add two tensors with a scale for each channel, and requantize the sum.

    GEMM scales them where each has one scale for all channels that the weight type holds; otherwise the ALU does.
    """
    largest = 128 * int((np.abs(a_scale.astype(np.int64)) + np.abs(b_scale.astype(np.int64))).max(initial=0))
    alike = [int(scale[0]) for scale in (a_scale, b_scale) if (scale == scale[0]).all()]
    small = [scale for scale in alike if abs(scale) < 1 << m.target.config.wgt_bits - 1]
    if len(small) == 2:
        weights = m.identity(small[0], "a_weights"), m.identity(small[1], "b_weights")
        return _plain(m, Binary2d(target=m.target, name=m.name, a=a, b=b, weights=weights, epilogue=m.epilogue(numbers, largest)))
    epilogue = Epilogue(scale=m.scale(a_scale, "a_scale"), add=b, add_scale=m.scale(b_scale, "b_scale"),
                        requantize=m.requantize(numbers, largest),
                        identity=None if m.target.has(Feature.ACC_8BIT) else m.identity(1, "b_identity"))
    return _plain(m, SumPool2d(target=m.target, name=m.name, data=a, weights=m.identity(), epilogue=epilogue))


def product(m: Maker, a: Tensor, b: Tensor, zeros: Pair, numbers: Numbers) -> Made:
    """The product of two tensors, or of one and a number for each channel, each less its zero point, requantized."""
    weights = m.identity(1, "a_weights"), m.identity(1, "b_weights")
    return _plain(m, Binary2d(target=m.target, name=m.name, a=a, b=b, weights=weights, kind="mul", zeros=zeros,
                              epilogue=m.epilogue(numbers, _MOST_PRODUCT)))


def lookup(m: Maker, data: Tensor, channels: int, table: tuple[int, ...]) -> Made:
    """The entries of a table."""
    ones = np.ones(channels, np.int64)
    numbers = Numbers(0 * ones, ones, 0 * ones, table=table)
    return _plain(m, SumPool2d(target=m.target, name=m.name, data=data, weights=m.identity(), epilogue=m.epilogue(numbers, 128)))


def slice_of(m: Maker, data: Tensor, first: int, channels: int) -> Made:
    """Some channels, from one on that begins a block."""
    images, _, *rest = shape_of(data)
    count = blocks(channels, m.target.config.block)
    view = made((images, count, *rest), lambda n, c, *at: data(n, c + first // m.target.config.block, *at), f"{m.name}__part")
    layer = SumPool2d(target=m.target, name=m.name, data=view, weights=m.identity())
    return Made(layer, layer.result, m.constants, (view,))


def concat(m: Maker, data: list[Tensor], channels: list[int]) -> Made:
    """The channels of several tensors."""
    weights = m.constant(concat_weights(m.target, channels), "wgt", "weights")
    return _plain(m, Concat2d(target=m.target, name=m.name, data=tuple(data), weights=weights))


def pad_of(node: Node) -> Pads:
    """(above, below, left, right) of a pad node. Raises VtaError for pads of other dimensions, or that are no constants."""
    pads, count = tuple(node.attrs["pads"]), len(node.outputs[0].type.shape)
    if node.attrs.get("mode", "constant") != "constant" or min(pads) < 0:
        raise VtaError(f"a pad of mode {node.attrs.get('mode')!r} by {pads}; the accelerator has constant pads of 0 or more")
    if any(pads[at] or pads[at + count] for at in (0, 1)):
        raise VtaError("a pad of images or channels")
    above, left = ((0, *pads[2:count]))[-2:]
    below, right = ((0, *pads[count + 2:]))[-2:]
    return above, below, left, right


def pad(m: Maker, data: Tensor, pads: Pads, value: int) -> Made:
    """A number around the data."""
    return _plain(m, Pad2d(target=m.target, name=m.name, data=data, weights=m.identity(), pad=pads, value=value))


def check_resize(node: Node) -> None:
    """Raise VtaError unless a resize takes the values that the accelerator's takes: of row ``floor(y * height / rows)``."""
    old, new = node.reads[0].type.shape, node.outputs[0].type.shape
    attrs = node.attrs
    if attrs.get("mode", "nearest") != "nearest" or old[:2] != new[:2] or attrs.get("coordinates") == "tf_crop_and_resize":
        raise VtaError("the accelerator resizes to the nearest value, and keeps images and channels")
    for axis in range(2, len(old)):
        scales = None if attrs.get("scales") is None else (attrs["scales"][axis],)
        builder = Builder("places")
        x = builder.constant(np.arange(old[axis], dtype=np.int32))
        made = builder.one("resize", x, attrs={**attrs, "sizes": (new[axis],), "scales": scales, "roi": None})
        (places,) = evaluate_graph(builder.finish([("places", made)]))
        if not np.array_equal(places, np.arange(new[axis]) * old[axis] // new[axis]):
            raise VtaError(f"a resize from {old[axis]} to {new[axis]} that takes other values than floor(i * {old[axis]} / "
                           f"{new[axis]})")


def resize(m: Maker, data: Tensor, rows: int, columns: int) -> Made:
    """The nearest values."""
    return _plain(m, Resize2d(target=m.target, name=m.name, data=data, weights=m.identity(), rows=rows, columns=columns))


def _plain(m: Maker, layer: Layer) -> Made:
    return Made(layer, layer.result, m.constants)
