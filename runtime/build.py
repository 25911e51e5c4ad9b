<<<<<<< HEAD
"""`vtakit.build`: from a schedule to a function that takes NumPy arrays."""
=======
"""From a schedule to a function that takes arrays."""
>>>>>>> bc180a001e56c698eee866b0c16e096d26382168

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

<<<<<<< HEAD
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.stmt import Function as Program
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.errors import VtakitError
from vtakit.runtime.cpu.function import Function
from vtakit.runtime.cpu.function import build as build_for_cpu

TARGETS = ("llvm",)


class BuildError(VtakitError):
    """A request to `build` that makes no sense."""


def build(
    program: Schedule | Program, args: Sequence[Tensor | Var | Buffer] = (), target: str | Target = "llvm", *, name: str = "main",
    packed: Mapping[str, Callable[..., Any]] | None = None, libraries: tuple[str | Path, ...] = (),
) -> Function:
    """Compile a schedule, or a function that `vtakit.lower` made, into a function that takes NumPy arrays.

    args      : of a schedule: the tensors and variables that the function takes, in order
    target    : "llvm" for this machine's processor with all its features, or a `Target` whose code runs here
    packed    : Python functions that the program calls, by name
    libraries : shared libraries with the C functions that the program calls

    Raises LowerError or VerifyError for a schedule that makes no safe program, CodegenError where there is no machine code for
    it, BuildError for arguments that do not go together.
    """
    if isinstance(target, str) and target not in TARGETS:
        raise BuildError(f"target {target!r} is not known: use one of {', '.join(map(repr, TARGETS))}, or a Target")
    if isinstance(program, Program):
        if args:
            raise BuildError(f"function {program.name!r} is lowered already, so it has its arguments: leave args out")
        lowered = program
    else:
        lowered = lower(program, args, name)
    chosen = None if isinstance(target, str) else target
    return build_for_cpu(lower_late(lowered, "cpu"), chosen, packed=packed, libraries=libraries)
=======
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.lower import Limits, lower
from vtakit.compiler.passes import lower_late
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor
from vtakit.runtime.cpu import function as cpu


def build(
    schedule: Schedule, args: Sequence[Tensor | Var | Buffer], target: str | Target = "llvm", name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None,
    packed: Mapping[str, Callable[..., Any]] | None = None, libraries: tuple[str | Path, ...] = (),
) -> cpu.Function:
    """Lower a schedule, check it, and compile it into a function of NumPy arrays.

    args      : the function's parameters in order: tensors that it reads and makes, scalar variables, buffers
    target    : "llvm" for this machine, or a `vtakit.compiler.codegen.llvm.target.Target` whose code this machine can run
    binds     : the buffer of an argument, where its layout is not the plain one
    limits    : of the device, for the verifier
    packed    : Python functions that the program calls, by name
    libraries : shared libraries with the C functions that it calls

    Raises LowerError or VerifyError for a schedule that no correct program can be made of, CodegenError for a target.
    """
    if isinstance(target, str) and target != "llvm":
        raise CodegenError(f"{target!r} is no target: use 'llvm', or a Target of vtakit.compiler.codegen.llvm.target")
    low = lower_late(lower(schedule, args, name, binds=binds or {}, limits=limits))
    return cpu.build(low, target if isinstance(target, Target) else None, packed=packed, libraries=libraries)
>>>>>>> bc180a001e56c698eee866b0c16e096d26382168
