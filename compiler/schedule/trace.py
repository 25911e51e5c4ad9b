"""The trace of a schedule: what was done, as data and as text that reads like the calls.

One step a line, with the names of stages and axes as the schedule labels them::

    i_outer, i_inner = C.split(i, factor=8)
    C.reorder(i_outer, j, i_inner)
    A_shared = cache_read(A, "shared", readers=[C])
    C.bind(i_outer, thread("blockIdx.x", name="bx"))
    C.choose("width", [8, 16], default=8, chosen=16, rule="my_rule")

Everything in a step is plain data (numbers, strings, lists, dictionaries), so that a tuner can change it; results may be
given any names, which later steps then use.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from vtakit.base.errors import one_of
from vtakit.compiler.schedule.errors import ScheduleError

# Parameters of each primitive in order. "*" takes all that follow, "=" is written by name.
# What a parameter holds is told by its name (see KINDS).
OF_STAGE: dict[str, tuple[str, ...]] = {
    "split": ("axis", "factor=", "nparts="), "fuse": ("*axes",), "reorder": ("*axes",), "vectorize": ("axis",),
    "parallel": ("axis",), "unroll": ("axis",), "bind": ("axis", "thread"), "pragma": ("axis", "key", "value"),
    "prefetch": ("tensor", "axis", "offset"),
    "tensorize": ("axis", "intrin"), "compute_at": ("parent", "axis"), "compute_inline": (), "compute_root": (),
    "set_scope": ("scope",), "storage_align": ("axis", "factor", "offset"), "double_buffer": ("stages=",),
    "async_copy": (), "swizzle": ("bytes",), "whole": ("axis",),
    "env_threads": ("*threads",),
    "set_store_predicate": ("predicate",), "choose": ("name", "candidates", "default=", "chosen=", "rule="),
}
OF_SCHEDULE: dict[str, tuple[str, ...]] = {
    "cache_read": ("tensor", "scope", "readers="), "cache_write": ("tensors", "scope"),
    "rfactor": ("tensor", "axis", "factor_axis="),
    "create_group": ("outputs", "inputs", "include_inputs="),
}
KINDS = {
    "axis": "label", "axes": "label", "parent": "label", "readers": "label", "outputs": "label", "inputs": "label",
    "tensor": "tensor", "tensors": "tensor", "thread": "thread", "threads": "thread",
    "name": "plain", "candidates": "plain", "default": "plain", "chosen": "plain", "rule": "plain",
    "factor": "expr", "nparts": "expr", "offset": "expr", "value": "expr", "predicate": "expr",
    "key": "plain", "stages": "plain", "bytes": "plain", "scope": "plain", "intrin": "plain", "factor_axis": "plain",
    "include_inputs": "plain",
}


class Step(NamedTuple):
    """One primitive.

    on    : the label of the stage, "" for a primitive of the schedule; do : its name
    args  : by name; axes and stages by their labels, a tensor by that of its stage, an expression as ``{"expr": "n // 4"}``
    gives : the labels of the axes or stages that it made
    """

    on: str
    do: str
    args: dict[str, Any]
    gives: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = []
        for param in (OF_SCHEDULE if not self.on else OF_STAGE)[self.do]:
            name = param.strip("*=")
            value = self.args.get(name)
            if param.startswith("*"):
                words += [_text(item, KINDS[name]) for item in value or ()]
            elif value is not None:
                words.append(f"{name}={_text(value, KINDS[name])}" if param.endswith("=") else _text(value, KINDS[name]))
        made = f"{', '.join(self.gives)} = " if self.gives else ""
        return f"{made}{self.on + '.' if self.on else ''}{self.do}({', '.join(words)})"


def _text(value: Any, kind: str) -> str:
    if kind == "tensor" and isinstance(value, list) and len(value) == 2 and isinstance(value[1], int):
        return f"{value[0]}[{value[1]}]"
    if isinstance(value, list):
        return f"[{', '.join(_text(item, kind) for item in value)}]"
    if kind == "thread":
        extent = f", extent={value['extent']}" if "extent" in value else ""
        return f"thread({json.dumps(value['tag'])}, name={json.dumps(value['name'])}{extent})"
    if isinstance(value, dict):
        return str(value["expr"])
    return str(value) if kind in ("label", "tensor") else json.dumps(value) if isinstance(value, str) else repr(value)


class Trace(NamedTuple):
    """The steps of a schedule, in order; `str` gives the text."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def to_json(self) -> str:
        """The steps as a JSON array of objects {on, do, args, gives}."""
        return json.dumps([{"on": s.on, "do": s.do, "args": s.args, "gives": [*s.gives]} for s in self.steps])

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """The trace that `to_json` wrote. Raises ScheduleError for anything else."""
        try:
            items = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise ScheduleError(f"the trace is no JSON: {error}") from None
        if not isinstance(items, list):
            raise ScheduleError("the trace is no JSON array of steps")
        return cls(tuple([_checked(item, at) for at, item in enumerate(items)]))

    @classmethod
    def from_text(cls, text: str) -> "Trace":
        """The trace that `str` wrote. Raises ScheduleError, with the line, for anything else."""
        return cls(tuple(_parsed(text)))


