"""From a schedule to a function that takes arrays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.lower import Limits, lower
from vtakit.compiler.lower.function import shallow
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
    if not isinstance(target, Target) and target != "llvm":
        raise CodegenError(f"{target!r} is no target: use 'llvm', or a Target of vtakit.compiler.codegen.llvm.target")
    with shallow(name):
        low = lower_late(lower(schedule, args, name, binds=binds or {}, limits=limits))
        return cpu.build(low, target if isinstance(target, Target) else None, packed=packed, libraries=libraries)
