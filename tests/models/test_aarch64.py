"""A whole network for another processor: MobileNet v1 as a shared library for aarch64, run under qemu."""

import subprocess
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from codegen_machines import need

import vtakit
from vtakit import models
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.runtime.cpu import library
from vtakit.runtime.cpu.target import Cpu, image_of

COMPILER, SYSROOT = "aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu"
SIZE = 64
MOST = 1e-5  # of the largest value: sums of a few thousand products, in another order than on this machine

C = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static float image[IMAGE], scores[1000];

int main(void) {
    void *params = aligned_alloc(64, NET_PARAMS_BYTES), *arena = aligned_alloc(64, NET_ARENA_BYTES);
    FILE *file = fopen("net.params", "rb");
    if (!file || fread(params, 1, NET_PARAMS_BYTES, file) != NET_PARAMS_BYTES) return 2;
    if (fread(image, 1, sizeof image, stdin) != sizeof image) return 3;
    int status = net(image, scores, params, arena);
    fwrite(scores, 1, sizeof scores, stdout);
    return status;
}
"""


def export(graph: Graph, target: Target, folder: Path, precision: str = "float32") -> None:
    """A network as net.so, net.h and net.params."""
    passes = passes_for_cpu(evaluate_graph, integer=True, machine=machine_of(target), winograd=False, precision=precision)
    graph = run_passes(graph, passes, None)
    library.export(image_of(compile_graph(graph, CpuKernels(target)), Cpu.adopt(target), ""), folder / "net.so", (COMPILER,))


def run_there(folder: Path, given: np.ndarray, threads: int) -> np.ndarray:
    """The 1000 scores that the network in a folder gives under qemu."""
    (folder / "main.c").write_text(C)
    run = partial(subprocess.run, cwd=folder, check=True, capture_output=True, timeout=120)
    run([COMPILER, "-std=c11", f"-DIMAGE={given.size}", "-Wall", "-Werror", "main.c", "./net.so", "-o", "main"])
    call = ["qemu-aarch64", "-L", SYSROOT, "-E", f"OMP_NUM_THREADS={threads}", "./main"]
    return np.frombuffer(run(call, input=given.tobytes()).stdout, np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_mobilenet_on_aarch64_gives_this_machines_results(threads, tmp_path):
    need(COMPILER, "qemu-aarch64")
    target = Target("aarch64-linux-gnu", threads=threads > 1)
    export(import_model(models.build("mobilenet_v1", size=SIZE), name="net", evaluate=evaluate_graph), target, tmp_path)
    given = models.inputs("mobilenet_v1", 1, size=SIZE)
    found = run_there(tmp_path, given["image"], threads)
    module = vtakit.compile(models.build("mobilenet_v1", size=SIZE), batch=1)
    (wanted,) = module.run(given).values()
    assert np.abs(found - wanted[0]).max() <= MOST * np.abs(wanted).max()


@pytest.mark.parametrize(("precision", "narrow"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_a_product_with_weights_of_16_bits_on_aarch64(precision, narrow, tmp_path):
    """Against NumPy on the rounded weights."""
    need(COMPILER, "qemu-aarch64")
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 48), (48, 1000)))
    b = Builder("net")
    product = b.one("matmul", b.input("x", x.shape, "float32"), b.constant(weight))
    export(b.finish([("y", product)]), Target("aarch64-linux-gnu", threads=False), tmp_path, precision)
    want = x @ weight.astype(narrow).astype(np.float32)
    assert np.abs(run_there(tmp_path, x, 1) - want[0]).max() <= MOST * np.abs(want).max()
