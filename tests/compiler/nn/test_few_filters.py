"""Convolutions whose groups have few filters, against onnxruntime."""

import numpy as np
import pytest
from nn_support import check, floats, onnx_run, placeholders, run, run_group

from vtakit.compiler.nn.operators import find

CASES = [  # data, weights, groups, attributes
    ((1, 5, 9, 16), (1, 5, 3, 3), 1, {"pads": (1,) * 4}),
    ((2, 4, 11, 37), (3, 4, 3, 3), 1, {"pads": (1, 0, 2, 1), "strides": (2, 1)}),
    ((1, 6, 20, 100), (15, 6, 1, 5), 1, {"dilations": (1, 2)}),
    ((1, 12, 8, 21), (24, 3, 3, 3), 4, {"pads": (2,) * 4, "dilations": (2, 2)}),
    ((2, 7, 600), (2, 7, 9), 1, {"pads": (8, 0)}),
    ((1, 2, 4, 5, 18), (3, 2, 3, 1, 3), 1, {"pads": (1, 0, 1, 1, 0, 1), "strides": (2, 3, 1)}),
]


@pytest.mark.parametrize(("data", "weights", "groups", "words"), CASES)
def test_few_filters(data, weights, groups, words):
    x, w = floats(*data), floats(*weights, seed=1)
    given = placeholders((x, w))
    out = find("conv").define(*given, groups=groups, **words)
    assert any(tensor.op.tag == "conv_rows" for tensor in (out, *out.op.input_tensors))
    check(run("conv", x, w, groups=groups, **words), onnx_run("Conv", x, w, group=groups, **words))


def test_what_follows_is_done_to_each_tile():
    arrays = [floats(2, 3, 10, 20), floats(4, 3, 3, 3, seed=1), floats(4, 1, 1, seed=2), floats(2, 4, 10, 20, seed=3)]
    given = placeholders(tuple(arrays))
    add, relu, conv = (find(name).define for name in ("add", "relu", "conv"))
    out = relu(add(add(conv(*given[:2], pads=(1,) * 4), given[2]), given[3]))
    want = np.maximum(onnx_run("Conv", *arrays[:2], pads=(1,) * 4) + arrays[2] + arrays[3], 0)
    for how in ("default", "interpreter"):
        check(run_group(arrays, given, [out], how)[0], want)
