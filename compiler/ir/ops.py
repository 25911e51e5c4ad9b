"""Building expressions: Python's operators, and the folding that is always right.

Folding here is local: constants, and x + 0, x * 1, x * 0 (of integers), x // 1, min(x, x), and so on. What needs ranges is
`vtakit.compiler.arith`'s. Types are brought together as `vtakit.compiler.ir.values` says.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.base import OPERATORS
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, IntImm
from vtakit.compiler.ir.values import FALSE, TRUE, cast, const, unify, value_of, wrap, wrapped

_FOLD: dict[type[ir.Binary], Callable[[Any, Any], Any]] = {
    ir.Add: operator.add, ir.Sub: operator.sub, ir.Mul: operator.mul, ir.FloorDiv: operator.floordiv, ir.FloorMod: operator.mod,
    ir.TruncDiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ir.TruncMod: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    ir.Min: min, ir.Max: max, ir.BitAnd: operator.and_, ir.BitOr: operator.or_, ir.BitXor: operator.xor,
    ir.ShiftLeft: operator.lshift, ir.ShiftRight: operator.rshift,
    ir.EQ: operator.eq, ir.NE: operator.ne, ir.LT: operator.lt, ir.LE: operator.le,
}
_DIVIDES = (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)


def _fold_constants(node: type[ir.Binary], x: Expr, y: Expr) -> Expr | None:
    """Return the constant that an operation on two integer constants gives; None for floats, except comparisons."""
    if not (isinstance(x, IntImm) and isinstance(y, IntImm)) or node not in _FOLD:
        return None
    if node in _DIVIDES and y.value == 0:
        raise ZeroDivisionError(f"{node.symbol} of {x} by the constant 0")
    if node in (ir.ShiftLeft, ir.ShiftRight) and not 0 <= y.value < x.dtype.bits:
        raise ValueError(f"a shift of {x.dtype} by {y.value}: the count is within 0 to {x.dtype.bits - 1}")
    value = _FOLD[node](x.value, y.value)
    if node.compares:
        return TRUE if value else FALSE
    return IntImm(wrapped(int(value), x.dtype), x.dtype)


def _fold_neutral(node: type[ir.Binary], x: Expr, y: Expr) -> Expr | None:
    """Return the operand that an integer operation leaves as it is, or the constant that it comes to; else None."""
    a, b = value_of(x), value_of(y)
    if node in (ir.Add, ir.BitOr, ir.BitXor) and a == 0:
        return y
    if node in (ir.Add, ir.Sub, ir.BitOr, ir.BitXor, ir.ShiftLeft, ir.ShiftRight) and b == 0:
        return x
    if node is ir.Mul:
        return x if b == 1 or a == 0 else y if a == 1 or b == 0 else None
    if node in (ir.FloorDiv, ir.TruncDiv) and b == 1:
        return x
    if node in (ir.FloorMod, ir.TruncMod) and b == 1:
        return const(0, x.dtype)
    if node in (ir.Min, ir.Max) and ir.same(x, y):
        return x
    return None


def binary(node: type[ir.Binary], a: Any, b: Any) -> Expr:
    """Return the operation on two operands, brought to a common type and folded. Raises TypeError where it does not apply."""
    x, y = unify(a, b)
    if x.dtype.is_bool and not node.compares and node not in (ir.BitAnd, ir.BitOr, ir.BitXor, ir.Min, ir.Max):
        x, y = cast(x, INT32), cast(y, INT32)
    if x.dtype.is_float and node in (ir.FloorDiv, ir.TruncDiv, ir.BitAnd, ir.BitOr, ir.BitXor, ir.ShiftLeft, ir.ShiftRight):
        cure = ": use /" if node in _DIVIDES else ""
        raise TypeError(f"{node.symbol} takes integers, got {x} and {y} of {x.dtype}{cure}")
    found = _fold_constants(node, x, y)
    if found is None and not x.dtype.is_float:
        found = _fold_neutral(node, x, y)
    return node(x, y) if found is None else found


def divide(a: Any, b: Any) -> Expr:
    """Return ``a / b`` of floating-point operands. Raises TypeError for integers: the field's tools disagree on the rounding."""
    x, y = unify(a, b)
    if not x.dtype.is_float:
        raise TypeError(
            f"{x} / {y} divides integers: use // to round down, te.truncdiv to round to zero, or convert with .astype('float32')"
        )
    return ir.Div(x, y)


