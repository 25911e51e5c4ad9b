"""Compiled models: running, profiling, files, libraries for C, and what is wrong told in a sentence."""

import copy
import json
import pickle
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import model, network
from onnx import helper
from support import raises

import vtakit
from vtakit.base.errors import FileError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.runtime import module_file
from vtakit.runtime.module import InputError, Module
from vtakit.runtime.module_file import PackageError
from vtakit.runtime.target import TargetError

X = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net() -> Module:
    return vtakit.compile(network())


def test_inputs_may_be_set_before_and_outputs_taken_after(net):
    wanted = net.run({"x": X})["y"]
    assert wanted.shape == (1, 5)
    np.testing.assert_allclose(wanted.sum(), 1, rtol=1e-5)
    net.set_input("x", X)
    np.testing.assert_array_equal(net.run()["y"], wanted)
    net.set_input(x=2 * X)
    doubled = net.run()["y"]
    assert not np.array_equal(doubled, wanted)
    out = np.zeros_like(wanted)
    assert net.get_output(0, out) is out
    np.testing.assert_array_equal(out, doubled)
    np.testing.assert_array_equal(net.get_output("y"), doubled)
    np.testing.assert_array_equal(net.run({"x": X})["y"], wanted)  # what is given goes before what was set


def test_what_was_set_is_a_copy(net):
    x = X.copy()
    net.set_input("x", x)
    wanted = net.run()["y"]
    x[...] = 0
    np.testing.assert_array_equal(net.run()["y"], wanted)


def test_a_module_can_be_pickled(net):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net)).run({"x": X})["y"], net.run({"x": X})["y"])
    assert repr(copy.deepcopy(net)) == repr(net)


def test_arguments_of_other_types_are_told_in_a_sentence(net):
    net.run({"x": X})
    np.testing.assert_array_equal(net.get_output(np.int64(0)), net.get_output(0))
    for given in (X, (X,)):
        with raises(InputError, "model 'net' takes a dict of arrays by name, such as {'x': array}, got " + type(given).__name__):
            net.run(given)
    for at in (1.0, None, True):
        with raises(InputError, f"get_output({at!r}): … number or a name … got {type(at).__name__}"):
            net.get_output(at)
    with raises(InputError, "output 'y' is float32[1, 5]; got list for it, not an array"):
        net.get_output(0, out=[1])
    with raises(InputError, "profile(repeat='3'): give a whole number, got str"):
        net.profile({"x": X}, repeat="3")
    with raises(InputError, "model 'net' has no input 3; known: x"):
        net.set_input(3, X)


def test_a_library_is_not_written_over_by_its_header(net, tmp_path):
    for suffix in (".h", ".params"):
        library = tmp_path / f"zz{suffix}"
        message = f"cannot write library {str(library)!r}: a {suffix} file is written beside it: use another suffix"
        with raises(CodegenError, message):
            net.export(library)
    assert [*tmp_path.iterdir()] == []


def test_a_library_is_written_with_all_that_belongs_to_it_or_not_at_all(net, tmp_path):
    params = tmp_path / "zz.params"
    params.symlink_to("/dev/full")
    with raises(FileError, f"cannot write parameters {str(params)!r}: No space left on device"):
        net.export(tmp_path / "zz.so")
    assert [*tmp_path.iterdir()] == [params]


def test_results_of_one_run_outlive_the_next(net):
    first = net.run({"x": X})["y"]
    kept = first.copy()
    net.run({"x": -X})
    np.testing.assert_array_equal(first, kept)


def test_an_array_that_is_not_contiguous_is_taken_as_it_is(net):
    wide = np.zeros((1, 16, 16, 3), np.float32)
    wide[...] = X.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(net.run({"x": wide.transpose(0, 3, 1, 2)})["y"], net.run({"x": X})["y"])


def test_several_threads_get_each_its_own_results(net):
    wanted = [net.run({"x": X * k})["y"] for k in range(4)]
    got: dict[int, list[np.ndarray]] = {k: [] for k in range(4)}

    def work(k: int) -> None:
        got[k] += [net.run({"x": X * k})["y"] for _ in range(20)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert all(np.array_equal(each, wanted[k]) for each in got[k])


class Kept:
    """An array of a library that does not give it away, as PyTorch does where a gradient is to be computed."""

    def __init__(self, error):
        self.error = error

    def __dlpack__(self, **options):
        raise self.error

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize("error", [BufferError, RuntimeError])
def test_arrays_of_other_libraries_that_cannot_be_read_are_told(net, error):
    with raises(InputError, "input 'x' is float32[1, 3, 16, 16] … got a Kept … NumPy … use detach()"):
        net.run({"x": Kept(error("use\n detach()"))})


def test_an_output_that_is_named_twice():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [("x", "f4", [3])], [("y", "f4", [3])])
    proto.graph.output.append(proto.graph.output[0])
    module = vtakit.compile(proto)
    assert module.run({"x": np.array([-1, 0, 2], "f4")})["y"].tolist() == [0, 0, 2]
    assert module.profile(repeat=1, inputs={"x": np.zeros(3, "f4")}).layers


