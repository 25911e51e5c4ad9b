"""The host's work between launches as a Python function."""

from collections.abc import Callable, Mapping
from typing import Any

from vtakit.compiler.codegen.gpu.launches import Program
from vtakit.compiler.codegen.gpu.steps import Bind, Check, Choose, Repeat, Run, Step
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.lower.interpreter.expressions import Expressions

Grid = tuple[int, int, int]
Launcher = Callable[[int, Grid, tuple[Any, ...]], None]  # number of the launch, its grid, its scalar arguments
Failure = Callable[[Check], Exception]


class HostCode:
    """The steps of a program, translated once.

    Expressions mean what they do in the interpreter, whose translation to Python this uses.
    """

    @deep()
    def __init__(self, program: Program) -> None:
        self.program = program
        self._exprs = Expressions({})
        self._lines: list[str] = []
        self._checks: list[Check] = []
        scalars = [param for param in program.function.params if isinstance(param, Var)]
        self.scalars = (*scalars, *program.sizes)
        names = [self._exprs.bind(var, *((0, float("inf")) if var.size else ())) for var in self.scalars]
        given = "".join(f"{name}, " for name in names)
        sizes = "".join(f"{self._text(each.shape[0])}, " for each in program.workspaces)
        self._lines.append(f"def workspaces({given}):")
        self._lines.append(f"    return ({sizes})")
        self._lines.append(f"def run(launch, fail, {given}):")
        self._lines.append("    pass")
        for step in program.steps:
            self._step(step, 1)
        scope = self._exprs.globals
        scope["checks"] = self._checks
        exec(compile("\n".join(self._lines), "<host code>", "exec"), scope)
        self._run, self._workspaces = scope["run"], scope["workspaces"]

    def run(self, values: Mapping[Var, Any], launch: Launcher, fail: Failure) -> None:
        """Make the launches of one call.

        values : of the scalar parameters and sizes
        fail   : the error for a condition that does not hold
        """
        self._run(launch, fail, *[values[var] for var in self.scalars])

    def workspaces(self, values: Mapping[Var, Any]) -> tuple[int, ...]:
        """Return the elements of each workspace."""
        found: tuple[int, ...] = self._workspaces(*[values[var] for var in self.scalars])
        return found

    def _text(self, e: Expr) -> str:
        return self._exprs.text(e)

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _step(self, step: Step, depth: int) -> None:
        match step:
            case Run():
                launch = self.program.launches[step.launch]
                grid = ", ".join(map(self._text, launch.grid))
                scalars = "".join(f"{self._text(param)}, " for param in launch.params if isinstance(param, Var))
                self._line(depth, f"launch({step.launch}, ({grid}), ({scalars}))")
            case Check():
                self._line(depth, f"if not {self._text(step.condition)}:")
                self._line(depth + 1, f"raise fail(checks[{len(self._checks)}])")
                self._checks.append(step)
            case Repeat():
                extent = self._text(step.extent)
                name = self._exprs.bind(step.var, 0)
                self._line(depth, f"for {name} in range({extent}):")
                self._inside(step.steps, depth)
            case Bind():
                text = self._text(step.value)
                self._line(depth, f"{self._exprs.bind(step.var)} = {text}")
                for each in step.steps:
                    self._step(each, depth)
            case Choose():
                self._line(depth, f"if {self._text(step.condition)}:")
                self._inside(step.then, depth)
                self._line(depth, "else:")
                self._inside(step.otherwise, depth)

    def _inside(self, steps: tuple[Step, ...], depth: int) -> None:
        self._line(depth + 1, "pass")
        for each in steps:
            self._step(each, depth + 1)
