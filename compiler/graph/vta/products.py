"""Convolutions and matrix products of a graph as operators of the accelerator."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.graph.vta.made import Attrs, Made, Maker, Numbers, Skip, four_pads, largest_sum, pairs, viewed
from vtakit.compiler.nn.packed import Image
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.fold import Fold, choose_fold
from vtakit.compiler.nn.vta.packing import blocks, pack_transposed_weights, pack_weights
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The attributes of a convolution; pairs are (down, across), pad is (above, below, left, right)."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int, int, int]
    groups: int
    spatial: int

    @classmethod
    def of(cls, attrs: Attrs, spatial: int) -> Self:
        """Of a node. Raises VtaError for more than two spatial dimensions."""
        if not 1 <= spatial <= 2:
            raise VtaError(f"a convolution of {spatial} spatial dimensions; the accelerator's have 1 or 2")
        return cls(
            stride=pairs(attrs.get("strides"), spatial, 1), dilation=pairs(attrs.get("dilations"), spatial, 1),
            pad=four_pads(attrs.get("pads"), spatial), groups=attrs.get("groups", 1), spatial=spatial,
        )

    def four(self, weights: Array) -> Array:
        """Weights with rows, also of a convolution along one dimension."""
        return weights if self.spatial == 2 else weights[:, :, None]


def fold_of(target: Target, image: Image, weights: Array, shape: Shape) -> Fold | None:
    """How the data of a convolution of few channels is best laid out, if some way is better than as it is."""
    outs, channels, *kernel = shape.four(weights).shape
    if shape.groups > 1 or channels >= target.config.block or max(shape.dilation) > 1 or max(kernel) == 1:
        return None
    images = blocks(image[0], target.config.batch)
    fold = choose_fold(target, (images, *image[1:]), outs, kernel=(kernel[0], kernel[1]), stride=shape.stride, pad=shape.pad)
    return None if fold.taps == (1, 1) else fold


def conv(
    m: Maker, data: Tensor, weights: Array, shape: Shape, numbers: Numbers, skip: Skip | None, fold: Fold | None
) -> Made:
    """conv_integer and its requantisation; `data` is what `fold` makes of it, if that is given."""
    given, epilogue = shape.four(weights), m.epilogue(numbers, largest_sum(weights, tuple(range(1, weights.ndim))), skip)
    if fold is not None:
        packed = m.constant(fold.weights(m.target, given), "wgt", "weights")
        layer = Conv2d(target=m.target, name=m.name, data=data, weights=packed, stride=fold.stride, dilation=fold.dilation,
                       epilogue=epilogue)
    else:
        found, groups = pack_weights(m.target, given, shape.groups)
        layer = Conv2d(target=m.target, name=m.name, data=data, weights=m.constant(found, "wgt", "weights"), stride=shape.stride,
                       pad=shape.pad, dilation=shape.dilation, groups=groups, epilogue=epilogue)
    return _of_blocks(m, layer, len(weights), layer.out_height, layer.out_width)


def transposed(
    m: Maker, data: Tensor, weights: Array, shape: Shape, image: Image, numbers: Numbers, skip: Skip | None
) -> Made:
    """conv_transpose_integer and its requantisation.

    image : the shape of the result

    Raises VtaError for groups, dilation, a residual, or a result that is no whole number of strides.
    """
    if shape.groups > 1 or max(shape.dilation) > 1 or skip is not None:
        raise VtaError("a transposed convolution with groups, dilation or a residual, which networks have on the CPU only")
    _, _, rows, columns = image
    if rows % shape.stride[0] or columns % shape.stride[1]:
        raise VtaError(f"a transposed convolution to {rows} x {columns} pixels, which are no whole strides of {shape.stride}")
    given = shape.four(weights)
    packed = m.constant(pack_transposed_weights(m.target, given, shape.stride), "wgt", "weights")
    epilogue = m.epilogue(numbers, largest_sum(given, (0, 2, 3)))
    layer = TransposedConv2d(target=m.target, name=m.name, data=data, weights=packed, rows=rows, columns=columns,
                             pad=(shape.pad[0], shape.pad[2]), epilogue=epilogue)
    return _of_blocks(m, layer, image[1], rows, columns)


def dense(
    m: Maker, data: Tensor, weights: Array, size: tuple[int, int, int], numbers: Numbers, skip: Skip | None, image: Image | None
) -> Made:
    """matmul_integer and its requantisation: a convolution whose kernel is the whole of each image.

    weights : [channels * rows * columns, outputs]
    size    : channels, rows and columns of the data
    image   : the shape that the outputs are given, if they are

    Outputs that become images are computed in the order in which these lie in memory, so that nothing is moved.
    """
    kernels, rows, columns = weights.T.reshape(-1, *size), 1, 1
    largest, outs = largest_sum(weights, (0,)), weights.shape[1]
    if image is not None:
        _, outs, rows, columns = image
        order = _packed_order(outs, rows, columns, m.target.config.block)
        kernels = np.where((order < 0)[:, None, None, None], 0, kernels[order])
        numbers = numbers.ordered(order)
    packed, _ = pack_weights(m.target, kernels)
    layer = Conv2d(target=m.target, name=m.name, data=data, weights=m.constant(packed, "wgt", "weights"),
                   epilogue=m.epilogue(numbers, largest, skip))
    return _of_blocks(m, layer, outs, rows, columns)


def _packed_order(channels: int, rows: int, columns: int, block: int) -> Array:
    """For each place of an image in memory which of its values, channels first, lies there; -1 where none does."""
    found = np.full((blocks(channels, block) * block, rows, columns), -1)
    found[:channels] = np.arange(channels * rows * columns).reshape(channels, rows, columns)
    return found.reshape(-1, block, rows, columns).transpose(0, 2, 3, 1).reshape(-1)


def _of_blocks(m: Maker, layer: Any, outs: int, rows: int, columns: int) -> Made:
    batch, block = m.target.element("inp")
    return Made(layer, viewed(layer, (shape_of(layer.data)[0], blocks(outs, block), rows, columns, batch, block)), m.constants)
