"""A whole network for another processor: MobileNet v1 as a shared library for aarch64, run under qemu."""

import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from codegen_machines import need

import vtakit
from vtakit import models
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.runtime import package
from vtakit.runtime.image import image_of

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


def export(target: Target, folder: Path) -> None:
    """MobileNet v1 as net.so, net.h and net.params."""
    graph = import_model(models.build("mobilenet_v1", size=SIZE), name="net", evaluate=evaluate_graph)
    passes = passes_for_cpu(evaluate_graph, integer=True, lanes=target.vector_bytes // 4)
    graph = run_passes(graph, passes, None)
    package.export(image_of(compile_graph(graph, target), ""), folder / "net.so", (COMPILER,))


@pytest.mark.parametrize("threads", [1, 2])
def test_mobilenet_on_aarch64_gives_this_machines_results(threads, tmp_path):
    need(COMPILER, "qemu-aarch64")
    target = Target("aarch64-linux-gnu", threads=threads > 1)
    export(target, tmp_path)
    (tmp_path / "main.c").write_text(C)
    run = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    run([COMPILER, "-std=c11", f"-DIMAGE={3 * SIZE * SIZE}", "-Wall", "-Werror", "main.c", "./net.so", "-o", "main"])
    given = models.inputs("mobilenet_v1", 1, size=SIZE)
    call = ["qemu-aarch64", "-L", SYSROOT, "-E", f"OMP_NUM_THREADS={threads}", "./main"]
    found = np.frombuffer(run(call, input=given["image"].tobytes()).stdout, np.float32)
    module = vtakit.compile(models.build("mobilenet_v1", size=SIZE), batch=1)
    (wanted,) = module.run(given).values()
    assert np.abs(found - wanted[0]).max() <= MOST * np.abs(wanted).max()
