"""From a function in low form to machine code."""

import functools
import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtakit.base.writing import unwritable
from vtakit.compiler.codegen.llvm import link
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import parallel
from vtakit.compiler.codegen.llvm.lowering.floats import from_bits
from vtakit.compiler.codegen.llvm.lowering.statements import Statements
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.signature import Signature, header, signature
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.module import Module, PackedSite
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.codegen.llvm.text.reserved import is_taken, is_word
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.dtypes import INT64
from vtakit.compiler.ir.stmt import Evaluate, Function

_NOTHING = "define void @f() nounwind {\n  ret void\n}\n"  # a module that only asks whether LLVM knows a target


@dataclass(frozen=True, eq=False)
class Compiled:
    """Machine code of one function.

    text     : LLVM IR as this package wrote it
    code     : the bytes of an object file, with one symbol
    messages : what status 1, 2, … says does not hold
    packed   : the places that call Python
    outside  : the C functions that it calls
    """

    signature: Signature
    target: Target
    text: str
    code: bytes
    messages: tuple[str, ...]
    packed: tuple[PackedSite, ...]
    outside: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def symbol(self) -> str:
        """The function's name in the machine code; one that C cannot have where its name has a meaning there already."""
        return _symbol(self.name)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions that the code offers."""
        return (self.symbol,)

    @functools.cached_property
    def optimized(self) -> str:
        """LLVM IR after LLVM's passes."""
        return translate(self.text, self.target, "optimized").decode()

    @functools.cached_property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return translate(self.text, self.target, "assembly").decode()

    @property
    def header(self) -> str:
        """A C header that declares the function."""
        return header(self.signature, self.messages)

    @property
    def parallel(self) -> bool:
        """Return whether the code calls an OpenMP runtime."""
        return parallel.uses_threads(self.text)

    def save_object(self, path: str | Path) -> None:
        """Write an object file, whole or not at all.

        Raises CodegenError if the code calls Python, the function has a name such as main, or the file cannot be written.
        """
        self._alone("an object file")
        (to,) = link.files(path, "object file")
        with link.written(to, "object file") as file, unwritable(to, "object file"):
            file.write_bytes(self.code)

    def save_library(self, path: str | Path, *, linker: tuple[str, ...] = ()) -> None:
        """Write a shared library (for WebAssembly a module) and its C header beside it, with the suffix ``.h``, or neither.

        linker : the command of a C compiler, or of wasm-ld, that links for the target; found on the machine by default

        Raises CodegenError if the code calls Python, the function has a name such as main, no linker is found or it fails, or a
        file cannot be written.
        """
        self._alone("a library")
        to, header = link.files(path, "library", ".h")
        with link.written(header, "C header") as described, link.written(to, "library") as linked:
            link.library(self.code, self.target, linked, linker, threads=self.parallel, name=to)
            with unwritable(header, "C header"):
                described.write_text(self.header)

    def _alone(self, what: str) -> None:
        if self.packed:
            names = ", ".join(sorted({site.name for site in self.packed}))
            raise CodegenError(f"{self.name} calls Python ({names}), so it cannot become {what}: use a C function (te.extern's "
                               "kind 'extern') in its place, or run it from Python")
        if self.symbol != self.name:
            raise CodegenError(f"{self.name} has a meaning of its own in C, so it cannot name what {what} offers: give the "
                               "function another name, as in vtakit.build(…, name='f')")


