"""The single statements that a nest's innermost one stands for."""

from collections.abc import Iterator, Sequence

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.expr import Call, Expr, Load, Var
from vtakit.compiler.ir.stmt import Stmt
from vtakit.compiler.ir.values import int_value, value_of
from vtakit.compiler.passes.affine import linear

BYTE = 8
Loops = Sequence[tuple[Var, Expr]]
Leaf = st.Store | st.Evaluate


def leaves(leaf: Stmt, loops: Loops) -> list[tuple[list[Expr], Leaf]]:
    """The statements that a nest's innermost one is, each with what must hold for it; none if it is no such statement.

    A store of one of two values becomes stores under either condition. A reset and the product after it become two if
    no two iterations write to one accumulator, so that all of the resets may come first.
    """
    match leaf:
        case st.Store():
            choices = list(_choices(leaf.value))
            if len(choices) == 1:
                return [([], leaf)]  # as it stands in the program, where errors mark it
            return [(tests, st.Store(leaf.buffer, leaf.indices, value)) for tests, value in choices]
        case st.Evaluate():
            return [([], leaf)]
        case st.Seq() if len(leaf.stmts) == 2:
            reset, product = leaf.stmts
            if isinstance(reset, st.Evaluate) and isinstance(product, st.Evaluate) and _once(reset.value, product.value, loops):
                return [([], reset), ([], product)]
    return []


def _choices(value: Expr) -> Iterator[tuple[list[Expr], Expr]]:
    """The values that a value is one of, with conditions of which one holds; a number in the place of data is a pad."""
    if isinstance(value, ir.Cast):
        for tests, found in _choices(value.value):
            yield tests, _cast(value, found)
        return
    if not isinstance(value, ir.Select | ir.IfThenElse):
        yield [], value
        return
    if _is_pad(value.false):
        yield from ((tests, type(value)(value.condition, found, value.false)) for tests, found in _choices(value.true))
        return
    parts = list(_conjunction(value.condition))
    negated = [_negation(part) for part in parts]
    if None in negated:
        yield [], value
        return
    yield from (([*parts, *more], found) for more, found in _choices(value.true))
    for at, part in enumerate(negated):
        assert part is not None
        yield from (([*parts[:at], part, *more], found) for more, found in _choices(value.false))


def _cast(like: ir.Cast, value: Expr) -> Expr:
    return like.rebuild(lambda part: value)


def _is_pad(other: Expr) -> bool:
    """Return whether it is 0, or a number of the type of activations."""
    number = value_of(other)
    return number == 0 or (number is not None and other.dtype.is_int and other.dtype.bits <= BYTE)


def _conjunction(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, ir.And):
        yield from _conjunction(condition.a)
        yield from _conjunction(condition.b)
    else:
        yield condition


def _negation(condition: Expr) -> Expr | None:
    """Return the negation of a comparison; None for another condition."""
    match condition:
        case ir.LT():
            return ir.LE(condition.b, condition.a)
        case ir.LE():
            return ir.LT(condition.b, condition.a)
    return None


def _once(reset: Expr, product: Expr, loops: Loops) -> bool:
    """Return whether two calls write the same values, and no two iterations do: each loop's step is beyond those within it."""
    first, second = _written(reset), _written(product)
    if first is None or second is None or first.buffer is not second.buffer or first.indices != second.indices:
        return False
    steps = linear(first.indices[0]).terms
    if any(type(atom) is not Var for atom in steps):
        return False
    reach = 0
    for step, extent in sorted((abs(steps.get(var, 0)), int_value(extent)) for var, extent in loops):
        if extent is None or (extent > 1 and step <= reach):
            return False
        reach += step * (extent - 1)
    return True


def _written(call: Expr) -> Load | None:
    """The first value of a call's first operand."""
    if not isinstance(call, Call) or not call.args or not is_address(call.args[0]):
        return None
    load = call.args[0].children()[0]
    return load if isinstance(load, Load) else None
