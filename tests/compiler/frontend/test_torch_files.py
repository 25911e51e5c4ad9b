"""Files of torch.export from strangers: nothing in them is run, and what is refused is told in a sentence."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vtakit
from vtakit.compiler.frontend.errors import ModelError
from vtakit.runtime.torch_program import named_program

X = torch.arange(8.0).reshape(2, 4)
PROGRAM = "models/model.json"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.tied = nn.Parameter(self.linear.weight.detach().t().contiguous())
        self.register_buffer("scale", torch.arange(3.0), persistent=False)
        self.shift = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * self.scale + x @ self.tied + self.shift


class Canary:
    """A pickle that makes a folder when it is run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    """A program's archive as its files."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(Net().eval(), (X,)), file)
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: dict[str, bytes], root: str = "net/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(f"{root}{name}", data)
    return path


def pickled(thing: Any) -> bytes:
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def changed(parts: dict[str, bytes], name: str, change: Callable[[Any], None]) -> dict[str, bytes]:
    found = json.loads(parts[name])
    change(found)
    return {**parts, name: json.dumps(found).encode()}


def refusal(path: Path, *words: str) -> None:
    """The file is refused in one sentence with these words."""
    with pytest.raises(ModelError) as caught:
        vtakit.compile(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_program_read_without_torchs_reader_is_the_same(parts, tmp_path):
    path = write(tmp_path / "net.pt2", parts)
    wanted = torch.export.load(str(path)).module()(X).detach().numpy()
    np.testing.assert_allclose(vtakit.compile(path).run({"x": X.numpy()})["output"], wanted, rtol=1e-6)
    program, name = named_program(path)
    assert name == "net"
    assert {key: tuple(held.shape) for key, held in program.state_dict.items()} == {
        "linear.weight": (3, 4), "linear.bias": (3,), "tied": (4, 3)}


def test_nested_inputs_and_outputs_are_flat(tmp_path):
    class Nested(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], more: torch.Tensor, n: int = 2) -> Any:
            first, named = pair
            return {"sum": first + named["a"], "other": (more * n,)}
    given = ((X, {"a": X + 1}), X)
    torch.export.save(torch.export.export(Nested(), given, {"n": 3}), tmp_path / "net.pt2")
    module = vtakit.compile(tmp_path / "net.pt2")
    assert list(module.inputs.values()) == ["float32[2, 4]"] * 3
    made = module.run({name: X.numpy() for name in module.inputs})
    np.testing.assert_array_equal(made["output0"], 2 * X)
    np.testing.assert_array_equal(made["output1"], 3 * X)


def test_blocks_without_gradients_are_read(tmp_path):
    class Frozen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x * 2
            return y + 1
    torch.export.save(torch.export.export(Frozen(), (X,)), tmp_path / "net.pt2")
    np.testing.assert_array_equal(vtakit.compile(tmp_path / "net.pt2").run({"x": X.numpy()})["output"], 2 * X + 1)


def test_sample_inputs_are_not_read(parts, tmp_path):
    canary = tmp_path / "canary"
    path = write(tmp_path / "net.pt2", {**parts, "data/sample_inputs/model.pt": pickled(Canary(canary))})
    vtakit.compile(path).run({"x": X.numpy()})
    assert not canary.exists()
    torch.load(io.BytesIO(pickled(Canary(canary))), weights_only=False)
    assert canary.exists()  # the pickle is one that makes the folder


def _pickle_in(config: str, entry: str) -> Callable[[dict[str, bytes], bytes], dict[str, bytes]]:
    """An archive with a pickle in place of a tensor's data."""
    def made(parts: dict[str, bytes], data: bytes) -> dict[str, bytes]:
        folder = config.rpartition("/")[0]
        meta = json.loads(parts[config])["config"][entry]
        return {**changed(parts, config, lambda found: found["config"][entry].update(use_pickle=True)),
                f"{folder}/{meta['path_name']}": data}
    return made


def _object(name: str) -> Callable[[dict[str, bytes], bytes], dict[str, bytes]]:
    """An archive with a pickled object among its constants."""
    def made(parts: dict[str, bytes], data: bytes) -> dict[str, bytes]:
        entry = {"path_name": name, "is_param": False, "use_pickle": True, "tensor_meta": None}
        return {**changed(parts, CONSTANTS, lambda found: found["config"].update(thing=entry)), f"data/constants/{name}": data}
    return made


