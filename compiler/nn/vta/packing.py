"""Plain arrays in the accelerator's layouts and back; what does not fill a block is padded with zeros."""

from collections.abc import Sequence
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.arguments import check_array, check_pairs, check_target, whole

Ints = npt.NDArray[np.integer[Any]]


def blocks(count: int, block: int) -> int:
    """Return the number of blocks that hold `count` values."""
    return -(-count // block)


def pack_activations(target: Target, x: Ints) -> Ints:
    """[images, channels, height, width]  ->  [image blocks, channel blocks, height, width, batch, block].

    Raises VtaError, as all of these do, for what is no target and no such array.
    """
    _check(target, "activations", x, "images, channels, height, width")
    batch, block = target.element("inp")
    padded = _padded(x, (blocks(x.shape[0], batch) * batch, blocks(x.shape[1], block) * block, *x.shape[2:]))
    split = padded.reshape(-1, batch, padded.shape[1] // block, block, *x.shape[2:])
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))


def unpack_activations(packed: Ints, images: int, channels: int) -> Ints:
    """The inverse of `pack_activations`. Raises VtaError for more images or channels than there are."""
    check_array("packed activations", packed, "image blocks, channel blocks, height, width, batch, block")
    n, c, height, width, batch, block = packed.shape
    for name, given, most in (("images", images, n * batch), ("channels", channels, c * block)):
        if whole(name, given, 0) > most:
            raise VtaError(f"{given} {name} of activations that are packed for at most {most}")
    return packed.transpose(0, 4, 1, 5, 2, 3).reshape(n * batch, c * block, height, width)[:images, :channels]


def pack_vector(target: Target, values: Ints) -> Ints:
    """[channels]  ->  [channel blocks, batch, block], the same for every row of a batch."""
    _check(target, "a vector's values", values, "channels")
    batch, block = target.element("acc")
    padded = _padded(values, (blocks(len(values), block) * block,)).reshape(-1, 1, block)
    return np.ascontiguousarray(np.broadcast_to(padded, (len(padded), batch, block)))


def pack_weights(target: Target, weights: Ints, groups: int = 1) -> tuple[Ints, int]:
    """[out channels, in channels a group, rows, columns]  ->  [out blocks, in blocks a group, rows, columns, block, block].

    Groups that are no whole blocks are put together, as many as are, with zeros between their channels; so a depthwise
    convolution has one element of weights for each tap and block of channels. Also returns the number of groups that are left.

    Raises VtaError if the channels do not come in so many groups.
    """
    _check(target, "weights", weights, "out channels, in channels a group, rows, columns")
    dense, parts = _joined(target, weights, groups)
    return _weight_blocks(dense, target.config.block), parts


