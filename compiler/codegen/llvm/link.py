"""Shared libraries and WebAssembly modules, made by the linker of the machine, and the files that they are written to."""

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtakit.base.errors import FileError
from vtakit.base.writing import written_whole
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target

_ZIG = ("-m", "ziglang")
_HOST = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
_ARCH = {"AMD64": "x86_64", "arm64": "aarch64"}
_CROSS = {"linux": "{}-linux-gnu-gcc", "mingw": "{}-w64-mingw32-gcc"}
_ZIG_NAMES = {"linux": "{}-linux-gnu", "macos": "{}-macos"}


def files(path: str | Path, what: str, *suffixes: str) -> tuple[Path, ...]:
    """Return the path of `what` and those of the files beside it, by suffix.

    Raises CodegenError if a path is no file's or is another's.
    """
    try:
        first = Path(path)
    except TypeError:
        raise CodegenError(f"cannot write {what} to {path!r}: give the path of a file") from None
    if first.suffix in suffixes:
        raise CodegenError(f"cannot write {what} {str(path)!r}: a {first.suffix} file is written beside it: use another suffix")
    found = (first, *[first.with_suffix(suffix) for suffix in suffixes if first.name])
    for file in found:
        if file.is_dir():
            raise CodegenError(f"cannot write {what} {str(path)!r}: {str(file)!r} is a folder; give the path of a file")
    return found


@contextmanager
def written(path: Path, what: str) -> Iterator[Path]:
    """As `vtakit.base.writing.written_whole`; what keeps the file from being written is a CodegenError."""
    try:
        with written_whole(path, what) as file:
            yield file
    except FileError as error:
        raise CodegenError(str(error)) from None


def library(
    code: bytes, target: Target, path: Path, linker: tuple[str, ...], *, threads: bool, name: Path | None = None,
) -> None:
    """Link the bytes of an object file. Raises CodegenError if no linker is found or it fails.

    name : of the library in messages, where `path` is a file that takes its place later
    """
    shown = name or path
    command = [*(linker or find_linker(target))]
    if target.arch.startswith("wasm"):
        options = ["--no-entry", "--export-all", "--allow-undefined"]
    else:
        options = ["-shared", "-lm", *([_openmp(target, command, shown)] if threads else [])]
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "code.o"
            source.write_bytes(code)
            done = subprocess.run([*command, str(source), *options, "-o", str(path)], capture_output=True, text=True, check=False)
    except OSError as error:  # of the temporary folder, or of the linker
        raise CodegenError(f"{' '.join(command)} could not link {shown}: {error.strerror or error}") from None
    if done.returncode:
        raise CodegenError(f"{' '.join(command)} could not link {shown}: {done.stderr.strip() or 'it says nothing'}")


def _openmp(target: Target, command: list[str], path: Path) -> str:
    if command[1:3] == [*_ZIG]:
        raise CodegenError(f"{' '.join(command)} cannot link {path}: its parallel loops need an OpenMP runtime, and ziglang has "
                           "none; give linker=(command, …) with a compiler that has one, or compile for Target(…, threads=False)")
    return "-lomp" if target.system == "macos" else "-fopenmp"


def find_linker(target: Target) -> tuple[str, ...]:
    """The command of a C compiler, or of wasm-ld, for the target: the system's, or PyPI's ziglang."""
    zig = (sys.executable, *_ZIG) if importlib.util.find_spec("ziglang") else None
    if target.arch.startswith("wasm"):
        if shutil.which("wasm-ld"):
            return ("wasm-ld",)
        if zig:
            return (*zig, "wasm-ld")
        raise CodegenError("no linker for WebAssembly: pip install ziglang, or install LLVM's lld")
    here = _ARCH.get(platform.machine(), platform.machine()), _HOST.get(platform.system(), "")
    names = ["cc", "gcc", "clang"] if (target.arch, target.system) == here else []
    cross = _CROSS.get(target.system, "").format(target.arch)
    for name in filter(None, (*names, cross)):
        if shutil.which(name):
            return (name,)
    if zig and target.system in _ZIG_NAMES:
        return (*zig, "cc", "-target", _ZIG_NAMES[target.system].format(target.arch))
    ways = [f"install {cross}"] if cross else []
    ways += ["pip install ziglang"] if target.system in _ZIG_NAMES else []
    raise CodegenError(f"no linker for {target.triple}: {' or '.join([*ways, 'give linker=(command, …)'])}")