@deep()
def compile_for(function: Function, target: Target | None = None) -> Compiled:
    """Make machine code of a function in low form; for this machine by default.

    Raises CodegenError for a statement or expression that has no machine code, and for a target that LLVM refuses. Warns where
    parallel loops become serial ones because the target has no OpenMP runtime.
    """
    chosen = target or Target.host()
    if chosen.threads and not chosen.parallel and parallel.has_loops(function.body):
        warnings.warn(
            f"{function.name}: parallel loops run on one thread, because {chosen} has no OpenMP runtime; "
            "Target(…, threads=False) asks for that", RuntimeWarning, stacklevel=3,  # behind what raises Python's limit
        )
    described = signature(function)
    module = Module(_symbol(function.name), chosen)
    write_function(module, module.name, function, described)
    text = module.text()
    outside = tuple(sorted(name for name in module.declare.outside if not name.startswith("llvm.")))
    code = translate(text, chosen, "object")
    return Compiled(described, chosen, text, code, tuple(module.messages), tuple(module.packed), outside)


def write_function(module: Module, symbol: str, function: Function, s: Signature, *, internal: bool = False) -> None:
    """Add a function to a module: one that C calls, or an internal one for other functions of the module."""
    kinds, names = [], [f"%p{i}" for i in range(len(s.params) + len(s.sizes))]
    for param, name in zip((*s.params, *s.sizes), names, strict=True):
        if isinstance(param, Buffer):
            align = f" align {param.align}" if param.align else ""
            kinds.append(f"ptr noalias{'' if s.writes(param) else ' readonly'}{align} {name}")
        else:
            kinds.append(f"{'i64' if param in s.sizes else _passed(param.dtype)} {name}")
    b = module.function(symbol, "i32", kinds, internal=internal, whole=internal)
    x = Statements(module, b)
    for param, name in zip((*s.params, *s.sizes), names, strict=True):
        if isinstance(param, Buffer):
            x.memory[param.data] = Value(name, "ptr")
        elif param in s.sizes:
            x.indices[param] = Value(name, "i64")
        else:
            given = Value(name, _passed(param.dtype))
            if param.dtype.is_bool:
                given = b.icmp("ne", given, int_constant("i8", 0))
            elif ty.is_narrow(param.dtype):
                given = from_bits(b, module.target, param.dtype, given)
            if param.size:
                x.indices[param] = given if param.dtype is INT64 else b.convert("sext", given, "i64")
            else:
                x.values[param] = given
    for required in s.requires:
        x.run(Evaluate(effect("assert_that", required.condition, required.reason)))
    x.run(function.body)
    b.ret(int_constant("i32", 0))
    module.finish(b)


def _symbol(name: str) -> str:
    return f"own.{name}" if is_word(name) or is_taken(name) else name


def _passed(dtype: Any) -> str:
    """The LLVM type of a scalar argument."""
    return "i8" if dtype.is_bool else "i16" if ty.is_narrow(dtype) else ty.value_type(dtype)


def translate(text: str, target: Target, to: str) -> bytes:
    """Run LLVM on a module: here for this machine's architecture, in a process of its own for others.

    What LLVM does not know it often meets with an assertion, which ends the process; a processor and features that a person
    wrote may well be such a case.
    """
    return machine_code(text, target, to) if target.is_known else _in_child(text, target, to)


@functools.cache
def check_target(target: Target) -> None:
    """Raise CodegenError for a triple or a processor that LLVM does not know, before anything is made for it."""
    if not target.is_known:
        _in_child(_NOTHING, target, "assembly")


def _in_child(text: str, target: Target, to: str) -> bytes:
    asked = {"triple": target.triple, "cpu": target.cpu, "features": target.features, "to": to, "text": text}
    command = [sys.executable, "-m", "vtakit.compiler.codegen.llvm.child"]
    done = subprocess.run(command, input=json.dumps(asked).encode(), capture_output=True, check=False)
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    unknown = [line.partition(" (")[0] for line in said if "is not a recognized" in line]
    if unknown:
        raise CodegenError(f"no code for {target}: LLVM says {unknown[0]}")
    if done.returncode:
        telling = [line for line in said if "LLVM ERROR" in line or "Assertion" in line]
        why = (telling or said[-1:] or [f"it ended with status {done.returncode}"])[0]
        raise CodegenError(f"no code for {target}: {why.removeprefix('CodegenError: ')}")
    return done.stdout

