"""Modules run by several threads of Python, and runs that use several threads."""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from codegen_machines import need
from model_support import model, network
from onnx import helper
from support import raises

import vtakit
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.engine import Native
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.module import InputError, Module

X = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net() -> Module:
    return vtakit.compile(network())


def _native(module: Module) -> Native:
    ((_, engine),) = module._steps
    (found,) = engine._native.values()
    return found


def _watch(monkeypatch: pytest.MonkeyPatch, module: Module, seen: Callable[[tuple[int, ...]], None]) -> None:
    """Call `seen` with the pointers of each run before it begins."""
    native = _native(module)
    entry = native._entry

    def watched(*pointers: int) -> Any:
        seen(pointers)
        return entry(*pointers)
    monkeypatch.setattr(native, "_entry", watched)


def test_runs_at_the_same_time_have_an_arena_each_which_later_runs_use_again(net, monkeypatch):
    wanted = [net.run({"x": X * k})["y"] for k in range(3)]
    meet, arenas, results = threading.Barrier(3), [], {}

    def seen(pointers: tuple[int, ...]) -> None:
        arenas.append(pointers[-1])
        meet.wait(60)
    _watch(monkeypatch, net, seen)

    def work(k: int) -> None:
        results[k] = net.run({"x": X * k})["y"]
    for _ in range(2):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(np.array_equal(results[k], wanted[k]) for k in range(3))
    assert len(set(arenas[:3])) == 3
    assert set(arenas[3:]) == set(arenas[:3])


def test_an_arena_of_a_run_that_failed_is_used_again(net, monkeypatch):
    arenas = []

    def seen(pointers: tuple[int, ...]) -> None:
        arenas.append(pointers[-1])
        if len(arenas) == 1:
            raise KeyboardInterrupt
    _watch(monkeypatch, net, seen)
    with pytest.raises(KeyboardInterrupt):
        net.run({"x": X})
    net.run({"x": X})
    assert arenas[0] == arenas[1]


def _wide() -> Module:
    """A model with work for several threads."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]
    return vtakit.compile(model(nodes, [("x", "f4", [64, 2048])], [("y", "f4", [64, 2048])]), threads=3)


def test_a_run_has_its_own_number_of_threads_and_the_caller_keeps_his(monkeypatch):
    module, used = _wide(), []
    assert module.image.parts_of(CpuPart)[0].parallel
    _watch(monkeypatch, module, lambda _: used.append(openmp.threads()))
    before = openmp.threads()
    given = {"x": np.zeros((64, 2048), "f4")}
    np.testing.assert_allclose(module.run(given)["y"], 1 / 2048, rtol=1e-6)
    assert (used, openmp.threads()) == ([3], before)
    again = Module(module.image)
    _watch(monkeypatch, again, lambda _: used.append(openmp.threads()))
    again.run(given)
    assert used == [3, before]


def _in_child(queue: Any, module: Module) -> None:
    (y,) = module.run({"x": np.zeros((64, 2048), "f4")}).values()
    queue.put((openmp.threads(), float(y[0, 0])))


def test_a_module_with_threads_runs_on_one_after_a_fork():
    module = _wide()
    module.run({"x": np.zeros((64, 2048), "f4")})
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue, module))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == (1, pytest.approx(1 / 2048))


def test_small_layers_stay_on_the_thread_that_calls(net):
    """Waking another thread takes longer than they do."""
    assert not net.image.parts_of(CpuPart)[0].parallel


@pytest.mark.parametrize(("given", "message"), [
    (0, "threads=0: a run uses at least 1"),
    (-2, "threads=-2: a run uses at least 1"),
    (1.5, "threads=1.5: give a whole number, or None for OpenMP's own, got float"),
    ("2", "threads='2': give a whole number, or None for OpenMP's own, got str"),
])
def test_numbers_of_threads_that_cannot_be_are_told(net, given, message):
    with raises(InputError, message):
        vtakit.compile(network(), threads=given)
    with raises(InputError, message):
        Module(net.image, threads=given)


def test_a_module_says_what_memory_it_takes(net):
    memory, (part,) = net.memory, net.image.parts_of(CpuPart)
    assert (memory.inputs_bytes, memory.outputs_bytes) == (X.nbytes, 5 * 4)
    assert (memory.weights_bytes, memory.arena_bytes) == (part.params.nbytes, part.arena_bytes)
    assert 0 < memory.live_bytes <= memory.arena_bytes
    assert memory.code_bytes == len(part.code)


def test_results_do_not_depend_on_how_many_threads_there_are():
    proto = vtakit.models.build("mobilenet_v2", size=96)
    given = vtakit.models.inputs("mobilenet_v2", 1, size=96)
    module = vtakit.compile(proto, batch=1)
    assert module.image.parts_of(CpuPart)[0].parallel
    first, *others = [Module(module.image, threads=count).run(given)["fc"] for count in (1, 2, 3, 5)]
    assert all(np.array_equal(other, first) for other in others)


C = """\
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include "wide.h"

