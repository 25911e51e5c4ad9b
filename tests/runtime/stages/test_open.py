"""Models with open sizes: specialised for the sizes of each run."""

import json
import os
import pickle
import threading
from contextlib import nullcontext

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from support import raises

import vtakit
from vtakit.base.container import PREFIX, packed
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import ModelError
from vtakit.runtime import kept_models
from vtakit.runtime.model import network
from vtakit.runtime.module import InputError, Module
from vtakit.runtime.module_file import OPEN_FILE_VERSION, OPEN_MAGIC, PackageError, check_file
from vtakit.runtime.stages import part as part_module
from vtakit.runtime.stages.file import parse
from vtakit.runtime.stages.module import OpenModule
from vtakit.runtime.stages.source import OpenSource

RNG = np.random.default_rng(27)
W = RNG.standard_normal((16, 8)).astype(np.float32)


def mlp(shape=("batch", "seq", 16)) -> onnx.ModelProto:
    """A product of matrices, relu, and what is left flattened by the shape that the graph computes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Shape", ["b"], ["s"], end=1), helper.make_node("Concat", ["s", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["b", "to"], ["y"]),
    ]
    known = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.array([-1]), "rest")]
    ports = [helper.make_tensor_value_info("x", T.FLOAT, shape), helper.make_tensor_value_info("y", T.FLOAT, [None, None])]
    graph = helper.make_graph(nodes, "mlp", ports[:1], ports[1:], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def add(*shapes, ops=("Add",)) -> onnx.ModelProto:
    """A sum of inputs x0, x1, … of these shapes."""
    names = [f"x{at}" for at in range(len(shapes))]
    nodes = [helper.make_node("Sum", names, ["y"])]
    infos = [helper.make_tensor_value_info(name, T.FLOAT, shape) for name, shape in zip(names, shapes, strict=True)]
    graph = helper.make_graph(nodes, "add", infos, [helper.make_tensor_value_info("y", T.FLOAT, [None] * len(shapes[0]))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ W, 0).reshape(len(x), -1)


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_model_is_compiled_once_for_each_set_of_sizes():
    module = vtakit.compile(mlp())
    assert isinstance(module, OpenModule)
    assert not module.modules
    assert module.inputs == {"x": "float32[batch, seq, 16]"}
    for shape in ((1, 3, 16), (2, 5, 16), (1, 3, 16), (2, 1, 16)):
        x = some(*shape)
        np.testing.assert_allclose(module.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    assert len(module.modules) == 3
    assert all(len(each.image.parts) == 1 for each in module.modules), "each is one native function"
    assert list(module.sizes()) == [f"x: float32[{a}, {b}, 16]" for a, b in ((2, 5), (1, 3), (2, 1))]


def test_a_batch_that_is_the_one_open_size_stays_1():
    """Export, C and the tuner need one set of sizes; `vtakit.dim` opens it."""
    model = mlp(("n", 4, 16))
    module = vtakit.compile(model)
    assert not isinstance(module, OpenModule)
    with raises(InputError, "input 'x' is float32[1, 4, 16], got float32[3, 4, 16]: compile the model with batch=3 (--batch 3) "
                            "if it leaves its first dimension open, or for any with batch=vtakit.dim('batch')"):
        module.run({"x": some(3, 4, 16)})
    opened = vtakit.compile(model, batch=vtakit.dim("batch", 1, 4))
    for size in (1, 3):
        x = some(size, 4, 16)
        np.testing.assert_allclose(opened.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    with raises(InputError, "dimension 0 of input 'x' (float32[batch, 4, 16]) is 5, and the module is for batch from 1 to 4: "
                            "compile it for other sizes with shapes="):
        opened.run({"x": some(5, 4, 16)})


def test_a_batch_that_is_given_is_fixed_beside_open_sizes():
    module = vtakit.compile(mlp(), batch=2)
    assert module.inputs == {"x": "float32[2, seq, 16]"}
    assert module.run({"x": some(2, 3, 16)})["y"].shape == (2, 24)
    with raises(InputError, "dimension 0 of input 'x' (float32[2, seq, 16]) has the size 2, got 1"):
        module.run({"x": some(1, 3, 16)})


def test_sizes_of_one_name_are_equal():
    module = vtakit.compile(add(("n", "m"), ("n", 1), (1, "m")))
    assert module.run({"x0": some(2, 3), "x1": some(2, 1), "x2": some(1, 3)})["y"].shape == (2, 3)
    with raises(InputError, "dimension 0 of input 'x1' (float32[n, 1]) is 3, and dimension 0 of input 'x0' (float32[n, m]) is 2: "
                            "both are 'n', and so of one size"):
        module.run({"x0": some(2, 3), "x1": some(3, 1), "x2": some(1, 3)})
    own = vtakit.compile(add((None, 3), (None, 3)), shapes={name: (vtakit.dim("k"), 3) for name in ("x0", "x1")})
    with raises(InputError, "dimension 0 of input 'x1' (float32[k, 3]) is 1, and dimension 0 of input 'x0' (float32[k, 3]) is 2: "
                            "both are 'k', and so of one size"):
        own.run({"x0": some(2, 3), "x1": some(1, 3)})
    loose = vtakit.compile(add((None, 3), (None, 3)), shapes={"x0": (vtakit.dim("a"), 3), "x1": (vtakit.dim("b"), 3)})
    assert loose.run({"x0": some(2, 3), "x1": some(1, 3)})["y"].shape == (2, 3)


def test_names_of_the_model_hold_beside_those_of_the_caller():
    module = vtakit.compile(add(("n", 3), ("n", 3)), shapes={"x0": (vtakit.dim("a"), 3), "x1": (vtakit.dim("b"), 3)})
    with raises(InputError, "dimension 0 of input 'x1' (float32[n, 3]) is 1, and dimension 0 of input 'x0' (float32[n, 3]) is 2: "
                            "both are 'n', and so of one size"):
        module.run({"x0": some(2, 3), "x1": some(1, 3)})


def test_sizes_that_are_compiled_ahead(monkeypatch):
    sizes = (vtakit.dim("b", ahead=(1, 2)), vtakit.dim("n", 1, 9, ahead=(3, 4)), 16)
    module = vtakit.compile(mlp(), shapes={"x": sizes})
    assert sorted(module.sizes()) == sorted(f"x: float32[{b}, {n}, 16]" for b in (1, 2) for n in (3, 4))
    monkeypatch.setattr(OpenSource, "compiled", lambda *_, **__: pytest.fail("compiles"))
    x = some(2, 4, 16)
    np.testing.assert_allclose(module.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    with raises(ModelError, "sizes are compiled ahead for 'n', and 'b' is open too: name sizes of it, as vtakit.dim('b', "
                            "ahead=(…)) or --ahead b=…"):
        vtakit.compile(mlp(), shapes={"x": (vtakit.dim("b"), sizes[1], 16)})


def test_prepare_compiles_for_sizes_by_name():
    module = vtakit.compile(mlp())
    assert module.prepare(batch=1, seq=7)
    assert list(module.sizes()) == ["x: float32[1, 7, 16]"]
    with raises(InputError, "model 'mlp' needs the size 'seq' too: give prepare(…, seq=N)"):
        module.prepare(batch=1)
    with raises(InputError, "model 'mlp' has no open size 'sec'; did you mean 'seq'? Known: batch, seq"):
        module.prepare(batch=1, sec=2)
    assert module.prepare(batch=np.int64(1), seq=np.int32(4))
    assert list(module.sizes())[1:] == ["x: float32[1, 4, 16]"]
    with raises(InputError, "prepare(seq=2.5): give a whole number, got float"):
        module.prepare(batch=1, seq=2.5)
    with raises(InputError, "prepare(seq='a'): give a whole number, got str"):
        module.prepare(batch=1, seq="a")
    with raises(InputError, "prepare(seq=-1): a size is 0 or more"):
        module.prepare(batch=1, seq=-1)


def test_prepare_does_not_decide_what_elements_decide():
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    ports = [helper.make_tensor_value_info("x", T.FLOAT, ["n"]), helper.make_tensor_value_info("s", T.INT64, [2])]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", T.FLOAT, [None, None])])
    module = vtakit.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    assert not module.prepare(n=4)
    assert module.run({"x": some(4), "s": np.array([2, 2])})["y"].shape == (2, 2)
    assert not module.prepare(n=4), "the elements of s join the sizes now"


@pytest.mark.parametrize(("make", "message"), [
    (lambda: vtakit.dim(""), "vtakit.dim(''): a size that stays open has a name, such as 'batch'"),
    (lambda: vtakit.dim(3), "vtakit.dim(3): a size that stays open has a name, such as 'batch'"),
    (lambda: vtakit.dim("n", 5, 4), "vtakit.dim('n', 5, 4): no size is from 5 to 4"),
    (lambda: vtakit.dim("n", -1), "vtakit.dim('n', …): -1 is no size: give whole numbers from 0 up"),
    (lambda: vtakit.dim("n", 1.5), "vtakit.dim('n', …): 1.5 is no size: give whole numbers from 0 up"),
    (lambda: vtakit.dim("n", 1, 4, ahead=(5,)), "vtakit.dim('n', …): ahead=5 is not from 1 to 4"),
    (lambda: vtakit.compile(mlp(), shapes={"z": (vtakit.dim("n"),)}),
     "shapes names 'z', which is no input of the model: it has 'x'"),
    (lambda: vtakit.compile(mlp(), shapes={"x": (vtakit.dim("n"), 16)}),
     "input 'x' is float32[batch, seq, 16] in the model, which the shape [n, 16] does not fit"),
    (lambda: vtakit.compile(mlp(), shapes={"x": (vtakit.dim("n"), 3, 17)}),
     "input 'x' is float32[batch, seq, 16] in the model, which the shape [n, 3, 17] does not fit"),
    (lambda: vtakit.compile(mlp(), shapes={"x": (vtakit.dim("n"), "m", 16)}),
     ("the shape of 'x' is (vtakit.dim('n'), 'm', 16): give a sequence of whole numbers, and "
      "vtakit.dim(…) for sizes that stay open")),
])
def test_wrong_sizes_are_told_in_a_sentence(make, message):
    with raises(ModelError, message):
        make()


@pytest.mark.parametrize("text", ["vtakit.dim('n')", "vtakit.dim('n', 2)", "vtakit.dim('n', 0, 9)",
                                  "vtakit.dim('n', 1, 9, ahead=(3,))", "vtakit.dim('n', ahead=(3, 4))"])
def test_a_size_reads_as_the_call_that_makes_it(text):
    assert repr(eval(text)) == text


@pytest.mark.parametrize("sizes", [{"shapes": {"x": (1, vtakit.dim("n"), 16)}}, {"batch": vtakit.dim("n", 1, 4)}])
def test_decisions_and_tuning_refuse_open_sizes(sizes):
    cure = "give a number for it, with shapes= or batch= (--shape, --batch)"
    with raises(ModelError, f"'n' is a size that stays open, and decisions are made for one set of sizes: {cure}"):
        vtakit.decisions(mlp(), **sizes)
    with raises(ModelError, f"'n' is a size that stays open, and a model is tuned for one set of sizes: {cure}"):
        network(mlp(), "llvm", **sizes)


def test_wrong_inputs_are_told_in_a_sentence():
    module = vtakit.compile(mlp())
    with raises(InputError, "model 'mlp' lacks its input 'x' (float32[batch, seq, 16])"):
        module.run({})
    with raises(InputError, "model 'mlp' has no input 'z'; known: x"):
        module.run({"x": some(1, 1, 16), "z": some(1)})
    with raises(InputError, "input 'x' is float32[batch, seq, 16], with 3 dimensions; got [1, 16]"):
        module.run({"x": some(1, 16)})
    with raises(InputError, "input 'x' is float32[batch, seq, 16], got float64[1, 2, 16]: convert it with .astype('float32')"):
        module.run({"x": some(1, 2, 16).astype(float)})
    with raises(InputError, "input 'x' is float32[batch, seq, 16], got list: use numpy.array(…, 'float32')"):
        module.run({"x": [1]})
    with raises(InputError, "model 'mlp' takes a dict of arrays by name, such as {'x': array}, got ndarray"):
        module.run(some(1))
    with raises(InputError, "model 'mlp' is compiled for the sizes that its runs have, and has no one image: for export, C, "
                            "decisions, engines, images of memory and tuning compile it with shapes= (--shape) for one set of "
                            "sizes"):
        module.export("net.so")


@pytest.mark.parametrize("name", [name for name in dir(Module) if not name.startswith("_")])
def test_what_a_module_has_an_open_one_has_or_refuses(name, tmp_path):
    """Nothing that is inherited reads what only the other has."""
    module = vtakit.compile(mlp())
    x = {"x": some(1, 2, 16)}
    module.run(x)
    arguments = {
        "dump_images": (tmp_path / "images", x), "engine": ("cpu",), "export": (tmp_path / "net.so",), "profile": (x,),
        "export_c": (tmp_path / "c",), "run": (x,), "run_counted": (x,), "save": (tmp_path / "net.vtak",),
        "takes": ("x", (1, 2, 16), np.float32),
    }
    refused = name in ("dump_images", "engine", "export", "export_c", "image", "some_inputs")
    with pytest.raises(InputError) if refused else nullcontext():
        found = getattr(module, name)
        if callable(found):
            found(*arguments.get(name, ()))
    assert not (tmp_path / "images").exists()


def test_a_seen_size_still_has_its_type_checked():
    module = vtakit.compile(mlp())
    module.run({"x": some(1, 2, 16)})
    with raises(InputError, "input 'x' is float32[1, 2, 16], got int32[1, 2, 16]: convert it with .astype('float32')"):
        module.run({"x": np.zeros((1, 2, 16), np.int32)})
    with raises(InputError, "model 'mlp' has no input 'z'; known: x"):
        module.run({"x": some(1, 2, 16), "z": some(1)})
    assert module.run({"x": some(1, 16, 2).transpose(0, 2, 1)})["y"].shape == (1, 16), "what is not contiguous is copied"


def test_sizes_that_the_model_cannot_have_are_told():
    module = vtakit.compile(add((None, None), (None, None)))
    with pytest.raises(ModelError, match=r"^model 'add', run on x0: \[2, 3\], x1: \[2, 4\]: node 'y' \(Sum\): .*"):
        module.run({"x0": some(2, 3), "x1": some(2, 4)})
    assert module.run({"x0": some(2, 3), "x1": some(2, 3)})["y"].shape == (2, 3)


def test_a_size_of_0():
    module = vtakit.compile(mlp())
    assert module.run({"x": some(2, 0, 16)})["y"].shape == (2, 0)


def test_set_input_and_get_output():
    module = vtakit.compile(mlp())
    with raises(InputError, "model 'mlp' has not run yet: call run first"):
        module.get_output()
    x = some(1, 2, 16)
    module.set_input(x=x)
    made = module.run()["y"]
    np.testing.assert_array_equal(module.run({"x": x})["y"], made)
    out = np.empty_like(made)
    assert module.get_output("y", out) is out
    np.testing.assert_array_equal(out, made)
    with raises(InputError, "output 'y' is float32[1, 16]; the array for it is float32[2]"):
        module.get_output(0, np.zeros(2, np.float32))
    with raises(InputError, "model 'mlp' has 1 output, numbered from 0; there is no output 1"):
        module.get_output(1)


def test_the_least_recently_used_goes(monkeypatch):
    monkeypatch.setattr(part_module, "MOST_KEPT", 2)
    module = vtakit.compile(mlp())
    for length in (1, 2, 1, 3):
        module.run({"x": some(1, length, 16)})
    assert list(module.sizes()) == ["x: float32[1, 1, 16]", "x: float32[1, 3, 16]"]


def test_threads_that_need_one_compilation_wait_for_it(monkeypatch):
    made, compiled = [], OpenSource.compiled

    def counting(self, *asked, **how):
        made.append(asked)
        return compiled(self, *asked, **how)
    monkeypatch.setattr(OpenSource, "compiled", counting)
    module = vtakit.compile(mlp())
    xs = [some(1, 1 + at % 3, 16) for at in range(24)]
    results: list = [None] * len(xs)
    barrier = threading.Barrier(len(xs))

    def run(at):
        barrier.wait()
        results[at] = module.run({"x": xs[at]})["y"]
    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    for x, y in zip(xs, results, strict=True):
        np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)


def test_a_file_has_the_graph_and_what_is_compiled(tmp_path, monkeypatch):
    module = vtakit.compile(mlp(), shapes={"x": (1, vtakit.dim("n", 1, 9, ahead=(3,)), 16)})
    module.run({"x": some(1, 5, 16)})
    module.save(tmp_path / "net.vtak")
    loaded = vtakit.load(tmp_path / "net.vtak")
    assert isinstance(loaded, OpenModule)
    assert loaded.inputs == module.inputs == {"x": "float32[1, n, 16]"}
    x = some(1, 7, 16)
    np.testing.assert_allclose(loaded.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    with raises(InputError, "dimension 1 of input 'x' (float32[1, n, 16]) is 10, and the module is for n from 1 to 9: compile "
                            "it for other sizes with shapes="):
        loaded.run({"x": some(1, 10, 16)})
    again = vtakit.load(tmp_path / "net.vtak")
    monkeypatch.setattr("vtakit.runtime.stages.source.import_part", lambda *_, **__: pytest.fail("compiles"))
    for length in (3, 5):
        x = some(1, length, 16)
        np.testing.assert_allclose(again.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    again.save(tmp_path / "copy.vtak")
    assert len(vtakit.load(tmp_path / "copy.vtak").source.stored) == 2, "what was loaded and not run is kept"
    monkeypatch.undo()
    fresh = vtakit.load(tmp_path / "net.vtak", recompile=True)
    assert not fresh.source.stored
    np.testing.assert_allclose(fresh.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    copy = pickle.loads(pickle.dumps(module))
    np.testing.assert_allclose(copy.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)


def test_damaged_files_are_refused(tmp_path):
    module = vtakit.compile(mlp())
    module.run({"x": some(1, 2, 16)})
    data = bytearray(module.dump())
    check_file(bytes(data), "the file")
    path = tmp_path / "net.vtak"
    path.write_bytes(data)
    with raises(InputError, "recompile='yes': give True or False"):
        vtakit.load(path, recompile="yes")
    for at in (20, 200, len(data) - 40):
        other = data.copy()
        other[at] ^= 1
        path.write_bytes(other)
        with pytest.raises(PackageError, match=r"damaged|inconsistent|truncated|too long"):
            vtakit.load(path)
    path.write_bytes(data[:-5])
    with pytest.raises(PackageError, match="truncated"):
        vtakit.load(path)


@pytest.mark.parametrize("seed", range(150))
def test_wrong_headers_are_refused_in_a_sentence(seed, opened_file):
    """A value of the header is another one; the checksum is right."""
    rng = np.random.default_rng(seed)
    head, payload = opened_file
    header = json.loads(head)
    places = [*_places(header)]
    at = places[rng.integers(len(places))]
    there = header
    for key in at[:-1]:
        there = there[key]
    there[at[-1]] = [None, -1, 1 << 70, "", "x", [], {}, True, 0.5, [["x", 1]]][rng.integers(10)]
    data = packed(OPEN_MAGIC, OPEN_FILE_VERSION, header, [payload])
    message = ""
    try:
        module = OpenModule(parse(data, "the file"))
        module.run({"x": some(1, 2, 16)})
    except VtakitError as error:
        message = str(error)
    assert "\n" not in message


def _places(value, at=()):
    """Yield the place of every value in JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*at, key)
        yield from _places(each, (*at, key))