def _checked(item: Any, at: int) -> Step:
    """A step from JSON, with all that can be wrong about its form."""
    where = f"step {at} of the trace"
    if not isinstance(item, dict) or not isinstance(item.get("do"), str) or not isinstance(item.get("args", {}), dict):
        raise ScheduleError(f"{where}, {item!r}, is no object with on, do, args and gives")
    on, do, args, gives = str(item.get("on", "")), item["do"], item.get("args", {}), item.get("gives", [])
    known = OF_STAGE if on else OF_SCHEDULE
    if do not in known:
        raise ScheduleError(f"{where}: {do!r} is no primitive of a {'stage' if on else 'schedule'}: {one_of(known, do)}")
    names = [param.strip("*=") for param in known[do]]
    for name in args:
        if name not in names:
            raise ScheduleError(f"{where}: {do} has no argument {name!r}: {one_of(names, name) if names else 'it has none'}")
        for thread in args[name] if name == "threads" and isinstance(args[name], list) else [args[name]]:
            if KINDS[name] == "thread" and not (isinstance(thread, dict) and {"tag", "name"} <= thread.keys()):
                raise ScheduleError(f"{where}: {thread!r} is no thread axis: give its tag and name")
    if not isinstance(gives, list | tuple):
        raise ScheduleError(f"{where}: gives is {gives!r}: give the list of the names that it makes")
    return Step(on, do, args, tuple(map(str, gives)))


def _parsed(text: str) -> Iterator[Step]:
    """The steps of a trace's text."""
    try:
        lines = ast.parse(text).body
    except SyntaxError as error:
        raise ScheduleError(f"line {error.lineno} of the trace cannot be read: {error.msg}") from None
    except (TypeError, ValueError) as error:
        raise ScheduleError(f"the trace is no text: {error}") from None
    for at, node in enumerate(lines):
        gives: tuple[str, ...] = ()
        call: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            gives, call = tuple([ast.unparse(part) for part in parts]), node.value
        elif isinstance(node, ast.Expr):
            call = node.value
        if not isinstance(call, ast.Call):
            raise ScheduleError(f"line {node.lineno} of the trace, {ast.unparse(node)!r}, is no call of a primitive")
        on = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        do = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        params = (OF_STAGE if on else OF_SCHEDULE).get(do, ())
        args: dict[str, Any] = {}
        for place, value in enumerate(call.args):
            if params and params[-1].startswith("*") and place >= len(params) - 1:
                name = params[-1].strip("*")
                args.setdefault(name, []).append(_value(value, KINDS[name]))
            elif place < len(params):
                name = params[place].strip("=")
                args[name] = _value(value, KINDS[name])
            elif params or do in OF_STAGE or do in OF_SCHEDULE:
                raise ScheduleError(f"line {node.lineno} of the trace: {do} takes {len(params)} arguments, got {len(call.args)}")
        for keyword in call.keywords:
            args[str(keyword.arg)] = _value(keyword.value, KINDS.get(str(keyword.arg), "plain"))
        if params and params[-1].startswith("*"):
            args.setdefault(params[-1].strip("*"), [])
        yield _checked({"on": on, "do": do, "args": args, "gives": gives}, at)


def _value(node: ast.expr, kind: str) -> Any:
    """An argument of a line as data."""
    if isinstance(node, ast.List):
        return [_value(item, kind) for item in node.elts]
    if isinstance(node, ast.Constant):
        return node.value
    if kind == "tensor" and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return [ast.unparse(node.value), node.slice.value]
    if kind == "thread" and isinstance(node, ast.Call) and len(node.args) == 1:
        try:
            named = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            return {"tag": ast.literal_eval(node.args[0])} | named
        except ValueError:
            truth = f"{ast.unparse(node)!r} is no thread axis"
            raise ScheduleError(f"line {node.lineno} of the trace: {truth}: give its tag and name") from None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return ast.literal_eval(node)
    return {"expr": ast.unparse(node)} if kind == "expr" else ast.unparse(node)
