"""ONNX models: what they compute is what onnxruntime computes, and what is wrong with them is told in a sentence."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from model_support import model, network
from onnx import helper, numpy_helper
from support import raises

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.errors import ElementTypeError, ModelError, NotConstantError, OpenShapeError, UnsupportedError
from vtakit.compiler.frontend.onnx.docs import operator_text
from vtakit.compiler.frontend.onnx.importer import import_model

node = helper.make_node
RNG = np.random.default_rng(3)
TYPES = (
    "vtakit has float32, uint8, int8, uint16, int16, int32, int64, bool, float16, float64, uint32, uint64, bfloat16, "
    "float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, uint4, int4, float4_e2m1fn, float8_e8m0fnu, uint2, int2"
)


def truth(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes."""
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)


def agrees(proto: onnx.ModelProto, **inputs: np.ndarray) -> vtakit.runtime.module.Module:
    module = vtakit.compile(proto)
    for got, wanted in zip(module.run(inputs).values(), truth(proto, inputs), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    return module


def test_a_convolutional_network():
    module = agrees(network(), x=RNG.standard_normal((1, 3, 16, 16)).astype("f4"))
    assert [layer.ops for layer in module.image.layers] == [
        ("conv", "add", "relu"), ("max_pool",), ("conv", "add", "add", "relu"), ("global_average_pool",), ("gemm",), ("softmax",),
    ]
    assert module.image.layers[2].names == ("conv2", "norm2", "add", "relu2")
    assert module.image.layers[0].macs == 8 * 8 * 8 * 3 * 9


def test_a_symbolic_batch_is_fixed():
    x = RNG.standard_normal((3, 3, 16, 16)).astype("f4")
    module = vtakit.compile(network(), batch=3)
    assert module.inputs == {"x": "float32[3, 3, 16, 16]"}
    np.testing.assert_allclose(module.run({"x": x})["y"], truth(network(), {"x": x})[0], rtol=1e-4, atol=1e-6)
    assert vtakit.compile(network(), shapes={"x": (2, 3, 16, 16)}).outputs == {"y": "float32[2, 5]"}


def test_shapes_that_a_model_computes_are_folded():
    """Flatten as PyTorch used to export it: the batch taken from the shape of what is flattened."""
    proto = model([
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axes"], ["nu"]),
        node("Concat", ["nu", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"]),
    ], [("x", "f4", ["N", 2, 3])], [("y", "f4", ["N", 6])], {
        "zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1]),
    })
    graph = import_model(proto, batch=4)
    assert [made.op for made in graph.nodes] == ["reshape"]
    agrees(proto, x=np.arange(6, dtype="f4").reshape(1, 2, 3))


def test_an_input_that_decides_a_shape_can_be_fixed():
    proto = model([node("Reshape", ["x", "to"], ["y"])], [("x", "f4", [6]), ("to", "i8", [2])], [("y", "f4", ["a", "b"])])
    message = (
        "input 1 ('to') of node 'y' (Reshape) must be known when the model is compiled, and it depends on the input 'to': "
        "give the value with vtakit.compile(…, fixed={name: array})"
    )
    with raises(NotConstantError, message):
        import_model(proto)
    module = vtakit.compile(proto, fixed={"to": np.array([2, -1])})
    assert module.run({"x": np.arange(6, dtype="f4")})["y"].shape == (2, 3)
    with raises(ModelError, "fixed names 'two', which is no input of the model: it has 'x', 'to'"):
        vtakit.compile(proto, fixed={"two": np.array([2, 3])})
    with raises(ModelError, "fixed['to'] is an array of float64; the input has element type int64"):
        vtakit.compile(proto, fixed={"to": np.array([2.0, 3.0])})


@pytest.mark.parametrize(("opset", "attributes", "operands"), [
    (7, {"axes": [1]}, []), (11, {"axes": [-1]}, []), (13, {}, ["axes"]),
])
def test_what_moved_from_attributes_to_inputs(opset, attributes, operands):
    proto = model([
        node("Unsqueeze", ["x", *operands], ["u"], **attributes),
        node("ReduceSum", ["u", *operands], ["y"], keepdims=0, **attributes),
    ], [("x", "f4", [2, 3])], [("y", "f4", [2, 3])], {"axes": np.array([1])} if operands else {}, opset)
    agrees(proto, x=RNG.standard_normal((2, 3)).astype("f4"))


def test_the_softmax_of_old_opsets_runs_over_all_axes_behind():
    proto = model([node("Softmax", ["x"], ["y"], axis=1)], [("x", "f4", [2, 3, 4])], [("y", "f4", [2, 3, 4])], opset=11)
    agrees(proto, x=RNG.standard_normal((2, 3, 4)).astype("f4"))


@pytest.mark.parametrize("kind", ["i8", "i4", "i2", "f4"])
@pytest.mark.parametrize(("start", "limit", "step"), [(0, 10, 3), (10, 0, -3), (0, 9, 3), (5, 5, 1), (5, 0, 1), (-3, 0, 2)])
def test_ranges(kind, start, limit, step):
    constants = {"a": np.array(start, kind), "b": np.array(limit, kind), "c": np.array(step, kind)}
    nodes = [node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])]
    proto = model(nodes, [("x", kind, [1])], [("y", kind, [None])], constants)
    agrees(proto, x=np.ones(1, kind))


def test_a_range_over_all_integers_of_64_bits():
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    proto = model([node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])], [("x", "i8", [1])], [("y", "i8", [8])],
                  {"a": np.int64(lowest), "b": np.int64(highest), "c": np.int64(1 << 61)})
    np.testing.assert_array_equal(vtakit.compile(proto).run({"x": np.zeros(1, np.int64)})["y"], range(lowest, highest, 1 << 61))


