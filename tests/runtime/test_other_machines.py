"""Models for other machines: compiled, saved and exported here, run there."""

import subprocess

import numpy as np
import onnx
import pytest
from codegen_machines import need
from support import raises

import vtakit
from vtakit import models
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.runtime import cli
from vtakit.runtime.cpu.target import Cpu

THERE = Target("aarch64-linux-gnu", "neoverse-n1", threads=False)
C = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static float frames[4 * 84 * 84], values[18];
int main(void) {
    void *params = aligned_alloc(64, NET_PARAMS_BYTES), *arena = aligned_alloc(64, NET_ARENA_BYTES);
    FILE *file = fopen("net.params", "rb");
    if (!file || fread(params, 1, NET_PARAMS_BYTES, file) != NET_PARAMS_BYTES) return 2;
    if (fread(frames, 1, sizeof frames, stdin) != sizeof frames) return 3;
    int status = net(frames, values, params, arena);
    fwrite(values, 1, sizeof values, stdout);
    return status;
}
"""


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return models.build("dqn")


def test_an_exported_model_gives_this_machines_results_there(model, tmp_path):
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    given = models.inputs("dqn", 1)
    (wanted,) = vtakit.compile(model).run(given).values()
    module = vtakit.compile(model, THERE, name="net")
    assert module.image.target == Cpu.adopt(THERE)
    module.export(tmp_path / "net.so")
    (tmp_path / "main.c").write_text(C)
    subprocess.run(["aarch64-linux-gnu-gcc", "-Wall", "-Werror", "main.c", "./net.so", "-o", "main"], cwd=tmp_path, check=True,
                   capture_output=True)
    done = subprocess.run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "./main"], cwd=tmp_path, check=True, timeout=120,
                          capture_output=True, input=given["frames"].tobytes())
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32), wanted[0], rtol=1e-4, atol=1e-5)


def test_it_is_not_run_or_loaded_here(model, tmp_path):
    module = vtakit.compile(model, THERE, name="net")
    why = f"code for aarch64-linux-gnu neoverse-n1 cannot run in this process on {Target.host()}"
    for use in (module.run, module.profile):
        with raises(CodegenError, f"model 'net' is compiled for another machine, aarch64-linux-gnu neoverse-n1: {why}; write it "
                                  "with save or export, and run it there"):
            use(models.inputs("dqn", 1))
    assert module.memory.weights_bytes > 6_000_000
    module.save(tmp_path / "net.vtak")
    with raises(CodegenError, f"module file {str(tmp_path / 'net.vtak')!r} is compiled for another machine: {why}: compile the "
                              "model on this one, or for it, or load it with recompile=True (--recompile)"):
        vtakit.load(tmp_path / "net.vtak")


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64"])
def test_an_older_processor_of_this_architecture(cpu, model, tmp_path, capsys):
    """By the command: other vectors and other weights, the same results."""
    if Target.host().arch != "x86_64" or not Target.host().has("avx2"):
        pytest.skip("this machine cannot run code for x86-64-v3")
    onnx.save(model, tmp_path / "net.onnx")
    assert cli.main(["compile", str(tmp_path / "net.onnx"), "--cpu", cpu, "-o", str(tmp_path / "net.vtak")]) == 0
    module = vtakit.load(tmp_path / "net.vtak")
    assert module.image.target.cpu == cpu
    given = models.inputs("dqn", 1)
    (wanted,) = vtakit.compile(model).run(given).values()
    (got,) = module.run(given).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("words", "says"), [
    (["--target", "aarch65"], "--target 'aarch65' is unknown; known: aarch64-linux-gnu, cuda, llvm, opencl, vta"),
    (["--target", "vta", "--cpu", "znver4"], "--cpu goes with --target llvm, or a machine; this is --target vta"),
    (["--cpu", "nonsense"], "LLVM says 'nonsense' is not a recognized processor for this target"),
    (["--target", "foo-bar-baz"], "LLVM has no target for the triple 'foo-bar-baz'"),
])
def test_what_is_no_machine(words, says, model, tmp_path, capsys):
    onnx.save(model, tmp_path / "net.onnx")
    assert cli.main(["compile", str(tmp_path / "net.onnx"), *words, "-o", str(tmp_path / "net.vtak")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "net.vtak").exists()
