"""Convolutions and matrix products of a graph as operators of the accelerator."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.graph.vta.made import Attrs, Made, Maker, Numbers, Skip, four_pads, largest_sum, pairs, viewed
from vtakit.compiler.nn.moves.packed import Image
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.depthwise import Depthwise2d, Parts
from vtakit.compiler.nn.vta.epilogue import Epilogue, made, shape_of
from vtakit.compiler.nn.vta.fold import Fold, choose_fold
from vtakit.compiler.nn.vta.packing import blocks, pack_grouped_transposed_weights, pack_weights
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature

MOST_BYTE = 128  # of an activation, either way


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The attributes of a convolution; pairs are (down, across), pad is (above, below, left, right) of the value `fill`."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int, int, int]
    groups: int
    spatial: int
    fill: int

    @classmethod
    def of(cls, attrs: Attrs, spatial: int) -> Self:
        """Return the shape parameters of a node's attributes. Raises VtaError for more than two spatial dimensions."""
        if not 1 <= spatial <= 2:
            raise VtaError(f"a convolution of {spatial} spatial dimensions; the accelerator's have 1 or 2")
        return cls(
            stride=pairs(attrs.get("strides"), spatial, 1), dilation=pairs(attrs.get("dilations"), spatial, 1),
            pad=four_pads(attrs.get("pads"), spatial), groups=attrs.get("groups", 1), spatial=spatial,
            fill=attrs.get("fill", 0),
        )

    def four(self, weights: Array) -> Array:
        """Weights with rows, also of a convolution along one dimension."""
        return weights if self.spatial == 2 else weights[:, :, None]


def fold_of(target: Target, image: Image, weights: Array, shape: Shape, pooling: Pooling | None = None) -> Fold | None:
    """Return the best layout for the data of a convolution of few channels, or None if that is the plain one."""
    outs, channels, *kernel = shape.four(weights).shape
    if shape.groups > 1 or channels >= target.config.block or max(shape.dilation) > 1 or max(kernel) == 1:
        return None
    images = blocks(image[0], target.config.batch)
    fold = choose_fold(target, (images, *image[1:]), outs, kernel=(kernel[0], kernel[1]), stride=shape.stride, pad=shape.pad,
                       fill=shape.fill, pooling=pooling)
    return None if fold.taps == (1, 1) else fold


def conv(
    m: Maker, data: Tensor, weights: Array, shape: Shape, numbers: Numbers, skip: Skip | None, fold: Fold | None,
    pooling: Pooling | None = None,
) -> Made:
    """Make conv_integer and its requantization.

    fold    : how `data` is laid out, if not plainly
    pooling : windows of sums of which the greatest are requantized
    """
    given, epilogue = shape.four(weights), m.epilogue(numbers, largest_sum(weights, tuple(range(1, weights.ndim))), skip)
    windows = None if fold is not None or pooling is not None else _depthwise(m, data, given, shape, epilogue)
    if windows is not None:
        return _of_blocks(m, windows, len(weights), windows.out_height, windows.out_width)
    if fold is not None:
        last, higher = m.digits(fold.weights(m.target, given))
        layer = Conv2d(target=m.target, name=m.name, data=data, weights=last, higher=higher, stride=fold.stride,
                       dilation=fold.dilation, pooling=pooling, epilogue=epilogue, between=m.between)
    else:
        found, groups = pack_weights(m.target, given, shape.groups)
        last, higher = m.digits(found)
        layer = Conv2d(target=m.target, name=m.name, data=data, weights=last, higher=higher, stride=shape.stride, pad=shape.pad,
                       fill=shape.fill, dilation=shape.dilation, groups=groups, pooling=pooling, epilogue=epilogue,
                       inside=m.inside, between=m.between)
    return _of_blocks(m, layer, len(weights), layer.out_height, layer.out_width)


def _depthwise(m: Maker, data: Tensor, weights: Array, shape: Shape, epilogue: Epilogue) -> Depthwise2d | None:
    """A convolution of each channel by itself, by windows; None if it is another, or a device cannot run it so.

    weights : [channels, 1, rows, columns]
    """
    if not m.target.has(Feature.DWCONV) or weights.shape[1] > 1 or shape.groups != len(weights):
        return None
    kernels = _dilated(weights, shape.dilation)[:, 0]
    kernel = kernels.shape[1], kernels.shape[2]
    packed = Parts.of(m.target, kernel).weights(m.target, kernels)
    kept = dict(m.constants)
    try:
        last, higher = m.digits(packed)
        found = Depthwise2d(
            target=m.target, name=m.name, data=data, weights=last, higher=higher,
            kernel=kernel, stride=shape.stride, pad=shape.pad, fill=shape.fill, epilogue=epilogue)
        found.schedule(create_schedule(found.result.op))
    except VtaError:
        m.constants = kept
        return None
    return found


