"""ONNX files from strangers: external data is checked before it is opened, and what a file may declare has limits."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import model
from onnx import AttributeProto, SparseTensorProto, TensorProto, helper

import vtakit
from vtakit.base import limits
from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.onnx.reader import external_files
from vtakit.runtime import kept_models

node = helper.make_node


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Models are kept, as they are for a user."""
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "cache"))


W = np.arange(8, dtype="f4")


def external(path: Path, shape: tuple[int, ...] = (8,), **entries: str) -> Path:
    """A model that adds a tensor to its input; the tensor is in another file, as `entries` say."""
    proto = model([node("Add", ["x", "w"], ["y"])], [("x", "f4", [8])], [("y", "f4", [8])], {"w": W})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = shape
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    return path


def refused(path: Path, *words: str) -> None:
    """Compiled with the cache on, the model is refused in one sentence, soon, and no file of it is read for the cache."""
    begin = time.process_time()
    assert external_files(path) == ()
    kept_models.place_of(path)
    with pytest.raises(VtakitError) as caught:
        vtakit.compile(path)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert time.process_time() - begin < 2


def test_external_data_are_read_from_their_section(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 64 + W.tobytes() + b"\0" * 5)
    path = external(tmp_path / "net.onnx", location="w.bin", offset="64", length="32")
    assert external_files(path) == (tmp_path / "w.bin",)
    np.testing.assert_array_equal(vtakit.compile(path).run({"x": W})["y"], 2 * W)
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    path = external(tmp_path / "net.onnx", location="w.bin")
    np.testing.assert_array_equal(vtakit.compile(path, cache=False).run({"x": W})["y"], 2 * W)


