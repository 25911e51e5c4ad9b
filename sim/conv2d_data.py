"""Reference and data of a hand-made convolution, laid out as in the buffers of `sim.workloads.conv2d_program`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.codec import encode_requant
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.requant import rescaled
from vtakit.hw.values import Ints, pack, unpack, wrap
from vtakit.sim.workloads import Conv2d

AnyInts = npt.NDArray[np.integer[Any]]
Parameters = Sequence[dict[str, int]]  # of each output channel, as `encode_requant` takes them


def conv2d_reference(cfg: VTAConfig, shape: Conv2d, data: AnyInts, weights: AnyInts, parameters: Parameters = ()) -> Ints:
    """The exact result, int64 [batch, out_channels, out_height, out_width]; sums wrap at acc_bits.

    data         integers  [batch, in_channels, height, width]
    weights      integers  [out_channels, in_channels, kernel, kernel]
    parameters   with `requant`; the result then keeps only the low out_bits, with their sign
    """
    padded = np.pad(data.astype(np.int64), ((0, 0), (0, 0), (shape.pad, shape.pad), (shape.pad, shape.pad)))
    views = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(2, 3))
    total = np.einsum("nchwyx,ocyx->nohw", views[:, :, :: shape.stride, :: shape.stride], weights.astype(np.int64), optimize=True)
    sums = wrap(total, cfg.acc_bits)
    if shape.requant:
        for channel, p in enumerate(parameters):
            scaled = rescaled(sums[:, channel], p["bias"], p["multiplier"], p["shift"], p["zero_point"])
            sums[:, channel] = np.minimum(np.maximum(scaled, p["low"]), p["high"])
        return wrap(sums, cfg.out_bits)
    shifted = sums >> min(shape.shift, cfg.acc_bits - 1)
    half = 1 << (cfg.out_bits - 1)
    return shifted.clip(-half, half - 1)


def _in_blocks(values: AnyInts, axis: int, block: int) -> Ints:
    """int64 values with `axis` padded with zeros to whole blocks and split into [blocks, block]."""
    padded = np.pad(values.astype(np.int64), [(0, -size % block if at == axis else 0) for at, size in enumerate(values.shape)])
    return padded.reshape(*values.shape[:axis], -1, block, *values.shape[axis + 1 :])


def pack_conv2d_inputs(cfg: VTAConfig, shape: Conv2d, data: AnyInts, weights: AnyInts) -> dict[str, bytes]:
    """The contents of `conv2d_program`'s input buffers.

    data      integers of inp_bits  [batch, in_channels, height, width]
    weights   integers of wgt_bits  [out_channels, in_channels, kernel, kernel]

    Raises `ProgramError` for arrays of another shape.
    """
    images = cfg.batch, shape.in_channels, shape.height, shape.width
    kernels = shape.out_channels, shape.in_channels, shape.kernel, shape.kernel
    if data.shape != images or weights.shape != kernels:
        raise ProgramError(f"data and weights must have shapes {images} and {kernels}, got {data.shape} and {weights.shape}")
    tiles = _in_blocks(data, 1, cfg.block).transpose(1, 3, 4, 0, 2)
    tiled_kernels = _in_blocks(_in_blocks(weights, 1, cfg.block), 0, cfg.block).transpose(0, 2, 4, 5, 1, 3)
    return {"data": pack(tiles, cfg.inp_bits).tobytes(), "weights": pack(tiled_kernels, cfg.wgt_bits).tobytes()}


def pack_conv2d_parameters(cfg: VTAConfig, shape: Conv2d, parameters: Parameters) -> bytes:
    """The contents of the buffer `parameters`. Raises `ProgramError` unless there is one set for each output channel."""
    if len(parameters) != shape.out_channels:
        raise ProgramError(f"a convolution with {shape.out_channels} output channels has {len(parameters)} sets of parameters")
    words = np.array([encode_requant(cfg, **each) for each in parameters], np.int64)  # [channels, 3]
    blocks = _in_blocks(words, 0, cfg.block).transpose(0, 2, 1)
    return pack(np.repeat(blocks[:, :, None], cfg.batch, axis=2), cfg.acc_bits).tobytes()


def unpack_conv2d_result(cfg: VTAConfig, shape: Conv2d, result: bytes) -> Ints:
    """The values in `conv2d_program`'s result buffer, int64 [batch, out_channels, out_height, out_width]."""
    values = unpack(np.frombuffer(result, np.uint8), cfg.out_bits)
    tiles = values.reshape(-1, shape.out_height, shape.out_width, cfg.batch, cfg.block).transpose(3, 0, 4, 1, 2)
    return tiles.reshape(cfg.batch, -1, shape.out_height, shape.out_width)[:, : shape.out_channels]
