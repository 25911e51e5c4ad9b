"""The row of late passes for each kind of target."""

from collections.abc import Callable

from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.passes.base import Pass, run_passes
from vtakit.compiler.passes.blocks import inline_blocks
from vtakit.compiler.passes.flatten import flatten

TARGET_KINDS = ("cpu", "gpu")


def late_passes(target_kind: str) -> tuple[Pass, ...]:
    """The passes for a kind of target, "cpu" or "gpu", in order; raises ValueError for another."""
    if target_kind not in TARGET_KINDS:
        raise ValueError(f"{target_kind!r} is no kind of target: use one of {', '.join(TARGET_KINDS)}")
    return (
        Pass("inline_blocks", inline_blocks),
        Pass("flatten", flatten),
    )


def lower_late(
    function: Function, target_kind: str = "cpu", *, after: Callable[[Pass, Function], None] | None = None
) -> Function:
    """A function in the low form (see `vtakit.compiler.passes`).

    after : sees the result of each pass, for dumps (``after=lambda step, f: print(step.name, f, sep="\\n")``) and checks

    Raises PassError where the program cannot be lowered.
    """
    return run_passes(function, late_passes(target_kind), after)
