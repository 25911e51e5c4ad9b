"""Ensembles of trees, and other operators of ai.onnx.ml, are those of onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import UnsupportedError

DOMAIN = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def of_one(op, inputs, outputs, version=3, **attributes):
    """A model of one node; inputs, outputs : (name, type of TensorProto, shape)."""
    node = helper.make_node(op, [name for name, _, _ in inputs], [name for name, _, _ in outputs], domain=DOMAIN, **attributes)
    ports = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
    return helper.make_model(helper.make_graph([node], "net", *ports), ir_version=9,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)])


def agrees(proto, **given):
    wanted = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    found = vtakit.compile(proto).run(given)
    for got, want in zip(found.values(), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return found


def forest(rng, trees, depth, features, modes):
    """Random trees: the attributes that all ensembles have, and the leaves as (tree, node)."""
    columns = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                     "missing_value_tracks_true")}
    leaves = []
    for tree in range(trees):
        count = 0

        def grow(level, tree=tree):
            nonlocal count
            own = count
            count += 1
            leaf = level == depth or (level and rng.random() < 0.3)
            row = {"treeids": tree, "nodeids": own, "featureids": int(rng.integers(features)),
                   "values": float(rng.integers(-3, 4)) / 2, "modes": "LEAF" if leaf else str(rng.choice(modes)),
                   "truenodeids": 0, "falsenodeids": 0,
                   "missing_value_tracks_true": 0 if leaf else int(rng.integers(2))}
            place = len(columns["nodeids"])
            for name, value in row.items():
                columns[name].append(value)
            if leaf:
                leaves.append((tree, own))
            else:
                columns["truenodeids"][place] = grow(level + 1)
                columns["falsenodeids"][place] = grow(level + 1)
            return own
        grow(0)
    return {f"nodes_{name}": column for name, column in columns.items()}, leaves


def rows(rng, count=40, features=5):
    x = (rng.integers(-6, 7, (count, features)) / 4).astype("f4")
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize(("modes", "aggregate", "targets"), [
    (MODES[:1], "SUM", 1), (MODES[:1], "SUM", 3), (MODES[1:2], "AVERAGE", 2), (MODES, "SUM", 2), (MODES[3:4], "MIN", 1),
])
def test_a_regressor(modes, aggregate, targets):
    rng = np.random.default_rng(len(modes) + targets)
    nodes, leaves = forest(rng, 7, 4, 5, modes)
    weights = [(tree, node, target, float(rng.standard_normal())) for tree, node in leaves for target in range(targets)]
    trees, ids, places, numbers = zip(*weights, strict=True)
    proto = of_one(
        "TreeEnsembleRegressor", [("x", TensorProto.FLOAT, [40, 5])], [("y", TensorProto.FLOAT, [40, targets])],
        n_targets=targets, target_treeids=trees, target_nodeids=ids, target_ids=places, target_weights=numbers,
        aggregate_function=aggregate, base_values=[0.5] * targets, **nodes,
    )
    agrees(proto, x=rows(rng))


@pytest.mark.parametrize(("classes", "columns", "post", "low"), [
    (3, 3, "NONE", -1), (3, 3, "SOFTMAX", -1), (2, 1, "NONE", 0), (2, 1, "LOGISTIC", -1), (2, 2, "NONE", 0),
    (4, 4, "LOGISTIC", -1),
])
def test_a_classifier(classes, columns, post, low):
    rng = np.random.default_rng(classes + columns)
    nodes, leaves = forest(rng, 5, 3, 5, MODES[:1])
    own = range(columns)
    weights = [(tree, node, target, float(rng.uniform(low, 1)) / 5) for tree, node in leaves for target in own]
    trees, ids, places, numbers = zip(*weights, strict=True)
    proto = of_one(
        "TreeEnsembleClassifier", [("x", TensorProto.FLOAT, [40, 5])],
        [("label", TensorProto.INT64, [40]), ("scores", TensorProto.FLOAT, [40, classes])],
        class_treeids=trees, class_nodeids=ids, class_ids=places, class_weights=numbers, post_transform=post,
        classlabels_int64s=[10 * each for each in range(classes)], **nodes,
    )
    x = rows(rng)
    if classes == columns == 2:  # onnxruntime's label is not that of the greater score, which ONNX asks for
        found = vtakit.compile(proto).run({"x": x})
        run = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(found["scores"], run.run(["scores"], {"x": x})[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["label"], 10 * found["scores"].argmax(1))
    else:
        found = agrees(proto, x=x)
    assert len(np.unique(found["label"])) > 1


@pytest.mark.parametrize(("keys", "values", "kind"), [
    ({"keys_int64s": [3, -1, 7]}, {"values_floats": [0.5, 1.5, -2.0]}, "i8"),
    ({"keys_floats": [0.5, float("nan"), 2.0]}, {"values_int64s": [4, 5, 6], "default_int64": 9}, "f4"),
    ({"keys_int64s": [1, 2]}, {"values_int64s": [20, 10]}, "i8"),
])
def test_labels(keys, values, kind):
    x = np.array([3, -1, 7, 0, 2, 1], kind) if kind == "i8" else np.array([0.5, np.nan, 2, 3], kind)
    types = {"i8": TensorProto.INT64, "f4": TensorProto.FLOAT}
    out = TensorProto.FLOAT if "values_floats" in values else TensorProto.INT64
    agrees(of_one("LabelEncoder", [("x", types[kind], x.shape)], [("y", out, x.shape)], 4, **keys, **values), x=x)


@pytest.mark.parametrize(("op", "attributes"), [
    ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 1.0]}), ("Binarizer", {"threshold": 0.25}),
    ("Normalizer", {"norm": "MAX"}), ("Normalizer", {"norm": "L1"}), ("Normalizer", {"norm": "L2"}),
])
def test_numbers_made_alike(op, attributes):
    x = np.random.default_rng(2).standard_normal((6, 3)).astype("f4")
    x[0], x[1] = -np.abs(x[0]), 0  # a row below zero, and one of zeros
    agrees(of_one(op, [("x", TensorProto.FLOAT, [6, 3])], [("y", TensorProto.FLOAT, [6, 3])], 1, **attributes), x=x)


@pytest.mark.parametrize("feature", [5, 1000, -1])
def test_features_that_rows_do_not_have_are_refused(feature):
    tree = {"nodes_featureids": [feature, 0, 0], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_treeids": [0] * 3,
            "nodes_nodeids": [0, 1, 2], "n_targets": 1, "target_treeids": [0, 0], "target_nodeids": [1, 2],
            "target_ids": [0, 0], "target_weights": [1.0, 2.0]}
    proto = of_one("TreeEnsembleRegressor", [("x", TensorProto.FLOAT, [3, 5])], [("y", TensorProto.FLOAT, [3, 1])], **tree)
    with raises(UnsupportedError, "model 'net' needs what vtakit does not support: TreeEnsembleRegressor that compares feature "
                                  f"{feature} of rows of 5 (1 node: 'y')"):
        vtakit.compile(proto)


def test_strings_are_refused():
    proto = of_one("LabelEncoder", [("x", TensorProto.INT64, [2])], [("y", TensorProto.STRING, [2])], 2, keys_int64s=[1],
                   values_strings=["a"])
    with raises(UnsupportedError, "model 'net' needs what vtakit does not support: LabelEncoder of strings (1 node: 'y')"):
        vtakit.compile(proto)
