"""Helpers for tests of exported C: a network with parts on the CPU and the accelerator, its export, build and run."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from integer_nets import Integers, inputs_of
from model_support import vta_module

from vtakit.compiler.graph.ir import Array, Graph
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.runtime.module import Module
from vtakit.sim.rtl.build import library

HERE = Path(__file__).parent / "runtime" / "crt"
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wcast-align",
          "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror")
SECONDS = 120  # that a compiler or a program may take on a busy machine


def split_network() -> Graph:
    """Two launches with a part on the processor between them, before them and behind them; a value goes past each."""
    net = Integers("split", seed=12)
    x = net.conv(net.input(2, 3, 7, 8), 6, stride=2)
    y = net.quantized(net.builder.one("sigmoid", net.dequantized(net.conv(x, 6))))
    z = net.mean(net.conv(y, 5))
    return net.finish(net.dense(net.reshape(z, 2, 5), 4), net.conv(x, 7, 1))


GRAPH = split_network()
GIVEN = inputs_of(GRAPH)


def split_module(device: str = "fsim") -> Module:
    """Compile the network for the tiny configuration: a module of its own, for tests that close it."""
    return vta_module(GRAPH, "tiny", device)


@cache
def shared_module() -> Module:
    """Return the network on the functional simulator, compiled once in a process."""
    return split_module()


def rtl_library() -> Path:
    """The RTL of the tiny configuration, as `vtakit export --rtl` writes it."""
    return library(CoreParams(cfg=NAMED["tiny"])).path


def build(folder: Path, *more: str | Path, compiler: Sequence[str] = ("gcc",), name: str = "program") -> Path:
    """Compile and link with warnings as errors: the model and the runtime of an export, and further sources."""
    sources = [folder / "split.c", folder / "split_data.S", folder / "vtakit_error.c", folder / "vtakit_vta.c"]
    objects = sorted(folder.glob("*.o"))
    options = [word for word in more if isinstance(word, str)]
    sources += [word for word in more if isinstance(word, Path)]
    program = folder / name
    run([*compiler, *STRICT, f"-I{folder}", *options, *map(str, sources), *map(str, objects), "-lm", "-ldl", "-o", str(program)],
        folder)
    return program


def run(command: Sequence[str | Path], folder: Path, status: int = 0) -> str:
    """Run a command that ends with a status; returns what it writes to standard error."""
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == status, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stderr


def write_inputs(folder: Path, given: dict[str, Array]) -> list[Path]:
    """Write each input to a file of raw numbers."""
    files = []
    for name, array in given.items():
        files.append(folder / f"{name}.raw")
        array.tofile(files[-1])
    return files


def check_outputs(files: Sequence[Path], wanted: dict[str, Array]) -> None:
    """Files of raw numbers hold the bytes of arrays; they are deleted."""
    for file, array in zip(files, wanted.values(), strict=True):
        np.testing.assert_array_equal(np.fromfile(file, array.dtype).reshape(array.shape), array)
        file.unlink()
