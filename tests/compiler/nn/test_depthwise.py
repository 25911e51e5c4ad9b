"""Convolutions of one channel each, against onnxruntime: rows of many lengths, strides, pads, dilations and multipliers."""

import numpy as np
import pytest
from nn_support import check, floats, onnx_run, placeholders, run, run_group

from vtakit.compiler.ir.stmt import For
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find
from vtakit.compiler.passes import lower_late

CASES = [  # data, kernel, filters for each channel, attributes
    ((1, 20, 7, 7), (3, 3), 1, {"pads": (1,) * 4}),
    ((2, 6, 14, 14), (3, 3), 1, {"pads": (1,) * 4, "strides": (2, 2)}),
    ((1, 5, 13, 30), (3, 3), 2, {"pads": (0, 1, 1, 0), "strides": (2, 1)}),
    ((1, 3, 17, 40), (5, 4), 1, {"pads": (2, 3, 1, 0), "strides": (3, 2), "dilations": (1, 3)}),
    ((1, 4, 9, 65), (3, 3), 1, {"pads": (1,) * 4}),
    ((1, 4, 9, 64), (3, 3), 1, {}),
    ((1, 4, 9, 130), (3, 3), 1, {"pads": (1,) * 4, "strides": (2, 2)}),
    ((2, 3, 6, 5), (1, 1), 3, {"strides": (2, 3)}),
    ((1, 4, 3, 3), (3, 3), 1, {}),
    ((1, 6, 40), (9,), 1, {"pads": (4, 4)}),
    ((1, 1, 5000), (3,), 2, {"pads": (1, 2), "strides": (3,)}),
    ((1, 2, 5, 6, 7), (3, 3, 3), 1, {"pads": (1,) * 6, "strides": (1, 2, 1)}),
]


@pytest.mark.parametrize(("shape", "kernel", "times", "words"), CASES)
def test_each_channel_by_itself(shape, kernel, times, words):
    x, w = floats(*shape), floats(shape[1] * times, 1, *kernel, seed=1)
    got = run("conv", x, w, groups=shape[1], **words)
    check(got, onnx_run("Conv", x, w, group=shape[1], **words))


def test_what_padding_does_not_reach_is_not_multiplied():
    """Infinite weights make no "not a number" of the zeros around the data, in blocks; nor do they where all data is inside."""
    x, w = floats(1, 1, 4, 4, 16), np.full((1, 3, 3, 16), np.inf, np.float32)
    assert not np.isnan(run("depthwise_blocked", np.abs(x) + 1, w, pads=(1,) * 4)).any()


def test_what_follows_is_done_row_by_row():
    x, w, bias, skip = floats(2, 8, 10, 12), floats(8, 1, 3, 3, seed=1), floats(8, 1, 1), floats(2, 8, 10, 12, seed=2)
    arrays = [x, w, bias, skip]
    given = placeholders(tuple(arrays))
    add, relu, conv = (find(name).define for name in ("add", "relu", "conv"))
    out = relu(add(add(conv(*given[:2], pads=(1,) * 4, groups=8), given[2]), given[3]))
    want = np.maximum(onnx_run("Conv", x, w, group=8, pads=(1,) * 4) + bias + skip, 0)
    for how in ("default", "interpreter"):
        check(run_group(arrays, given, [out], how)[0], want)


@pytest.mark.parametrize("name", ["conv", "depthwise_blocked"])
def test_no_element_has_a_condition(name):
    """What padding needs is asked for a row of the kernel at most, or for the first and the last pixel of a row."""
    if name == "conv":
        x, w = placeholders((floats(1, 32, 28, 28), floats(32, 1, 3, 3)))
        out = find(name).define(x, w, pads=(1,) * 4, groups=32)
    else:
        x, w = placeholders((floats(1, 2, 28, 28, 16), floats(2, 3, 3, 16)))
        out = find(name).define(x, w, pads=(1,) * 4)
    text = str(lower_late(lower(schedule([out]), [x, w, out])))
    assert text.count("if") <= 3
    assert "if_then_else" not in text


def test_padding_is_not_copied_in_blocks():
    x, w = placeholders((floats(1, 2, 28, 28, 16), floats(2, 3, 3, 16)))
    out = find("depthwise_blocked").define(x, w, pads=(1,) * 4)
    function = lower(schedule([out]), [x, w, out])
    assert "padded" not in str(function)
    assert sum(isinstance(s, For) for s in statements(function.body)) < 20


@pytest.mark.parametrize(("shape", "filters", "words"), [
    ((1, 32, 16, 14), 20, {"pads": (1,) * 4}),
    ((2, 24, 9, 12), 20, {"pads": (1, 0, 0, 1), "strides": (2, 2)}),
    ((1, 16, 12, 31), 16, {"pads": (0, 1, 1, 1), "dilations": (2, 1)}),
    ((1, 40, 7, 7), 32, {}),
])
@pytest.mark.parametrize("between", [True, False])
def test_rows_of_a_depthwise_convolution_are_made_for_those_of_single_pixels(shape, filters, words, between):
    v = 16
    x, w, p = floats(*shape), floats(shape[1], 1, 3, 3, seed=1), floats(filters, shape[1], 1, 1, seed=2)
    first, second = floats(shape[1], 1, 1, seed=3), floats(filters, 1, 1, seed=4)
    middle = onnx_run("Conv", x, w, group=shape[1], **words)
    middle = np.maximum(middle + first, 0) if between else middle
    skip = floats(shape[0], filters, *middle.shape[2:], seed=5)
    want = np.maximum(onnx_run("Conv", middle, p) + second, 0) + skip
    arrays = [blocked_vectors(x, v, 1), blocked_vectors(w[:, 0], v, 0), blocked_vectors(first, v, 0), blocked_weight(p, v, v),
              blocked_vectors(second, v, 0), blocked_vectors(skip, v, 1)]
    given = placeholders(tuple(arrays))
    add, relu = find("add").define, find("relu").define
    out = find("depthwise_blocked").define(*given[:2], **words)
    out = relu(add(out, given[2])) if between else out
    out = add(relu(add(find("conv_blocked").define(out, given[3]), given[4])), given[5])
    used = given if between else [*given[:2], *given[3:]]
    for how in ("default", "interpreter"):
        (got,) = run_group([a for a, t in zip(arrays, given, strict=True) if t in used], used, [out], how)
        check(np.moveaxis(got, -1, 2).reshape(*want.shape[:1], -1, *want.shape[2:])[:, :filters], want, atol=1e-4)
    body = lower(schedule([out]), [*used, out]).body
    assert isinstance(body, For)  # both in one loop of rows
    assert not isinstance(body.body, For)
