"""From a schedule to a function that takes arrays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.vta.compile import Progress
from vtakit.compiler.codegen.vta.target import Target as VtaTarget
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.lower import Limits, lower
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.passes import lower_late
from vtakit.compiler.passes.pragmas import check_pragmas
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ExternOp
from vtakit.compiler.te.tensor import Tensor
from vtakit.runtime.accelerated import Accelerated
from vtakit.runtime.cpu import function as cpu
from vtakit.runtime.vta.driver import Driver
from vtakit.runtime.vta.loaded import TIMEOUT_S

Args = Sequence[Tensor | Var | Buffer]


@overload
def build(
    schedule: Schedule, args: Args, target: Literal["llvm"] | Target = "llvm", name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None,
    packed: Mapping[str, Callable[..., Any]] | None = None, libraries: tuple[str | Path, ...] = (),
) -> cpu.Function: ...
@overload
def build(
    schedule: Schedule, args: Args, target: Literal["vta"] | VtaTarget, name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None, device: str | Driver = "fsim",
    timeout_s: float = TIMEOUT_S, check: bool | None = None, progress: Progress | None = None, **options: Any,
) -> Accelerated: ...
def build(
    schedule: Schedule, args: Args, target: str | Target | VtaTarget = "llvm", name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None,
    packed: Mapping[str, Callable[..., Any]] | None = None, libraries: tuple[str | Path, ...] = (),
    device: str | Driver = "fsim", timeout_s: float = TIMEOUT_S, check: bool | None = None, progress: Progress | None = None,
    **options: Any,
) -> cpu.Function | Accelerated:
    """Lower a schedule, check it, and compile it into a function of NumPy arrays.

    args      : the function's parameters in order: tensors that it reads and makes, scalar variables, buffers
    target    : "llvm" for this machine, or a `vtakit.compiler.codegen.llvm.target.Target`; what is made for one whose code this
                machine cannot run is to be saved, with the function's `compiled.save_library` or `compiled.save_object`;
                "vta" for the accelerator's default configuration, or what `vtakit.compiler.codegen.vta.target.vta` makes
    binds     : the buffer of an argument, where its layout is not the plain one
    limits    : of the device, for the verifier
    packed    : Python functions that the program calls, by name
    libraries : shared libraries with the C functions that it calls
    device    : of the accelerator: "fsim", or "rtl", the hardware in Verilator; or a `vtakit.runtime.vta.Driver`
    timeout_s : seconds that a run on the accelerator may take
    check     : whether the static checker proves the accelerator's program; None for one of at most 1000 instructions
    progress  : is called with how much of a program for the accelerator is made, and of how much: a large one takes seconds
    options   : of the device, as `latency=100`: see `vtakit.runtime.vta.connect`

    Raises LowerError or VerifyError for a schedule that no correct program can be made of, LowerError for a result that is no
    argument, PassError for a pragma that nothing knows, CodegenError for a target, VtaError for what the accelerator cannot run,
    CompilerDefectError if the code generator has made an illegal program.
    """
    if not isinstance(target, Target | VtaTarget) and target not in ("llvm", "vta"):
        raise CodegenError(f"{target!r} is no target: use 'llvm' or 'vta', or a Target of vtakit.compiler.codegen.llvm.target")
    on_device = target == "vta" or isinstance(target, VtaTarget)
    given = [*sorted(options), *["device"] * (device != "fsim"), *["check"] * (check is not None),
             *["progress"] * (progress is not None)]
    if not on_device and given:
        raise CodegenError(f"{given[0]} is no argument of a build for a CPU; it is one of those for the accelerator")
    with shallow(name):
        function = lower(schedule, args, name, binds=binds or {}, limits=limits)
        _check_results(schedule, args, binds or {}, name)
        check_pragmas(function)
        if on_device:
            own = target if isinstance(target, VtaTarget) else vta()
            return Accelerated(function, own, device, timeout_s, check, progress, **options)
        low = lower_late(function)
        return cpu.build(low, target if isinstance(target, Target) else None, packed=packed, libraries=libraries)


def _check_results(schedule: Schedule, args: Args, binds: Mapping[Tensor, Buffer], name: str) -> None:
    """Raise LowerError for a result that the function would compute and throw away: of several values one must be an argument."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)] + [tensor for tensor, buffer in binds.items() if buffer in args]
    given = {schedule[tensor].label for tensor in tensors}
    for op in schedule.outputs:
        if not isinstance(op, ExternOp) and schedule[op].label not in given:  # what an extern does may be more than its results
            raise LowerError(
                "arguments", f"{op.name}, a result of the schedule, is no argument of {name!r}: nobody could see it",
                f"give it: vtakit.build(s, [..., {op.name}])",
            )
