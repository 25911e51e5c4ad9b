"""Layouts for a CPU: which nodes take data in blocks, where it changes, and that the values stay those of the interpreter."""

import numpy as np
import pytest

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value, check
from vtakit.compiler.graph.passes.layout import block_layouts

RNG = np.random.default_rng(1)
SAVED_PER_MOVED = Machine().layout_macs
LANES = 4


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def conv(b: Builder, x: Value, filters: int, kernel: int = 3, groups: int = 1, **attrs) -> Value:
    weight = b.constant(some(filters, x.type.shape[1] // groups, kernel, kernel), name="weight")
    return b.one("conv", x, weight, attrs={"pads": (kernel // 2,) * 4, "groups": groups, **attrs}, name="conv")


def checked(b: Builder, outputs: dict[str, Value]) -> Graph:
    """The graph with layouts chosen, which computes the same."""
    graph = b.finish([*outputs.items()])
    changed = block_layouts(graph, LANES, saved_per_moved=0)
    check(changed)
    assert [value.type for _, value in changed.outputs] == [value.type for _, value in graph.outputs]
    given = [some(*value.type.shape) for value in graph.inputs]
    for got, want in zip(evaluate_graph(changed, *given), evaluate_graph(graph, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    return changed


def test_a_network_changes_layouts_once():
    """The first convolution reads its three channels as they are; what follows stays in blocks up to the classifier."""
    b = Builder("net")
    x = b.input("x", (2, 3, 9, 9), "float32")
    y = b.one("relu", b.one("add", conv(b, x, 8), b.constant(some(1, 8, 1, 1))))
    y = b.one("max_pool", y, attrs={"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)})
    skip = conv(b, y, 12, kernel=1)
    y = b.one("clip", conv(b, y, 8, groups=8), b.constant(np.float32(-1)), b.constant(np.float32([1])))
    y = b.one("average_pool", conv(b, y, 12), attrs={"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)})
    y = b.one("mul", b.one("add", y, skip), b.constant(some(12, 1, 1)))
    y = b.one("concat", conv(b, y, 4), conv(b, y, 8), attrs={"axis": 1})
    y = b.one("global_average_pool", conv(b, b.one("sigmoid", y), 6, strides=(2, 2)))
    changed = checked(b, {"y": b.one("reshape", y, attrs={"shape": (2, 6)})})
    assert ops(changed) == [
        "conv_blocked", "add", "relu", "max_pool", "conv_blocked", "depthwise_blocked", "clip", "conv_blocked", "average_pool",
        "add", "mul", "conv_blocked", "conv_blocked", "concat", "sigmoid", "conv_blocked", "reduce_mean", "unblock_channels",
        "reshape",
    ]
    assert changed.nodes[0].reads[0] is x
    assert [node.name for node in changed.nodes if node.op == "conv_blocked"] == ["conv"] * 6


def test_data_enters_once_and_leaves_once():
    b = Builder("net")
    x = b.input("x", (1, 8, 5, 5), "float32")
    wide = [conv(b, x, 16) for _ in range(2)]
    inner = b.one("relu", b.one("add", *wide))
    outer = conv(b, inner, 8)
    changed = checked(b, {"y": outer, "z": b.one("transpose", outer, attrs={"perm": (0, 2, 3, 1)})})
    assert ops(changed) == [
        "block_channels", "conv_blocked", "conv_blocked", "add", "relu", "conv_blocked", "unblock_channels", "transpose"]


def test_reductions_of_images_stay_in_blocks_and_leave_them_behind():
    """A mean without the dimensions that it is along, as PyTorch's: one number for each channel leaves the blocks."""
    b = Builder("net")
    y = conv(b, b.input("x", (2, 3, 9, 9), "float32"), 10)
    means = [b.one(f"reduce_{kind}", y, attrs={"axes": (-1, -2), "keepdims": False}) for kind in ("mean", "max")]
    y = b.one("concat", b.one("add", *means), b.one("mul", means[0], b.constant(some(10))), attrs={"axis": -1})
    changed = checked(b, {"y": y})
    assert ops(changed) == [
        "conv_blocked", "reduce_mean", "reduce_max", "add", "mul", "unblock_channels", "unblock_channels", "concat"]
    assert changed.nodes[1].outputs[0].type.shape == (2, 3, LANES)


def test_reductions_of_channels_leave_the_blocks():
    b = Builder("net")
    y = conv(b, b.input("x", (2, 3, 9, 9), "float32"), 8)
    y = b.one("reduce_sum", y, attrs={"axes": (2,), "keepdims": False})
    y = b.one("concat", y, y, attrs={"axis": -2})
    changed = checked(b, {"y": b.one("reduce_mean", y, attrs={"axes": (1, 2), "keepdims": True})})
    assert ops(changed) == ["conv_blocked", "reduce_sum", "concat", "unblock_channels", "reduce_mean"]


def test_channels_that_do_not_fill_their_blocks():
    b = Builder("net")
    x = b.input("x", (1, 7, 5, 5), "float32")
    y = b.one("relu", conv(b, x, 10))
    y = b.one("add", conv(b, y, 15), b.constant(some(15, 1, 1)))
    assert ops(checked(b, {"y": conv(b, y, 11)})) == [
        "block_channels", "conv_blocked", "relu", "conv_blocked", "add", "conv_blocked", "unblock_channels"]


def test_groups_of_whole_blocks():
    b = Builder("net")
    y = conv(b, b.input("x", (1, 16, 4, 4), "float32"), 16)
    assert ops(checked(b, {"y": conv(b, conv(b, y, 16, groups=2), 8)})).count("conv_blocked") == 3
    b = Builder("net")
    y = conv(b, b.input("x", (1, 16, 4, 4), "float32"), 12)
    assert "conv" in ops(checked(b, {"y": conv(b, conv(b, y, 12, groups=2), 8)}))


def test_what_moves_more_than_it_computes_stays():
    """For K x K of C channels each way, K * K * C multiplications for two elements."""
    stays = []
    for kernel, channels in ((1, LANES), (1, 2 * SAVED_PER_MOVED), (1, 2 * SAVED_PER_MOVED + LANES), (3, LANES)):
        b = Builder("net")
        graph = b.finish([("y", conv(b, b.input("x", (1, channels, 8, 8), "float32"), channels, kernel))])
        stays.append("conv" in ops(block_layouts(graph, LANES)))
        assert stays[-1] == (kernel * kernel * channels <= 2 * SAVED_PER_MOVED)
    assert set(stays) == {True, False}


def test_a_depthwise_layer_alone_stays_where_its_rows_are_whole_vectors():
    for width, stride, stays in ((8, 1, True), (8, 2, True), (10, 1, False), (12, 2, False)):
        b = Builder("net")
        y = conv(b, b.input("x", (1, 8, 6, width), "float32"), 8, groups=8, strides=(stride, stride))
        found = ops(block_layouts(b.finish([("y", y)]), LANES))
        assert found == (["conv"] if stays else ["block_channels", "depthwise_blocked", "unblock_channels"]), (width, stride)


@pytest.mark.parametrize(("size", "blocked"), [(1, False), (3, True), (5, True), (6, False)])
def test_a_mean_of_few_pixels_alone_takes_blocks(size, blocked):
    """Fewer than eight vectors: the rest of a row costs more than a change of layout. Of one pixel there is nothing to sum."""
    b = Builder("net")
    graph = b.finish([("y", b.one("global_average_pool", b.input("x", (2, 4 * LANES, size, size), "float32")))])
    changed = block_layouts(graph, LANES)
    assert ("block_channels" in ops(changed)) is blocked
    given = some(2, 4 * LANES, size, size)
    (got,), (want,) = (list(evaluate_graph(each, given)) for each in (changed, graph))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_pool_alone_takes_blocks_where_windows_overlap_and_channels_fill_them():
    for op in ("max_pool", "average_pool"):
        for channels, kernel, blocks in ((8, 3, True), (8, 2, False), (6, 3, False)):
            b = Builder("net")
            words = {"kernel_shape": (kernel,) * 2, "strides": (2, 2), "pads": (kernel // 2,) * 4}
            y = b.one(op, b.input("x", (1, channels, 9, 7), "float32"), attrs=words)
            found = ops(block_layouts(b.finish([("y", y)]), LANES))
            assert found == (["block_channels", op, "unblock_channels"] if blocks else [op]), (op, channels, kernel)


def test_channels_that_lie_in_no_whole_blocks_move_by_themselves():
    """As 3 of the others: 9 * C multiplications are saved for two elements."""
    for channels, blocks in ((24, True), (22, False)):
        b = Builder("net")
        graph = b.finish([("y", conv(b, b.input("x", (1, channels, 8, 8), "float32"), channels))])
        assert ("conv_blocked" in ops(block_layouts(graph, LANES, saved_per_moved=9 * channels // 4))) == blocks


def test_weights_that_are_not_known_other_types_and_few_filters_stay():
    b = Builder("net")
    x, w = b.input("x", (1, 16, 4, 4), "float32"), b.input("w", (16, 16, 3, 3), "float32")
    h = b.input("h", (1, 16, 4, 4), "float16")
    half = b.one("conv", h, b.constant(some(16, 16, 3, 3).astype(np.float16)))
    graph = b.finish([("a", b.one("conv", x, w)), ("b", conv(b, x, 2)), ("c", half)])
    assert block_layouts(graph, LANES, saved_per_moved=0) is graph


def test_operators_that_name_dimensions_or_mix_channels_end_a_region():
    b = Builder("net")
    y = conv(b, b.input("x", (1, 16, 4, 4), "float32"), 16)
    soft = b.one("softmax", conv(b, y, 8), attrs={"axis": 1})
    rows = b.one("mul", conv(b, y, 8), b.constant(some(4, 1)))
    found = ops(checked(b, {"a": soft, "b": rows}))
    assert found.count("unblock_channels") == 2
    assert found.count("conv_blocked") == 3


def test_text_before_and_after():
    b = Builder("net")
    y = b.one("relu", conv(b, b.input("x", (1, 3, 8, 8), "float32"), 64))
    graph = b.finish([("y", conv(b, y, 8))])
    assert str(block_layouts(graph, LANES, saved_per_moved=0)) == """\
graph net(%x: float32[1, 3, 8, 8]):
  const %weight: float32[16, 3, 3, 3, 1, 4]
  const %weight.1: float32[2, 16, 3, 3, 4, 4]
  %conv: float32[1, 16, 8, 8, 4] = conv_blocked(%x, %weight, pads=(1, 1, 1, 1), groups=1)
  %relu: float32[1, 16, 8, 8, 4] = relu(%conv)
  %conv.1: float32[1, 2, 8, 8, 4] = conv_blocked(%relu, %weight.1, pads=(1, 1, 1, 1), groups=1)
  %conv.2: float32[1, 8, 8, 8] = unblock_channels(%conv.1, channels=8)
  return y=%conv.2"""


def test_a_concatenation_along_channels_counted_from_the_end():
    b = Builder("net")
    x = b.input("x", (2, 3, 5, 7), "float32")
    parts = conv(b, x, 8), conv(b, x, 4)
    changed = checked(b, {"y": conv(b, b.one("concat", *parts, attrs={"axis": -3}), 4)})
    assert ops(changed) == ["conv_blocked", "conv_blocked", "concat", "conv_blocked", "unblock_channels"]


def test_transposed_convolutions():
    """One between others takes part; groups, dilation, and rows without whole phases do not."""
    b = Builder("net")
    x = b.input("x", (1, 8, 3, 5), "float32")

    def up(y: Value, filters: int, kernel: int = 4, groups: int = 1, **attrs) -> Value:
        weight = b.constant(some(y.type.shape[1], filters // groups, kernel, kernel))
        words = {"strides": (2, 2), "pads": (1, 1, 1, 1), "groups": groups, **attrs}
        return b.one("conv_transpose", y, weight, attrs=words, name="up")
    y = b.one("relu", b.one("add", up(x, 12), b.constant(some(12, 1, 1))))
    y = up(conv(b, y, 8), 4, kernel=3, output_padding=(1, 1))
    assert ops(checked(b, {"y": up(y, 4, strides=None, pads=None)})) == [
        "block_channels", "conv_transpose_blocked", "add", "relu", "conv_blocked", "conv_transpose_blocked",
        "conv_transpose_blocked", "unblock_channels"]
    others = [up(x, 8, groups=2), up(x, 8, dilations=(2, 2)), up(x, 8, kernel=3), up(x, 2)]
    assert ops(checked(b, {f"y{i}": y for i, y in enumerate(others)})) == ["conv_transpose"] * 4