def _part(name: str) -> Callable[[dict[str, bytes], bytes], dict[str, bytes]]:
    return lambda parts, data: {**parts, name: data}


@pytest.mark.parametrize(("place", "words"), [
    (_pickle_in(WEIGHTS, "linear.weight"), ("is a pickle that is no plain tensors", "not run")),
    (_pickle_in(CONSTANTS, "shift"), ("is a pickle that is no plain tensors", "not run")),
    (_object("custom_obj_0"), ("custom object 'custom_obj_0'", "would run code")),
    (_object("opaque_obj_0"), ("custom object 'opaque_obj_0'", "would run code")),
    (_object("tensor_9"), ("is a pickle that is no plain tensors",)),
    (_part("data/weights/model.pt"), ("'net/data/weights/model.pt' is a pickle",)),
    (_part("data/constants/model.pt"), ("'net/data/constants/model.pt' is a pickle",)),
    (_part("data/aotinductor/model/code.so"), ("'net/data/aotinductor/model/code.so'", "compiled code")),
])
def test_no_pickle_is_run(parts, tmp_path, place, words):
    canary = tmp_path / "canary"
    for data in (pickled(Canary(canary)), pickle.dumps(Canary(canary)), pickled({"shift": Canary(canary)})):
        refusal(write(tmp_path / "net.pt2", place(parts, data)), *(words if data[:2] == b"PK" else ()))
        assert not canary.exists()


def test_pickles_of_plain_tensors_are_read(parts, tmp_path):
    weight = torch.full((3, 4), 2.0)
    path = write(tmp_path / "net.pt2", _pickle_in(WEIGHTS, "linear.weight")(parts, pickled(nn.Parameter(weight))))
    program, _ = named_program(path)
    assert torch.equal(program.state_dict["linear.weight"], weight)


def test_pickles_that_are_compressed_are_refused(parts, tmp_path):
    """torch.save stores what it writes; one that inflates is outside of the bound on the whole archive."""
    inner = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(pickled(torch.ones(3, 4)))) as old, zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    refusal(write(tmp_path / "net.pt2", _pickle_in(WEIGHTS, "linear.weight")(parts, inner.getvalue())), "compressed")


def _old(parts: dict[str, bytes], state: bytes, constants: bytes, inputs: bytes) -> dict[str, bytes]:
    """The layout of torch 2.7 and before."""
    return {"serialized_exported_program.json": parts[PROGRAM], "serialized_state_dict.pt": state,
            "serialized_constants.pt": constants, "serialized_example_inputs.pt": inputs, "version": b"8.8"}


def test_the_layout_before_is_read_without_running_a_pickle(parts, tmp_path):
    net = Net().eval()
    canary = tmp_path / "canary"
    evil = pickled(Canary(canary))
    state = {"linear.weight": net.linear.weight, "linear.bias": net.linear.bias, "tied": net.tied}
    good = pickled(state), pickled({"scale": net.scale, "shift": net.shift})
    path = write(tmp_path / "net.pt2", _old(parts, *good, evil), root="")
    np.testing.assert_allclose(vtakit.compile(path).run({"x": X.numpy()})["output"], net(X).detach().numpy(), rtol=1e-6)
    for held in ((evil, good[1], b""), (good[0], evil, b"")):
        refusal(write(tmp_path / "net.pt2", _old(parts, *held), root=""), "is a pickle that is no plain tensors")
    assert not canary.exists()


