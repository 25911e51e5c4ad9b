"""Expressions become instructions.

Integer expressions are made in two ways. As *values* they wrap at their width. As *indices* (of memory, and bounds of loops) they
are made in 64 bits, where they cannot overflow, as the IR assumes of index arithmetic: so LLVM sees plain addresses.
"""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import arithmetic as ar
from vtakit.compiler.codegen.llvm.lowering import calls, memory
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Block
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant, lane_constants
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT64
from vtakit.compiler.ir.values import rounded, value_of
from vtakit.compiler.ir.walk import subexpressions

_DIVISIONS = (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)
_LINEAR = (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max)
_CHEAP = 12  # nodes of an expression that is evaluated rather than jumped around


class Expressions(Context):
    """The instructions of expressions."""

    def value(self, e: ir.Expr) -> Value:
        """Return the value of an expression."""
        make = _VALUES.get(type(e))
        if make is None:
            if isinstance(e, ir.Binary):
                return self._binary(e)
            raise CodegenError(f"{type(e).__name__} cannot become machine code: {e}; run vtakit.compiler.passes.lower_late first")
        found = make(self, e)
        assert found.type == ty.value_type(e.dtype), f"{e} of {e.dtype} became {found}"
        return found

    # Integers as indices.

    def index(self, e: ir.Expr) -> Value:
        """Return an integer expression in 64 bits; a vector of them for a vector."""
        wide = ty.vector("i64", e.dtype.lanes if e.dtype.lanes > 1 else 0)
        if isinstance(e, ir.Var) and e in self.indices:
            return self.indices[e]
        if isinstance(e, ir.IntImm):
            return int_constant("i64", e.value)
        if e.dtype.code == "int" and e.dtype.bits >= 32:
            if isinstance(e, _LINEAR):
                a, b = self.index(e.a), self.index(e.b)
                return ar.integer(self.b, type(e), INT64, a, b, ar.Operand(), "nsw")
            if isinstance(e, _DIVISIONS) and value_of(_scalar(e.b)):
                known = ar.Operand(_int(_scalar(e.b)), non_negative=self.non_negative(e.a) and self.non_negative(e.b))
                return ar.integer(self.b, type(e), INT64, self.index(e.a), self.index(e.b), known)
            if isinstance(e, ir.Ramp):
                base, stride = (self.b.splat(self.index(part), e.lanes) for part in (e.base, e.stride))
                return self.b.op("add", base, self.b.op("mul", stride, lane_constants("i64", range(e.lanes)), "nsw"), "nsw")
            if isinstance(e, ir.Broadcast):
                return self.b.splat(self.index(e.value), e.lanes)
            if isinstance(e, ir.Cast) and e.value.dtype.code == "int" and 32 <= e.value.dtype.bits <= e.dtype.bits:
                return self.index(e.value)
        return ar.resize(self.b, self.value(e), wide, signed=e.dtype.code == "int")

    def non_negative(self, e: ir.Expr) -> bool:
        """Return whether an index is certain to be at least 0."""
        match e:
            case ir.IntImm():
                return e.value >= 0
            case ir.Var():
                return e in self.indices
            case ir.Add() | ir.Mul() | ir.Min() | ir.FloorDiv():
                return self.non_negative(e.a) and self.non_negative(e.b)
            case ir.Max():
                return self.non_negative(e.a) or self.non_negative(e.b)
            case ir.FloorMod():
                return self.non_negative(e.b)
            case ir.Ramp():
                return self.non_negative(e.base) and self.non_negative(e.stride)
            case ir.Broadcast():
                return self.non_negative(e.value)
        return False

    def _is_index(self, e: ir.Expr) -> bool:
        """Return whether it is made of loop variables, sizes and constants only, so that it does not overflow."""
        if e.dtype.code != "int" or e.dtype.bits < 32:
            return False
        match e:
            case ir.IntImm():
                return True
            case ir.Var():
                return e in self.indices
            case ir.Binary():
                divides = isinstance(e, _DIVISIONS)
                linear = isinstance(e, _LINEAR) or (divides and isinstance(_scalar(e.b), ir.IntImm))
                return linear and self._is_index(e.a) and self._is_index(e.b)
            case ir.Ramp():
                return self._is_index(e.base) and self._is_index(e.stride)
            case ir.Broadcast():
                return self._is_index(e.value)
        return False

    # Values, by kind of expression.

    def var(self, e: ir.Var) -> Value:
        if e in self.indices:
            return self.b.convert("trunc", self.indices[e], ty.value_type(e.dtype))
        if e in self.values:
            return self.values[e]
        if e in self.memory:
            return self.memory[e]
        raise CodegenError(f"the variable {e.name} has no value here: it is neither a parameter, nor a loop's, nor a let's")

    def _binary(self, e: ir.Binary) -> Value:
        dtype, kind = e.a.dtype, type(e)
        if e.compares:
            if self._is_index(e.a) and self._is_index(e.b):
                return ar.compare(self.b, kind, INT64, self.index(e.a), self.index(e.b))
            return ar.compare(self.b, kind, dtype, self.value(e.a), self.value(e.b))
        if isinstance(e, ir.And | ir.Or):
            return self._logic(e)
        x, y = self.value(e.a), self.value(e.b)
        if dtype.is_float:
            known = ar.Operand(a_number=_is_number(e.a) and value_of(_scalar(e.a)) != 0, b_number=_is_number(e.b))
            return ar.floating(self.b, self.target, kind, dtype, x, y, known)
        if not (dtype.is_int or dtype.is_bool) or isinstance(e, ir.Div):
            raise CodegenError(f"{e.symbol} of {dtype} has no meaning: {e}")
        known = ar.Operand()
        if isinstance(e, _DIVISIONS):
            known = ar.Operand(_int(_scalar(e.b)), non_negative=self.non_negative(e.a) and self.non_negative(e.b))
        return ar.integer(self.b, kind, dtype, x, y, known)

    def _logic(self, e: ir.And | ir.Or) -> Value:
        """Return a conjunction or disjunction. The second operand is jumped around if its evaluation could do harm."""
        a, is_and = self.value(e.a), isinstance(e, ir.And)
        if _harmless(e.b):
            return self.b.op("and" if is_and else "or", a, self.value(e.b))
        decided = int_constant(a.type, 0 if is_and else 1)
        rest = a if is_and else self.b.op("xor", a, int_constant(a.type, 1))
        return self.choose(rest, lambda: self.value(e.b), lambda: decided)

    def not_(self, e: ir.Not) -> Value:
        a = self.value(e.a)
        return self.b.op("xor", a, int_constant(a.type, 1))

    def cast(self, e: ir.Cast) -> Value:
        if "handle" in (e.dtype.code, e.value.dtype.code):
            raise CodegenError(f"an address cannot be converted: {e}")
        return ar.cast(self.b, self.target, self.value(e.value), e.value.dtype, e.dtype)

    def select(self, e: ir.Select) -> Value:
        return self.b.select(self.value(e.condition), self.value(e.true), self.value(e.false))

    def if_then_else(self, e: ir.IfThenElse) -> Value:
        condition = self.value(e.condition)
        if _harmless(e.true) and _harmless(e.false):
            return self.b.select(condition, self.value(e.true), self.value(e.false))
        return self.choose(condition, lambda: self.value(e.true), lambda: self.value(e.false))

    def choose(self, condition: Value, true: Callable[[], Value], false: Callable[[], Value]) -> Value:
        """Return one of two values, each evaluated only where it is needed."""
        b = self.b
        if ty.split(condition.type)[1]:
            with_true = self.masked(condition, true)
            with_false = self.masked(b.op("xor", condition, int_constant(condition.type, 1)), false)
            return b.select(condition, with_true, with_false)
        blocks = b.block("then"), b.block("else")
        after = b.block("chosen")
        b.branch(condition, *blocks)
        found: list[tuple[Value, Block]] = []
        for block, make in zip(blocks, (true, false), strict=True):
            b.place(block)
            found.append((make(), b.at))
            b.jump(after)
        b.place(after)
        phi = b.phi(found[0][0].type)
        for value, block in found:
            phi.add(value, block)
        return phi.value

    def masked(self, condition: Value, make: Callable[[], Any]) -> Any:
        """Return the result of `make`, run while only those active lanes are left for which the condition holds too."""
        outer = self.mask
        self.mask = condition if outer is None else self.b.op("and", outer, condition)
        try:
            return make()
        finally:
            self.mask = outer

    def let(self, e: ir.Let) -> Value:
        self.values[e.var] = self.value(e.value)
        return self.value(e.body)

    def ramp(self, e: ir.Ramp) -> Value:
        base, stride = self.b.splat(self.value(e.base), e.lanes), self.b.splat(self.value(e.stride), e.lanes)
        steps = lane_constants(ty.scalar(base.type), range(e.lanes))
        return self.b.op("add", base, self.b.op("mul", stride, steps))

    def broadcast(self, e: ir.Broadcast) -> Value:
        return self.b.splat(self.value(e.value), e.lanes)


