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
from vtakit.runtime import inference_session, onnx_backend
from vtakit.runtime.cuda import driver
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
    with pytest.warns(RuntimeWarning), raises(InputError, "providers=['Cpu']: there is none of them here; known: …"):
        vtakit.InferenceSession(model(), providers=["Cpu"])


def test_a_gpu_that_there_is_not_is_passed_over(monkeypatch):
    monkeypatch.setattr(driver, "missing", lambda: "no driver")
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    with pytest.warns(RuntimeWarning, match="no provider 'CUDAExecutionProvider' here: no driver"):
        session = vtakit.InferenceSession(model(), providers=both)
    assert session.get_providers() == ["CPUExecutionProvider"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(session.run(["total"], {"x": x, "shape": np.array([3, 2])})[0], 6)
    with pytest.warns(RuntimeWarning), raises(InputError, "providers=['CUDAExecutionProvider']: there is none of them here; …"):
        vtakit.InferenceSession(model(), providers=both[:1])
    monkeypatch.setattr(driver, "missing", lambda: "")
    assert vtakit.InferenceSession(model(), providers=both).get_providers() == ["CUDAExecutionProvider"]
    asked = []
    monkeypatch.setattr(inference_session, "compile", lambda *args, device, **options: asked.append((args[1], device)))
    for given in ({}, {"device_id": 1}, {"device_id": "2", "arena_extend_strategy": "kSameAsRequested"}):
        vtakit.InferenceSession(model(), providers=[("CUDAExecutionProvider", given)])
    assert asked == [("cuda", None), ("cuda", "cuda:1"), ("cuda", "cuda:2")]
    with raises(InputError, "CUDAExecutionProvider: device_id is the number of a GPU, got 'first'"):
        vtakit.InferenceSession(model(), providers=[("CUDAExecutionProvider", {"device_id": "first"})])


def of_one_node(kind: onnx.TypeProto, op: str = "Identity", to: onnx.TypeProto | None = None, **attrs) -> bytes:
    """One node from x to y, which have these types."""
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attrs)], "net",
                              [helper.make_value_info("x", kind)], [helper.make_value_info("y", to or kind)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    return made.SerializeToString()


FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 2])
SEQUENCE = helper.make_sequence_type_proto(FLOATS)


@pytest.mark.parametrize("kind", [
    *[helper.make_tensor_type_proto(each, ["n", 3]) for each in (
        TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UINT8, TensorProto.BOOL)],
    SEQUENCE, helper.make_optional_type_proto(SEQUENCE),
    helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [2])),
], ids=lambda kind: " ".join(str(kind).split()))
def test_types_are_spelled_as_onnxruntimes(kind):
    data = of_one_node(kind)
    ours, theirs = vtakit.InferenceSession(data), onnxruntime.InferenceSession(data)
    for mine, other in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)


def test_sequences_run_as_in_onnxruntime():
    given = [np.full((count, 2), count, np.float32) for count in (1, 3, 2)]
    for data in (of_one_node(SEQUENCE, "ConcatFromSequence", FLOATS, axis=0), of_one_node(SEQUENCE)):
        ours, theirs = vtakit.InferenceSession(data), onnxruntime.InferenceSession(data)
        (got,), (wanted,) = ours.run(None, {"x": given}), theirs.run(None, {"x": given})
        assert isinstance(got, list) == isinstance(wanted, list)
        for mine, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(mine, other)
    with raises(InputError, "input 'x' is a sequence of float32, got ndarray: give a list of arrays"):
        ours.run(None, {"x": given[0]})
    binding = ours.io_binding()
    binding.bind_cpu_input("x", given)
    binding.bind_output("y", array=np.empty((1, 2), np.float32))
    with raises(InputError, "output 'y' is a list, which no array can hold: …"):
        ours.run_with_iobinding(binding)


def test_an_optional_input_may_be_absent():
    session = vtakit.InferenceSession(of_one_node(
        helper.make_optional_type_proto(FLOATS), "OptionalHasElement", helper.make_tensor_type_proto(TensorProto.BOOL, [])))
    assert [session.run(None, feed)[0].item() for feed in ({}, {"x": None}, {"x": np.ones((1, 2), np.float32)})] == [
        False, False, True]


def test_lists_of_numbers_become_arrays_of_the_inputs_type():
    data = of_one_node(FLOATS)
    ours, theirs = vtakit.InferenceSession(data), onnxruntime.InferenceSession(data)
    for given in ([[1.5, 2.0]], [[1, 2], [3, 4]]):
        (got,), (wanted,) = ours.run(None, {"x": given}), theirs.run(None, {"x": given})
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == np.float32
    for given in ([[1.0], [2.0, 3.0]], ["a"], {}):
        with raises(InputError, f"input 'x' is float32[n, 2], got a {type(given).__name__} that is no array: …"):
            ours.run(None, {"x": given})


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
        ({"x": x[0], "shape": shape}, None, "input 'x' is float32[n, x.1], with 2 dimensions; got [3]"),
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
