"""Running compiled functions outside of this process: in a C program (under qemu for other processors) and in WebAssembly."""

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime

from vtakit.compiler.codegen.llvm.compile import Compiled, compile_for
from vtakit.compiler.codegen.llvm.signature import c_type
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.lower.interpreter import numbers

AARCH64 = (("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64", "-cpu", "max"))
HOST = (("cc",), ())
PACKAGES = "apt install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross lld"


def need(*tools: str) -> None:
    """Leave a test out where a tool for another machine is not installed. CI installs them all."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: {PACKAGES}")


Runner = Callable[[st.Function, list[Any]], None]  # runs a function on arguments, in place


def in_c(target: Target, machine: tuple[tuple[str, ...], tuple[str, ...]], folder: Path) -> Runner:
    """A runner that compiles a C program which includes the header, links the object file and runs it."""
    compiler, runner = machine
    need(compiler[0], *runner[:1])

    def run(function: st.Function, args: list[Any]) -> None:
        compiled = compile_for(function, target)
        compiled.save_object(folder / "code.o")
        (folder / "code.h").write_text(compiled.header)
        (folder / "main.c").write_text(_main(compiled, args))
        openmp = ["-fopenmp"] if compiled.parallel else []
        command = [*compiler, "-std=c11", "-Wall", "-Werror", "main.c", "code.o", *openmp, "-lm", "-o", "program"]
        subprocess.run(command, cwd=folder, check=True)
        arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
        given = b"".join(array.tobytes() for array in arrays)
        done = subprocess.run([*runner, "./program"], cwd=folder, input=given, capture_output=True, check=True)
        at = 0
        for array in arrays:
            array[...] = np.frombuffer(done.stdout[at:at + array.nbytes], array.dtype).reshape(array.shape)
            at += array.nbytes
    return run


def _main(compiled: Compiled, args: list[Any]) -> str:
    """A C program: arrays from standard input, the call, arrays to standard output, the status as exit status."""
    lines, passed, reads, writes = [], [], [], []
    for number, (param, arg) in enumerate(zip(compiled.signature.params, args, strict=True)):
        if isinstance(param, Buffer):
            lines.append(f"static {c_type(param.dtype)} a{number}[{max(arg.size, 1)}];")
            reads.append(f"  if (fread(a{number}, 1, {arg.nbytes}, stdin) != {arg.nbytes}) return 100;")
            writes.append(f"  fwrite(a{number}, 1, {arg.nbytes}, stdout);")
            passed.append(f"a{number}")
        else:
            passed.append(str(arg))
    sizes = {}
    for param, arg in zip(compiled.signature.params, args, strict=True):
        if isinstance(param, Buffer):
            sizes |= dict(zip(param.shape, arg.shape, strict=True))
    passed += [str(sizes[size]) for size in compiled.signature.sizes]
    call = f"  int32_t status = {compiled.name}({', '.join(passed)});"
    return "\n".join(['#include "code.h"', "#include <stdio.h>", *lines, "int main(void) {", *reads, call, *writes,
                      "  return status;", "}", ""])


_ONE: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in (
        "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "pow",
        "atan2", "hypot", "fmod", "exp", "exp2", "log", "log2", "tanh", "erf", "nextafter",
    )},
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) and abs(x) < 2**52 else x,
}


def _library(name: str) -> Callable[..., float]:
    """A function of the C library, in NumPy's arithmetic, which knows infinities and NaN."""
    if name in ("fma", "fmaf"):
        exact = np.float32 if name == "fmaf" else np.float64
        return lambda *values: float(numbers.fma(*(exact(value) for value in values)))
    single = name.endswith("f") and name[:-1] in _ONE
    plain = name[:-1] if single else name
    numpy_name = {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
        "pow": "power", "atan2": "arctan2",
    }.get(plain, plain)
    function = getattr(np, numpy_name, None) or _ONE[plain]
    kind = np.float32 if single else np.float64

    def call(*values: float) -> float:
        with np.errstate(all="ignore"):
            if plain == "round":
                return float(_ONE["round"](values[0]))
            if plain == "nextafter":
                return float(np.nextafter(*(kind(value) for value in values)))
            return float(kind(function(*(np.float64(value) for value in values))))
    return call


def in_wasm(target: Target, folder: Path) -> Runner:
    """A runner that links a WebAssembly module and runs it under wasmtime."""
    need("wasm-ld")

    def run(function: st.Function, args: list[Any]) -> None:
        compiled = compile_for(function, target)
        compiled.save_library(folder / "code.wasm")
        engine = wasmtime.Engine()
        store = wasmtime.Store(engine)
        module = wasmtime.Module.from_file(engine, str(folder / "code.wasm"))
        top = [1 << 16]  # of what is allocated

        def malloc(size: int) -> int:
            top[0] = (top[0] + 15) // 16 * 16 + size
            return top[0] - size

        own: dict[str, Callable[..., Any]] = {"malloc": malloc, "free": lambda _: None}
        given = [
            wasmtime.Func(store, item.type, own.get(item.name) or _library(item.name)) for item in module.imports
        ]
        exports = wasmtime.Instance(store, module, given).exports(store)
        memory: Any = exports["memory"]
        heap: Any = exports["__heap_base"]
        top[0] = heap.value(store)
        memory.grow(store, 64)
        passed, places = [], []
        for arg in args:
            if isinstance(arg, np.ndarray):
                at = malloc(arg.nbytes)
                memory.write(store, arg.tobytes(), at)
                places.append((arg, at))
                passed.append(at)
            else:
                passed.append(arg)
        entry: Any = exports[compiled.name]
        assert entry(store, *passed) == 0
        for array, at in places:
            array[...] = np.frombuffer(bytes(memory.read(store, at, at + array.nbytes)), array.dtype).reshape(array.shape)
    return run
