"""`vtakit.build`: from a schedule to a function that takes NumPy arrays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
