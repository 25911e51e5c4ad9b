"""Work of the host between launches: order, loops, conditions, checks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtakit.compiler.ir.expr import Expr, Var


@dataclass(frozen=True, slots=True)
class Run:
    """Run the launch with the number `launch` of the program."""

    launch: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """``for var in range(extent): steps``; launches within may have `var` as a parameter."""

    var: Var
    extent: Expr
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Choose:
    """``if condition: then else: otherwise``."""

    condition: Expr
    then: "tuple[Step, ...]"
    otherwise: "tuple[Step, ...]" = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """``var = value; steps``."""

    var: Var
    value: Expr
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Check:
    """Fail with `reason` unless `condition` holds."""

    condition: Expr
    reason: str


Step = Run | Repeat | Choose | Bind | Check


def runs(steps: Sequence[Step]) -> Iterator[int]:
    """Yield the numbers of the launches in the steps, in program order, each as often as it is named."""
    for step in steps:
        match step:
            case Run():
                yield step.launch
            case Repeat() | Bind():
                yield from runs(step.steps)
            case Choose():
                yield from runs((*step.then, *step.otherwise))
