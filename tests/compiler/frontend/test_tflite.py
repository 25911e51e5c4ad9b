"""TensorFlow Lite models against LiteRT's interpreter, and files that are refused."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import raises
from tflite_cases import KINDS, OPERATORS, Case
from tflite_single import SINGLE
from tflite_support import Made, residual_network, sparse_model, truth

import vtakit
from vtakit.compiler.frontend.errors import ModelError, NotConstantError, UnsupportedError
from vtakit.compiler.frontend.tflite.docs import operator_text
from vtakit.compiler.frontend.tflite.importer import import_tflite
from vtakit.compiler.frontend.tflite.operators import CONVERTERS
from vtakit.compiler.quantize.errors import QuantizeError


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, kinds) in OPERATORS.items() for kind in kinds])
def test_operators_equal_the_interpreter(name: str, kind: str, seed: int, tmp_path: Path) -> None:
    c = Case(seed * 1000 + KINDS.index(kind), kind)
    OPERATORS[name][0](c)
    c.check(tmp_path)


@pytest.mark.parametrize("op", SINGLE)
def test_single_operators_equal_the_interpreter(op: str, tmp_path: Path) -> None:
    c = Case(0, "float32")
    SINGLE[op](c)
    c.check(tmp_path)


def test_a_model_is_made_of_each_operator() -> None:
    drawn = {*SINGLE, "DENSIFY"}  # the latter by the test of sparse weights
    for case, kinds in OPERATORS.values():
        for seed in range(200):
            c = Case(seed, kinds[seed % len(kinds)])
            case(c)
            drawn |= c.model.ops
    assert set(CONVERTERS) <= drawn


def test_a_network_in_int8_runs_on_both_targets(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0)
    made = residual_network(numbers)
    path = made.save(tmp_path / "net.tflite")
    image = numbers.integers(-128, 128, (1, 16, 16, 3)).astype(np.int8)
    (wanted,) = truth(made.bytes(), {made.inputs[0]: image})
    there = vtakit.compile(path, cache=False)
    assert there.inputs == {"image": "int8[1, 16, 16, 3]"}
    assert list(there.outputs) == ["scores"]
    ours = there.run({"image": image})["scores"]
    assert np.abs(ours.astype(int) - wanted.astype(int)).max() <= 2  # three layers that round, each by one quantum at most
    device = vtakit.compile(path, "vta", device="fsim", cache=False)
    np.testing.assert_array_equal(device.run({"image": image})["scores"], ours)
    assert device.placement.share_of_macs > 0.99


def test_open_sizes_are_given(tmp_path: Path) -> None:
    made = Made()
    x = made.input((1, 1, 4), name="x", signature=(-1, -1, 4))
    made.outputs = [made.tensor((1, 1, 4), signature=(-1, -1, 4), name="y")]
    made.apply("RELU", [x], made.outputs)
    path = made.save(tmp_path / "open.tflite")
    with raises(ModelError, "input 'x' … has the open shape [?, ?, 4]: give it with shapes={'x': (…)}"):
        vtakit.compile(path)
    data = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 2, 4)
    found = vtakit.compile(path, shapes={"x": (3, 2, 4)}).run({"x": data})["y"]
    np.testing.assert_array_equal(found, np.maximum(data, 0))
    with raises(ModelError, "input 'x' … has the shape [?, ?, 4], which [3, 2, 5] does not fit"):
        vtakit.compile(path, shapes={"x": (3, 2, 5)})


def test_a_shape_that_is_computed_is_folded(tmp_path: Path) -> None:
    """As converters write a flattening of a batch that is open: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    made = Made()
    x = made.input((1, 2, 3), name="x", signature=(-1, 2, 3))
    shape, first, packed = made.tensor((3,), "int32"), made.tensor((), "int32"), made.tensor((2,), "int32")
    made.apply("SHAPE", [x], [shape], "ShapeOptions", outType=2)
    ends = [made.constant([each], "int32") for each in (0, 1, 1)]
    made.apply("STRIDED_SLICE", [shape, *ends], [first], "StridedSliceOptions", shrinkAxisMask=1)
    made.apply("PACK", [first, made.constant(6, "int32")], [packed], "PackOptions", valuesCount=2)
    made.outputs = [made.tensor((1, 6), name="y", signature=(-1, 6))]
    made.apply("RESHAPE", [x, packed], made.outputs, "ReshapeOptions")
    data = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    module = vtakit.compile(made.save(tmp_path / "m.tflite"), batch=4)
    np.testing.assert_array_equal(module.run({"x": data})["y"], data.reshape(4, 6))


def test_sparse_weights_are_read(tmp_path: Path) -> None:
    made, dense = sparse_model()
    data = np.arange(16, dtype=np.float32).reshape(2, 8)
    found = vtakit.compile(made.save(tmp_path / "m.tflite")).run({"x": data})["y"]
    np.testing.assert_array_equal(found, data @ dense.T)
    np.testing.assert_array_equal(found, truth(made.bytes(), {0: data})[0])


