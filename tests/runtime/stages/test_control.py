"""Control flow, sequences and shapes that data decide, against onnxruntime and ONNX's reference evaluator."""

import itertools
import signal
import threading
import time

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.onnx.host import Call
from vtakit.compiler.frontend.onnx.hosted import HOST
from vtakit.runtime.inputs import InputError
from vtakit.runtime.stages.module import OpenModule

RNG = np.random.default_rng(2727)
node = helper.make_node
KINDS = {"f4": T.FLOAT, "i8": T.INT64, "?": T.BOOL}


def info(name, kind="f4", shape=()):
    return helper.make_tensor_value_info(name, KINDS[kind], shape)


def graph(nodes, inputs, outputs, constants=None, name="g"):
    known = [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
    return helper.make_graph(nodes, name, [info(*each) for each in inputs], [info(*each) for each in outputs], known)


def model(nodes, inputs, outputs, constants=None, opset=17):
    return finished(graph(nodes, inputs, outputs, constants), opset)


def finished(made, opset=17, domain="", functions=()):
    """Return the model of a graph; `domain` is one more that it uses."""
    sets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(made, opset_imports=sets, functions=list(functions), ir_version=9)


def agrees(proto, *sets, by=("onnxruntime", "reference")):
    """Compare with two other runtimes; return the module."""
    module = vtakit.compile(proto, cache=False)
    for inputs in sets:
        made = list(module.run(inputs).values())
        if "onnxruntime" in by:
            alike(made, onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs))
        if "reference" in by:
            alike(made, ReferenceEvaluator(proto).run(None, inputs))
    return module


def alike(made, wanted):
    assert len(made) == len(wanted)
    for got, want in zip(made, wanted, strict=True):
        if isinstance(want, list):
            alike(got, want)
        else:
            assert got.shape == np.shape(want)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def some(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_condition_that_data_decide():
    branches = {
        "then_branch": graph([node("MatMul", ["x", "x"], ["t"])], [], [("t", "f4", (3, 3))], name="then"),
        "else_branch": graph([node("Neg", ["x"], ["e"])], [], [("e", "f4", (3, 3))], name="else"),
    }
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
             node("If", ["c"], ["r"], **branches), node("Relu", ["r"], ["y"])]
    proto = model(nodes, [("x", "f4", (3, 3))], [("y", "f4", (3, 3))], {"zero": np.float32(0)})
    x = np.abs(some(3, 3))
    module = agrees(proto, {"x": x}, {"x": -x})
    assert isinstance(module, OpenModule)
    assert len(module.modules) == 4, "the condition, both branches, and what follows"
    agrees(proto, *[{"x": some(3, 3)} for _ in range(10)])


def test_a_condition_that_sizes_decide_stays_in_one_function():
    branches = {name: graph([node(op, ["x"], [name])], [], [(name, "f4", ["n"])], name=name)
                for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))}
    nodes = [node("Size", ["x"], ["s"]), node("Greater", ["s", "two"], ["c"]), node("If", ["c"], ["y"], **branches)]
    proto = model(nodes, [("x", "f4", ["n"])], [("y", "f4", ["n"])], {"two": np.int64(2)})
    module = vtakit.compile(proto, shapes={"x": (vtakit.dim("n"),)})
    for size in (1, 5):
        x = some(size)
        np.testing.assert_array_equal(module.run({"x": x})["y"], -x if size > 2 else np.abs(x))
    assert [len(part.kept) for part in module.parts] == [2]