def test_inputs_that_do_not_fit_are_told():
    module = vtakit.compile(network())
    with raises(InputError, "model 'net' lacks its input 'x' (float32[1, 3, 16, 16])"):
        module.run({})
    with raises(InputError, "model 'net' has no input 'X'; known: x"):
        module.run({"X": X})
    with raises(InputError, "input 'x' is float32[1, 3, 16, 16], got float32[1, 3, 16, 8]"):
        module.run({"x": X[..., :8]})
    with raises(InputError, "input 'x' is float32[1, 3, 16, 16] … got float32[2, 3, 16, 16] … batch=2 … (--batch 2) …"):
        module.run({"x": np.concatenate([X, X])})
    with raises(InputError, "input 'x' is float32[1, 3, 16, 16] … got float64[1, 3, 16, 16] … .astype('float32')"):
        module.run({"x": X.astype("f8")})
    with raises(InputError, "input 'x' is float32[1, 3, 16, 16] … got list … numpy.array(…, 'float32')"):
        module.set_input("x", X.tolist())
    with raises(InputError, "model 'net' has not run yet: call run first"):
        module.get_output(0)
    module.run({"x": X})
    with raises(InputError, "model 'net' has 1 output, numbered from 0; there is no output 1"):
        module.get_output(1)
    with raises(InputError, "model 'net' has no output 'z'; known: y"):
        module.get_output("z")
    with raises(InputError, "output 'y' is float32[1, 5]; the array for it is float32[5]"):
        module.get_output(0, np.zeros(5, "f4"))
    with raises(InputError, "profile(repeat=0): a layer runs at least once"):
        module.profile({"x": X}, repeat=0)


def test_targets_that_cannot_be_are_told():
    with raises(TargetError, "unknown target 'fpga'; known: cuda, llvm, opencl, vta"):
        vtakit.compile(network(), "fpga")
    with raises(TargetError, "device 'cpu' has no options, and latency is given"):
        vtakit.compile(network(), latency=3)
    with raises(TargetError, "target 'llvm' has no option 'config'; it is one of target 'vta'"):
        vtakit.compile(network(), config="tiny")
    with raises(TargetError, "unknown device 'fpga'; known: board, cpu, cuda, cycle, … rtl, sim, uio"):
        vtakit.compile(network(), "vta", device="fpga")


@pytest.mark.parametrize(("words", "says"), [
    ({"name": 3}, "name=3: give a string, or None for that of the file"),
    *(({word: "no"}, f"{word}='no': give True or False") for word in ("integer", "winograd", "cache")),
])
def test_arguments_of_other_types_are_told(words, says):
    with raises(InputError, says):
        vtakit.compile(network(), **words)


def test_a_profile_has_every_layer(net):
    profile = net.profile({"x": X}, repeat=2)
    assert [timed.layer for timed in profile.layers] == list(net.image.layers)
    assert all(timed.seconds > 0 for timed in profile.layers)
    data = json.loads(json.dumps(profile.to_dict()))
    assert [layer["ops"] for layer in data["layers"]] == [list(layer.ops) for layer in net.image.layers]
    assert sum(layer["macs"] for layer in data["layers"]) == 8 * 8 * 8 * 27 + 4 * 4 * 8 * 72 + 40
    assert "conv1 +2" in str(profile)


def test_each_step_alone_makes_what_all_make_together(net):
    """The profile runs steps one by one, on the same arena."""
    wanted = net.run({"x": X})["y"]
    net.profile({"x": -X}, repeat=1)
    np.testing.assert_array_equal(net.run({"x": X})["y"], wanted)


