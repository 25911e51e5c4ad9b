"""C++ of Verilated models: Verilator's own code, compiled once for all models, and files that are compiled as one."""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vtakit.cache.building import built_once
from vtakit.cache.place import cache_folder
from vtakit.sim.verilator import NATIVE, compiler, compiler_identity, verilator_root, verilator_version

COMPILE = ("-std=c++20", "-O2", *NATIVE, "-fPIC", "-pthread")
FAST = Path(__file__).parent / "rtl" / "verilated_fast.h"  # included before every file of a model
RUNTIME = "runtime.o"
_SOURCES = ("verilated.cpp", "verilated_threads.cpp")


def runtime(call: Callable[[list[list[str]], Path], None], more: Sequence[str] = (), sources: Sequence[str] = ()) -> Path:
    """Return Verilator's own code as one object, built now unless it is kept. It takes 8 s, as long as a small model.

    call      runs commands in a folder
    more      options of the compiler
    sources   files of Verilator besides those that every model needs
    """
    flags = [*COMPILE, *more, *folders(), "-include", str(FAST)]
    names = (*_SOURCES, *sources)
    parts = (*flags, *names, FAST.read_text(), verilator_version(), compiler_identity(compiler()))
    folder = cache_folder("verilated") / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def build(work: Path) -> None:
        include = verilator_root() / "include"
        call([[compiler(), *flags, "-c", str(include / name)] for name in names], work)
        objects = [f"{Path(name).stem}.o" for name in names]
        call([[compiler(), "-r", "-nostdlib", *objects, "-o", RUNTIME]], work)

    return built_once(folder, (RUNTIME,), build).path


def folders(*others: Path) -> list[str]:
    """Return the compiler's options for Verilator's headers and those in other folders."""
    include = verilator_root() / "include"
    return [f"-I{path}" for path in (*others, include, include / "vltstd")]


def together(sources: Iterable[Path], file: Path) -> Path:
    """Write a source that includes others, and return it: each of them would read the same headers for a second or two."""
    file.write_text("".join(f'#include "{source}"\n' for source in sources))
    return file


def bundled(sources: Sequence[Path], folder: Path) -> list[Path]:
    """Return at most one file for each processor, which include the sources: bundles of about the same size, in `folder`."""
    bundles: list[list[Path]] = [[] for _ in range(min(len(sources), os.cpu_count() or 1))]
    sizes = [0] * len(bundles)
    for source in sorted(sources, key=lambda each: each.stat().st_size, reverse=True):
        least = sizes.index(min(sizes))
        bundles[least].append(source)
        sizes[least] += source.stat().st_size
    return [together(each, folder / f"bundle{number}.cpp") for number, each in enumerate(bundles)]
