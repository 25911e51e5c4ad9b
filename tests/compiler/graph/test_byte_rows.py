"""Products of quantized rows on uint8 and panels: what the pass makes, and that every byte stays."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, check
from vtakit.compiler.graph.passes.byte_rows import byte_rows
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module


def numbers(rng, kind, *shape):
    """Random bytes, or normally distributed floats."""
    if kind == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max + 1, shape).astype(kind)


def assert_same(b: Builder, outputs: dict, seed: int = 0, level: str = HERE[-1]) -> list[str]:
    """The operators after the pass, which compute the same on this machine, bit for bit."""
    graph: Graph = b.finish([*outputs.items()])
    changed = byte_rows(graph)
    check(changed)
    rng = np.random.default_rng(seed)
    given = {value.name: numbers(rng, str(value.type.dtype), *value.type.shape) for value in graph.inputs}
    target = LEVELS[level]
    got = Module(image_of(compile_graph(changed, CpuKernels(target)), Cpu.adopt(target), "")).run(given)
    for (name, value), want in zip(graph.outputs, evaluate_graph(graph, *given.values()), strict=True):
        assert got[name].dtype == want.dtype == np.dtype(str(value.type.dtype))
        np.testing.assert_array_equal(got[name], want)
    return [node.op for node in changed.nodes]


def requantized(b: Builder, acc, rng, columns: int):
    """Sums by random factors that keep most of them within int8."""
    vectors = [b.constant(rng.integers(low, high, columns).astype(np.int32)) for low, high in (
        (-9000, 9000), (1 << 14, 1 << 16), (24, 28))]
    return b.one("requantize", acc, *vectors, attrs={"zero_point": int(rng.integers(-20, 20)), "low": -120, "high": 125})


@pytest.mark.parametrize("level", [level for level in ("avx2", "avx512-vnni", "amx") if level in HERE])
def test_a_perceptron(level):
    """Quantized, two layers with a table between them, and dequantized: bytes are uint8 all the way."""
    rng, b = np.random.default_rng(1), Builder("net")
    x = b.input("x", (7, 30), "float32")
    y = b.one("quantize_linear", x, b.constant(np.float32(0.03)), b.constant(np.int8(-5)), attrs={"axis": 0, "block_size": 0})
    y = requantized(b, b.one("matmul_integer", y, b.constant(numbers(rng, "int8", 30, 50))), rng, 50)
    y = b.one("lookup", y, b.constant(numbers(rng, "int8", 256)))
    y = b.one("reshape", b.one("reshape", y, attrs={"shape": (1, 7, 50)}), attrs={"shape": (7, 50)})
    y = requantized(b, b.one("matmul_integer", y, b.constant(numbers(rng, "int8", 50, 20))), rng, 20)
    z = b.one("dequantize_linear", y, b.constant(np.float32(0.1)), b.constant(np.int8(3)), attrs={"axis": 0, "block_size": 0})
    assert assert_same(b, {"z": z}, level=level) == [
        "quantize_linear", "dense_bytes", "requantize_bytes", "lookup_bytes", "reshape", "reshape", "dense_bytes",
        "requantize_bytes", "dequantize_linear"]


@pytest.mark.parametrize("seed", range(8))
def test_zero_points(seed):
    """Zero points of any kind: none, constants, those of the run, one for each column, and matrices that int8 does not hold."""
    rng, b = np.random.default_rng(seed), Builder("net")
    kind, w_kind = rng.choice(["int8", "uint8"], 2)
    rows, depth, columns = (int(rng.integers(1, most)) for most in (40, 90, 70))
    lead = (3, 5) if seed % 3 == 0 else (rows,)
    x = b.input("x", (*lead, depth), kind)
    zero = (None, b.constant(numbers(rng, kind)), b.input("zero", (), kind), b.input("zero.1", (1,), kind))[seed % 4]
    of_columns = (None, b.constant(numbers(rng, w_kind)), b.constant(numbers(rng, w_kind, columns)))[seed % 3]
    sums = b.one("matmul_integer", x, b.constant(numbers(rng, w_kind, depth, columns)), zero, of_columns)
    real = b.one("mul", b.one("cast", sums, attrs={"to": "float32"}), b.constant(np.float32(0.01)))
    assert "dense_bytes" in assert_same(b, {"sums": sums, "real": real}, seed)


@pytest.mark.parametrize("by_column", [False, True])
def test_dequantized_sums(by_column):
    """The bytes exceed the data by a constant, which the zero point takes up."""
    rng, b = np.random.default_rng(2), Builder("net")
    sums = b.one("matmul_integer", b.input("x", (9, 20), "int8"), b.constant(numbers(rng, "int8", 20, 30)))
    unit = rng.uniform(0.01, 0.1, 30 if by_column else ()).astype(np.float32)
    zero = [b.constant(rng.integers(-99, 99, 30).astype(np.int32))] if by_column else []
    y = b.one("dequantize_linear", sums, b.constant(unit), *zero, attrs={"axis": 1, "block_size": 0})
    ops = assert_same(b, {"y": y})
    assert ops[0] == "dense_bytes"
    assert ops[-1] == "dequantize_linear"
    assert "sub" not in ops


def test_bytes_that_others_read():
    """Held as uint8, they are given away as they were; a network of uint8 needs no step between."""
    rng, b = np.random.default_rng(3), Builder("net")
    x = b.one("to_int8", b.input("x", (4, 8), "uint8"))
    y = requantized(b, b.one("matmul_integer", x, b.constant(numbers(rng, "int8", 8, 16))), rng, 16)
    ops = assert_same(b, {"y": y, "z": b.one("to_uint8", y), "t": b.one("transpose", y, attrs={"perm": (1, 0)})})
    assert ops.count("to_int8") == 2  # of the outputs y and t
    assert ops.count("to_uint8") == 0


@pytest.mark.parametrize(("depth", "least", "op"), [
    (33025, 255, "dense_bytes"), (33026, 255, "matmul_integer"), (34000, 255, "matmul_integer"), (34000, 254, "matmul_integer"),
    (66000, 128, "matmul_integer"), (65793, 128, "dense_bytes"), (66300, 127, "dense_bytes"),
])
def test_sums_at_the_limit_of_int32(depth, least, op):
    """Sums of bytes by weights that int8 does not hold are clipped as they are, not less what was added to the weights."""
    b, data = Builder("net"), np.stack([np.full(depth, 127, np.int8), np.full(depth, -128, np.int8)])
    weight = np.full((depth, 2), least, np.uint8)
    sums = b.one("matmul_integer", b.input("x", data.shape, "int8"), b.constant(weight))
    vectors = [b.constant(np.full(2, number, np.int32)) for number in (0, 1 << 14, 38)]
    y = b.one("requantize", sums, *vectors, attrs={"zero_point": 0, "low": -128, "high": 127})
    graph = b.finish([("y", y), ("sums", sums)])
    changed = byte_rows(graph)
    assert op in [node.op for node in changed.nodes]
    for got, want in zip(evaluate_graph(changed, data), evaluate_graph(graph, data), strict=True):
        np.testing.assert_array_equal(got, want)
    exact = data.astype(np.int64) @ weight.astype(np.int64)
    np.testing.assert_array_equal(evaluate_graph(graph, data)[0], np.clip((exact << 14) + (1 << 37) >> 38, -128, 127))


def test_what_stays_as_it_is():
    """Two operands of the run, and a graph without products."""
    b = Builder("net")
    assert assert_same(b, {"y": b.one("matmul_integer", b.input("x", (3, 4), "int8"), b.input("w", (4, 5), "int8"))}) == [
        "matmul_integer"]
    b = Builder("net")
    graph = b.finish([("y", b.one("relu", b.input("x", (3,), "float32")))])
    assert byte_rows(graph) is graph