def _in_graph(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda program: change(program["graph_module"])


def _call(target: str) -> Callable[[Any], None]:
    return _in_graph(lambda module: module["graph"]["nodes"][0].update(target=target))


CODE = "__import__('pathlib').Path({!r}).touch()"


@pytest.mark.parametrize(("change", "words"), [
    (lambda code: _in_graph(lambda m: m["graph"]["tensor_values"]["x"]["sizes"].__setitem__(0, {"as_expr": {"expr_str": code}})),
     ("'x' has an open shape", "without dynamic_shapes")),
    (lambda code: _in_graph(lambda m: m["graph"].update(sym_int_values={"s": {"as_expr": {"expr_str": code}}})),
     ("'s' is open",)),
    (lambda code: _call("torch.hub.load"), ("'torch.hub.load'", "no operator of PyTorch's own")),
    (lambda code: _call("torch.ops.aten.__class__.mro"), ("does not have",)),
    (lambda code: _call("torch.ops.aten.from_file.default"), ("from_file", "reach outside")),
    (lambda code: _call("_operator.methodcaller"), ("'_operator.methodcaller'",)),
    (lambda code: _call("#namespace:name"), ("'#namespace:name'",)),
    (lambda code: _in_graph(lambda m: m["graph"]["nodes"][0].update(name=f"a=0;{code}#")), ("a name is letters",)),
    (lambda code: _in_graph(lambda m: m["signature"]["input_specs"][0]["parameter"].update(parameter_name=f'a"];{code}#')),
     ("a name is letters",)),
    (lambda code: _in_graph(lambda m: m["graph"].update(custom_obj_values={"o": {"name": "o", "class_fqn": "x"}})),
     ("custom object 'o'",)),
])
def test_no_text_of_a_program_is_run(parts, tmp_path, change, words):
    canary = tmp_path / "canary"
    refusal(write(tmp_path / "net.pt2", changed(parts, PROGRAM, change(CODE.format(str(canary))))), *words)
    assert not canary.exists()


@pytest.mark.parametrize("kind", ["as_optional_tensor", "as_optional_tensors"])
def test_an_optional_tensor_is_a_tensor_or_none(parts, tmp_path, kind):
    def change(program: Any) -> None:
        entry = {"as_graph": {"name": "x"}}
        program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {kind: [entry] if kind.endswith("s") else entry}
    refusal(write(tmp_path / "net.pt2", changed(parts, PROGRAM, change)), "'as_graph' is neither a tensor nor none")


def test_guards_and_nested_types_are_left_out(parts, tmp_path):
    canary = tmp_path / "canary"
    enum = {"__enum__": True, "fqn": "antigravity:x", "name": "y"}  # torch's reader imports the module

    def change(program: Any) -> None:
        program["guards_code"] = [CODE.format(str(canary))]
        program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps([1, enum])
        program["graph_module"]["graph"]["nodes"][0]["metadata"] = {"source_fn_stack": "a,torch.hub.load", "custom": "{"}
    vtakit.compile(write(tmp_path / "net.pt2", changed(parts, PROGRAM, change))).run({"x": X.numpy()})
    assert not canary.exists()


@pytest.mark.parametrize(("meta", "words"), [
    ({"sizes": [{"as_int": 3}, {"as_int": 5}]}, ("reaches 13 elements", "have 12")),
    ({"storage_offset": {"as_int": 1}}, ("reaches 13 elements",)),
    ({"storage_offset": {"as_int": -1}}, ("size {'as_int': -1}",)),
    ({"strides": [{"as_int": 1 << 61}, {"as_int": 1}]}, ("elements into its data",)),
    ({"sizes": [{"as_int": 1 << 20}, {"as_int": 1 << 11}], "strides": [{"as_int": 0}] * 2}, ("save a contiguous tensor",)),
    ({"sizes": [{"as_int": 1}] * 2000, "strides": [{"as_int": 1}] * 2000}, ("rank", "2,000", "32")),
    ({"dtype": 99}, ("element type of number 99",)),
])
def test_tensors_lie_inside_their_data(parts, tmp_path, meta, words):
    def change(found: Any) -> None:
        found["config"]["linear.weight"]["tensor_meta"].update(meta)
    refusal(write(tmp_path / "net.pt2", changed(parts, WEIGHTS, change)), *words)


def test_archives_that_are_damaged_are_told(parts, tmp_path):
    path = write(tmp_path / "net.pt2", parts)
    data = path.read_bytes()
    for cut in (0, 30, len(data) // 2, len(data) - 5):
        path.write_bytes(data[:cut])
        refusal(path)
    refusal(write(path, {**parts, PROGRAM: b"[" * 100_000}), "nested deeper")
    refusal(write(path, {name: held for name, held in parts.items() if name != WEIGHTS}), WEIGHTS)
    refusal(write(path, {**parts, "byteorder": b"big"}), "big-endian")


def test_operands_that_do_not_fit_are_one_sentence(parts, tmp_path, capfd):
    def change(program: Any) -> None:
        for meta in ("linear", "relu", "mul"):
            program["graph_module"]["graph"]["tensor_values"][meta]["sizes"] = [{"as_int": 7}]
        program["graph_module"]["graph"]["nodes"][2]["inputs"][1]["arg"] = {"as_tensor": {"name": "p_linear_weight"}}
    path = write(tmp_path / "net.pt2", changed(parts, PROGRAM, change))
    with pytest.raises(ModelError) as caught:
        vtakit.compile(path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""
