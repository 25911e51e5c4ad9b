"""Weights of 16 bits on request: what is computed is float32 of the rounded weights, on every processor and any threads."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from codegen_cases import HERE, LEVELS
from model_support import model
from onnx import helper

import vtakit
from vtakit import models
from vtakit.runtime import cli

NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
RNG = np.random.default_rng(4)
FIRST, LAST = (RNG.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 100), (100, 40)))
FIRST[0, :3] = 2.0**-15, 3 * 2.0**-25, 2.0**-27  # float16 has the first exactly, the second rounded, and for the third 0


def perceptron() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "v"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "w"], ["y"])]
    return model(nodes, [("x", "f4", [3, 64])], [("y", "f4", [3, 40])], {"v": FIRST, "w": LAST})


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("level", [level for level in ("plain", "avx2", "avx512") if level in HERE])
def test_products_are_those_of_the_rounded_weights(level, precision):
    module = vtakit.compile(perceptron(), LEVELS[level], precision=precision, cache=False)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    first, last = (w.astype(NARROW[precision]).astype(np.float32) for w in (FIRST, LAST))
    np.testing.assert_allclose(module.run({"x": x})["y"], np.maximum(x @ first, 0) @ last, rtol=1e-5, atol=1e-5)
    said = f"weights of 2 of 2 products in {precision}, sums in float32"
    assert module.image.said == said
    assert str(module.profile({"x": x}, repeat=1)).startswith(f"{said}\n")


def test_the_command_says_what_it_did(tmp_path, capsys):
    onnx.save(perceptron(), tmp_path / "net.onnx")
    call = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.vtak"), "--precision"]
    assert cli.main([*call, "float16"]) == 0
    assert "\nweights of 2 of 2 products in float16, sums in float32\n" in capsys.readouterr().out
    assert cli.main([*call, "float32"]) == 0
    assert "products in" not in capsys.readouterr().out


@pytest.mark.parametrize("level", [level for level in ("avx512-bf16", "amx") if level in HERE])
def test_a_product_of_many_rows_rounds_its_data_too(level):
    """Each row is a pixel for instructions on bfloat16; a small product stays in float32."""
    weight, bias, small = (RNG.standard_normal(shape).astype(np.float32) for shape in ((100, 128), (100,), (100, 20)))
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1), helper.make_node("MatMul", ["y", "m"], ["z"])]
    given = model(nodes, [("x", "f4", [70, 128])], [("y", "f4", [70, 100]), ("z", "f4", [70, 20])],
                  {"w": weight, "b": bias, "m": small})
    module = vtakit.compile(given, LEVELS[level], precision="bfloat16", cache=False)
    x = RNG.standard_normal((70, 128)).astype(np.float32)
    data, rounded = (array.astype(ml_dtypes.bfloat16).astype(np.float64) for array in (x, weight))
    found = module.run({"x": x})
    np.testing.assert_allclose(found["y"], data @ rounded.T + bias, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["z"], found["y"].astype(np.float64) @ small, rtol=1e-5, atol=1e-3)
    assert module.image.said.startswith("1 of 1 convolutions and products in bfloat16, sums in float32, by ")
    assert module.image.said.endswith("; weights of 0 of 1 products in bfloat16, sums in float32")


@pytest.mark.parametrize(("precision", "most"), [("float16", 1e-3), ("bfloat16", 8e-3)])
def test_the_errors_that_are_stated(precision, most):
    """docs/half_precision.md: DQN is off by less than a rounding of its weights, and no thread changes that."""
    network, given = models.build("dqn"), models.inputs("dqn")
    exact = vtakit.compile(network).run(given)
    found = [vtakit.compile(network, precision=precision, threads=threads).run(given) for threads in (1, 2)]
    for name, want in exact.items():
        assert 0 < np.abs(found[0][name] - want).max() < most * np.abs(want).max()
        np.testing.assert_array_equal(found[0][name], found[1][name])