@pytest.mark.parametrize(("trips", "going"), [*itertools.product((0, 1, 5, None), (True, False, None))])
def test_loops_with_every_kind_of_end(trips, going):
    """A trip count, a condition, both or none; the body ends it when the sum is above 20."""
    body = graph([
        node("Add", ["v", "x"], ["w"]), node("ReduceSum", ["w"], ["s"], keepdims=0), node("Less", ["s", "most"], ["more"]),
        node("Cast", ["i"], ["number"], to=T.FLOAT), node("Add", ["s", "number"], ["each"]),
    ], [("i", "i8"), ("c", "?"), ("v", "f4", ["n"])], [("more", "?"), ("w", "f4", ["n"]), ("each", "f4")],
        {"most": np.float32(20)})
    inputs = ["trips" if trips is not None else "", "going" if going is not None else "", "x"]
    proto = model([node("Loop", inputs, ["last", "all"], body=body)], [("x", "f4", ["n"]), *(
        [("trips", "i8")] if trips is not None else []), *([("going", "?")] if going is not None else [])],
        [("last", "f4", ["n"]), ("all", "f4", ["k"])])
    given = {"trips": np.array(trips), "going": np.array(going)}
    values = {name: array for name, array in given.items() if name in inputs}
    agrees(proto, *[{"x": np.full(size, 0.75, np.float32), **values} for size in (1, 3)], by=("onnxruntime",))


def test_a_loop_in_a_loop_that_reads_values_around_both():
    inner = graph([node("Mul", ["b", "x"], ["m"]), node("Add", ["m", "a"], ["b2"]), node("Identity", ["ic"], ["ic2"])],
                  [("ii", "i8"), ("ic", "?"), ("b", "f4", [2])], [("ic2", "?"), ("b2", "f4", [2])], name="inner")
    outer = graph([node("Loop", ["i", "c", "a"], ["a2"], body=inner), node("Tanh", ["a2"], ["a3"]),
                   node("Identity", ["c"], ["c2"])],
                  [("i", "i8"), ("c", "?"), ("a", "f4", [2])], [("c2", "?"), ("a3", "f4", [2])], name="outer")
    proto = model([node("Loop", ["trips", "", "x"], ["y"], body=outer)], [("x", "f4", [2]), ("trips", "i8")], [("y", "f4", [2])])
    module = agrees(proto, *[{"x": some(2), "trips": np.array(trips)} for trips in (0, 1, 4)], by=("onnxruntime",))
    assert sum(len(part.kept) for part in module.parts) == 2, "bodies are compiled once"


def test_a_body_is_compiled_once_for_many_trips():
    body = graph([node("Tanh", ["v"], ["w"]), node("Identity", ["c"], ["c2"])], [("i", "i8"), ("c", "?"), ("v", "f4", [8])],
                 [("c2", "?"), ("w", "f4", [8])])
    proto = model([node("Loop", ["trips", "", "x"], ["y"], body=body)], [("x", "f4", [8]), ("trips", "i8")], [("y", "f4", [8])])
    module = agrees(proto, {"x": some(8), "trips": np.array(500)}, by=("onnxruntime",))
    assert len(module.modules) == 1


def test_a_slice_by_the_trip_runs_in_numpy():
    """Or each trip would compile code of its own."""
    body = graph([
        node("Unsqueeze", ["i", "zero"], ["at"]), node("Add", ["at", "one"], ["end"]),
        node("Slice", ["x", "zero", "end"], ["part"]), node("ReduceSum", ["part"], ["sum"], keepdims=0),
        node("Add", ["v", "sum"], ["w"]), node("Identity", ["c"], ["c2"]),
    ], [("i", "i8"), ("c", "?"), ("v", "f4")], [("c2", "?"), ("w", "f4"), ("sum", "f4")], {"zero": [0], "one": [1]})
    proto = model([node("Loop", ["trips", "", "first"], ["y", "sums"], body=body)], [("x", "f4", [6]), ("trips", "i8")],
                  [("y", "f4"), ("sums", "f4", ["k"])], {"first": np.float32(1)})
    agrees(proto, {"x": some(6), "trips": np.array(6)}, {"x": some(6), "trips": np.array(0)}, by=("onnxruntime",))


