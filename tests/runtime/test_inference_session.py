"""Sessions as onnxruntime's: the same calls give the same numbers; and single nodes by the ONNX backend."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support import raises

import vtakit
from vtakit import models
from vtakit.compiler.frontend.errors import ModelError
from vtakit.runtime import onnx_backend
from vtakit.runtime.module import InputError


def model() -> onnx.ModelProto:
    """Two inputs with open sizes, of which one decides the shape of the first output."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Relu", ["r"], ["y"]),
         helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0)], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", None]),
         helper.make_tensor_value_info("shape", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"]),
         helper.make_tensor_value_info("total", TensorProto.FLOAT, [])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="us", doc_string="a net")
    made.ir_version, made.model_version = 9, 3
    helper.set_model_props(made, {"key": "value"})
    return made


@pytest.fixture(params=["path", "bytes"])
def source(request, tmp_path):
    onnx.save(model(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx" if request.param == "path" else model().SerializeToString()


def test_a_session_answers_as_onnxruntimes_does(source):
    ours, theirs = vtakit.InferenceSession(source), onnxruntime.InferenceSession(source)
    for mine, other in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)
    mine, other = ours.get_modelmeta(), theirs.get_modelmeta()
    for field in ("producer_name", "graph_name", "description", "domain", "version", "custom_metadata_map"):
        assert getattr(mine, field) == getattr(other, field)
    assert ours.get_providers() == ["CPUExecutionProvider"]
    rng = np.random.default_rng(0)
    for shape, to in (((2, 6), (3, -1)), ((4, 3), (2, 6)), ((2, 6), (3, -1)), ((2, 6), (6, 2))):
        feed = {"x": rng.standard_normal(shape).astype(np.float32), "shape": np.array(to)}
        for names in (None, ["total", "y"], ["y"]):
            for got, wanted in zip(ours.run(names, feed), theirs.run(names, feed), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
                assert got.dtype == wanted.dtype
    assert len(ours._model.modules) == 3


def test_bound_arrays_are_filled():
    session = vtakit.InferenceSession(model())
    binding, out = session.io_binding(), np.empty((3, 2), np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    binding.bind_cpu_input("x", x)
    binding.bind_cpu_input("shape", np.array([3, 2]))
    binding.bind_output("y", array=out)
    binding.bind_output("total")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, np.maximum(x, 0).reshape(3, 2))
    assert binding.copy_outputs_to_cpu()[1] == x.sum()
    binding.bind_output("y", array=np.empty((2, 3), np.float32))
    with raises(InputError, "output 'y' is float32[3, 2]; the array bound to it is float32[2, 3]"):
        session.run_with_iobinding(binding)


def test_threads_of_the_options_are_honoured_and_others_refused():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = vtakit.InferenceSession(models.build("dqn"), options)
    (name,) = [each.name for each in session.get_inputs()]
    session.run(None, {name: next(iter(models.inputs("dqn").values()))})
    (module,) = session._model.modules
    assert module.threads == 1
    options.enable_profiling = True
    with raises(InputError, "sess_options.enable_profiling: … Module.profile times layers"):
        vtakit.InferenceSession(model(), options)
    with raises(InputError, "sess_options.inter_op_num_threads=2: operators run one after another; leave it at 0"):
        vtakit.InferenceSession(model(), vtakit.SessionOptions(inter_op_num_threads=2))
    with raises(InputError, "threads=-1: a run uses at least 1"):
        vtakit.InferenceSession(model(), vtakit.SessionOptions(intra_op_num_threads=-1))


def test_providers_that_there_are_not_are_passed_over():
    with pytest.warns(RuntimeWarning, match="no provider 'TensorrtExecutionProvider'"):
        vtakit.InferenceSession(model(), providers=[("TensorrtExecutionProvider", {}), "CPUExecutionProvider"])
    with pytest.warns(RuntimeWarning), raises(InputError, "providers=['Cpu']: there is none of them; known: …"):
        vtakit.InferenceSession(model(), providers=["Cpu"])


def test_mistakes_are_sentences():
    session = vtakit.InferenceSession(model())
    x, shape = np.ones((2, 3), np.float32), np.array([3, 2])
    with raises(ModelError, "3 bytes are no ONNX model, or a damaged one"):
        vtakit.InferenceSession(b"abc")
    with raises(InputError, "InferenceSession(optimise=…): there is no such option; …"):
        vtakit.InferenceSession(model(), optimise=True)
    for feed, names, message in (
        ({"x": x}, None, "the model lacks 'shape' (tensor(int64))"),
        ({"x": x, "shape": shape, "z": x}, None, "the model has no input 'z'; known: shape, x"),
        ({"x": x, "shape": shape}, ["z"], "the model has no output 'z'; known: total, y"),
        ({"x": x[0], "shape": shape}, None, "input 'x' has 2 dimensions, ['n', None]; the array has [3]"),
        ({"x": x.astype(int), "shape": shape}, None, "input 'x' is float32[n, x.1], got int64[2, 3]: …"),
        ([x], None, "run takes a dict of arrays by name, got list"),
    ):
        with raises(InputError, message):
            session.run(names, feed)


def test_a_node_runs_by_itself():
    a, b = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    np.testing.assert_allclose(onnx_backend.run_node(node, [a, b])[0], a @ b, rtol=1e-5)
    (y,) = onnx_backend.run_node(node, [a, b], outputs_info=[(np.float32, (4, 4))], opset_version=13)
    np.testing.assert_allclose(y, a @ b, rtol=1e-5)
    assert not onnx_backend.supports_device("CUDA")
    with raises(onnx_backend.RefusedError, "device 'CUDA': models run on the CPU"):
        onnx_backend.prepare(model(), "CUDA")