def test_external_data_of_an_attribute_are_beside_the_model(tmp_path, monkeypatch):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    tensor = TensorProto(name="w", data_type=1, dims=[8], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    nodes = [node("Constant", [], ["w"], value=tensor), node("Add", ["x", "w"], ["y"])]
    proto = model(nodes, [("x", "f4", [8])], [("y", "f4", [8])])
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(vtakit.compile(tmp_path / "net.onnx").run({"x": W})["y"], 2 * W)


def test_external_data_of_a_sparse_attribute_are_checked_too(tmp_path, monkeypatch):
    """Before ONNX's checker looks for them in the current folder."""
    values = TensorProto(name="v", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    values.external_data.add(key="location", value="../w.bin")
    indices = TensorProto(name="i", data_type=7, dims=[2], int64_data=[1, 3])
    sparse = SparseTensorProto(values=values, indices=indices, dims=[8])
    constant = node("Constant", [], ["w"])
    constant.attribute.append(AttributeProto(name="sparse_value", type=AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse))
    proto = model([constant, node("Add", ["x", "w"], ["y"])], [("x", "f4", [8])], [("y", "f4", [8])])
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(proto.SerializeToString())
    refused(Path("net.onnx"), "outside the model's folder")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(("make", "words"), [
    (_pipe, ("is a pipe", "regular file")),
    (_socket, ("'w.bin'",)),
    (Path.mkdir, ("Is a directory",)),
    (lambda path: path.symlink_to("/dev/zero"), ("outside the model's folder",)),
    (lambda path: path.symlink_to(path), ("w.bin", "symbolic link: put the file itself")),
    (lambda path: None, ("No such file",)),
    (lambda path: path.write_bytes(b"\0" * 31), ("end at byte 32", "which has 31")),
])
def test_external_data_are_in_regular_files(tmp_path, monkeypatch, make: Callable[[Path], object], words):
    monkeypatch.chdir(tmp_path)
    make(Path("w.bin").absolute())
    refused(external(Path("net.onnx"), location="w.bin"), *words)


@pytest.mark.parametrize(("entries", "words"), [
    ({"location": "/dev/zero"}, ("'/dev/zero'", "outside the model's folder", "put the file beside the model")),
    ({"location": "../w.bin"}, ("outside the model's folder",)),
    ({"location": "a/../../w.bin"}, ("outside the model's folder",)),
    ({"location": "w.bin\0"}, ("does not name",)),
    ({"location": ""}, ("does not name",)),
    ({"location": "w" * 5000}, ("5,000 characters", "1,024")),
    ({"location": "w.bin", "offset": "-1"}, ("offset", "'-1'", "whole number")),
    ({"location": "w.bin", "offset": "1e3"}, ("offset", "'1e3'")),
    ({"location": "w.bin", "offset": "9" * 30}, ("offset",)),
    ({"location": "w.bin", "offset": "4"}, ("end at byte 36", "which has 32")),
    ({"location": "w.bin", "length": "31"}, ("have 31 bytes", "needs 32")),
    ({"location": "w.bin", "length": str(1 << 40)}, ("1,099,511,627,776 bytes",)),
])
def test_the_section_of_external_data_is_checked(tmp_path, entries, words):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    (tmp_path.parent / "w.bin").write_bytes(W.tobytes())
    refused(external(tmp_path / "net.onnx", **entries), *words)


def test_a_huge_sparse_file_is_not_read(tmp_path):
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 40)
    refused(external(tmp_path / "net.onnx", shape=(1 << 37,), location="w.bin"), "dimension", "the limit is")
    refused(external(tmp_path / "net.onnx", shape=(1 << 30, 1 << 7), location="w.bin"), "of memory")


@pytest.mark.parametrize("make", [_pipe, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_model_is_a_regular_file(tmp_path, make):
    make(tmp_path / "net.onnx")
    refused(tmp_path / "net.onnx", "cannot read the model")


def test_onnxs_checker_opens_no_file(tmp_path, monkeypatch):
    """It gets the model that was read, and looks for no other file; what it finds wrong is told all the same."""
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    path = external(tmp_path / "net.onnx", location="w.bin")
    check, seen = onnx.checker.check_model, []

    def checked(proto: onnx.ModelProto) -> None:
        seen.append(proto)
        (tmp_path / "w.bin").rename(tmp_path / "away.bin")
        check(proto)
        (tmp_path / "away.bin").rename(tmp_path / "w.bin")
    monkeypatch.setattr(onnx.checker, "check_model", checked)
    np.testing.assert_array_equal(vtakit.compile(path).run({"x": W})["y"], 2 * W)
    assert [type(proto) for proto in seen] == [onnx.ModelProto]
    monkeypatch.setattr(onnx.checker, "check_model", check)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.node[0].op_type = "Adds"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(VtakitError, match="breaks ONNX's rules: No Op registered for Adds"):
        vtakit.compile(path)


def test_the_rank_of_tensors_has_a_limit(tmp_path):
    ones = [1] * 2000
    cases = [
        model([node("Neg", ["x"], ["y"])], [("x", "f4", ones)], [("y", "f4", ones)]),
        model([node("Reshape", ["x", "s"], ["y"])], [("x", "f4", [1])], [("y", "f4", ones)], {"s": np.array(ones)}),
        model([node("Unsqueeze", ["x", "s"], ["y"])], [("x", "f4", [1])], [("y", "f4", [*ones, 1])], {"s": np.arange(2000)}),
        model([node("Expand", ["x", "s"], ["y"])], [("x", "f4", [1])], [("y", "f4", ones)], {"s": np.array(ones)}),
    ]
    for proto in cases:
        (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
        refused(tmp_path / "net.onnx", "rank", str(limits.MAX_RANK))
    most = [1] * limits.MAX_RANK
    vtakit.compile(model([node("Neg", ["x"], ["y"])], [("x", "f4", most)], [("y", "f4", most)])).run({"x": np.ones(most, "f4")})


def test_names_have_a_limit(tmp_path):
    name = "n" * (limits.MAX_NAME_CHARS + 1)
    proto = model([node("Neg", ["x"], [name]), node("Neg", [name], ["y"])], [("x", "f4", [1])], [("y", "f4", [1])])
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    refused(tmp_path / "net.onnx", "1,025 characters", "1,024")
    body = [node("Neg", ["a"], [name]), node("Neg", [name], ["b"])]
    function = helper.make_function("d", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    call, one = node("f", ["x"], ["y"], domain="d"), [1]
    proto = model([call], [("x", "f4", one)], [("y", "f4", one)], functions=[function], domains=["d"])
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    refused(tmp_path / "net.onnx", "1,025 characters", "1,024")


def test_functions_that_call_functions_do_not_multiply_without_bound(tmp_path):
    proto = model([node("f15", ["x"], ["y"], domain="d")], [("x", "f4", [1])], [("y", "f4", [1])])
    proto.opset_import.append(helper.make_opsetid("d", 1))
    for level in range(limits.MAX_CALL_NESTING):
        inner = node("Neg", ["a"], ["b0"]) if not level else node(f"f{level - 1}", ["a"], ["b0"], domain="d")
        nodes = [inner]
        for at in range(1, 10):
            copy = onnx.NodeProto()
            copy.CopyFrom(inner)
            copy.input[:], copy.output[:] = [f"b{at - 1}"], [f"b{at}"]
            nodes.append(copy)
        proto.functions.append(helper.make_function("d", f"f{level}", ["a"], ["b9"], nodes, list(proto.opset_import)))
    with pytest.raises(VtakitError, match=r"number of nodes of the model .* the limit is 100,000"):
        vtakit.compile(proto)


def chain(length: int) -> onnx.ModelProto:
    """A model that calls a function, which calls another, and so on."""
    proto = model([node(f"f{length - 1}", ["x"], ["y"], domain="d")], [("x", "f4", [1])], [("y", "f4", [1])], domains=["d"])
    for level in range(length):
        inner = node(f"f{level - 1}", ["a"], ["b"], domain="d") if level else node("Neg", ["a"], ["b"])
        proto.functions.append(helper.make_function("d", f"f{level}", ["a"], ["b"], [inner], list(proto.opset_import)))
    return proto


def test_functions_that_call_functions_have_a_limit(tmp_path):
    (tmp_path / "net.onnx").write_bytes(chain(limits.MAX_CALL_NESTING).SerializeToString())
    assert vtakit.compile(tmp_path / "net.onnx").run({"x": np.ones(1, "f4")})["y"] == -1
    for length in (16 + 1, 1200, 20_000):
        (tmp_path / "net.onnx").write_bytes(chain(length).SerializeToString())
        refused(tmp_path / "net.onnx", "the nesting of functions is 17", "the limit is 16")


def branches(depth: int) -> onnx.ModelProto:
    """A model with a branch in a branch, and so on."""
    inner = helper.make_graph([node("Neg", ["x"], ["z"])], "g", [], [helper.make_tensor_value_info("z", 1, [1])])
    other = helper.make_graph([node("Abs", ["x"], ["z"])], "g", [], [helper.make_tensor_value_info("z", 1, [1])])
    for _ in range(depth):
        branch = node("If", ["c"], ["z"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([branch], "g", [], [helper.make_tensor_value_info("z", 1, [1])])
    proto = model([node("Relu", ["z"], ["y"])], [("x", "f4", [1])], [("y", "f4", [1])], {"c": np.array(True)})
    proto.graph.node.insert(0, inner.node[0])
    return proto


def test_graphs_within_graphs_have_a_limit(tmp_path):
    (tmp_path / "net.onnx").write_bytes(branches(limits.MAX_CALL_NESTING).SerializeToString())
    assert vtakit.compile(tmp_path / "net.onnx").run({"x": -np.ones(1, "f4")})["y"] == 1
    (tmp_path / "net.onnx").write_bytes(branches(limits.MAX_CALL_NESTING + 1).SerializeToString())
    refused(tmp_path / "net.onnx", "the nesting of subgraphs is 17", "the limit is 16")
