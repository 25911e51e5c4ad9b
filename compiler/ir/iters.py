"""Iteration variables: axes of tensor expressions and of schedules."""

from enum import Enum
from typing import Any, NamedTuple

from vtakit.compiler.ir.base import OPERATORS, Expr, Operand
from vtakit.compiler.ir.basic import Var
from vtakit.compiler.ir.dtypes import DType


class IterKind(Enum):
    """The kind of an axis; a schedule may split and mark it, but never reorders the steps of an `ORDERED` axis."""

    DATA = "data"  # independent elements of the result
    REDUCE = "reduce"  # terms of a reduction
    ORDERED = "ordered"  # a scan's steps
    OPAQUE = "opaque"  # an axis within an extern or tensorised body
    THREAD = "thread"  # one of a GPU's thread or block indices, or a virtual thread


class Range(NamedTuple):
    """``min <= i < min + extent``."""

    min: Expr
    extent: Expr

    def __repr__(self) -> str:
        return f"({self.min}, +{self.extent})"


class IterVar(Operand):
    """An axis: a variable with its domain and kind; in an expression it stands for its variable.

    Two are equal only if they are one object: like that of expressions, ``a == b`` is an expression with a truth value.

    dom : None while a schedule has not worked it out (an axis made by split or fuse)
    thread : for a thread axis its tag: ``blockIdx.x``, ``threadIdx.y``, ``vthread``, ``cthread``
    """

    __slots__ = ("dom", "kind", "thread", "var")

    def __init__(self, var: Var, dom: Range | None, kind: IterKind, thread: str = "") -> None:
        self.var, self.dom, self.kind, self.thread = var, dom, kind, thread

    def as_expr(self) -> Var:
        """Return the variable, which the axis stands for in an expression."""
        return self.var

    def __hash__(self) -> int:
        return id(self) >> 4

    def __eq__(self, other: Any) -> Any:
        return OPERATORS["=="](self.var, other) if isinstance(other, Operand | int | float) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return OPERATORS["!="](self.var, other) if isinstance(other, Operand | int | float) else NotImplemented

    @property
    def dtype(self) -> DType:
        return self.var.dtype

    @property
    def name(self) -> str:
        return self.var.name

    def __repr__(self) -> str:
        return f"{self.var.name}: {self.kind.value}" + (f" {self.dom}" if self.dom else "")