def _logic(value: Any, where: str) -> Expr:
    e = wrap(value)
    if not e.dtype.is_bool:
        raise TypeError(f"{where} takes conditions, got {e} of {e.dtype}: compare it with something, or use .astype('bool')")
    return e


def all_of(*conditions: Any) -> Expr:
    """Return whether all conditions hold; later ones are evaluated only where earlier ones do. Without any: true."""
    found: Expr = TRUE
    for item in conditions:
        e = _logic(item, "all")
        if value_of(found) == 1 or value_of(e) == 0:
            found = e
        elif value_of(e) != 1 and value_of(found) != 0:
            found = ir.And(*unify(found, e))
    return found


def any_of(*conditions: Any) -> Expr:
    """Return whether any condition holds; later ones are evaluated only where earlier ones do not. Without any: false."""
    found: Expr = FALSE
    for item in conditions:
        e = _logic(item, "any")
        if value_of(found) == 0 or value_of(e) == 1:
            found = e
        elif value_of(e) != 0 and value_of(found) != 1:
            found = ir.Or(*unify(found, e))
    return found


def negate(condition: Any) -> Expr:
    """Return whether a condition does not hold."""
    e = _logic(condition, "not")
    if isinstance(e, IntImm):
        return FALSE if e.value else TRUE
    if isinstance(e, ir.Not):
        return e.a
    if isinstance(e, ir.LT | ir.LE) and not e.a.dtype.is_float:  # of floats the negation also holds for NaN
        return ir.LE(e.b, e.a) if isinstance(e, ir.LT) else ir.LT(e.b, e.a)
    if isinstance(e, ir.EQ | ir.NE):
        return ir.NE(e.a, e.b) if isinstance(e, ir.EQ) else ir.EQ(e.a, e.b)
    return ir.Not(e)


def _bits_or_logic(node: type[ir.Binary], logic: Callable[..., Expr]) -> Callable[[Any, Any], Expr]:
    def method(a: Any, b: Any) -> Expr:
        x, y = unify(a, b)
        return logic(x, y) if x.dtype.is_bool else binary(node, x, y)
    return method


def invert(a: Expr, _: object) -> Expr:
    """Return ``~a``: all bits of an integer, or the other truth value."""
    return negate(a) if a.dtype.is_bool else binary(ir.BitXor, a, const(-1 if a.dtype.code == "int" else a.dtype.max, a.dtype))


OPERATORS.update({
    "/": divide, "cast": cast, "~": invert,
    "&": _bits_or_logic(ir.BitAnd, all_of), "|": _bits_or_logic(ir.BitOr, any_of),
    **{
        node.symbol: partial(binary, node)
        for node in (
            ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.BitXor, ir.ShiftLeft, ir.ShiftRight, ir.EQ, ir.NE, ir.LT, ir.LE,
        )
    },
})


def minimum(a: Any, b: Any) -> Expr:
    """Return the lesser of two values; NaN if either is NaN."""
    return binary(ir.Min, a, b)


def maximum(a: Any, b: Any) -> Expr:
    """Return the greater of two values; NaN if either is NaN."""
    return binary(ir.Max, a, b)


def _choice(node: type[ir.Select] | type[ir.IfThenElse], condition: Any, true: Any, false: Any) -> Expr:
    if isinstance(condition, bool) or type(condition).__name__ == "bool_":
        condition = TRUE if condition else FALSE
    chosen = _logic(condition, node.__name__)
    x, y = unify(true, false)
    if isinstance(chosen, IntImm):
        return x if chosen.value else y
    return node(chosen, x, y)


def select(condition: Any, true: Any, false: Any) -> Expr:
    """Return `true` where the condition holds, else `false`; both are evaluated."""
    return _choice(ir.Select, condition, true, false)


def if_then_else(condition: Any, true: Any, false: Any) -> Expr:
    """Return `true` where the condition holds, else `false`; only that one is evaluated, so it may guard a read out of bounds."""
    return _choice(ir.IfThenElse, condition, true, false)


def truncdiv(a: Any, b: Any) -> Expr:
    """Return the integer quotient rounded to zero, as in C."""
    return binary(ir.TruncDiv, a, b)


def truncmod(a: Any, b: Any) -> Expr:
    """Return the remainder of `truncdiv`, with the dividend's sign; of floats C's fmod."""
    return binary(ir.TruncMod, a, b)