@pytest.mark.parametrize(("one", "constants", "says"), [
    (node("Range", ["a", "b", "c"], ["r"]), {"a": np.float32(0), "b": np.float32(3e8), "c": np.float32(1)},
     "Range of 300,000,000 elements, a constant of more than 67,108,864 bytes: store it in the model"),
    (node("EyeLike", ["m"], ["r"]), {"m": np.zeros((5000, 5000), "f4")}, "EyeLike of 25,000,000 elements, a constant of"),
    (node("LSTM", ["d", "w", "v"], ["r"], hidden_size=-5), {
        "d": np.zeros((2, 1, 3), "f4"), "w": np.zeros((1, 16, 3), "f4"), "v": np.zeros((1, 16, 4), "f4")},
     "LSTM with hidden_size -5 and recurrent weights of the shape [1, 16, 4]"),
])
def test_what_no_machine_should_compute_is_refused_before(one, constants, says):
    proto = model([one, node("ReduceSum", ["r"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])],
                  [("x", "f4", [1])], [("y", "f4", [1])], constants)
    with pytest.raises(UnsupportedError) as caught:
        vtakit.compile(proto)
    assert says in str(caught.value)


def test_an_operator_without_a_converter_is_its_function():
    """MeanVarianceNormalization's axes have a default, which its function refers to."""
    proto = model([node("MeanVarianceNormalization", ["x"], ["y"])], [("x", "f4", [2, 3, 4, 4])], [("y", "f4", [2, 3, 4, 4])])
    agrees(proto, x=RNG.standard_normal((2, 3, 4, 4)).astype("f4"))


@pytest.mark.parametrize("outputs", [["o"], ["i", "more"]])
def test_a_function_that_does_not_make_its_output_is_told(outputs):
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Less", ["i"], outputs, [node("Neg", ["i"], ["n"])], opsets)
    made = ["y"] if len(outputs) == 1 else ["m", "y"]
    proto = model([node("Less", ["x"], made, name="less", domain="own"), node("Neg", ["y"], ["z"])],
                  [("x", "f4", [3])], [("z", "f4", [3])], functions=[function], domains=["own"])
    with pytest.raises(ModelError, match=r"^node 'less' \(Less\) does not make its output 'y'$"):
        vtakit.compile(proto)