def transposed(
    m: Maker, data: Tensor, weights: Array, shape: Shape, image: Image, numbers: Numbers, skip: Skip | None, zero: int = 0,
) -> Made:
    """conv_transpose_integer and its requantization.

    image : the shape of the result
    zero  : what is taken off the data; what that adds to the sums differs by phase, since each has taps of its own

    Raises VtaError for a result that is no whole number of strides.
    """
    _, outs, rows, columns = image
    (down, across), groups = shape.stride, shape.groups
    if rows % down or columns % across:
        raise VtaError(f"a transposed convolution to {rows} x {columns} pixels, which are no whole strides of {shape.stride}")
    given = _dilated(shape.four(weights), shape.dilation)
    found, parts = pack_grouped_transposed_weights(m.target, given, shape.stride, groups)
    inlined: tuple[Tensor, ...] = ()
    if skip is not None:
        skip = Skip(_phased(skip.tensor, shape.stride, f"{m.name}__skip"), skip.scale)
        inlined = (skip.tensor,)
    of_groups = given.reshape(groups, -1, *given.shape[1:])
    largest = largest_sum(of_groups, (1, 3, 4))
    if zero:
        numbers = _by_phase(m, numbers, zero * _phase_sums(of_groups, shape.stride, (shape.pad[0], shape.pad[2])))
    last, higher = m.digits(found)
    layer = TransposedConv2d(
        target=m.target, name=m.name, data=data, weights=last, higher=higher, rows=rows, columns=columns,
        pad=(shape.pad[0], shape.pad[2]), fill=zero, by_phase=bool(zero), groups=parts,
        epilogue=m.epilogue(numbers, largest, skip))
    return _of_blocks(m, layer, outs, rows, columns, inlined)


def _phase_sums(weights: Array, stride: tuple[int, int], pad: tuple[int, int]) -> Array:
    """Sums of the weights [groups, ins, outs, rows, columns] that each phase of the result has, [phases, groups * outs]."""
    (down, across), (groups, _, outs, *_) = stride, weights.shape
    sums = weights.astype(np.int64).sum(1)
    found = np.stack([sums[:, :, y::down, x::across].sum((2, 3)) for y in range(down) for x in range(across)])
    apart = found.reshape(down, across, groups * outs)
    return np.roll(apart, (-pad[0], -pad[1]), (0, 1)).reshape(down * across, -1)


def _by_phase(m: Maker, numbers: Numbers, less: Array) -> Numbers:
    """The numbers of each phase, whose biases are less by [phases, channels]; channels in whole blocks."""
    phases, channels = less.shape
    block = m.target.config.block
    order = np.full((phases, blocks(channels, block) * block), -1)
    order[:, :channels] = np.arange(channels)
    taken = np.zeros(order.shape, np.int64)
    taken[:, :channels] = less
    spread = numbers.ordered(order.reshape(-1))
    return replace(spread, bias=spread.bias - taken.reshape(-1))


def shuffled(m: Maker, data: Tensor, weights: Array, shape: Shape, block: int, mode: str, numbers: Numbers) -> Made:
    """conv_integer of stride 1, its requantization, and depth_to_space: each pixel of a block is a phase with filters of its own.

    Raises VtaError for other convolutions, and where the pixels leave most lanes empty.
    """
    outs, ins, *taps = weights.shape
    above, below, left, right = shape.pad
    if max(*shape.stride, *shape.dilation, shape.groups) > 1 or above >= taps[0] or left >= taps[1]:
        raise VtaError("depth_to_space behind a convolution with strides, dilation, groups or more pads than taps")
    phases, size = block**2, m.target.config.block
    channels = outs // phases
    if phases * blocks(channels, size) > 2 * blocks(outs, size):
        raise VtaError(f"depth_to_space to {channels} channels, which leave most of {size} lanes empty")
    order = np.arange(outs).reshape((phases, channels) if mode == "DCR" else (channels, phases))
    order = order if mode == "DCR" else order.T  # [phases, channels]
    # Tap t of phase p of a transposed convolution is row p + block * (taps - 1 - t) of its kernel.
    apart = weights[order.reshape(-1)].reshape(block, block, channels, ins, *taps)[..., ::-1, ::-1]
    kernel = np.ascontiguousarray(apart.transpose(3, 2, 4, 0, 5, 1)).reshape(ins, channels, taps[0] * block, taps[1] * block)
    packed, _ = pack_grouped_transposed_weights(m.target, kernel, (block, block), 1)
    last, higher = m.digits(packed)
    filled = np.full((phases, blocks(channels, size) * size), -1)
    filled[:, :channels] = order
    epilogue = m.epilogue(numbers.ordered(filled.reshape(-1)), largest_sum(weights, (1, 2, 3)))
    _, _, height, width, *_ = shape_of(data)
    rows, columns = block * (height + above + below - taps[0] + 1), block * (width + left + right - taps[1] + 1)
    layer = TransposedConv2d(
        target=m.target, name=m.name, data=data, weights=last, higher=higher, rows=rows, columns=columns, fill=shape.fill,
        pad=(block * (taps[0] - 1 - above), block * (taps[1] - 1 - left)), by_phase=True, epilogue=epilogue)
    return _of_blocks(m, layer, channels, rows, columns)


