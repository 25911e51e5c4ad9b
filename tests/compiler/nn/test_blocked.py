"""Convolutions with channels in blocks, against onnxruntime's on the same data out of them."""

import numpy as np
import pytest
from nn_support import blocks, channels, check, floats, onnx_run, placeholders, run, run_group
from support import raises

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.cpu.tiles import pixel_tile
from vtakit.compiler.nn.operators import OperatorError, find

CASES = [  # data, weights, block, attributes
    ((1, 64, 14, 14), (32, 64, 3, 3), 16, {"pads": (1, 1, 1, 1)}),
    ((2, 16, 9, 11), (48, 16, 3, 3), 16, {"pads": (1, 0, 2, 1), "strides": (2, 2)}),
    ((1, 24, 10, 17), (37, 24, 3, 2), 16, {"dilations": (2, 3)}),
    ((1, 20, 7, 7), (16, 20, 1, 1), 8, {}),
    ((3, 32, 5, 19), (64, 32, 1, 1), 16, {"strides": (1, 2)}),
    ((1, 64, 8, 8), (64, 32, 3, 3), 16, {"groups": 2, "pads": (1, 1, 1, 1)}),
    ((1, 16, 6, 31), (32, 8, 1, 5), 8, {"groups": 2, "pads": (0, 2, 0, 2)}),
    ((2, 64, 7, 7), (32, 64, 3, 3), 16, {"pads": (1, 1, 1, 1)}),
    ((1, 512, 7, 7), (32, 512, 1, 1), 16, {}),
    ((2, 32, 9, 8), (32, 32, 1, 1), 16, {"strides": (2, 2)}),
    ((1, 8, 33), (12, 8, 4), 4, {"strides": (2,)}),
    ((1, 8, 4, 5, 6), (8, 8, 2, 2, 2), 8, {"pads": (1, 0, 0, 0, 0, 1)}),
    ((1, 16, 1, 1), (32, 16, 3, 3), 16, {"pads": (1, 1, 1, 1)}),
    ((1, 16, 2, 3), (16, 16, 2, 2), 8, {"pads": (3, 4, 0, 5)}),
    ((1, 16, 9, 14), (16, 16, 3, 3), 8, {"pads": (2, 0, 3, 4), "strides": (3, 2), "dilations": (2, 3)}),
]


def onnx_conv(x: np.ndarray, w: np.ndarray, words: dict) -> np.ndarray:
    return onnx_run("Conv", x, w, **{"group" if key == "groups" else key: value for key, value in words.items()})


@pytest.mark.parametrize(("shape", "weights", "v", "words"), CASES)
def test_a_convolution_of_blocks(shape, weights, v, words):
    x, w = floats(*shape), floats(*weights, seed=1)
    want = onnx_conv(x, w, words)
    groups = words.get("groups", 1)
    got = run("conv_blocked", blocks(x, v), blocked_weight(w, v, v, groups), **words)
    check(channels(got, weights[0]), want, atol=1e-4)
    if groups == 1:
        check(channels(run("conv_blocked", x, blocked_weight(w, v, 1), **words), weights[0]), want, atol=1e-4)


def test_the_first_convolution_of_a_network():
    x, w, words = floats(1, 3, 40, 44), floats(16, 3, 7, 7, seed=1), {"strides": (2, 2), "pads": (3,) * 4}
    check(channels(run("conv_blocked", x, blocked_weight(w, 16, 1), **words), 16), onnx_conv(x, w, words), atol=1e-4)