def test_functions_of_the_model_itself():
    body = node("LeakyRelu", ["a"], ["b"])
    body.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
    function = helper.make_function(
        "own", "Leak", ["a"], ["c"], [body, node("Neg", ["b"], ["c"])], [helper.make_opsetid("", 17)], ["slope"],
    )
    call = node("Leak", ["x"], ["y"], domain="own", slope=0.5)
    proto = model([call], [("x", "f4", [3])], [("y", "f4", [3])], functions=[function], domains=["own"])
    x = np.array([-2, 0, 3], "f4")
    np.testing.assert_array_equal(vtakit.compile(proto).run({"x": x})["y"], [1, 0, -3])


def test_a_branch_that_a_constant_chooses():
    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["x"], ["r"])], op, [], [helper.make_tensor_value_info("r", 1, [2])])
    choose = node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    for condition in (True, False):
        proto = model([choose], [("x", "f4", [2])], [("y", "f4", [2])], {"c": np.array(condition)})
        agrees(proto, x=np.array([-1, 2], "f4"))


def test_external_data(tmp_path):
    onnx.save(network(), tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0, location="net.data")
    x = RNG.standard_normal((1, 3, 16, 16)).astype("f4")
    made = vtakit.compile(tmp_path / "net.onnx").run({"x": x})["y"]
    np.testing.assert_array_equal(made, vtakit.compile(network()).run({"x": x})["y"])
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelError, match=r"^cannot read the data of tensor '\w+' in '.*net\.data': No such file or directory$"):
        vtakit.compile(tmp_path / "net.onnx")


def test_everything_unsupported_is_told_at_once():
    proto = model([
        node("ImageDecoder", ["x"], ["n"], name="first"), node("Cast", ["n"], ["c"], to=1),
        node("RegexFullMatch", ["x"], ["u"], name="second", pattern="a"),
        node("ImageDecoder", ["u"], ["m"], name="third"), node("ImageDecoder", ["x"], ["k"], name="fourth"),
        node("Neg", ["x"], ["y"]), node("Cast", ["x"], ["t"], name="text", to=onnx.TensorProto.STRING),
    ], [("x", "f4", [3])], [("y", "f4", [3]), ("c", "f4", [1, "n"])], opset=20)
    with pytest.raises(UnsupportedError) as caught:
        vtakit.compile(proto)
    assert {name: nodes for name, nodes in caught.value.nodes.items() if name in ("ImageDecoder", "RegexFullMatch")} == {
        "ImageDecoder": ("first", "third", "fourth"), "RegexFullMatch": ("second",),
    }
    message = str(caught.value)
    assert message.startswith(
        "model 'net' needs what vtakit does not support: ImageDecoder (3 nodes: 'first', 'third', 'fourth'); "
        "RegexFullMatch (1 node: 'second'); Cast where"
    )
    assert message.endswith("(1 node: 'text')")


def test_what_is_unsupported_behind_something_unsupported_or_wrong_is_told_too():
    body = [node("RegexFullMatch", ["i"], ["o"], name="inside")]
    function = helper.make_function("own", "Once", ["i"], ["o"], body, [helper.make_opsetid("", 20)])
    proto = model([
        node("Reshape", ["x", "to"], ["r"], name="r"), node("ImageDecoder", ["x"], ["a"], name="a"),
        node("Foo", ["a"], ["c"], name="c", domain="com.acme"), node("StringSplit", ["r"], ["b", "b2"], name="b"),
        node("ImageDecoder", ["c"], ["d"], name="d"), node("Once", ["d"], ["y"], name="e", domain="own"),
        node("Elu", ["y"], ["z"], name="f"), node("Gelu", ["z"], ["z2"], name="g", domain="com.acme"),
    ], [("x", "f4", [4]), ("to", "i8", [2])], [("y", "i8", [None])], functions=[function], domains=["own", "com.acme"],
        opset=20)
    message = (
        "model 'net' needs what vtakit does not support: ImageDecoder (2 nodes: 'a', 'd'); com.acme.Foo (1 node: 'c'); "
        "StringSplit (1 node: 'b'); RegexFullMatch (1 node: 'e/inside'); com.acme.Gelu (1 node: 'g')"
    )
    with raises(UnsupportedError, message):
        vtakit.compile(proto)


