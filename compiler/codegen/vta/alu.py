"""Expressions over accumulators as rows of ALU passes, each ``acc = op(acc, operand)``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, IntImm, Load
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import FORMATS, AluOp, Opcode

_IMMEDIATE = next(place for place in FORMATS[Opcode.ALU].place(DEFAULT) if place.field.name == "imm")  # in any configuration
LOWEST, HIGHEST = _IMMEDIATE.low, _IMMEDIATE.high
_COMMUTING: dict[type[ir.Binary], AluOp] = {ir.Add: AluOp.ADD, ir.Mul: AluOp.MUL, ir.Min: AluOp.MIN, ir.Max: AluOp.MAX}


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a tile: set to 0 (`op` is None), or combine with an immediate or another element."""

    op: AluOp | None
    imm: int = 0
    load: Load | None = None


def passes(value: Expr, is_own: Callable[[Load], bool]) -> list[Pass]:
    """The passes that leave `value` in the accumulator that `is_own` tells to be the one written.

    Raises UnfitError for an expression that needs a second accumulator, or an operation that there is not.
    """
    return list(_into(value, is_own))


def _into(e: Expr, is_own: Callable[[Load], bool]) -> Iterator[Pass]:
    match e:
        case IntImm():
            yield Pass(None)
            if LOWEST <= e.value <= HIGHEST:
                yield from _added(e.value)
            else:
                high = e.value - LOWEST >> _IMMEDIATE.width
                yield Pass(AluOp.ADD, imm=high if high <= HIGHEST else LOWEST)  # 2 ** 31 and -2 ** 31 have the same low bits
                yield Pass(AluOp.SHR, imm=-_IMMEDIATE.width)
                yield from _added(e.value - (high << _IMMEDIATE.width))
        case Load() if is_own(e):
            return
        case Load():
            yield Pass(None)
            yield Pass(AluOp.ADD, load=e)
        case ir.Cast() if isinstance(e.value, Load) and e.value.dtype is e.dtype:
            yield from _into(e.value, is_own)
        case ir.Min() | ir.Max() if _is(e.a, is_own) and _is(e.b, is_own):
            return
        case ir.Sub() if _is(e.a, is_own) and _is(e.b, is_own):
            yield Pass(None)
        case ir.Add() | ir.Mul() if isinstance(e.a, Load) and is_own(e.a) and _is(e.b, is_own):
            yield Pass(_COMMUTING[type(e)], load=e.a)  # the accumulator is both operands
        case ir.Add() | ir.Mul() | ir.Min() | ir.Max():
            first, second = (e.b, e.a) if _goes_first(e.b, e.a, is_own) else (e.a, e.b)
            yield from _into(first, is_own)
            yield from _with(_COMMUTING[type(e)], second, is_own)
        case ir.Sub() if isinstance(e.b, IntImm):
            yield from _into(e.a, is_own)
            yield from _added(-e.b.value)
        case ir.Sub() if isinstance(e.a, IntImm | Load) and not _is(e.a, is_own):
            yield from _into(e.b, is_own)
            yield Pass(AluOp.MUL, imm=-1)
            yield from _with(AluOp.ADD, e.a, is_own)
        case ir.Sub() if isinstance(e.b, Load):
            yield from _into(e.a, is_own)
            yield Pass(AluOp.MUL, imm=-1)
            yield from _with(AluOp.ADD, e.b, is_own)
            yield Pass(AluOp.MUL, imm=-1)
        case ir.ShiftRight():
            yield from _into(e.a, is_own)
            yield from _with(AluOp.SHR, e.b, is_own)
        case ir.ShiftLeft() if isinstance(e.b, IntImm):
            yield from _into(e.a, is_own)
            yield Pass(AluOp.SHR, imm=-e.b.value)
        case _:
            raise UnfitError(f"the ALU has no operation for {e}: it adds, multiplies, shifts, and takes the lesser or greater")


def _is(e: Expr, is_own: Callable[[Load], bool]) -> bool:
    """Return whether an expression is the accumulator that is written, as it was."""
    return isinstance(e, Load) and is_own(e)


def _goes_first(e: Expr, other: Expr, is_own: Callable[[Load], bool]) -> bool:
    """Return whether the second operand of a commuting operation is the one to begin with."""
    if isinstance(e, IntImm):
        return False
    if isinstance(other, IntImm):
        return True
    if isinstance(other, Load):
        return not is_own(other) and (not isinstance(e, Load) or is_own(e))
    return False


def _with(op: AluOp, e: Expr, is_own: Callable[[Load], bool]) -> Iterator[Pass]:
    """The pass that combines the accumulator with a simple operand."""
    match e:
        case IntImm() if op is AluOp.ADD:
            yield from _added(e.value)
        case IntImm() if LOWEST <= e.value <= HIGHEST:
            yield Pass(op, imm=e.value)
        case IntImm():
            raise UnfitError(f"{e.value} is no immediate of an ALU instruction, which are {LOWEST} to {HIGHEST}")
        case Load() if not is_own(e):
            yield Pass(op, load=e)
        case _:
            raise UnfitError(f"{e} needs an accumulator of its own: compute it in a stage before")


def _added(value: int) -> Iterator[Pass]:
    """The pass that adds a constant, unless it is 0."""
    if LOWEST <= value <= HIGHEST:
        if value:
            yield Pass(AluOp.ADD, imm=value)
        return
    raise UnfitError(f"{value} is no immediate of an ALU instruction, which are {LOWEST} to {HIGHEST}")
