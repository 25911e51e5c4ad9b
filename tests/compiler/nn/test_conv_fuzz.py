"""A few random convolutions, and those sizes that once had no schedule; `python tests/compiler/conv_fuzz.py` makes more."""

import pytest
from conv_fuzz import check_case
from nn_support import check, floats, onnx_run, run

SEEDS = (3, 7, 23, 72, 102, 107, 112, 116, 262, 1095, 2172, 2261)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_convolution(seed):
    check_case(seed)


@pytest.mark.parametrize(("x", "w", "words"), [
    ((2, 8, 13, 28), (8, 8, 3, 3), {"strides": (2, 2), "pads": (1,) * 4}),
    ((2, 3, 56, 56), (16, 3, 7, 7), {"strides": (2, 2), "pads": (3,) * 4}),
    ((1, 32, 28, 28), (32, 16, 3, 3), {"strides": (2, 2), "pads": (1,) * 4, "groups": 2}),
    ((3, 4, 16, 40), (24, 4, 5, 5), {"strides": (2, 2), "pads": (2,) * 4}),
])
def test_strided_convolutions_of_several_images_or_groups(x, w, words):
    onnx_words = {"group" if key == "groups" else key: value for key, value in words.items()}
    check(run("conv", floats(*x), floats(*w, seed=1), **words), onnx_run("Conv", floats(*x), floats(*w, seed=1), **onnx_words),
          rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("x", "w", "step"), [
    ((1, 3, 1, 33), (3, 3, 2, 2), 2), ((1, 8, 4, 56), (8, 4, 2, 2), 2), ((2, 1, 8, 50), (1, 2, 3, 3), 3),
    ((1, 4, 7, 112), (4, 2, 2, 2), 2),
])
def test_transposed_convolutions_with_steps_of_the_whole_kernel(x, w, step):
    words = {"strides": (step, step)}
    got = run("conv_transpose", floats(*x), floats(*w, seed=1), **words)
    check(got, onnx_run("ConvTranspose", floats(*x), floats(*w, seed=1), **words), rtol=1e-5, atol=1e-5)