@pytest.mark.parametrize("kind", ["int32", "float32"])
@pytest.mark.parametrize("op", ["FLOOR_DIV", "FLOOR_MOD"])
def test_division_rounded_down(op: str, kind: str, tmp_path: Path) -> None:
    """Quotients at the ends of int32 too, and of floats so small that a product of their signs underflows."""
    integers = (-2**31, -2**31 + 1, 2**31 - 1, -7, 0, 7), (3, -3, 7, 2**31 - 1, -2**31)
    reals = (-1e-30, 1e-30, -7.5, 7.5, 0, 5), (3e-30, -3e-30, 2, -2, 0.1)
    left, right = (np.array(each, kind) for each in (integers if kind == "int32" else reals))
    data = {at: grid.reshape(-1) for at, grid in enumerate(np.meshgrid(left, right))}
    made = Made()
    made.inputs = [made.input((30,), kind, name=name) for name in "ab"]
    made.outputs = [made.tensor((30,), kind, name="y")]
    made.apply(op, made.inputs, made.outputs)
    found = vtakit.compile(made.save(tmp_path / "m.tflite")).run({"a": data[0], "b": data[1]})["y"]
    np.testing.assert_array_equal(found, truth(made.bytes(), data)[0])


def test_what_is_unsupported_is_told_at_once(tmp_path: Path) -> None:
    made = Made()
    x, y, z = made.input((2, 3), name="x"), made.tensor((2, 3), name="y;other"), made.tensor((2, 3), name="z")
    made.outputs = [z]
    made.apply("SEGMENT_SUM", [x], [y])
    made.apply("CUSTOM", [y], [z])
    made.codes[-1].customCode = b"MyOwn"
    with raises(UnsupportedError, "model 'm' needs … SEGMENT_SUM (1 node: 'y'); custom operator MyOwn (1 node: 'z')"):
        import_tflite(made.save(tmp_path / "m.tflite"))


def test_a_shape_that_data_decide_is_refused(tmp_path: Path) -> None:
    made = Made()
    x, size = made.input((2, 3), name="x"), made.input((2,), "int32", name="size")
    made.outputs = [made.tensor((3, 2), name="y")]
    made.apply("RESHAPE", [x, size], made.outputs, "ReshapeOptions")
    with raises(NotConstantError, "input 1 ('size') of node 'y' (RESHAPE) must be known … depends on the input 'size' …"):
        import_tflite(made.save(tmp_path / "m.tflite"))


@pytest.mark.parametrize(("change", "message"), [
    (lambda made: (made.tensors[0].quantization, "scale", np.array([0], np.float32)), "tensor 'x' … scale that is not above 0 …"),
    (lambda made: (made.tensors[0].quantization, "zeroPoint", np.array([300])), "tensor 'x' … that int8 does not hold"),
    (lambda made: (made.tensors[1], "shape", np.array([2, 4], np.int32)), "node 'y' (RELU) makes INT8[2, 3]; … says [2, 4]"),
    (lambda made: (made.operators[0], "inputs", np.array([7], np.int32)), "the model 'm' names tensor 7; … has 2"),
    (lambda made: (made.operators[0], "opcodeIndex", 3), "the model 'm' names operator code 3; it has 1"),
    (lambda made: (made.tensors[0], "shape", np.array([2, -3], np.int32)), "tensor 'x' … [2, -3]: a size is at least 0"),
])
def test_models_that_break_rules_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    made = Made()
    made.input((2, 3), "int8", scale=0.1, name="x")
    made.outputs = [made.tensor((2, 3), "int8", scale=0.1, name="y")]
    made.apply("RELU", [0], [1])
    setattr(*change(made))
    with raises(ModelError, f"… {message}"):
        import_tflite(made.save(tmp_path / "m.tflite"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"PK\3\4 an archive")
    with raises(ModelError, "… is no TensorFlow Lite model: bytes 4 to 7 are b' an ', and must be b'TFL3'"):
        vtakit.compile(path)
    path.write_bytes(struct.pack("<I4s", 1 << 30, b"TFL3"))
    with raises(ModelError, "… is a damaged TensorFlow Lite model: …"):
        vtakit.compile(path)
    residual_network(np.random.default_rng(0)).save(path)
    with raises(ModelError, "fixed goes with ONNX models …"):
        vtakit.compile(path, fixed={"image": np.zeros(1)})
    with raises(QuantizeError, "… is a TensorFlow Lite model, which its own converter quantizes: …"):
        vtakit.quantize(path, np.zeros((1, 16, 16, 3), np.float32))


def test_the_documentation_lists_the_operators() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tflite.md").read_text()
    assert page.endswith(f"\n\n{operator_text()}"), "write operator_text() of vtakit.compiler.frontend.tflite.docs at its end"
