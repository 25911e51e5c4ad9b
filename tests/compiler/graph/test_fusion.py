"""Fusion: which nodes become one kernel."""

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.fusion import fuse
from vtakit.compiler.graph.ir import Value


def groups(b: Builder, *outputs: Value) -> list[str]:
    graph = b.finish([(f"y{i}", value) for i, value in enumerate(outputs)])
    return [group.name for group in fuse(graph)]


def image(b: Builder, name: str = "x", channels: int = 4) -> Value:
    return b.input(name, (1, channels, 6, 6), "float32")


def conv(b: Builder, x: Value) -> Value:
    weight = b.constant(np.ones((4, x.type.shape[1], 3, 3), np.float32))
    return b.one("conv", x, weight, attrs={"pads": (1, 1, 1, 1)})


def test_a_chain_of_injective_operators_is_one_kernel():
    b = Builder("g")
    x = image(b)
    y = b.one("transpose", b.one("relu", b.one("neg", x)), attrs={"perm": (0, 2, 3, 1)})
    assert groups(b, y) == ["neg_relu_transpose"]


def test_branches_that_meet_again_are_one_kernel():
    b = Builder("g")
    x = b.one("neg", image(b))
    assert groups(b, b.one("add", b.one("abs", x), b.one("relu", x))) == ["neg_abs_relu_add"]


def test_what_goes_several_ways_for_good_ends_a_kernel():
    b = Builder("g")
    x = b.one("neg", image(b))
    assert groups(b, b.one("abs", x), b.one("relu", x)) == ["neg", "abs", "relu"]


def test_an_output_of_the_graph_ends_a_kernel():
    b = Builder("g")
    x = b.one("neg", image(b))
    assert groups(b, b.one("relu", x), x) == ["neg", "relu"]


def test_an_anchor_takes_what_reads_it_element_by_element():
    b = Builder("g")
    x = image(b)
    bias = b.constant(np.ones((4, 1, 1), np.float32))
    assert groups(b, b.one("relu", b.one("add", conv(b, x), bias))) == ["conv_add_relu"]


def test_a_value_that_an_anchor_adds_too_does_not_join_its_kernel_to_another():
    """Both ways from `neg` meet in the concatenation, and one of them is through what the anchor has taken."""
    b = Builder("g")
    x = b.one("neg", image(b))
    y = b.one("concat", b.one("add", conv(b, image(b, "z")), x), b.one("relu", x), attrs={"axis": 1})
    assert groups(b, y) == ["neg", "conv_add", "relu_concat"]


def test_an_anchor_takes_no_transpose_and_nothing_before_it():
    b = Builder("g")
    y = conv(b, b.one("relu", image(b)))
    assert groups(b, b.one("transpose", y, attrs={"perm": (0, 2, 3, 1)})) == ["relu", "conv", "transpose"]


def test_of_two_anchors_that_meet_the_later_takes_the_sum():
    b = Builder("g")
    x = image(b)
    first, second = conv(b, x), conv(b, b.one("relu", x))
    assert groups(b, b.one("relu", b.one("add", first, second))) == ["conv", "relu", "conv_add_relu"]


def test_a_shortcut_around_an_anchor_is_read_by_its_kernel():
    b = Builder("g")
    x = b.one("relu", image(b))
    assert groups(b, b.one("add", conv(b, x), x)) == ["relu", "conv_add"]


def test_a_reduction_takes_what_is_before_it_and_what_reads_its_result():
    b = Builder("g")
    x = image(b)
    total = b.one("reduce_sum", b.one("mul", x, x), attrs={"axes": (2, 3)})
    assert groups(b, b.one("sqrt", total)) == ["mul_reduce_sum_sqrt"]


def test_a_costly_operand_that_is_broadcast_is_not_computed_again_for_each_element():
    b = Builder("g")
    row = b.one("tanh", b.one("exp", b.input("r", (6,), "float32")))
    assert groups(b, b.one("add", image(b), row)) == ["exp_tanh", "add"]


def test_a_cheap_one_is():
    b = Builder("g")
    row = b.one("neg", b.input("r", (6,), "float32"))
    assert groups(b, b.one("add", image(b), row)) == ["neg_add"]


def test_an_opaque_operator_and_a_view_stay_alone():
    b = Builder("g")
    flat = b.one("reshape", b.one("neg", image(b)), attrs={"shape": (4, 36)})
    y = b.one("neg", b.one("softmax", flat, attrs={"axis": -1}))
    assert groups(b, y) == ["neg", "reshape", "softmax", "neg"]


def test_a_long_ladder_of_branches_is_cut():
    """Each rung reads the one before it twice, so as one expression it would double with each."""
    b = Builder("g")
    x = b.one("neg", image(b))
    for _ in range(24):
        x = b.one("add", b.one("abs", x), b.one("relu", x))
    found = groups(b, x)
    assert 4 < len(found) < 73
    assert sum(name.count("add") for name in found) == 24


def depthwise(b: Builder, size: int) -> Value:
    x = b.input("x", (1, 4, size, size, 16), "float32")
    return b.one("relu", b.one("depthwise_blocked", x, b.constant(np.ones((4, 3, 3, 16), np.float32)), attrs={"pads": (1,) * 4}))


def pixels(b: Builder, x: Value, kernel: int = 1, **attrs) -> Value:
    weight = b.constant(np.ones((2, 4, kernel, kernel, 16, 16), np.float32))
    return b.one("relu", b.one("conv_blocked", x, weight, attrs={"pads": (kernel // 2,) * 4, **attrs}))


def test_a_large_depthwise_convolution_joins_that_of_single_pixels():
    b = Builder("g")
    assert groups(b, pixels(b, depthwise(b, 80))) == ["depthwise_blocked_relu_conv_blocked_relu"]


def test_a_small_depthwise_convolution_stays_alone():
    b = Builder("g")
    assert groups(b, pixels(b, depthwise(b, 28))) == ["depthwise_blocked_relu", "conv_blocked_relu"]


def test_a_depthwise_convolution_that_others_read_or_larger_windows_do_stays_alone():
    b = Builder("g")
    y = depthwise(b, 80)
    assert groups(b, pixels(b, y), y) == ["depthwise_blocked_relu", "conv_blocked_relu"]
    b = Builder("g")
    y = depthwise(b, 80)
    assert groups(b, pixels(b, y), pixels(b, y)) == ["depthwise_blocked_relu", "conv_blocked_relu", "conv_blocked_relu"]
    for words in ({"kernel": 3}, {"strides": (2, 2)}):
        b = Builder("g")
        assert groups(b, pixels(b, depthwise(b, 80), **words)) == ["depthwise_blocked_relu", "conv_blocked_relu"]