def test_a_tensor_of_an_unknown_type_does_not_end_the_list():
    small = helper.make_tensor("w", onnx.TensorProto.STRING, [2], [b"1", b"2"])
    proto = model([node("Add", ["x", "w"], ["y"], name="sum"), node("ImageDecoder", ["x"], ["z"], name="nz")],
                  [("x", "f4", [2])], [("y", "f4", [2]), ("z", "i8", [1, None])], opset=20)
    proto.graph.initializer.append(small)
    message = f"initializer 'w' has element type string; {TYPES}"
    needed = "model 'net' needs what vtakit does not support: ImageDecoder (1 node: 'nz'); besides, "
    with raises(UnsupportedError, needed + message):
        import_model(proto)
    del proto.graph.node[1], proto.graph.output[1]
    with raises(ElementTypeError, message):
        import_model(proto)


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"), ModelError, None),
    (lambda m: m.graph.node[0].input.__setitem__(1, "nothing"), ModelError, None),
    (lambda m: m.opset_import[0].__setattr__("version", 6), ModelError,
     f"the model 'net' uses opset 6; vtakit reads 7 to {onnx.defs.onnx_opset_version()}: convert it with onnx.version_converter"),
    (lambda m: m.opset_import[0].__setattr__("version", 999), ModelError, None),
    (lambda m: m.graph.initializer[0].dims.__setitem__(0, 9), ModelError, None),
    (lambda m: m.graph.node[0].attribute[0].ints.__delitem__(0), ModelError, None),
    (lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", onnx.TensorProto.STRING), ElementTypeError,
     f"input 'x' has element type string; {TYPES}"),
    (lambda m: m.graph.ClearField("node"), ModelError, None),
])
def test_a_wrong_model_is_told_in_a_sentence(change, error, message):
    proto = network()
    change(proto)
    with pytest.raises(error) as caught:
        vtakit.compile(proto)
    assert "\n" not in str(caught.value)
    assert message is None or str(caught.value) == message


@pytest.mark.parametrize(("op", "attributes"), [("Concat", {"axis": 0}), ("Einsum", {"equation": "ij,ij->ij"}), ("Max", {})])
def test_an_operand_that_must_be_given(op, attributes):
    proto = model([node(op, ["x", ""], ["y"], "apply", **attributes)], [("x", "f4", [2, 3])], [("y", "f4", [2, 3])])
    with raises(ModelError, f"node 'apply' ({op}) lacks its input 1"):
        import_model(proto)


def test_open_sizes_are_told_to_who_reads_a_whole_model():
    proto = network()
    proto.graph.input[0].type.tensor_type.shape.dim[2].ClearField("dim_value")
    with raises(OpenShapeError, "input 'x' has the symbolic shape [N, 3, ?, 16]: give it with shapes={'x': (…)}"):
        import_model(proto)


