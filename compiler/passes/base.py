"""Passes, and the function that runs a list of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vtakit.base.errors import VtakitError
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.printer import function_text
from vtakit.compiler.ir.stmt import Function, Stmt


class PassError(VtakitError, ValueError):
    """A program that a pass cannot lower; the message ends with the program and a mark."""

    def __init__(self, what: str, function: Function, mark: Stmt | None = None) -> None:
        super().__init__(f"{what}\n\n{function_text(function, mark)}")


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step from a function to one of the same meaning."""

    name: str
    run: Callable[[Function], Function]


@deep()
def run_passes(
    function: Function, passes: Iterable[Pass], after: Callable[[Pass, Function], None] | None = None
) -> Function:
    """The function after all passes; `after` sees each step's result: to print it, to verify it, to run it."""
    for step in passes:
        function = step.run(function)
        if after is not None:
            after(step, function)
    return function