@pytest.mark.parametrize(("axes", "ways", "out_ways", "out_axes"), [
    ((0, 1), (0, 0), (0, 0), (0, 0)), ((1, 0), (1, 0), (0, 1), (1, -1)), ((-1, -2), (0, 1), (1, 1), (-1, 0)),
])
def test_scans_of_several_axes_and_directions(axes, ways, out_ways, out_axes):
    body = graph([
        node("Add", ["a", "b"], ["ab"]), node("Mul", ["ab", "factor"], ["p"]), node("Add", ["s", "p"], ["s2"]),
        node("Sub", ["a", "s2"], ["q"]),
    ], [("s", "f4", [3]), ("a", "f4", [3]), ("b", "f4", [3])], [("s2", "f4", [3]), ("p", "f4", [3]), ("q", "f4", [3])])
    shapes = [[0, 0], [0, 0]]
    for shape, axis in zip(shapes, axes, strict=True):
        shape[axis], shape[1 - axis % 2 if axis >= 0 else (0 if axis == -1 else 1)] = 4, 3
    proto = model([node("Scan", ["s0", "x", "z"], ["s", "p", "q"], body=body, num_scan_inputs=2, scan_input_axes=axes,
                        scan_input_directions=ways, scan_output_directions=out_ways, scan_output_axes=out_axes)],
                  [("s0", "f4", [3]), ("x", "f4", shapes[0]), ("z", "f4", shapes[1]), ("factor", "f4")],
                  [("s", "f4", [3]), ("p", "f4", [None, None]), ("q", "f4", [None, None])])
    agrees(proto, {"s0": some(3), "x": some(*shapes[0]), "z": some(*shapes[1]), "factor": some()}, by=("onnxruntime",))


def test_the_scan_of_operator_set_8():
    """It has a batch, and a length for each of its elements."""
    body = graph([node("Add", ["s", "a"], ["s2"]), node("Identity", ["s2"], ["each"])], [("s", "f4", [2]), ("a", "f4", [2])],
                 [("s2", "f4", [2]), ("each", "f4", [2])])
    for lengths, way in itertools.product((None, [3, 1]), (0, 1)):
        inputs = ["n" if lengths else "", "s0", "x"]
        proto = model([node("Scan", inputs, ["s", "all"], body=body, num_scan_inputs=1, directions=[way])],
                      [*([("n", "i8", [2])] if lengths else []), ("s0", "f4", [2, 2]), ("x", "f4", [2, 3, 2])],
                      [("s", "f4", [2, 2]), ("all", "f4", [2, 3, 2])], opset=8)
        inputs = {"s0": some(2, 2), "x": some(2, 3, 2), **({"n": np.array(lengths)} if lengths else {})}
        agrees(proto, inputs, by=("onnxruntime",))


def sequence_type(name):
    return helper.make_tensor_sequence_value_info(name, T.FLOAT, None)


def test_sequences_as_values():
    nodes = [node("SequenceInsert", ["s", "x"], ["s1"]), node("SequenceInsert", ["s1", "x", "first"], ["s2"]),
             node("SequenceErase", ["s2", "last"], ["s3"]), node("SequenceAt", ["s3", "first"], ["head"]),
             node("SequenceLength", ["s3"], ["n"]), node("ConcatFromSequence", ["s3"], ["y"], axis=0),
             node("ConcatFromSequence", ["s3"], ["z"], axis=-1, new_axis=1)]
    made = helper.make_graph(nodes, "g", [sequence_type("s"), info("x", "f4", [2, 3])], [
        sequence_type("s3"), info("head", "f4", [2, 3]), info("n", "i8"), info("y", "f4", [None, 3]),
        info("z", "f4", [2, 3, None])],
        [numpy_helper.from_array(np.array(value), name) for name, value in (("first", 0), ("last", -1))])
    proto = finished(made)
    module = agrees(proto, {"s": [some(2, 3)], "x": some(2, 3)}, {"s": [], "x": some(2, 3)}, by=("onnxruntime",))
    with raises(InputError, "input 's' is a sequence of float32, got ndarray: give a list of arrays"):
        module.run({"s": some(2), "x": some(2, 3)})
    with raises(InputError, "input 's' is sequence of float32, got float64[2]: convert it with .astype('float32')"):
        module.run({"s": [np.zeros(2)], "x": some(2, 3)})


