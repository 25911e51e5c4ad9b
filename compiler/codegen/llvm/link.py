"""Shared libraries and WebAssembly modules, made by the linker of the machine."""

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target


def library(code: bytes, target: Target, path: Path, linker: tuple[str, ...], *, threads: bool) -> None:
    """Link the bytes of an object file. Raises CodegenError if no linker is found or it fails."""
    command = [*(linker or find_linker(target))]
    if target.arch.startswith("wasm"):
        options = ["--no-entry", "--export-all", "--allow-undefined"]
    else:
        options = ["-shared", *(["-fopenmp"] if threads else []), "-lm"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "code.o"
        source.write_bytes(code)
        done = subprocess.run([*command, str(source), *options, "-o", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodegenError(f"{' '.join(command)} could not link {path}: {done.stderr.strip() or 'it says nothing'}")


def find_linker(target: Target) -> tuple[str, ...]:
    """The command of a C compiler, or of wasm-ld, for the target: the system's, or PyPI's ziglang."""
    zig = (sys.executable, "-m", "ziglang") if importlib.util.find_spec("ziglang") else None
    if target.arch.startswith("wasm"):
        if shutil.which("wasm-ld"):
            return ("wasm-ld",)
        if zig:
            return (*zig, "wasm-ld")
        raise CodegenError("no linker for WebAssembly: pip install ziglang, or install LLVM's lld")
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if target.arch == machine:
        for name in ("cc", "gcc", "clang"):
            if shutil.which(name):
                return (name,)
    crosses = (f"{target.arch}-linux-gnu-gcc",)
    for name in crosses:
        if shutil.which(name):
            return (name,)
    if zig and "linux" in target.triple:
        return (*zig, "cc", "-target", f"{target.arch}-linux-gnu")
    raise CodegenError(f"no linker for {target.triple}: install {crosses[0]} or pip install ziglang, or give linker=(command, …)")
