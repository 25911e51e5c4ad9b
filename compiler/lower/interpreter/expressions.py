"""Expressions as Python text, with the interval of integer values: where it fits the type, nothing needs wrapping or checking.

A vector is computed lane by lane: in `lane` L, a ramp is ``base + stride * L``, a broadcast its value, and any operation
that of its operands' lanes.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower.interpreter.errors import InterpretError, OutOfBoundsError
from vtakit.compiler.lower.interpreter.intervals import Code, interval
from vtakit.compiler.lower.interpreter.memory import Pointer
from vtakit.compiler.lower.interpreter.numbers import HELPERS, MATH, float_type, numpy_type

INF = math.inf


def out_of_bounds(name: str, *index_and_extent: int) -> int:
    at, extent = index_and_extent[::2], index_and_extent[1::2]
    raise OutOfBoundsError(f"{name}[{', '.join(map(str, at))}] is outside its shape [{', '.join(map(str, extent))}]")


class Expressions:
    """The translator; `names` and `bounds` of variables and `memory` of addresses are filled by the statements around."""

    def __init__(self, packed: Mapping[str, Callable[..., Any]]) -> None:
        self.packed = packed
        self.names: dict[ir.Var, str] = {}
        self.bounds: dict[ir.Var, tuple[float, float]] = {}
        self.memory: dict[ir.Var, str] = {}  # the Python variable with the cells of an address
        self.typed: dict[tuple[ir.Var, DType], str] = {}  # memory that is used as several types
        self.mask = ""  # the Python variable that says which lanes run, within a condition that differs between them
        self.globals: dict[str, Any] = dict(HELPERS)
        self.globals |= {"out_of_bounds": out_of_bounds, "Pointer": Pointer}
        self._count = 0

    def fresh(self, base: str) -> str:
        self._count += 1
        return f"{''.join(c if c.isalnum() else '_' for c in base)}_{self._count}"

    def define(self, base: str, value: Any) -> str:
        """A global of the generated code."""
        name = self.fresh(base)
        self.globals[name] = value
        return name

    def bind(self, var: ir.Var, low: float = -INF, high: float = INF) -> str:
        """A Python variable for an IR variable with the values that it may take."""
        name = self.names[var] = self.fresh(var.name)
        if var.dtype.is_int or var.dtype.is_bool:
            self.bounds[var] = max(low, var.dtype.min), min(high, var.dtype.max)
        return name

    def text(self, e: ir.Expr, lane: str = "") -> str:
        return self.code(e, lane).text

    def vector(self, e: ir.Expr) -> str:
        """The value: of a vector as a list of lanes."""
        if e.dtype.lanes == 1:
            return self.text(e)
        lane = self.fresh("lane")
        otherwise = f" if {self.mask}[{lane}] else None" if self.mask else ""
        return f"[{self.text(e, lane)}{otherwise} for {lane} in range({e.dtype.lanes})]"

    def active(self, lane: str) -> str:
        """The end of a comprehension over lanes that leaves out those that a condition around leaves out."""
        return f" if {self.mask}[{lane}]" if self.mask else ""

    def code(self, e: ir.Expr, lane: str = "") -> Code:
        kind = type(e)
        way = _WAYS.get(kind)
        if way is not None:
            return way(self, e, lane)
        if isinstance(e, ir.Binary):
            return self._binary(e, lane)
        raise InterpretError(f"the interpreter runs no {kind.__name__}: {e}")

    # Operations

    def _binary(self, e: ir.Binary, lane: str) -> Code:
        a, b, kind = self.code(e.a, lane), self.code(e.b, lane), type(e)
        if kind in _COMPARES:
            return Code(f"({a.text} {e.symbol} {b.text})")
        if e.a.dtype.is_float:
            return Code(_FLOAT_FORMS[kind].format(a=a.text, b=b.text))
        bits = e.dtype.bits
        text = _INT_FORMS[kind].format(a=a.text, b=b.text, bits=bits)
        low, high = interval(kind, a, b, bits)
        return self.wrapped(text, low, high, e.dtype)

    def wrapped(self, text: str, low: float, high: float, kind: DType) -> Code:
        """An integer brought into its type, if it may be outside."""
        if kind.min <= low and high <= kind.max:
            return Code(text, low, high)
        mask = (1 << kind.bits) - 1
        if kind.code != "int":
            return Code(f"({text} & {mask})", 0, mask)
        half = 1 << kind.bits - 1
        return Code(f"(({text} + {half} & {mask}) - {half})", -half, half - 1)

    def _logic(self, e: Any, lane: str) -> Code:
        return Code(f"({self.text(e.a, lane)} {e.symbol} {self.text(e.b, lane)})")

    def _not(self, e: ir.Not, lane: str) -> Code:
        return Code(f"(not {self.text(e.a, lane)})")

    def _choice(self, e: Any, lane: str) -> Code:
        condition, true, false = (self.code(part, lane) for part in (e.condition, e.true, e.false))
        low, high = min(true.low, false.low), max(true.high, false.high)
        if isinstance(e, ir.Select):
            return Code(f"select({condition.text}, {true.text}, {false.text})", low, high)
        other = false.text[1:-1] if isinstance(e.false, ir.IfThenElse) else false.text  # Python nests 200 parentheses
        return Code(f"({true.text} if {condition.text} else {other})", low, high)

    def _cast(self, e: ir.Cast, lane: str) -> Code:
        value, source, to = self.code(e.value, lane), e.value.dtype, e.dtype
        if to.is_bool:
            return value if source.is_bool else Code(f"({value.text} != 0)")
        if to.is_int:
            if source.is_float:
                return Code(f"to_integer({value.text}, {to.min}, {to.max})", to.min, to.max)
            return self.wrapped(f"int({value.text})" if source.is_bool else value.text, value.low, value.high, to)
        if not to.is_float:
            raise InterpretError(f"the interpreter converts nothing to {to}: {e}")
        target = self._float(to)
        if source.is_int and (value.low < -(1 << 53) or value.high > 1 << 53):
            return Code(f"wide_to_float({value.text}, {target})")
        return Code(f"{target}({value.text})")

    def _float(self, kind: DType) -> str:
        name = str(kind.scalar)
        self.globals.setdefault(name, float_type(kind))
        return name

    # Values

    def _var(self, e: ir.Var, lane: str) -> Code:
        name = self.names.get(e)
        if name is None:
            raise InterpretError(f"the variable {e.name!r} is used where nothing defines it")
        low, high = self.bounds.get(e, (0, 1))
        return Code(f"{name}[{lane}]" if e.dtype.lanes > 1 else name, low, high)

    def _integer(self, e: ir.IntImm, lane: str) -> Code:
        if e.dtype.is_bool:
            return Code("True" if e.value else "False", e.value, e.value)
        return Code(str(e.value) if e.value >= 0 else f"({e.value})", e.value, e.value)

    def _floating(self, e: ir.FloatImm, lane: str) -> Code:
        return Code(self.define("c", float_type(e.dtype)(e.value)))

    def _string(self, e: ir.StringImm, lane: str) -> Code:
        return Code(repr(e.value))

    def _let(self, e: ir.Let, lane: str) -> Code:
        value = self.code(e.value) if e.value.dtype.lanes == 1 else Code(self.vector(e.value), -INF, INF)
        name = self.bind(e.var, value.low, value.high)
        body = self.code(e.body, lane)
        return Code(f"({name} := {value.text}, {body.text})[1]", body.low, body.high)

    def _ramp(self, e: ir.Ramp, lane: str) -> Code:
        base, stride = self.code(e.base), self.code(e.stride)
        ends = [s * i for s in (stride.low, stride.high) for i in (0, e.lanes - 1)]
        return self.wrapped(f"({base.text} + {stride.text} * {lane})", base.low + min(ends), base.high + max(ends), e.dtype)

    def _broadcast(self, e: ir.Broadcast, lane: str) -> Code:
        return self.code(e.value)

    # Memory

    def cell(self, buffer: Buffer, indices: tuple[ir.Expr, ...], lane: str) -> str:
        """The cell of an element; the index is checked where its interval leaves doubt."""
        parts: list[str] = []
        checks: list[str] = []
        shown: list[str] = []
        each = buffer.dtype.lanes
        at_lane = f"({lane} // {each})" if lane and each > 1 else lane
        for index, extent, stride in zip(indices, buffer.shape, buffer.compact_strides(), strict=True):
            found, limit = self.code(index, at_lane if index.dtype.lanes > 1 else ""), self.code(extent)
            text = found.text
            if found.low < 0 or found.high >= limit.low:
                name = self.fresh("at")
                checks.append(f"0 <= ({name} := {text}) < {limit.text}")
                shown.append(f"{name}, {limit.text}")
                text = name
            else:
                shown.append(f"{text}, {limit.text}")
            step = int_value(stride)
            parts.append(text if step == 1 else f"{text} * {self.text(stride)}")
        parts += [self.text(buffer.offset)] if int_value(buffer.offset) != 0 else []
        at = " + ".join(parts) or "0"
        if each > 1:
            at = f"({at}) * {each} + " + (f"{lane} % {each}" if lane else "0")
        if not checks:
            return at
        tests = " & ".join(f"({check})" for check in checks)  # not `and`: all indices are evaluated, for the message
        return f"({at}) if {tests} else out_of_bounds({buffer.name!r}, {', '.join(shown)})"

    def cells(self, buffer: Buffer) -> str:
        found = self.memory.get(buffer.data)
        if found is None:
            raise InterpretError(f"buffer {buffer.name!r} is used where it is neither a parameter nor allocated")
        view = self.typed.get((buffer.data, buffer.dtype.scalar))
        return found if view is None else view

    def _load(self, e: ir.Load, lane: str) -> Code:
        kind = e.buffer.dtype.scalar
        text = f"{self.cells(e.buffer)}[{self.cell(e.buffer, e.indices, lane)}]"
        return Code(text, kind.min, kind.max) if kind.is_int else Code(text)

    def address(self, e: ir.Call) -> str:
        """The `Pointer` that an ``address_of(load, offset, mask)`` is."""
        load, offset, mask = e.args
        assert isinstance(load, ir.Load)
        buffer = load.buffer
        shape = ", ".join(self.text(extent) for extent in buffer.shape)
        kind = self.define("kind", numpy_type(buffer.dtype))
        first = self.cell(buffer, load.indices, "") if all(int_value(i) != 0 for i in load.indices) else self._origin(load)
        return (
            f"Pointer({self.cells(buffer)}, ({first}) + {self.text(offset)}, ({shape}{',' if shape else ''}), "
            f"{kind}, {self.text(mask)}, {buffer.name!r})"
        )

    def _origin(self, load: ir.Load) -> str:
        """The cell of an address's element: it may be outside, since nothing is read there."""
        strides = load.buffer.compact_strides()
        parts = [f"{self.text(i)} * {self.text(s)}" for i, s in zip(load.indices, strides, strict=True) if int_value(i) != 0]
        return " + ".join([*parts, self.text(load.buffer.offset)])

    # Calls

    def _call(self, e: ir.Call, lane: str) -> Code:
        if e.name == "address_of":
            return Code(self.address(e))
        if e.kind == "pure" and e.name in _OWN_CALLS:
            return _OWN_CALLS[e.name](self, e, lane)
        if e.kind == "pure" and e.name in MATH and e.name in _MATH_NAMES:
            name = f"math_{e.name}"
            self.globals.setdefault(name, MATH[e.name])
            return Code(f"{name}({', '.join(self.text(arg, lane) for arg in e.args)})")
        function = self.packed.get(e.name)
        if function is None:
            raise InterpretError(
                f"nothing says what the call {e} means: give interpret(…, packed={{{e.name!r}: a Python function}})"
            )
        low, high = (e.dtype.min, e.dtype.max) if e.dtype.is_int else (0, 1)
        called = f"{self.define(e.name, function)}({', '.join(self.vector(arg) for arg in e.args)})"
        return Code(f"{called}[{lane}]" if e.dtype.lanes > 1 else called, low, high)

    def _reinterpret(self, e: ir.Call, lane: str) -> Code:
        value, of, to = self.text(e.args[0], lane), e.args[0].dtype.scalar, e.dtype.scalar
        if not of.is_float and not to.is_float:
            found = f"wrapped_bits({value}, {to.bits}, {to.code == 'int'})"
        else:
            names = [self.define("kind", numpy_type(kind)) for kind in (of, to)]
            found = f"reinterpret({value}, {names[0]}, {names[1]}, {not to.is_float})"
        return Code(found, to.min, to.max) if to.is_int else Code(found)

    def _abs(self, e: ir.Call, lane: str) -> Code:
        value = self.code(e.args[0], lane)
        if e.dtype.is_float:
            return Code(f"abs({value.text})")
        return self.wrapped(f"abs({value.text})", 0, max(abs(value.low), abs(value.high)), e.dtype)

    def _popcount(self, e: ir.Call, lane: str) -> Code:
        return Code(f"popcount({self.text(e.args[0], lane)}, {e.args[0].dtype.bits})", 0, e.args[0].dtype.bits)

    def _clz(self, e: ir.Call, lane: str) -> Code:
        return Code(f"leading_zeros({self.text(e.args[0], lane)}, {e.args[0].dtype.bits})", 0, e.args[0].dtype.bits)