def _dilated(weights: Array, dilation: tuple[int, int]) -> Array:
    """Weights with zeros between their taps."""
    *channels, rows, columns = weights.shape
    found = np.zeros((*channels, (rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1), weights.dtype)
    found[..., ::dilation[0], ::dilation[1]] = weights
    return found


def _phased(skip: Tensor, stride: tuple[int, int], name: str) -> Tensor:
    """A residual as a transposed convolution's result is, a row and a column of it as whole strides and what is left."""
    images, channels, rows, columns, *element = shape_of(skip)
    down, across = stride
    return made(
        (images, channels, rows // down, down, columns // across, across, *element),
        lambda n, c, y, py, x, px, b, k: skip(n, c, y * down + py, x * across + px, b, k), name)


def dense(
    m: Maker, data: Tensor, weights: Array, size: tuple[int, int, int], numbers: Numbers, skip: Skip | None, image: Image | None
) -> Made:
    """matmul_integer and its requantization: a convolution whose kernel is the whole of each image.

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
    last, higher = m.digits(packed)
    layer = Conv2d(target=m.target, name=m.name, data=data, weights=last, higher=higher,
                   epilogue=m.epilogue(numbers, largest, skip), between=m.between)
    return _of_blocks(m, layer, outs, rows, columns)


def computed(m: Maker, data: Tensor, matrix: Tensor, size: tuple[int, int, int], numbers: Numbers) -> Made:
    """matmul_integer of two signals and its requantization: the pixels of the second are the filters of the first.

    data   : [images, heads * in blocks, 1, pixels, batch, block]
    matrix : [images, heads * in blocks, 1, outputs, batch, block], in memory as weights [images, heads, in blocks, out blocks, …]
    size   : heads of an image, outputs and channels of each

    Raises VtaError for a device whose elements of weights are not a block of activations.
    """
    cfg = m.target.config
    if cfg.batch > 1 or m.target.dtype("wgt") != m.target.dtype("inp"):
        raise VtaError(f"both matrices are computed, and this device's weights of {cfg.wgt_bits} bits in blocks of {cfg.block} "
                       f"cannot be activations of {cfg.inp_bits} bits in blocks of {cfg.batch} x {cfg.block}")
    (images, *_), (heads, outs, depth), block = shape_of(data), size, cfg.block
    ins, per_head, groups = depth // block, outs // block, images * heads
    rest = shape_of(data)[2:]
    view = made((1, groups * ins, *rest), lambda n, c, *at: data(c // (heads * ins), c % (heads * ins), *at), f"{m.name}__data")
    weights = made(
        (groups * per_head, ins, 1, 1, block, block), lambda o, c, y, x, j, k: matrix(
            o // (per_head * heads), o // per_head % heads * ins + c, 0, o % per_head * block + j, 0, k), f"{m.name}__matrix")
    bias, multiplier, shift = (np.full(groups * outs, each[0]) for each in (numbers.bias, numbers.multiplier, numbers.shift))
    spread = replace(numbers, bias=bias, multiplier=multiplier, shift=shift)
    layer = Conv2d(target=m.target, name=m.name, data=view, weights=weights, groups=groups,
                   epilogue=m.epilogue(spread, MOST_BYTE**2 * depth), between=m.between)
    shape = images, heads * per_head, *rest
    result, split = layer.result, len(shape_of(layer.result)) - len(shape)

    def value(n: Any, c: Any, *at: Any) -> Any:
        whole = n * heads * per_head + c
        return result(0, *((whole // per_head, whole % per_head) if split else (whole,)), *at)
    return Made(layer, made(shape, value, f"{m.name}__view"), m.constants, (view, weights))


def _packed_order(channels: int, rows: int, columns: int, block: int) -> Array:
    """For each place of an image in memory which of its values, channels first, lies there; -1 where none does."""
    found = np.full((blocks(channels, block) * block, rows, columns), -1)
    found[:channels] = np.arange(channels * rows * columns).reshape(channels, rows, columns)
    return found.reshape(-1, block, rows, columns).transpose(0, 2, 3, 1).reshape(-1)


def _of_blocks(m: Maker, layer: Any, outs: int, rows: int, columns: int, inlined: tuple[Tensor, ...] = ()) -> Made:
    batch, block = m.target.element("inp")
    value = viewed(layer, (shape_of(layer.data)[0], blocks(outs, block), rows, columns, batch, block))
    return Made(layer, value, m.constants, inlined)