def test_results_are_the_callers_own():
    """Nothing that a run returns is an input, a constant, or another result."""
    nodes = [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceAt", ["s", "zero"], ["a"]),
             node("SequenceAt", ["s", "zero"], ["b"])]
    made = helper.make_graph(nodes, "g", [info("x", "f4", [3])], [info("a", "f4", [3]), info("b", "f4", [3]), sequence_type("s")],
                             [numpy_helper.from_array(np.array(0), "zero")])
    module = vtakit.compile(finished(made))
    x = some(3)
    before, results = x.copy(), module.run({"x": x})
    for array in (results["a"], results["b"], *results["s"]):
        np.testing.assert_array_equal(array, before)
        array[...] = 7
        np.testing.assert_array_equal(x, before)
        array[...] = before


def test_elements_of_a_sequence_share_no_memory_with_the_result_behind_it():
    nodes = [node("Neg", ["x"], ["n"]), node("SequenceConstruct", ["n", "n"], ["s"]), node("SequenceAt", ["s", "zero"], ["a"])]
    made = helper.make_graph(nodes, "g", [info("x", "f4", [3])], [sequence_type("s"), info("a", "f4", [3])],
                             [numpy_helper.from_array(np.array(0), "zero")])
    results = vtakit.compile(finished(made)).run({"x": some(3)})
    for first, second in itertools.combinations([*results["s"], results["a"]], 2):
        assert not np.may_share_memory(first, second)


def test_inputs_that_decide_shapes_join_the_key():
    nodes = [node("TopK", ["x", "k"], ["v", "i"], axis=0), node("Tile", ["v", "times"], ["y"])]
    proto = model(nodes, [("x", "f4", ["n"]), ("k", "i8", [1]), ("times", "i8", [1])], [("y", "f4", ["m"]), ("i", "i8", ["q"])])
    sets = [{"x": some(size), "k": np.array([k]), "times": np.array([times])} for size, k, times in
            ((4, 2, 1), (4, 3, 2), (5, 2, 1), (4, 2, 1))]
    module = agrees(proto, *sets, by=("onnxruntime",))
    assert [len(part.kept) for part in module.parts] == [3]