int main(void) {
    enum { COUNT = 64 * 2048 };
    float *x = malloc(4 * COUNT), *y = malloc(3 * 4 * COUNT);
    if (fread(x, 4, COUNT, stdin) != COUNT) return 2;
    int bad = 0;
    #pragma omp parallel for num_threads(3) reduction(|:bad)
    for (int i = 0; i < 3; i++) {
        void *arena = aligned_alloc(64, WIDE_ARENA_BYTES + 64), *params = aligned_alloc(64, WIDE_PARAMS_BYTES + 64);
        bad |= wide(x, y + i * COUNT, params, arena);
    }
    fwrite(y, 4, 3 * COUNT, stdout);
    return bad;
}
"""


def test_a_library_runs_inside_a_parallel_region_of_another_program(tmp_path):
    """OpenMP's inner regions have one thread; results are the same."""
    need("cc")
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]
    module = vtakit.compile(model(nodes, [("x", "f4", [64, 2048])], [("y", "f4", [64, 2048])]), name="wide")
    module.export(tmp_path / "wide.so")
    (tmp_path / "main.c").write_text(C)
    subprocess.run(["cc", "-fopenmp", "-Wall", "-Werror", "main.c", "./wide.so", "-o", "main"], cwd=tmp_path, check=True)
    x = np.random.default_rng(0).standard_normal((64, 2048)).astype("f4")
    done = subprocess.run(["./main"], cwd=tmp_path, input=x.tobytes(), capture_output=True, check=True, timeout=60)
    found = np.frombuffer(done.stdout, np.float32).reshape(3, 64, 2048)
    wanted = module.run({"x": x})["y"]
    assert all(np.array_equal(each, wanted) for each in found)


@pytest.mark.parametrize(("given", "wanted"), [
    ({}, "OMP_WAIT_POLICY = 'PASSIVE' GOMP_SPINCOUNT = '1000'"),
    ({"GOMP_SPINCOUNT": "7"}, "OMP_WAIT_POLICY = 'PASSIVE' GOMP_SPINCOUNT = '7'"),
    ({"OMP_WAIT_POLICY": "active"}, "OMP_WAIT_POLICY = 'ACTIVE' GOMP_SPINCOUNT = '30000000000'"),
])
def test_threads_look_shortly_before_they_sleep_unless_it_is_set_otherwise(given, wanted):
    library = openmp.library()
    if library is None or not library._name.startswith("libgomp"):
        pytest.skip("a setting of libgomp")
    code = "import os; from vtakit.runtime.cpu import openmp; old = {**os.environ}; openmp.library(); print(os.environ == old)"
    kept = {name: value for name, value in os.environ.items() if name not in openmp._WAITING}
    done = subprocess.run([sys.executable, "-c", code], env={**kept, **given, "OMP_DISPLAY_ENV": "verbose"}, capture_output=True,
                          text=True, check=True, timeout=60)
    assert done.stdout == "True\n"
    assert " ".join(line.strip() for line in done.stderr.splitlines() if "WAIT" in line or "SPIN" in line) == wanted