def _joined(target: Target, weights: Ints, groups: int) -> tuple[Ints, int]:
    """Weights of groups of whole blocks, with zeros between groups that are put together; and how many are left."""
    outs, ins, rows, columns = weights.shape
    if outs % whole("the number of groups", groups, 1):
        raise VtaError(f"{outs} output channels do not come in {groups} groups")
    block, per_group = target.config.block, outs // groups
    joined = lcm(block // gcd(block, ins), block // gcd(block, per_group))
    parts = blocks(groups, joined)
    if groups == 1 or any(parts * joined * size != blocks(groups * size, block) * block for size in (ins, per_group)):
        joined, parts = groups, 1
    dense = np.zeros((parts * joined * per_group, joined * ins, rows, columns), weights.dtype)
    for group in range(groups):
        at = group % joined * ins
        mine = slice(group * per_group, (group + 1) * per_group)
        dense[mine, at:at + ins] = weights[mine]
    return dense, parts


def pack_grouped_transposed_weights(target: Target, weights: Ints, stride: tuple[int, int], groups: int) -> tuple[Ints, int]:
    """[in channels, out channels a group, rows, columns]  ->  [out blocks, in blocks a group, stride, stride, taps, taps, …].

    As `pack_transposed_weights`; groups are put together as `pack_weights` does, which also returns how many are left.

    Raises VtaError if the channels do not come in so many groups.
    """
    _check(target, "weights", weights, "in channels, out channels a group, rows, columns")
    channels, outs, *kernel = weights.shape
    if channels % whole("the number of groups", groups, 1):
        raise VtaError(f"{channels} input channels do not come in {groups} groups")
    of_outs = weights.reshape(groups, -1, outs, *kernel).swapaxes(1, 2).reshape(groups * outs, -1, *kernel)
    dense, parts = _joined(target, of_outs, groups)
    return pack_transposed_weights(target, dense.swapaxes(0, 1), stride), parts


def pack_transposed_weights(target: Target, weights: Ints, stride: tuple[int, int]) -> Ints:
    """[in channels, out channels, rows, columns]  ->  [out blocks, in blocks, stride, stride, taps, taps, block, block].

    Tap t of phase r is row ``r + stride * (taps - 1 - t)`` of the kernel, and zero beyond it.
    """
    _check(target, "weights", weights, "in channels, out channels, rows, columns")
    check_pairs("transposed weights", stride=stride)
    (down, across), (rows, columns) = stride, weights.shape[2:]
    taps = blocks(rows, down), blocks(columns, across)
    padded = _padded(weights, (*weights.shape[:2], taps[0] * down, taps[1] * across)).transpose(1, 0, 2, 3)
    found = _weight_blocks(np.ascontiguousarray(padded), target.config.block)
    outs, ins, *_, block, _ = found.shape
    phases = found.reshape(outs, ins, taps[0], down, taps[1], across, block, block)[:, :, ::-1, :, ::-1]
    return np.ascontiguousarray(phases.transpose(0, 1, 3, 5, 2, 4, 6, 7))


def identity(target: Target, scale: int = 1) -> Ints:
    """One element of weights that keeps every channel, times a scale.

    Weights of one bit are 0 or -1, so theirs is that of the values' negatives, which the operators take back.

    Raises VtaError for a scale that is no weight.
    """
    return np.eye(target.config.block, dtype=np.int64) * _weight(target, scale)


def first_lane(target: Target, scale: int = 1) -> Ints:
    """One element of weights that repeats the first channel of a block as all of them, times a scale.

    Raises VtaError for a scale that is no weight.
    """
    found = np.zeros(target.element("wgt"), np.int64)
    found[:, 0] = _weight(target, scale)
    return found


def concat_weights(target: Target, channels: Sequence[int]) -> Ints:
    """Return the weights that join tensors with these numbers of channels.

    One element if all but the last fill whole blocks; else one for each pair of blocks,
    [out blocks, in blocks, 1, 1, block, block], with ones where a channel goes.

    Raises VtaError for channels that fill no whole blocks where weights have one bit.
    """
    block = target.config.block
    if not any(count % block for count in channels[:-1]):
        return identity(target)
    if target.config.wgt_bits == 1:
        raise VtaError(f"weights of one bit, which are 0 or -1, cannot join tensors of {tuple(channels)} channels: each but the "
                       f"last must fill whole blocks of {block}")
    ins = [at * block + lane for at, count in zip(_starts(channels, block), channels, strict=True) for lane in range(count)]
    dense = np.zeros((len(ins), sum(blocks(count, block) for count in channels) * block, 1, 1), np.int64)
    dense[np.arange(len(ins)), ins] = 1
    return _weight_blocks(dense, block)


def _starts(channels: Sequence[int], block: int) -> list[int]:
    return [sum(blocks(count, block) for count in channels[:at]) for at in range(len(channels))]


def _weight(target: Target, scale: int) -> int:
    bits = target.config.wgt_bits
    if bits == 1 and scale == 1:
        return -1
    if not -(1 << bits - 1) <= scale < 1 << bits - 1:
        raise VtaError(f"a scale of {scale} is no weight of {bits} bits")
    return scale


def _weight_blocks(weights: Ints, block: int) -> Ints:
    outs, ins, rows, columns = weights.shape
    padded = _padded(weights, (blocks(outs, block) * block, blocks(ins, block) * block, rows, columns))
    split = padded.reshape(-1, block, padded.shape[1] // block, block, rows, columns)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))


def _check(target: Target, what: str, given: Ints, dims: str) -> None:
    check_target("a layout", target)
    check_array(what, given, dims)


def _padded(x: Ints, shape: tuple[int, ...]) -> Ints:
    return np.pad(x, [(0, want - have) for have, want in zip(x.shape, shape, strict=True)])