def test_ctrl_c_ends_a_loop_without_an_end():
    body = graph([node("Tanh", ["v"], ["w"]), node("Identity", ["c"], ["c2"])], [("i", "i8"), ("c", "?"), ("v", "f4", [8])],
                 [("c2", "?"), ("w", "f4", [8])])
    proto = model([node("Loop", ["", "", "x"], ["y"], body=body)], [("x", "f4", [8])], [("y", "f4", [8])])
    module = vtakit.compile(proto)
    threading.Timer(1.0, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        module.run({"x": some(8)})
    assert time.monotonic() - begin < 60


def test_a_function_of_the_standard_with_a_scan_in_it():
    """Its body is known only with the types of its operands."""
    from onnx_backend import VtakitBackend, cases, check_alike, data_of

    case = next(case for case in cases(["linear_attention_gated_delta"]) if case.name == "test_linear_attention_gated_delta")
    for inputs, expected in data_of(case, case.model):
        check_alike(expected, VtakitBackend.prepare(case.model).run(inputs), case)


def test_a_function_of_the_model_with_a_loop_in_it():
    body = graph([node("Add", ["v", "p"], ["w"]), node("Identity", ["c"], ["c2"])], [("i", "i8"), ("c", "?"), ("v", "f4", [2])],
                 [("c2", "?"), ("w", "f4", [2])])
    function = helper.make_function("own", "Repeat", ["p", "n"], ["r"], [node("Loop", ["n", "", "p"], ["r"], body=body)],
                                    [helper.make_opsetid("", 17)])
    calls = [node("Repeat", [first, "n"], [last], domain="own", name=f"to_{last}") for first, last in (("x", "a"), ("a", "y"))]
    proto = finished(graph(calls, [("x", "f4", [2]), ("n", "i8")], [("y", "f4", [2])]), 17, "own", [function])
    agrees(proto, {"x": some(2), "n": np.array(3)}, by=("onnxruntime",))


def test_errors_of_a_run_name_the_node():
    nodes = [node("SplitToSequence", ["x", "sizes"], ["s"], name="cut"), node("SequenceAt", ["s", "at"], ["y"], name="pick")]
    proto = model(nodes, [("x", "f4", [4]), ("sizes", "i8", [2]), ("at", "i8")], [("y", "f4", [None])])
    module = vtakit.compile(proto)
    x = some(4)
    assert module.run({"x": x, "sizes": np.array([1, 3]), "at": np.array(-1)})["y"].shape == (3,)
    where = "model 'g', run on x: [4], sizes: [2], at: []: "
    with raises(ModelError, where + "node 'cut' (SplitToSequence): parts of [1, 2] are not the extent 4 of axis 0"):
        module.run({"x": x, "sizes": np.array([1, 2]), "at": np.array(0)})
    with raises(ModelError, where + "node 'pick' (SequenceAt): the sequence has 2 elements, and 2 is none of them"):
        module.run({"x": x, "sizes": np.array([1, 3]), "at": np.array(2)})


def test_what_is_unsupported_in_a_body_is_told_before_any_run():
    body = graph([node("Fancy", ["v"], ["w"], domain="com.acme", name="fancy"), node("Identity", ["c"], ["c2"])],
                 [("i", "i8"), ("c", "?"), ("v", "f4", [2])], [("c2", "?"), ("w", "f4", [2])])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    proto = finished(graph([loop], [("x", "f4", [2]), ("n", "i8")], [("y", "f4", [2])]), 17, "com.acme")
    with raises(UnsupportedError, "model 'g' needs what vtakit does not support: com.acme.Fancy (1 node: 'fancy')"):
        vtakit.compile(proto)


def test_profiles_and_files_of_loops(tmp_path):
    body = graph([node("MatMul", ["v", "x"], ["w"], name="product"), node("Identity", ["c"], ["c2"]),
                  node("NonZero", ["w"], ["z"]), node("Size", ["z"], ["count"])], [("i", "i8"), ("c", "?"), ("v", "f4", [4, 4])],
                 [("c2", "?"), ("w", "f4", [4, 4]), ("count", "i8")])
    proto = model([node("Loop", ["n", "", "x"], ["y", "k"], body=body)], [("x", "f4", [4, 4]), ("n", "i8")],
                  [("y", "f4", [4, 4]), ("k", "i8", [None])])
    module = vtakit.compile(proto)
    inputs = {"x": some(4, 4), "n": np.array(3)}
    made = module.run(inputs)
    layers = module.profile(inputs, repeat=1).layers
    assert {"product", "z"} <= {timed.name.partition(" ")[0] for timed in layers}, "parts, and steps in NumPy"
    module.save(tmp_path / "loop.vtak")
    alike(list(vtakit.load(tmp_path / "loop.vtak").run(inputs).values()), list(made.values()))


@pytest.mark.parametrize("seed", range(40))
def test_operators_in_numpy_are_those_that_are_compiled(seed):
    """The operands are random; the compiled form takes what decides shapes as constants."""
    rng = np.random.default_rng(seed)
    op = ["Slice", "Pad", "Reshape", "Expand", "Tile", "Squeeze", "Unsqueeze", "Split", "Trilu", "Range"][seed % 10]
    x, operands, attrs, outputs = CASES[op](rng)
    names = [f"c{at}" for at in range(len(operands))]
    proto = model([node(op, ["x", *names], [f"y{at}" for at in range(outputs)], **attrs)], [("x", "f4", x.shape)],
                  [(f"y{at}", "f4", [None] * 9) for at in range(outputs)], dict(zip(names, operands, strict=True)), opset=18)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
        value.type.tensor_type.shape.Clear()
    wanted = ReferenceEvaluator(proto).run(None, {"x": x})
    alike(HOST[op](Call(op, op, 18, attrs, outputs), x, *operands), wanted)


def _slice(rng):
    x = some(*rng.integers(1, 6, 3))
    axes = rng.permutation(3)[:2]
    bounds = rng.integers(-8, 9, (2, 2))
    return x, [bounds[0], bounds[1], axes, rng.choice([-2, -1, 1, 2], 2)], {}, 1


def _pad(rng):
    x = some(*rng.integers(3, 6, 2))
    mode = str(rng.choice(["constant", "reflect", "edge"]))
    pads = rng.integers(-1 if mode == "constant" else 0, 3, 4)
    return x, [pads, np.float32(1.5)] if mode == "constant" else [pads], {"mode": mode}, 1


def _split(rng):
    sizes = rng.integers(0, 4, 3)
    return some(int(sizes.sum()), 2), [sizes], {"axis": 0}, 3


CASES = {
    "Slice": _slice, "Pad": _pad, "Split": _split,
    "Reshape": lambda rng: (some(2, 3, 4), [np.array([[0, -1], [6, 4], [-1, 2, 3]][rng.integers(3)])], {}, 1),
    "Expand": lambda rng: (some(3, 1), [np.array([rng.integers(1, 4), 1, rng.integers(1, 4)])], {}, 1),
    "Tile": lambda rng: (some(2, 3), [rng.integers(0, 3, 2)], {}, 1),
    "Squeeze": lambda rng: (some(1, 3, 1), [np.array([[0], [2], [0, 2], [-1]][rng.integers(4)])], {}, 1),
    "Unsqueeze": lambda rng: (some(2, 3), [np.array([[0], [-1], [1, 3]][rng.integers(3)])], {}, 1),
    "Trilu": lambda rng: (some(3, 4), [np.array(rng.integers(-3, 4))], {"upper": int(rng.integers(2))}, 1),
    "Range": lambda rng: (
        np.asarray(rng.integers(-3, 3), "f4"),
        [np.asarray(each, "f4") for each in (rng.integers(-5, 6), rng.choice([-1, 0.5, 2]))], {}, 1),
}


@pytest.mark.parametrize("seed", range(30))
def test_non_max_suppression_of_random_boxes(seed):
    rng = np.random.default_rng(seed)
    batch, kinds, count = rng.integers(1, 3), rng.integers(1, 4), rng.integers(1, 40)
    corners = rng.random((batch, count, 4)).astype("f4").round(2)
    boxes = corners if rng.random() < 0.5 else np.sort(corners.reshape(batch, count, 2, 2), axis=2).reshape(batch, count, 4)
    scores = rng.random((batch, kinds, count)).astype("f4").round(1)  # many are equal
    most, overlap, least = np.array(rng.integers(0, 9)), *np.asarray(rng.random((2, 1)) * 0.6, "f4")
    names = ["boxes", "scores", "most", "overlap", "least"]
    proto = model([node("NonMaxSuppression", names, ["y"], center_point_box=int(rng.integers(2)))], [
        ("boxes", "f4", ["b", "n", 4]), ("scores", "f4", ["b", "k", "n"]), ("most", "i8"), ("overlap", "f4", [1]),
        ("least", "f4", [1])],
        [("y", "i8", ["m", 3])])
    values = dict(zip(names, [boxes, scores, most, overlap, least], strict=True))
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, values)
    np.testing.assert_array_equal(vtakit.compile(proto).run(values)["y"], wanted[0])


@pytest.mark.parametrize("seed", range(20))
def test_unique_of_random_elements(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, rng.integers(1, 5, rng.integers(1, 4))).astype("f4")
    axis = None if rng.random() < 0.4 else int(rng.integers(-x.ndim, x.ndim))
    attrs = {"sorted": int(rng.integers(2)), **({} if axis is None else {"axis": axis})}
    proto = model([node("Unique", ["x"], ["y", "i", "j", "k"], **attrs)], [("x", "f4", [None] * x.ndim)],
                  [("y", "f4", [None] * (1 if axis is None else x.ndim)), *[(name, "i8", [None]) for name in "ijk"]])
    module = vtakit.compile(proto, shapes={"x": tuple(vtakit.dim(f"n{at}") for at in range(x.ndim))})
    alike(list(module.run({"x": x}).values()), onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x}))
