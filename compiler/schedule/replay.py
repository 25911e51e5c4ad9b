"""Doing the steps of a trace on the schedule of a freshly built program."""

import ast
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.compiler.ir.base import OPERATORS
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import all_of, any_of, maximum, minimum, negate, truncdiv, truncmod
from vtakit.compiler.ir.values import cast, wrap
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.stage import Stage, Stages
from vtakit.compiler.schedule.trace import KINDS, Step
from vtakit.compiler.te.language import thread_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "min": minimum, "max": maximum, "truncdiv": truncdiv, "truncmod": truncmod,
    "int32": lambda x: cast(x, "int32"), "int64": lambda x: cast(x, "int64"),
}
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
}


class Replay:
    """The state of doing the steps of a trace: what its names stand for in the schedule."""

    def __init__(self, schedule: Stages, intrinsics: dict[str, Any]) -> None:
        self.schedule = schedule
        self.intrinsics = schedule.intrinsics | intrinsics
        self.stages: dict[str, Stage] = {stage.label: stage for stage in schedule.stages}
        self.axes: dict[tuple[str, str], IterVar] = {}
        self.threads: dict[str, IterVar] = {}

    def run(self, steps: Sequence[Step]) -> None:
        """Do the steps; raises ScheduleError with the number and text of one that cannot be done."""
        for at, step in enumerate(steps):
            try:
                self.do(step)
            except (VtakitError, TypeError, LookupError, ValueError, SyntaxError) as error:
                raise ScheduleError(f"step {at} of the trace, {step}: {error}") from error

    def do(self, step: Step) -> None:
        """Do one step."""
        on: Any = self.stage(step.on) if step.on else self.schedule
        around = self.stage(step.args.get("parent", step.on)) if step.on else None
        if step.do == "rfactor":
            around = self.schedule[self.tensor(step.args["tensor"])]
        args = {name: self.value(value, name, around) for name, value in step.args.items()}
        spread: list[Any] = args.pop("axes", [])
        if step.do == "env_threads":
            args = {"threads": args["threads"]}
        if step.do == "cache_write":
            args = {"tensor": args["tensors"] if len(args["tensors"]) > 1 else args["tensors"][0], "scope": args["scope"]}
        primitive = getattr(on, step.do)
        inspect.signature(primitive).bind(*spread, **args)  # its message about a missing argument names no class
        made = primitive(*spread, **args)
        results = [] if made is None else [*made] if isinstance(made, list | tuple) else [made]
        for name, result in zip(step.gives, results, strict=False):
            if isinstance(result, IterVar):
                self.axes[step.on, name] = result
            else:
                self.stages[name] = result if isinstance(result, Stage) else self.schedule[result]

    def stage(self, label: str) -> Stage:
        """Return the stage that a name of the trace stands for."""
        if label not in self.stages:
            raise ScheduleError(f"{label!r} is no stage: {one_of(self.stages, label)}")
        return self.stages[label]

    def tensor(self, given: Any) -> Tensor:
        """Return a tensor by the name of its stage."""
        label, index = given if isinstance(given, list) else (given, 0)
        return self.stage(label).op.output(index)

    def value(self, value: Any, name: str, around: Stage | None) -> Any:
        """Return an argument as the primitive takes it."""
        kind = KINDS[name]
        if name == "tensors":
            one = not isinstance(value, list) or isinstance(value[-1], int)
            return [self.tensor(item) for item in ([value] if one else value)]
        if kind == "tensor":
            return self.tensor(value)
        if isinstance(value, list):
            return [self.value(item, name, around) for item in value]
        if value is None or kind == "plain":
            return self.intrinsic(value) if name == "intrin" else value
        if kind == "thread":
            return self.thread(value)
        if kind == "expr":
            return self.expression(ast.parse(value["expr"], mode="eval").body, around) if isinstance(value, dict) else value
        if name in ("axis", "axes"):
            assert around is not None
            label = next((key for key, stage in self.stages.items() if stage is around and (key, value) in self.axes), "")
            return self.axes.get((label, value), value)
        return self.stage(value)

    def intrinsic(self, name: str) -> Any:
        """Return a tensor intrinsic by its name."""
        if name not in self.intrinsics:
            known = one_of(self.intrinsics, name) if self.intrinsics else "there is none"
            raise ScheduleError(f"{name!r} is no intrinsic at hand ({known}): give it in replay(…, intrinsics=…)")
        return self.intrinsics[name]

    def thread(self, given: dict[str, Any]) -> IterVar:
        """Return the thread axis of a name: one object wherever the trace has that name."""
        if given["name"] not in self.threads:
            extent = given.get("extent")
            self.threads[given["name"]] = thread_axis(None if extent is None else (0, extent), given["tag"], given["name"])
        return self.threads[given["name"]]

    @cached_property
    def sizes(self) -> dict[str, Var]:
        """The sizes and parameters of the program by name."""
        found: dict[str, Var] = {}
        for stage in self.schedule.stages:
            exprs = [extent for tensor in stage.op.outputs for extent in tensor.shape]
            if isinstance(stage.op, ComputeOp):
                exprs += stage.op.body
            found |= {var.name: var for e in exprs for var in free_vars(e) if var.size}
        return found

    def expression(self, node: ast.expr, around: Stage | None) -> Expr:
        """Return an expression of sizes, of the axes of a stage, and of thread axes."""
        def part(inner: ast.expr) -> Expr:
            return self.expression(inner, around)

        match node:
            case ast.Constant(value=int() as number):
                return wrap(number)
            case ast.Name(id=name):
                axes = {label: axis.var for axis, label in around.axis_labels.items()} if around else {}
                known = self.sizes | {label: axis.var for label, axis in self.threads.items()} | axes
                if name not in known:
                    raise ScheduleError(f"{name!r} is no size, axis or thread of the program: {one_of(known, name)}")
                return known[name]
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _SYMBOLS:
                return OPERATORS[_SYMBOLS[type(op)]](part(a), part(b))
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _SYMBOLS:
                return OPERATORS[_SYMBOLS[type(op)]](part(a), part(b))
            case ast.BoolOp(op=op, values=values):
                return (all_of if isinstance(op, ast.And) else any_of)(*map(part, values))
            case ast.UnaryOp(op=ast.Not(), operand=a):
                return negate(part(a))
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return -part(a)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(part, args))
        raise ScheduleError(f"the expression {ast.unparse(node)!r} is none of sizes: use + - * // % and min, max")
