"""Numbers of 8, 4 and 2 bits: all codes, roundings and quantization are those of ml_dtypes and of ONNX's reference."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.gpu import GpuKernels

FLOATS = {"float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "float4_e2m1fn": 23}
INTEGERS = {"uint4": T.UINT4, "int4": T.INT4, "uint2": T.UINT2, "int2": T.INT2}
SCALES = "float8_e8m0fnu"


def of_nodes(nodes, inputs, outputs, constants=()):
    """A model; inputs and outputs : (name, number of TensorProto, shape)."""
    ports = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "net", *ports, list(constants))
    return helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 25)])


def cast(x, of, to, **words):
    node = helper.make_node("Cast", ["x"], ["y"], to=to, **words)
    return vtakit.compile(of_nodes([node], [("x", of, x.shape)], [("y", to, x.shape)])).run({"x": x})["y"]


def numbers(rng, count=4000):
    """Numbers of all sizes, those in the middle between two small floats among them, and what is no number."""
    plain = rng.standard_normal(count) * np.exp2(rng.integers(-20, 20, count))
    middles = rng.integers(1, 64, count) * np.exp2(rng.integers(-16, 14, count)) * rng.choice([-1, 1], count)
    return np.concatenate([plain, middles, [0, -0.0, np.inf, -np.inf, np.nan, 464, 465, 61440, 61439]]).astype("f4")


def codes(kind):
    return np.arange(16 if kind.startswith("float4") else 256, dtype="u1").view(getattr(ml_dtypes, kind))


@pytest.mark.parametrize("kind", [*FLOATS, SCALES])
def test_every_code_is_its_number(kind):
    got, want = cast(codes(kind), FLOATS.get(kind, T.FLOAT8E8M0), T.FLOAT), codes(kind).astype("f4")
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", FLOATS)
def test_rounding_to_a_small_float(kind, saturate):
    x = numbers(np.random.default_rng(5))
    small = np.dtype(getattr(ml_dtypes, kind))
    with np.errstate(all="ignore"):
        want = numpy_helper.saturate_cast(x, small) if saturate else x.astype(small)
    got = cast(x, T.FLOAT, FLOATS[kind], saturate=saturate)
    assert got.dtype == small
    np.testing.assert_array_equal(got.astype("f4"), want.astype("f4"))
    with np.errstate(all="ignore"):
        half = x.astype("f2")
        want = numpy_helper.saturate_cast(half, small) if saturate else half.astype(small)
    np.testing.assert_array_equal(cast(half, T.FLOAT16, FLOATS[kind], saturate=saturate).astype("f4"), want.astype("f4"))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode, saturate):
    x = np.abs(numbers(np.random.default_rng(6)))
    x = np.concatenate([x, np.float32([3.4e38, 2e-38, 1e-40, 6e-39])])
    want = numpy_helper.to_float8e8m0(x, saturate, mode)
    np.testing.assert_array_equal(cast(x, T.FLOAT, T.FLOAT8E8M0, round_mode=mode, saturate=int(saturate)).view("u1"),
                                  want.view("u1"))


@pytest.mark.parametrize("kind", INTEGERS)
def test_narrow_integers(kind):
    small = np.dtype(getattr(ml_dtypes, kind))
    x = np.arange(-70, 70)
    for of, number in (("i8", T.INT64), ("f4", T.FLOAT), ("i1", T.INT8)):
        got = cast(x.astype(of), number, INTEGERS[kind])
        assert got.dtype == small
        np.testing.assert_array_equal(got.view("u1"), x.astype(of).astype(small).view("u1"))
    limits = ml_dtypes.iinfo(small)
    every = np.arange(int(limits.min), int(limits.max) + 1).astype(small)
    np.testing.assert_array_equal(cast(every, INTEGERS[kind], T.INT32), every.astype("i4"))


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_they_are_moved_as_they_are(kind):
    """Reshaped, transposed, gathered, cut and joined; as constants packed in a file, too."""
    rng = np.random.default_rng(7)
    number = {**FLOATS, **INTEGERS}[kind]
    bits = 8 if "float8" in kind else 4 if "4" in kind else 2
    x = rng.integers(0, 1 << bits, (6, 5)).astype("u1").view(getattr(ml_dtypes, kind))
    if kind in INTEGERS:
        x = rng.integers(0, 2, (6, 5)).astype(x.dtype)
    w = x[::-1].copy()
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["c"], axis=1), helper.make_node("Transpose", ["c"], ["t"]),
        helper.make_node("Gather", ["t", "at"], ["g"], axis=0), helper.make_node("Reshape", ["g", "to"], ["y"]),
    ]
    known = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([7, 0, 9]), "at"),
             numpy_helper.from_array(np.array([9, 2]), "to")]
    made = vtakit.compile(of_nodes(nodes, [("x", number, [6, 5])], [("y", number, [9, 2])], known)).run({"x": x})["y"]
    want = np.concatenate([x.view("u1"), w.view("u1")], 1).T[[7, 0, 9]].reshape(9, 2)
    np.testing.assert_array_equal(made.view("u1"), want)


@pytest.mark.parametrize(("kind", "block"), [(kind, block) for kind in (*FLOATS, *INTEGERS, "int8") for block in (0, 3)])
def test_quantization_there_and_back(kind, block):
    rng = np.random.default_rng(8)
    number = {**FLOATS, **INTEGERS, "int8": T.INT8}[kind]
    small = np.dtype(getattr(ml_dtypes, kind, kind))
    x = (rng.standard_normal((4, 7, 5)) * 6).astype("f4")
    shape = (4, 3, 5) if block else (7,)
    scale = rng.uniform(0.3, 2, shape).astype("f4")
    zero = np.zeros(shape, small) if kind in FLOATS else rng.integers(0, 2, shape).astype(small)
    words = {"axis": 1, "block_size": block}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **words),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **words)]
    known = [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero, "z")]
    proto = of_nodes(nodes, [("x", T.FLOAT, x.shape)], [("q", number, x.shape), ("y", T.FLOAT, x.shape)], known)
    want = ReferenceEvaluator(proto).run(None, {"x": x})
    got = vtakit.compile(proto).run({"x": x})
    assert got["q"].dtype == small
    np.testing.assert_array_equal(got["q"].astype("f4"), want[0].astype("f4"))
    np.testing.assert_allclose(got["y"], want[1], rtol=1e-6)
    assert len(np.unique(got["q"].astype("f4"))) > 2


def test_weights_in_4_bits_before_a_product():
    rng = np.random.default_rng(9)
    w = rng.integers(-8, 8, (64, 24)).astype(ml_dtypes.int4)
    scale = rng.uniform(0.01, 0.1, (2, 24)).astype("f4")
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32),
             helper.make_node("MatMul", ["x", "d"], ["y"])]
    known = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scale, "s")]
    proto = of_nodes(nodes, [("x", T.FLOAT, [3, 64])], [("y", T.FLOAT, [3, 24])], known)
    x = rng.standard_normal((3, 64)).astype("f4")
    want = x @ (w.astype("f4").reshape(2, 32, 24) * scale[:, None]).reshape(64, 24)
    np.testing.assert_allclose(vtakit.compile(proto).run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("of", "to"), [("f4", "u4"), ("i8", "f8"), ("u2", "f2"), ("b", "B"), ("B", "e4m3fn"), ("e5m2", "b")])
def test_bits_as_another_type(of, to):
    def kind(word):
        return np.dtype(getattr(ml_dtypes, f"float8_{word}")) if word.startswith("e") else np.dtype(word)
    x = np.random.default_rng(4).integers(0, 256, 8 * kind(of).itemsize).astype("u1").view(kind(of))
    number = helper.np_dtype_to_tensor_dtype(kind(to))
    node = helper.make_node("BitCast", ["x"], ["y"], to=number)
    proto = helper.make_model(helper.make_graph(
        [node], "net", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(kind(of)), x.shape)],
        [helper.make_tensor_value_info("y", number, x.shape)]), opset_imports=[helper.make_opsetid("",
                                                                                                   onnx.defs.onnx_opset_version())])
    got = vtakit.compile(proto).run({"x": x})["y"]
    assert got.dtype == kind(to)
    np.testing.assert_array_equal(got.view("u1"), x.view("u1"))


def test_nothing_is_computed_with_a_small_float():
    proto = of_nodes([helper.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT8E5M2, [2])], [("y", T.FLOAT8E5M2, [2])])
    message = "node 'y' (Relu): relu of float8_e5m2: such numbers are moved and converted only: convert them with cast"
    with raises(ModelError, message):
        vtakit.compile(proto)


def test_a_gpu_has_no_code_for_them():
    node = helper.make_node("Cast", ["x"], ["y"], "down", to=T.FLOAT8E5M2)
    graph = import_model(of_nodes([node], [("x", T.FLOAT, [4])], [("y", T.FLOAT8E5M2, [4])]))
    with pytest.raises(GraphError, match="has numbers of float8_e5m2, for which GPUs have no code: convert them before"):
        compile_graph(graph, GpuKernels())