def test_equal_layers_share_a_kernel():
    nodes = [helper.make_node("Conv", [f"v{i}", f"w{i}"], [f"v{i + 1}"], pads=[1, 1, 1, 1]) for i in range(4)]
    weights = {f"w{i}": np.full((4, 4, 3, 3), i + 1, np.float32) / 40 for i in range(4)}
    module = vtakit.compile(model(nodes, [("v0", "f4", [1, 4, 12, 12])], [("v4", "f4", [1, 4, 12, 12])], weights))
    assert [layer.kernel for layer in module.image.layers] == [0, 0, 0, 0]
    ones = module.run({"v0": np.ones((1, 4, 12, 12), "f4")})["v4"]
    np.testing.assert_allclose(ones[0, 0, 5, 5], np.prod([36 * k / 40 for k in range(1, 5)]), rtol=1e-5)


def test_a_saved_module_is_the_same_module(net, tmp_path):
    net.save(tmp_path / "net.vtak")
    again = vtakit.load(tmp_path / "net.vtak")
    np.testing.assert_array_equal(again.run({"x": X})["y"], net.run({"x": X})["y"])
    assert again.inputs == net.inputs
    assert again.image.layers == net.image.layers
    assert again.image.graph == net.image.graph
    assert module_file.dump(again.image) == module_file.dump(net.image)


def test_a_damaged_module_file_is_refused(net, tmp_path):
    data = module_file.dump(net.image)
    path = tmp_path / "net.vtak"
    rng = np.random.default_rng(0)
    for at in [8, 12, 20, *rng.integers(len(data), size=60)]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(PackageError, match=r"^module file '.*net.vtak' "):
            vtakit.load(path)
    for size in (0, 5, 20, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(PackageError):
            vtakit.load(path)
    path.write_bytes(data + b"\0")
    sizes = f"it has {len(data) + 1} bytes and says that it has {len(data)}"
    with raises(PackageError, f"module file {str(path)!r} is too long: {sizes}"):
        vtakit.load(path)


def test_a_module_file_of_another_version_or_machine_is_refused(net, tmp_path, monkeypatch):
    path = tmp_path / "net.vtak"
    monkeypatch.setattr(vtakit, "__version__", "0.0.1")
    net.save(path)
    monkeypatch.undo()
    versions = f"was made by vtakit 0.0.1; this is vtakit {vtakit.__version__}"
    with raises(PackageError, f"module file {str(path)!r} {versions} … compile … again … recompile=True (--recompile)"):
        vtakit.load(path)
    other = replace(net.image, target=replace(net.image.target, features=(*net.image.target.features, "+quantum")))
    module_file.save(other, path)
    why = "this machine lacks quantum: compile the model on this one, or for it, or load it with recompile=True (--recompile)"
    with raises(CodegenError, f"module file {str(path)!r} is compiled for another machine: {why}"):
        vtakit.load(path)


C = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void) {
    static float x[3 * 16 * 16], y[5];
    void *params = aligned_alloc(64, NET_PARAMS_BYTES), *arena = aligned_alloc(64, NET_ARENA_BYTES);
    FILE *file = fopen("net.params", "rb");
    if (fread(params, 1, NET_PARAMS_BYTES, file) != NET_PARAMS_BYTES || fread(x, 1, sizeof x, stdin) != sizeof x) return 2;
    int status = net(x, y, params, arena);
    fwrite(y, 1, sizeof y, stdout);
    return status;
}
"""


def test_a_c_program_runs_an_exported_library(net, tmp_path):
    net.export(tmp_path / "net.so")
    (tmp_path / "main.c").write_text(C)
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None
    subprocess.run([compiler, "-Wall", "-Werror", "main.c", "./net.so", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, input=X.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), net.run({"x": X})["y"][0])


def test_a_model_without_inputs_or_parameters():
    proto = model([helper.make_node("Constant", [], ["y"], value_floats=[1.0, 2.0])], [], [("y", "f4", [2])])
    np.testing.assert_array_equal(vtakit.compile(proto).run()["y"], [1, 2])
    proto = model([helper.make_node("Neg", ["x"], ["y"])], [("x", "i4", [])], [("y", "i4", [])])
    assert vtakit.compile(proto).run({"x": np.array(3, "i4")})["y"] == -3


def test_names_that_c_cannot_have_are_made_ones_that_it_can(tmp_path):
    path: Path = tmp_path / "8-bit model.onnx"
    onnx.save(network(), path)
    assert vtakit.compile(path).image.name == "m_8_bit_model"
    taken: Path = tmp_path / "log.onnx"
    onnx.save(network(), taken)
    assert vtakit.compile(taken).image.name == "m_log"
    with raises(
        CodegenError, "'two words' cannot name … C … letters, digits and _ …"
    ):
        vtakit.compile(path, name="two words")