def test_wrong_arguments():
    with raises(ModelError, "a model is a path or an onnx.ModelProto, got int"):
        vtakit.compile(3)
    with raises(ModelError, "cannot read the model 'nowhere.onnx': No such file or directory"):
        vtakit.compile("nowhere.onnx")
    with raises(ModelError, "input 'x' has the shape [N, 3, 16, 16] in the model, which [1, 4, 16, 16] does not fit"):
        vtakit.compile(network(), shapes={"x": (1, 4, 16, 16)})
    with raises(ModelError, "shapes names 'z', which is no input of the model: it has 'x'"):
        vtakit.compile(network(), shapes={"z": (1,)})
    for batch in (0, "2", 2.5, True):
        with raises(ModelError, f"batch={batch!r}: a batch is a whole number, at least 1"):
            vtakit.compile(network(), batch=batch)
    for shape in ("13", (1.7, 3), 4, (True, 3)):
        with raises(ModelError, f"the shape of 'x' is {shape!r}: give a sequence of whole numbers"):
            vtakit.compile(network(), shapes={"x": shape})
    with raises(ModelError, "shapes is a dict by the names of inputs, got list"):
        vtakit.compile(network(), shapes=[1, 2])
    with raises(ModelError, "fixed is a dict by the names of inputs, got tuple"):
        vtakit.compile(network(), fixed=(1, 2))
    assert import_model(network(), batch=np.int64(2)).inputs[0].type.shape == (2, 3, 16, 16)


@pytest.mark.parametrize(("kind", "shape", "message"), [
    ("i8", [2, 3], "output 'y' is int64 in the model, whose nodes make float32"),
    ("f4", [5, 3], "output 'y' has the shape [5, 3] in the model, whose nodes make [2, 3]"),
    ("f4", ["n"], "output 'y' has the shape [?] in the model, whose nodes make [2, 3]"),
])
def test_an_output_that_is_not_what_the_model_says(kind, shape, message):
    proto = model([node("Neg", ["x"], ["y"])], [("x", "f4", [2, 3])], [("y", kind, shape)])
    with raises(ModelError, message):
        import_model(proto)
    if kind == "f4":  # the sizes that an exporter noted for one batch
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        assert import_model(proto, batch=4).outputs[0][1].type.shape == (4, 3)


def test_a_file_that_is_no_model(tmp_path):
    path: Path = tmp_path / "net.onnx"
    for data in (b"", b"PK\x03\x04 something else", network().SerializeToString()[:-40]):
        path.write_bytes(data)
        with pytest.raises(ModelError) as caught:
            vtakit.compile(path)
        assert "\n" not in str(caught.value)


def test_random_changes_of_a_model_never_crash():
    """A changed file is a model or our error: what is told is one of our errors, on one line."""
    data = network().SerializeToString()
    imported, told = 0, []
    for seed in range(120):
        rng = random.Random(seed)
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            proto = onnx.ModelProto.FromString(bytes(changed))
        except Exception:
            continue
        try:
            import_model(proto)
            imported += 1
        except VtakitError as error:
            told.append(str(error))
    assert imported > 20
    assert len(told) > 5
    assert [message for message in told if "\n" in message] == []


def test_the_documentation_lists_the_operators():
    page = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text()
    assert page.endswith(f"\n\n{operator_text()}"), "write operator_text() of vtakit.compiler.frontend.onnx.docs at its end"


def test_a_tensor_that_is_too_short_is_told():
    proto = network()
    weight = next(each for each in proto.graph.initializer if each.name == "w1")
    weight.raw_data = weight.raw_data[:-4]
    with pytest.raises(ModelError, match=r"w1"):
        import_model(proto)
    assert numpy_helper.to_array(network().graph.initializer[0]).shape == (8, 3, 3, 3)


INTERRUPTED_IMPORT = """
import signal, sys
from vtakit.compiler.frontend.onnx.reader import read_model

def interrupt(frame, event, arg):
    if frame.f_code.co_name == "_create_" and "onnx" in sys.modules:  # the package's machine code makes its enumerations
        sys.settrace(None)
        print("interrupted", flush=True)
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.settrace(interrupt)
try:
    read_model("none.onnx")
except KeyboardInterrupt:
    print("whole" if "onnx.checker" in sys.modules else "partial")
"""


def test_ctrl_c_while_onnx_is_loaded_acts_when_it_is():
    """Its machine code takes the process down if an exception comes up while it is set up."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\nwhole\n"), done.stderr