@pytest.fixture(scope="module")
def opened_file():
    module = vtakit.compile(mlp(), shapes={"x": (1, vtakit.dim("n", 1, 9, ahead=(2,)), 16)})
    data = module.dump()
    _, _, head, size = PREFIX.unpack_from(data)
    return data[PREFIX.size:PREFIX.size + head], data[PREFIX.size + head:PREFIX.size + head + size]


def test_a_file_of_another_machine_is_refused(tmp_path):
    target = vtakit.target("llvm", triple="aarch64-linux-gnu")
    module = vtakit.compile(mlp(), target, shapes={"x": (1, vtakit.dim("n", ahead=(3,)), 16)})
    module.save(tmp_path / "net.vtak")
    with pytest.raises(CodegenError, match=r"is compiled for another machine: .* recompile=True"):
        vtakit.load(tmp_path / "net.vtak")
    x = some(1, 3, 16)
    here = vtakit.load(tmp_path / "net.vtak", recompile=True)
    np.testing.assert_allclose(here.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)


def test_compiled_parts_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("VTAKIT_CACHE", raising=False)
    monkeypatch.setattr(kept_models, "WORTH_SECONDS", 0.0)
    x = some(1, 3, 16)
    vtakit.compile(mlp()).run({"x": x})
    monkeypatch.setattr("vtakit.runtime.stages.source.import_part", lambda *_, **__: pytest.fail("compiles"))
    np.testing.assert_allclose(vtakit.compile(mlp()).run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)
    monkeypatch.undo()
    assert not os.environ.get("XDG_CACHE_HOME", "").startswith(str(tmp_path))


def test_external_data_are_read_once(tmp_path):
    onnx.save(mlp(), tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0, location="net.data")
    module = vtakit.compile(tmp_path / "net.onnx")
    (tmp_path / "net.data").unlink()
    x = some(1, 3, 16)
    np.testing.assert_allclose(module.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)


def test_profile_and_memory():
    module = vtakit.compile(mlp())
    profile = module.profile({"x": some(1, 3, 16)}, repeat=1)
    assert len(profile.layers) > 0 < profile.seconds
    assert min(module.memory.weights_bytes, module.memory.graph_bytes) >= W.nbytes
    with raises(InputError, "profile(repeat=0): a layer runs at least once"):
        module.profile({"x": some(1, 3, 16)}, repeat=0)
