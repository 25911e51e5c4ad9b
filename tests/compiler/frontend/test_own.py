"""Operators of a user's own in ONNX models: compiled from their tensor expressions, for every target."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from support import raises

import vtakit
from vtakit import te
from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.errors import UnsupportedError
from vtakit.compiler.frontend.onnx.operators import CONVERTERS
from vtakit.compiler.frontend.own import OWN
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError
from vtakit.runtime.placement import PlacementWarning


@pytest.fixture(autouse=True)
def _forgotten():
    """Registrations of a test end with it; operators stay, under names of which there is one each."""
    tables = [(table, dict(table)) for table in (OWN, CONVERTERS)]
    yield
    for table, before in tables:
        table.clear()
        table.update(before)


def capped(x, *, cap=50.0):
    return te.compute(x.shape, lambda *at: te.tanh(x(*at) / cap) * cap)


def model(domain="com.example", op="SoftCap", **attributes):
    """relu, the operator, relu."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node(op, ["a"], ["b"], "capped", domain=domain, **attributes),
         helper.make_node("Neg", ["b"], ["y"])], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)])


X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def truth(cap):
    return -np.tanh(np.maximum(X, 0) / cap) * cap


@pytest.mark.parametrize("kind", ["injective", "opaque"])
def test_an_operator_is_compiled_from_its_expression(kind):
    with pytest.raises(UnsupportedError, match=r"com\.example\.SoftCap"):
        vtakit.compile(model())
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"), kind=kind)
    for attributes, cap in (({}, 50.0), ({"cap": 2.0}, 2.0)):
        made = vtakit.compile(model(**attributes))
        np.testing.assert_allclose(made.run({"x": X})["y"], truth(cap), rtol=1e-5, atol=1e-6)
    assert (len(made.image.layers) == 1) == (kind == "injective")


def test_a_name_registered_again_is_the_new_definition():
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"))
    vtakit.compile(model())

    @vtakit.register_operator("softcap", onnx=("com.example", "SoftCap"))
    def doubled(x):
        return te.compute(x.shape, lambda *at: x(*at) * 2)

    np.testing.assert_allclose(vtakit.compile(model()).run({"x": X})["y"], -2 * np.maximum(X, 0))


def test_a_schedule_of_its_own_is_used():
    seen = []

    def own(outputs):
        seen.append([tensor.op.name for tensor in outputs])
        return schedule(outputs)
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"), schedule=own)
    np.testing.assert_allclose(vtakit.compile(model()).run({"x": X})["y"], truth(50.0), rtol=1e-5, atol=1e-6)
    assert len(seen) == 1


def test_the_accelerator_leaves_it_to_its_processor_and_says_so():
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"))
    with pytest.warns(PlacementWarning, match="nothing of the model 'net' runs on the accelerator"):
        made = vtakit.compile(model(), "vta")
    np.testing.assert_allclose(made.run({"x": X})["y"], truth(50.0), rtol=1e-5, atol=1e-6)
    assert made.placement.launches == 0


def test_kernels_are_made_for_gpus():
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"))
    made = vtakit.compile(model(), "cuda", device="emulator")
    assert {part.kind for part in made.image.parts} == {"cuda"}


def test_mistakes_are_sentences():
    vtakit.register_operator("softcap", capped, onnx=("com.example", "SoftCap"))
    with raises(UnsupportedError, "model 'net' needs … SoftCap with the attribute 'cop', which its registered definition …"):
        vtakit.compile(model(cop=1.0))
    vtakit.register_operator("softcap", lambda x: x.nothing, onnx=("com.example", "SoftCap"))
    with pytest.raises(Exception, match="operator 'softcap': its definition raises AttributeError") as caught:
        vtakit.compile(model())
    assert isinstance(caught.value, VtakitError)
    vtakit.register_operator("softcap", lambda x: 3, onnx=("com.example", "SoftCap"))
    with pytest.raises(Exception, match="operator 'softcap': its definition returns int; return a tensor"):
        vtakit.compile(model())
    with raises(OperatorError, "register_operator('soft cap'): give a word …"):
        vtakit.register_operator("soft cap", capped)
    with raises(OperatorError, "register_operator('a', kind='fused'): known: …"):
        vtakit.register_operator("a", capped, kind="fused")
    with raises(OperatorError, "register_operator('a', onnx='SoftCap'): give domain and name, …"):
        vtakit.register_operator("a", capped, onnx="SoftCap")
    with raises(OperatorError, "register_operator('a', torch='softcap'): give 'namespace::name', …"):
        vtakit.register_operator("a", capped, torch="softcap")
    with raises(OperatorError, "register_operator('a'): a schedule is for an operator that stays alone, …"):
        vtakit.register_operator("a", capped, kind="injective", schedule=schedule)
