"""Convolutions in bfloat16 on request: what becomes of a network, how far it is off, and what is refused."""

import numpy as np
import onnx
import pytest
from codegen_cases import HERE, LEVELS
from model_support import model, network
from onnx import helper
from support import raises

import vtakit
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value, check
from vtakit.compiler.graph.passes.half import half_precision, pairs_pay
from vtakit.runtime.cpu.precision import narrowed
from vtakit.runtime.target import TargetError

RNG = np.random.default_rng(2)
ROUNDING = 2.0**-8  # of a number to bfloat16


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def conv(b: Builder, x: Value, filters: int, kernel: int = 3, groups: int = 1, **attrs) -> Value:
    depth = x.type.shape[1] // groups
    weight = b.constant(some(filters, depth, kernel, kernel) / np.float32(np.sqrt(depth) * kernel), name="weight")
    return b.one("conv", x, weight, attrs={"pads": (kernel // 2,) * 4, "groups": groups, **attrs}, name="conv")


def checked(b: Builder, outputs: dict[str, Value], layers: int) -> Graph:
    """The graph in bfloat16, off by some roundings for each of so many layers and no less than float32 would be."""
    graph = b.finish([*outputs.items()])
    half = half_precision(graph)
    check(half)
    given = [some(*value.type.shape) for value in graph.inputs]
    for got, want in zip(evaluate_graph(half, *given), evaluate_graph(graph, *given), strict=True):
        assert got.dtype == want.dtype
        off = np.abs(got - want).max() / np.abs(want).max()
        assert 1e-5 < off < 2 * layers * ROUNDING
    return half


def test_a_residual_network():
    """What follows a convolution comes before its one rounding; a residual is read as it is kept."""
    b = Builder("net")
    x = b.input("x", (1, 3, 12, 12), "float32")
    y = b.one("relu", b.one("add", conv(b, x, 32), b.constant(some(1, 32, 1, 1))))
    y = b.one("max_pool", y, attrs={"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)})
    z = b.one("relu", b.one("add", conv(b, b.one("relu", conv(b, y, 32)), 32), y))
    z = b.one("relu", conv(b, z, 32, groups=32))
    flat = b.one("reshape", b.one("global_average_pool", z), attrs={"shape": (1, 32)})
    out = b.one("gemm", flat, b.constant(some(10, 32)), b.constant(some(10)), attrs={"trans_b": True})
    half = checked(b, {"y": out}, 6)
    assert ops(half) == [
        "block_channels", "cast", "conv_packed", "add", "relu", "cast", "max_pool_half", "conv_packed", "relu", "cast",
        "conv_packed", "add_half", "relu", "cast", "depthwise_packed", "relu", "reduce_mean", "cast", "conv_packed", "add",
        "unblock_channels", "reshape"]


def test_what_stays_in_float32():
    """A convolution of groups, one whose filters fill no blocks, and operators that are none of blocks."""
    b = Builder("net")
    x = b.input("x", (1, 32, 6, 6), "float32")
    y = conv(b, b.one("softmax", conv(b, x, 32), attrs={"axis": 1}), 32, groups=2)
    half = checked(b, {"y": conv(b, y, 7)}, 3)
    assert ops(half) == ["block_channels", "cast", "conv_packed", "unblock_channels", "softmax", "conv", "conv"]


def two_convolutions_and_a_product() -> onnx.ModelProto:
    """One that blocks hold, one that they do not, and a product of few rows."""
    nodes = [helper.make_node("Conv", ["x", "v"], ["a"], strides=[2] * 2, pads=[1] * 4),
             helper.make_node("Conv", ["a", "w"], ["b"]),
             helper.make_node("MatMul", ["b", "m"], ["y"])]
    return model(nodes, [("x", "f4", [1, 16, 8, 8])], [("y", "f4", [1, 5, 4, 16])], {
        "v": some(32, 16, 3, 3), "w": some(5, 32, 1, 1), "m": some(4, 16)})


WEIGHTS = "weights of 1 of 1 products in {}, sums in float32"
SOME = "1 of 2 convolutions and products in bfloat16, sums in float32, by {}; " + WEIGHTS.format("bfloat16")
NONE = f"{WEIGHTS}; 2 convolutions in float32, which is no slower here"
SAID = [
    ("amx", "bfloat16", SOME.format("tile registers (amx-bf16)")),
    ("avx512-bf16", "bfloat16", SOME.format("vdpbf16ps (avx512bf16)")),
    ("avx2", "bfloat16", NONE.format("bfloat16")), ("avx512-bf16", "float16", NONE.format("float16")),
]


@pytest.mark.parametrize(("level", "precision", "said"), [
    pytest.param(*case, id="-".join(case[:2])) for case in SAID if case[0] in HERE])
def test_a_module_says_how_it_computes(level, precision, said):
    given = two_convolutions_and_a_product()
    half, exact = (vtakit.compile(given, LEVELS[level], precision=kind, cache=False) for kind in (precision, "float32"))
    assert half.image.said == said
    assert exact.image.said == ""
    x = {"x": some(1, 16, 8, 8)}
    (got,), (want,) = half.run(x).values(), exact.run(x).values()
    assert 0 < np.abs(got - want).max() < 0.02 * np.abs(want).max()


@pytest.mark.parametrize(("level", "precision", "some_are"), [
    ("amx", "bfloat16", True), ("avx512-bf16", "bfloat16", True), ("avx512", "bfloat16", False), ("amx", "float16", False),
    ("amx", "float32", False)])
def test_the_target_decides_not_this_machine(level, precision, some_are):
    assert (narrowed(precision, LEVELS[level]) is not None) is some_are


@pytest.mark.parametrize(("depth", "filters", "side", "kernel", "attrs", "pays"), [
    (3, 64, 56, 3, {}, False),  # too few channels
    (128, 128, 28, 3, {}, False), (128, 128, 28, 3, {"strides": (2, 2)}, True), (128, 128, 28, 3, {"dilations": (2, 2)}, True),
    (512, 512, 7, 3, {}, True), (256, 64, 28, 1, {}, True)])
def test_which_convolutions_pairs_make_faster(depth, filters, side, kernel, attrs, pays):
    """Those that are sums of products in float32 too; Winograd's form has fewer than half as many."""
    b = Builder("net")
    conv(b, b.input("x", (1, depth, side, side), "float32"), filters, kernel, **attrs)
    machine = Machine(l2_bytes=1 << 20)
    assert pairs_pay(b.nodes[0], machine, winograd=True) is pays
    assert pairs_pay(b.nodes[0], machine, winograd=False) is (depth > 3)


def test_what_pays_is_in_bfloat16_and_what_is_depthwise_behind_it():
    b = Builder("net")
    x = b.input("x", (1, 32, 6, 6), "float32")
    first = b.one("relu", conv(b, x, 32, groups=32))
    last = b.one("relu", conv(b, b.one("relu", conv(b, first, 64, 1)), 64, groups=64))
    half = half_precision(b.finish([("y", last)]), lambda node: node.attrs["groups"] == 1)
    assert ops(half) == ["conv", "relu", "block_channels", "cast", "conv_packed", "relu", "cast", "depthwise_packed", "relu",
                         "unblock_channels"]


def test_other_precisions_are_refused():
    given: onnx.ModelProto = network()
    with raises(TargetError, "precision 'float8': give one of 'float32', 'bfloat16', 'float16'"):
        vtakit.compile(given, precision="float8")
    with raises(VtaError, "precision 'bfloat16' is for a CPU; the accelerator computes in integers"):
        vtakit.compile(given, "vta", precision="bfloat16")