@pytest.mark.parametrize(("shape", "kernel", "words"), [
    ((1, 32, 14, 14), (3, 3), {"pads": (1,) * 4}),
    ((2, 24, 13, 9), (3, 3), {"pads": (1, 0, 0, 1), "strides": (2, 2)}),
    ((1, 16, 12, 31), (5, 2), {"dilations": (2, 1)}),
    ((1, 16, 29), (7,), {"pads": (3, 3)}),
])
def test_a_convolution_of_each_channel(shape, kernel, words):
    x, w = floats(*shape), floats(shape[1], 1, *kernel, seed=1)
    got = run("depthwise_blocked", blocks(x, 16), blocked_vectors(w[:, 0], 16, 0), **words)
    check(channels(got, shape[1]), onnx_conv(x, w, {**words, "group": shape[1]}))


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("name", ["conv_blocked", "depthwise_blocked"])
def test_what_follows_is_done_to_each_tile(name, kernel):
    x, w = floats(2, 32, 6, 10), floats(32, 32, kernel, kernel, seed=1)
    bias, skip = floats(32, 1, 1), floats(2, 32, 6, 10, seed=2)
    words = {"pads": (kernel // 2,) * 4}
    alone = name == "depthwise_blocked"
    w = w[:, :1] if alone else w
    packed = blocked_vectors(w[:, 0], 16, 0) if alone else blocked_weight(w, 16, 16)
    arrays = [blocks(x, 16), packed, blocked_vectors(bias, 16, 0), blocks(skip, 16)]
    given = placeholders(tuple(arrays))
    add, relu = find("add").define, find("relu").define
    out = relu(add(add(find(name).define(*given[:2], **words), given[2]), given[3]))
    want = np.maximum(onnx_conv(x, w, {**words, "group": 32 if alone else 1}) + bias + skip, 0)
    for how in ("default", "interpreter"):
        (got,) = run_group(arrays, given, [out], how)
        check(channels(got, 32), want)


@pytest.mark.parametrize("words", [
    {"kernel_shape": (3, 3, 1), "strides": (2, 2, 1), "pads": (1, 1, 0, 1, 1, 0)},
    {"kernel_shape": (2, 3, 1), "strides": (2, 1, 1), "pads": (0, 2, 0, 1, 0, 0)},
    {"kernel_shape": (3, 2, 1), "strides": (3, 2, 1), "pads": (1, 0, 0, 0, 1, 0), "ceil_mode": 1},
    {"kernel_shape": (2, 2, 1)},
])
@pytest.mark.parametrize("name", ["max_pool", "average_pool"])
def test_pooling_in_blocks(name, words):
    """Windows of one cell along the last dimension: nothing is copied, and nothing of the padding is stored."""
    x, bias = floats(2, 3, 11, 14, 16) - 2, floats(3, 1, 1, 16, seed=1)
    onnx_name = {"max_pool": "MaxPool", "average_pool": "AveragePool"}[name]
    given = placeholders((x, bias))
    out = find("add").define(find(name).define(given[0], **words), given[1])
    want = onnx_run(onnx_name, x, **words) + bias
    for how in ("default", "interpreter"):
        check(run_group([x, bias], given, [out], how)[0], want)
    assert "padded" not in str(lower(schedule([out]), [*given, out]))


@pytest.mark.parametrize("count", [3, 16, 21])
def test_into_blocks_and_out_of_them(count):
    x = floats(2, count, 5, 3)
    packed = run("block_channels", x, block=16)
    check(packed, blocked_vectors(x, 16, 1))
    check(run("unblock_channels", packed, channels=count), x)


def test_a_tile_fills_the_registers_and_divides_the_blocks():
    wide, narrow = Machine(), Machine(vector_bytes=32, vector_registers=16)
    assert pixel_tile(wide, 56, 4) == pixel_tile(wide, 28, 8) == pixel_tile(wide, 14, 32) == (14, 2)
    assert pixel_tile(wide, 112, 1) == (28, 1)
    assert pixel_tile(wide, 3136, 9) == (8, 3)
    assert pixel_tile(narrow, 7, 64) == (7, 1)  # eight sums are just enough, and any that is late is waited for
    assert pixel_tile(narrow, 14, 32) == (5, 2)  # fifteen loads for fourteen multiply-adds would be waited for
    assert pixel_tile(narrow, 28, 16) == pixel_tile(narrow, 56, 8) == pixel_tile(narrow, 112, 8) == (6, 2)
    for machine in (wide, narrow):
        for pixels in (1, 7, 31, 49, 56):
            for count in (1, 2, 5, 9, 64):
                height, width = pixel_tile(machine, pixels, count)
                assert height * width + width + 1 <= machine.vector_registers
                assert count % width == 0


def test_what_does_not_fit_together_is_told():
    x, w = placeholders((floats(1, 2, 5, 5, 16), floats(2, 2, 3, 3, 16, 16)))
    conv, alone = find("conv_blocked").define, find("depthwise_blocked").define
    with raises(OperatorError, "conv_blocked: data (1, 2, 5, 5, 16) and weights (2, 2, 3, 3, 16, 16) do not make 3 groups"):
        conv(x, w, groups=3)
    with raises(OperatorError, "conv_blocked: data (1, 2, 5, 5, 16) and weights (1, 2, 5, 5, 16): data has two dimensions, the "
                               "spatial ones and its block's, and weights four and the spatial ones"):
        conv(x, x)
    with raises(OperatorError, "conv_blocked: a window of 3 with dilation 3 does not fit spatial dimension 0 of 5 with pads "
                               "0 and 0"):
        conv(x, w, dilations=(3, 1))
    with raises(OperatorError, "depthwise_blocked: data (1, 2, 5, 5, 16) and weights (2, 2, 3, 3, 16, 16) have not the same "
                               "channels in blocks"):
        alone(x, w)
    with raises(OperatorError, "unblock_channels: data (1, 2, 5, 5, 16) does not hold 16 channels"):
        find("unblock_channels").define(x, channels=16)
