"""Control flow on operands, attributes and bodies that do not fit: a sentence that names the node."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import ModelError

KINDS = {"f4": T.FLOAT, "i8": T.INT64, "?": T.BOOL}


def info(name, kind, rank):
    return helper.make_tensor_value_info(name, KINDS[kind], [f"{name}{at}" for at in range(rank)])


def model(node, inputs, outputs, opset=17):
    graph = helper.make_graph([node], "g", [info(*each) for each in inputs], [info(*each) for each in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def body(inputs, outputs, *nodes):
    made = [helper.make_node(*each) for each in nodes]
    return helper.make_graph(made, "body", [info(*each) for each in inputs], [info(*each) for each in outputs])


LOOP = body([("i", "i8", 0), ("c", "?", 0), ("v", "f4", 1)], [("d", "?", 0), ("w", "f4", 1)],
            ("Identity", ["c"], ["d"]), ("Tanh", ["v"], ["w"]))
ENDED = body([("i", "i8", 0), ("c", "?", 0), ("v", "f4", 1)], [("d", "?", 1), ("w", "f4", 1)],
             ("Less", ["v", "v"], ["d"]), ("Tanh", ["v"], ["w"]))
SCAN = body([("s", "f4", 1), ("t", "f4", 1)], [("u", "f4", 1), ("o", "f4", 1)],
            ("Add", ["s", "t"], ["u"]), ("Neg", ["u"], ["o"]))
CHOICE = {name: body([], [("y", "f4", 1)], (op, ["x"], ["y"])) for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))}
TWO = {"x": np.ones(2, np.float32)}
SCANNED = {"s": np.ones(2, np.float32), "x": np.ones((3, 2), np.float32)}


def choice():
    return model(helper.make_node("If", ["c"], ["y"], name="it", **CHOICE), [("c", "?", 1), ("x", "f4", 1)], [("y", "f4", 1)])


def loop(inside=LOOP, operands=("m", "c", "x"), outputs=("y",)):
    node = helper.make_node("Loop", list(operands), list(outputs), name="it", body=inside)
    return model(node, [("m", "i8", 1), ("c", "?", 1), ("x", "f4", 1)], [(name, "f4", 1) for name in outputs])


def scan(inside=SCAN, **attributes):
    node = helper.make_node("Scan", ["s", "x"], ["u", "o"], name="it", body=inside, **attributes)
    return model(node, [("s", "f4", 1), ("x", "f4", 2)], [("u", "f4", 1), ("o", "f4", 2)])


def scan_of_batches(lengths):
    node = helper.make_node("Scan", ["l", "s", "x"], ["u", "o"], name="it", body=SCAN, num_scan_inputs=1)
    infos = [("l", "i8", 1), ("s", "f4", 2), ("x", "f4", len(lengths.shape) + 2)]
    return model(node, infos, [("u", "f4", 2), ("o", "f4", 3)], opset=8)


COUNTED = {**TWO, "m": np.array([2]), "c": np.array([True])}
CASES = [
    (choice(), {**TWO, "c": np.zeros(0, bool)},
     "node 'it' (If) has operands that do not fit: the condition has the shape [0], and no element"),
    (loop(), {**COUNTED, "m": np.zeros(0, np.int64)},
     "node 'it' (Loop) has operands that do not fit: the trip count has the shape [0], and no element"),
    (loop(), {**COUNTED, "c": np.zeros((0,), bool)},
     "node 'it' (Loop) has operands that do not fit: the condition has the shape [0], and no element"),
    (loop(ENDED), {**COUNTED, "x": np.zeros(0, np.float32)},
     "node 'it' (Loop) has operands that do not fit: the condition has the shape [0], and no element"),
    (loop(operands=("m", "c", "x", "x"), outputs=("y", "z")), COUNTED,
     "node 'it' (Loop): its body has 3 inputs and 2 outputs; with these operands it takes 4, and makes 3 or more"),
    (loop(operands=("m", "c"), outputs=("y",)), COUNTED,
     "node 'it' (Loop): its body has 3 inputs and 2 outputs; with these operands it takes 2, and makes 1 or more"),
    (scan(num_scan_inputs=1, scan_input_axes=[3]), SCANNED,
     "node 'it' (Scan) has operands that do not fit: source: axis 3 is out of bounds for array of dimension 2"),
    *[(scan(num_scan_inputs=count), SCANNED,
       f"node 'it' (Scan): num_scan_inputs is {count}, and is a number from 1 to that of the operands, 2") for count in (0, 3)],
    (scan(LOOP, num_scan_inputs=1), SCANNED,
     "node 'it' (Scan): its body has 3 inputs and 2 outputs; with these operands it takes 2, and makes 1 or more"),
    (scan(num_scan_inputs=1, scan_input_axes=[0, 1]), SCANNED,
     "node 'it' (Scan): scan_input_axes has 2 numbers, and 1 are needed"),
    (scan_of_batches(np.zeros(1)), {"l": np.array([2]), "s": np.ones((2, 2), np.float32), "x": np.ones((2, 3, 2), np.float32)},
     "node 'it' (Scan) has operands that do not fit: list index out of range"),
]


@pytest.mark.parametrize(("proto", "inputs", "message"), CASES, ids=range(len(CASES)))
def test_operands_that_do_not_fit_are_told_in_a_sentence(proto, inputs, message):
    module = vtakit.compile(proto, cache=False)
    shapes = ", ".join(f"{each.name}: {list(inputs[each.name].shape)}" for each in proto.graph.input)
    with raises(ModelError, f"model 'g', run on {shapes}: {message}"):
        module.run(inputs)


def test_what_fits_runs():
    """Or the tests above might refuse everything."""
    assert vtakit.compile(loop(), cache=False).run(COUNTED)["y"].shape == (2,)
    made = vtakit.compile(scan(num_scan_inputs=1), cache=False).run(SCANNED)
    np.testing.assert_array_equal(made["o"], -np.cumsum(np.ones((3, 2)), 0) - 1)
