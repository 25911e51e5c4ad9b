"""Transposed convolutions with channels in blocks, against onnxruntime's on the same data out of them."""

import numpy as np
import pytest
from nn_support import check, floats, onnx_run, placeholders, run, run_group
from support import raises

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.nn.conv.blocked import blocked_vectors
from vtakit.compiler.nn.conv.blocked_transposed import has_phases, phase_weights
from vtakit.compiler.nn.conv.blocked_transposed_cpu import tile_of
from vtakit.compiler.nn.operators import OperatorError, find

CASES = [  # data, weights, block, strides, pads, output_padding
    ((1, 32, 4, 4), (32, 32, 4, 4), 16, (2, 2), (1, 1, 1, 1), (0, 0)),
    ((2, 16, 5, 7), (16, 40, 3, 3), 16, (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 20, 5, 6), (20, 16, 5, 3), 16, (3, 1), (1, 0, 1, 2), (0, 0)),
    ((1, 16, 9), (16, 16, 4), 8, (2,), (1, 1), (0,)),
    ((1, 8, 3, 4, 5), (8, 8, 2, 2, 2), 8, (2, 2, 2), (0,) * 6, (0, 0, 0)),
    ((1, 24, 1, 1), (24, 32, 4, 4), 16, (1, 1), (0, 0, 0, 0), (0, 0)),
    ((1, 16, 6, 6), (16, 16, 3, 3), 16, (1, 1), (1, 1, 1, 1), (0, 0)),
    ((3, 4, 4, 10), (4, 12, 3, 6), 4, (3, 3), (0, 3, 0, 0), (0, 0)),
    ((1, 16, 7, 5), (16, 16, 3, 2), 16, (3, 3), (0, 0, 0, 0), (0, 1)),
]


def channels(x: np.ndarray, count: int) -> np.ndarray:
    """The channels of data in blocks one after another, as NumPy sees it."""
    return np.moveaxis(x, -1, 2).reshape(x.shape[0], -1, *x.shape[2:-1])[:, :count]


@pytest.mark.parametrize(("shape", "weights", "block", "strides", "pads", "more"), CASES)
def test_a_transposed_convolution_of_blocks(shape, weights, block, strides, pads, more):
    x, w = floats(*shape), floats(*weights, seed=1)
    assert has_phases(shape[2:], weights[2:], strides, pads, more)
    words = {"strides": strides, "pads": pads, "output_padding": more}
    data = blocked_vectors(x, block, 1)
    data[:, -1, ..., shape[1] % block or block:] = np.nan  # what fills up the last block, which nothing may read
    got = run("conv_transpose_blocked", data, phase_weights(w, block, block, strides, pads), kernel=weights[2:], **words)
    check(channels(got, weights[1]), onnx_run("ConvTranspose", x, w, **words), atol=1e-4)


def test_what_follows_a_transposed_convolution():
    x, w, b = floats(1, 16, 8, 8), floats(16, 32, 4, 4, seed=1), floats(32, seed=2)
    inputs = [blocked_vectors(x, 16, 1), phase_weights(w, 16, 16, (2, 2), (1, 1)), blocked_vectors(b.reshape(1, 32, 1, 1), 16, 1)]
    tensors = placeholders(tuple(inputs))
    sums = find("conv_transpose_blocked").define(*tensors[:2], kernel=(4, 4), strides=(2, 2), pads=(1,) * 4)
    out = find("relu").define(find("add").define(sums, tensors[2]))
    want = np.maximum(onnx_run("ConvTranspose", x, w, b, strides=(2, 2), pads=(1,) * 4), 0)
    for how in ("default", "plain"):
        check(channels(run_group(inputs, tensors, [out], how)[0], 32), want, atol=1e-4)


@pytest.mark.parametrize(("sizes", "kernel", "strides", "pads", "more"), [
    ((4, 4), (3, 3), (2, 2), (0, 0, 0, 0), (0, 0)),  # 9 pixels a row are no whole groups of two phases
    ((4, 4), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),  # three of four phases are zeros
    ((9, 9), (2, 2), (2, 2), (4, 4, 4, 4), (0, 0)),  # pads cut off data
    ((4, 4), (2, 2), (2, 2), (-2, 0, 0, 0), (0, 0)),
    ((1, 1), (2, 2), (2, 2), (1, 1, 1, 1), (0, 0)),  # an empty result
])
def test_what_has_no_phases(sizes, kernel, strides, pads, more):
    assert not has_phases(sizes, kernel, strides, pads, more)


def test_tiles_fill_the_registers():
    wide, narrow = Machine(l2_bytes=2 << 20), Machine(l2_bytes=2 << 20, vector_registers=16)
    assert tile_of((16, 16), 8, 64, 1 << 21, wide) == (2, 6, 2)
    assert tile_of((4, 4), 32, 64, 1 << 25, wide) == (4, 4, 1)  # weights from memory are read once
    assert tile_of((7, 7), 16, 64, 1 << 18, wide) == (2, 7, 2)
    assert tile_of((30,), 3, 32, 1 << 18, narrow) == (10, 1)


def test_operands_that_do_not_fit():
    define = find("conv_transpose_blocked").define
    x, words = floats(1, 2, 5, 5, 16), {"kernel": (4, 4), "strides": (2, 2), "pads": (1,) * 4}
    with raises(OperatorError, "conv_transpose_blocked: data (1, 2, 5, 5, 16) and weights (2, 2, 2, 16): data has two "
                "dimensions, the spatial ones and its block's, and weights three and the strides"):
        define(*placeholders((x, floats(2, 2, 2, 16))), **words)
    with raises(OperatorError, "conv_transpose_blocked: data (1, 2, 5, 5, 16) and weights (2, 2, 2, 63, 16) are not those of a "
                "kernel (4, 4) with strides (2, 2)"):
        define(*placeholders((x, floats(2, 2, 2, 63, 16))), **words)
    with raises(OperatorError, "conv_transpose_blocked: data (1, 2, 5, 5, 16), kernel (4, 4), strides (2, 2), pads (0, 1, 0, 0), "
                "output_padding (0, 0): the result has no whole phases, use conv_transpose"):
        define(*placeholders((x, floats(2, 2, 2, 192, 16))), **{**words, "pads": (0, 1, 0, 0)})