_COMPARES = (ir.EQ, ir.NE, ir.LT, ir.LE)
_INT_FORMS: dict[type[ir.Binary], str] = {
    ir.Add: "({a} + {b})", ir.Sub: "({a} - {b})", ir.Mul: "({a} * {b})", ir.FloorDiv: "({a} // {b})", ir.FloorMod: "({a} % {b})",
    ir.TruncDiv: "trunc_div({a}, {b})", ir.TruncMod: "trunc_mod({a}, {b})", ir.Min: "min({a}, {b})", ir.Max: "max({a}, {b})",
    ir.BitAnd: "({a} & {b})", ir.BitOr: "({a} | {b})", ir.BitXor: "({a} ^ {b})",
    ir.ShiftLeft: "({a} << shift_count({b}, {bits}))", ir.ShiftRight: "({a} >> shift_count({b}, {bits}))",
}
_FLOAT_FORMS: dict[type[ir.Binary], str] = {
    ir.Add: "({a} + {b})", ir.Sub: "({a} - {b})", ir.Mul: "({a} * {b})", ir.Div: "({a} / {b})", ir.FloorMod: "({a} % {b})",
    ir.TruncMod: "fmod({a}, {b})", ir.Min: "float_min({a}, {b})", ir.Max: "float_max({a}, {b})",
}
_MATH_NAMES = {*FLOAT_MATH, *FLOAT_PAIRS, *FLOAT_TESTS, "fma"}
_OWN_CALLS: dict[str, Callable[[Expressions, ir.Call, str], Code]] = {
    "abs": Expressions._abs, "popcount": Expressions._popcount, "clz": Expressions._clz,
    "reinterpret": Expressions._reinterpret,
}
_WAYS: dict[type[ir.Expr], Callable[[Expressions, Any, str], Code]] = {
    ir.Var: Expressions._var, ir.IntImm: Expressions._integer, ir.FloatImm: Expressions._floating,
    ir.StringImm: Expressions._string,
    ir.Cast: Expressions._cast, ir.Select: Expressions._choice, ir.IfThenElse: Expressions._choice, ir.Let: Expressions._let,
    ir.Ramp: Expressions._ramp, ir.Broadcast: Expressions._broadcast, ir.Call: Expressions._call, ir.Load: Expressions._load,
    ir.And: Expressions._logic, ir.Or: Expressions._logic, ir.Not: Expressions._not,
}
