"""From a schedule to a function that takes arrays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.llvm.target import Target as CpuTarget
from vtakit.compiler.codegen.vta.compile import Progress
from vtakit.compiler.codegen.vta.target import Target as VtaTarget
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.lower import Limits, lower
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.passes.pragmas import check_pragmas
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ExternOp
from vtakit.compiler.te.tensor import Tensor
from vtakit.runtime.target import Target
from vtakit.runtime.targets import find_target

if TYPE_CHECKING:
    from vtakit.runtime.cpu.function import Function
    from vtakit.runtime.vta.driver import Driver
    from vtakit.runtime.vta.function import Accelerated

Args = Sequence[Tensor | Var | Buffer]


@overload
def build(
    schedule: Schedule, args: Args, target: Literal["llvm"] | CpuTarget = "llvm", name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None,
    packed: Mapping[str, Callable[..., Any]] | None = None, libraries: tuple[str | Path, ...] = (),
) -> "Function": ...
@overload
def build(
    schedule: Schedule, args: Args, target: Literal["vta"] | VtaTarget, name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None, device: "str | Driver" = "fsim",
    timeout_s: float = TIMEOUT_S, check: bool | None = None, progress: Progress | None = None, **options: Any,
) -> "Accelerated": ...
@overload
def build(
    schedule: Schedule, args: Args, target: str | Target, name: str = "main", *, binds: Mapping[Tensor, Buffer] | None = None,
    limits: Limits | None = None, **options: Any,
) -> Any: ...
def build(
    schedule: Schedule, args: Args, target: Any = "llvm", name: str = "main", *,
    binds: Mapping[Tensor, Buffer] | None = None, limits: Limits | None = None, **options: Any,
) -> Any:
    """Lower a schedule, check it, and compile it into a function of NumPy arrays.

    args      : the function's parameters in order: tensors that it reads and makes, scalar variables, buffers
    target    : a name, one of `vtakit.targets()`: "llvm" for this machine, "vta" for the accelerator's default configuration; or
                what `vtakit.target` makes. Code for a machine that this one cannot run is to be saved, with the function's
                `compiled.save_library` or `compiled.save_object`
    binds     : the buffer of an argument, where its layout is not the plain one
    limits    : for the verifier; the target's own if None
    options   : of the target

    Options of "llvm":

    packed    : Python functions that the program calls, by name
    libraries : shared libraries with the C functions that it calls

    Options of "vta", and those of its device, as `latency=100` (see `vtakit.runtime.vta.connect`):

    device    : "fsim", "rtl", the hardware in Verilator, or "cycle", with the cycles of "rtl"; or a `vtakit.runtime.vta.Driver`
    timeout_s : seconds that a run may take
    check     : whether the static checker proves the program; None for one of at most 1000 instructions
    progress  : is called with how much of a program is made, and of how much: a large one takes seconds

    Raises LowerError or VerifyError for a schedule that no correct program can be made of, LowerError for a result that is no
    argument, PassError for a pragma that nothing knows, TargetError for a target or an option, VtaError for what the accelerator
    cannot run,
    CompilerDefectError if the code generator has made an illegal program.
    """
    chosen = find_target(target)
    with shallow(name):
        function = lower(schedule, args, name, binds=binds or {}, limits=chosen.limits if limits is None else limits)
        _check_results(schedule, args, binds or {}, name)
        check_pragmas(function)
        return chosen.function(function, options)


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