def _scalar(e: ir.Expr) -> ir.Expr:
    """Return the value in each lane of a broadcast; another expression as it is."""
    return e.value if isinstance(e, ir.Broadcast) else e


def _int(e: ir.Expr) -> int | None:
    return e.value if isinstance(e, ir.IntImm) else None


def _is_number(e: ir.Expr) -> bool:
    number = value_of(_scalar(e))
    return number is not None and number == number  # NaN differs from itself


def _harmless(e: ir.Expr) -> bool:
    """Return whether evaluating it costs little, cannot trap and has no effect."""
    for count, node in enumerate(subexpressions(e)):
        if count > _CHEAP or isinstance(node, ir.Load | ir.Call | ir.Let | ir.IfThenElse):
            return False
    return True


_VALUES: dict[type[ir.Expr], Callable[[Expressions, Any], Value]] = {
    ir.Var: Expressions.var,
    ir.IntImm: lambda _, e: int_constant(ty.value_type(e.dtype), e.value),
    ir.FloatImm: lambda _, e: float_constant(ty.value_type(e.dtype), rounded(e.value, e.dtype)),
    ir.StringImm: lambda x, e: x.module.string(e.value),
    ir.Not: Expressions.not_,
    ir.Cast: Expressions.cast,
    ir.Select: Expressions.select,
    ir.IfThenElse: Expressions.if_then_else,
    ir.Let: Expressions.let,
    ir.Ramp: Expressions.ramp,
    ir.Broadcast: Expressions.broadcast,
    ir.Load: memory.load,
    ir.Call: calls.call,
}
