"""Parts of one model that look alike: equal nodes and names, other constants."""

import pickle

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser
from support import raises

import vtakit
from vtakit.runtime import kept_models
from vtakit.runtime.module_file import PackageError
from vtakit.runtime.stages.source import OpenSource

X = np.array([-0.5, 1.0, 2.0], np.float32)
WEIGHTS = {"then_branch": 0.5, "else_branch": -1.0, "nested": 2.0}


def branch(weight: float, inner: tuple = ()) -> onnx.GraphProto:
    """Return a branch that makes `y = exp(x * w)` of its own `w`."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
    return helper.make_graph([*inner, *nodes], "branch", [], [out], [numpy_helper.from_array(np.float32(weight), "w")])


def siblings(nested: bool) -> onnx.ModelProto:
    """Return a model of two branches of equal names, the second one a choice itself if `nested`."""
    other = branch(WEIGHTS["else_branch"])
    if nested:
        out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
        twice = {"then_branch": branch(WEIGHTS["nested"]), "else_branch": other}
        other = helper.make_graph([helper.make_node("If", ["d"], ["y"], **twice)], "choice", [], [out])
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"]),
             *[helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, []) for name in ("c", "d")]]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch(WEIGHTS["then_branch"]), else_branch=other)
    outs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph([node], "siblings", infos, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(module, nested: bool) -> None:
    for c, d in ((True, True), (True, False), (False, True), (False, False)):
        chosen = "then_branch" if c else "nested" if d and nested else "else_branch"
        made = module.run({"x": X, "c": np.array(c), "d": np.array(d)})["y"]
        np.testing.assert_allclose(made, np.exp(X * WEIGHTS[chosen]), rtol=1e-5, err_msg=chosen)


@pytest.mark.parametrize("nested", [False, True])
def test_branches_of_equal_names_stay_apart_in_a_file_and_a_copy(nested, tmp_path):
    module = vtakit.compile(siblings(nested), cache=False)
    check(module, nested)
    module.save(tmp_path / "net.vtak")
    loaded = vtakit.load(tmp_path / "net.vtak")
    assert len(loaded.source.stored) == 2 + nested
    check(loaded, nested)
    loaded.save(tmp_path / "again.vtak")
    check(vtakit.load(tmp_path / "again.vtak"), nested)
    check(pickle.loads(pickle.dumps(module)), nested)


@pytest.mark.parametrize("nested", [False, True])
def test_branches_of_equal_names_stay_apart_on_disk(nested, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("VTAKIT_CACHE", raising=False)
    monkeypatch.setattr(kept_models, "WORTH_SECONDS", 0.0)
    for _ in range(2):
        check(vtakit.compile(siblings(nested)), nested)
    monkeypatch.setattr(kept_models, "keep", lambda *_: pytest.fail("compiles"))
    check(vtakit.compile(siblings(nested)), nested)


def test_functions_that_nodes_of_one_name_call_keep_their_own_values():
    """Both have a constant `c`, of another value, and are inlined for the sequence in them."""
    proto = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        g (float[n] x) => (float[n] y) {
            a = own.scaled <w: float = 0.5> (x)
            y = own.scaled <w: float = -1.0> (a)
        }
        <domain: "own", opset_import: ["" : 17]>
        scaled <w> (x) => (y) {
            c = Constant <value_float: float = @w> ()
            m = Mul (x, c)
            s = SplitToSequence (m)
            y = ConcatFromSequence <axis = 0> (s)
        }
    """)
    for node in proto.graph.node:
        node.name = "same"
    np.testing.assert_array_equal(vtakit.compile(proto, cache=False).run({"x": X})["y"], X * np.float32(-0.5))


def test_parts_that_one_key_stands_for_are_not_saved(monkeypatch):
    compiled = OpenSource.compiled
    monkeypatch.setattr(OpenSource, "compiled", lambda self, part, types, fixed, key, **how: compiled(
        self, part, types, fixed, b"", **how))
    module = vtakit.compile(siblings(False), cache=False)
    check(module, False)
    with raises(PackageError, "model 'siblings' is not saved: the code of two of its parts has one key, and a loaded file would "
                              "run one in place of the other; this is an error in vtakit"):
        module.dump()
