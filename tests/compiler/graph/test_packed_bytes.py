"""Networks in integers with channels in blocks of uint8: what the pass makes, and that every byte stays."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS
from integer_nets import Integers, inputs_of, random_network, resnet18

from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.ir import Graph, check
from vtakit.compiler.graph.passes.packed_bytes import pack_bytes, requantized_bytes
from vtakit.compiler.graph.reference import reference
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def assert_same_bytes(graph: Graph, level: str | None = None) -> Graph:
    """What the pass makes of a graph, which computes on this machine what the graph does."""
    packed = pack_bytes(graph)
    check(packed)
    given = inputs_of(graph)
    target = LEVELS[level] if level else LEVELS[HERE[-1]]
    got = Module(image_of(compile_graph(packed, CpuKernels(target)), Cpu.adopt(target), "")).run(given)
    wanted = reference(graph, *given.values(), nodes=lambda node, operands: [1 / (1 + np.exp(-operands[0]))])
    for (name, _), want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(got[name], want)
    return packed


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed):
    assert_same_bytes(random_network(seed))


@pytest.mark.parametrize("level", [level for level in ("avx2", "avx512-vnni", "amx") if level in HERE])
def test_a_residual_network(level):
    packed = assert_same_bytes(resnet18(64, 16, 10), level)
    assert set(ops(packed)) - {"quantize_linear", "dequantize_linear"} == {
        "pixel_words", "conv_words", "requantize_bytes", "max_pool", "conv_packed", "scaled_add_bytes", "sum_pool_bytes",
        "unblock_bytes"}


def test_what_is_not_here_leaves_the_blocks():
    """A transposed convolution and a sum that is given away as it is, in int32, are as they were; pads and resizes are here."""
    net = Integers()
    x = net.conv(net.input(1, 5, 9, 9), 20, 3)
    y = net.conv(net.resize(net.pad(net.deconv(x, 20), 1, 3), 2), 24, 3, 2)
    sums = net.builder.one("conv_integer", y, net.builder.constant(np.ones((16, 24, 1, 1), np.int8)), name="sums")
    packed = assert_same_bytes(net.builder.finish([("y", y), ("sums", sums)]))
    assert ops(packed).count("unblock_bytes") == 2
    assert ops(packed).count("unblock_sums") == 1


def test_depthwise_and_wide_convolutions():
    net = Integers(seed=3)
    x = net.conv(net.input(2, 3, 20, 20), 32, 3, 2)
    x = net.conv(x, 32, 3, groups=32)
    x = net.conv(net.conv(x, 72, 1), 72, 3, 2, groups=72)
    packed = assert_same_bytes(net.finish(net.dense(net.reshape(net.mean(x), 2, 72), 9)))
    assert ops(packed).count("depthwise_packed") == 2
    assert "matmul_integer" not in ops(packed)


@pytest.mark.parametrize(("channels", "groups", "stride"), [
    (48, 6, 1), (64, 8, 2), (32, 2, 1), (128, 2, 1), (256, 2, 1), (104, 13, 1)])
def test_groups_are_convolutions_of_few_channels(channels, groups, stride):
    """Some groups, one, or a part of one for each row of weights; the last blocks are not full."""
    net = Integers(seed=4)
    x = net.conv(net.conv(net.input(1, 5, 6, 6), channels, 1), channels, 3, stride, groups=groups)
    assert "conv_integer" not in ops(assert_same_bytes(net.finish(net.conv(x, 24, 1))))


@pytest.mark.parametrize(("channels", "groups", "stride"), [(120, 5, 1), (72, 3, 2), (80, 2, 1), (112, 7, 1)])
def test_groups_that_fit_no_blocks_go_through_others(channels, groups, stride):
    """Groups of 24, 24, 40 and 16 channels: a block of filters reads the blocks of two groups; a residual is added too."""
    net = Integers(seed=4)
    x = net.conv(net.input(1, 5, 6, 6), channels, 1)
    y = net.conv(x, channels, 3, stride, groups=groups)
    assert "conv_integer" not in ops(assert_same_bytes(net.finish(net.conv(y, 24, 1))))
    net = Integers(seed=5)
    x = net.input(1, channels, 6, 6)
    packed = assert_same_bytes(net.finish(net.conv(x, channels, 3, groups=groups, skip=x)))
    assert "scaled_add_bytes" in ops(packed)


@pytest.mark.parametrize(("channels", "groups"), [(40, 2), (100, 4)])
def test_groups_that_fit_no_blocks_stay_as_they_are(channels, groups):
    net = Integers(seed=4)
    x = net.conv(net.input(1, channels, 6, 6), channels, 3, groups=groups)
    assert "conv_integer" in ops(assert_same_bytes(net.finish(x)))


def test_sums_that_int32_does_not_hold_are_left():
    net = Integers()
    x = net.input(1, 70000, 1, 1)
    weight = net.builder.constant(np.full((1, 70000, 1, 1), 127, np.int8))
    graph = net.builder.finish([("y", net.builder.one("conv_integer", x, weight, name="sums"))])
    assert ops(pack_bytes(graph)) == ops(graph)


@pytest.mark.parametrize("seed", range(20))
def test_requantizing_by_brute_force(seed):
    """Every sum near the bounds and the middles between results, for random numbers of a requantization."""
    rng = np.random.default_rng(seed)
    count = 16
    bits = rng.integers(1, 17, count)
    multiplier = (rng.integers(1 << 30, size=count) % (1 << bits) + 1 << 16 - bits).clip(max=65535).astype(np.int32)
    shift = rng.integers(16, 30, count).astype(np.int32)
    bias = rng.integers(-(1 << 20), 1 << 20, count)
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    zero = int(rng.integers(-3, 4))
    found = requantized_bytes(bias, multiplier, shift, zero_point=zero, low=low, high=high)
    assert found is not None
    least, most, factor, offset, by = found
    for at in range(count):
        ends = [int(least[at]), int(most[at]), -(1 << 31), (1 << 31) - 1]
        near = [rng.integers(-(1 << 31), 1 << 31, 200), rng.integers(least[at], most[at] + 1, 2000)]
        acc = np.unique(np.concatenate([*near, *[np.arange(end - 40, end + 41) for end in ends]]).clip(-(1 << 31), (1 << 31) - 1))
        exact = [(int(a) + int(bias[at])) * int(multiplier[at]) + ((1 << int(shift[at])) >> 1) >> int(shift[at]) for a in acc]
        want = np.clip(np.array(exact) + zero, low, high)
        kind = np.int64 if by.max() > 22 else np.int32
        kept = np.clip(acc, least[at], most[at]).astype(kind)
        with np.errstate(over="ignore"):
            got = (kept * kind(factor[at]) + offset[at].astype(kind) >> kind(by[at])).astype(np.uint8)
        np.testing.assert_array_equal(got.astype(int) - 128, want)


def test_a_factor_above_one_is_left():
    """Results would skip integers, so that no sum gives the bounds."""
    one = np.array([3], np.int32)
    assert requantized_bytes(np.array([0]), one, np.array([1], np.int32)) is None
    assert requantized_bytes(np.array([0]), np.array([0], np.int32), np.array([4], np.int32)) is None
