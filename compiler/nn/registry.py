"""The operators by name, with what a graph may do with each.

An operator is a function from tensors to the tensors that it computes; its shapes and types are those of what it returns, so that
nothing infers them a second time. `vtakit.compiler.nn.operators` imports every family and so fills the table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter, signature
from typing import Any, TypeVar

from vtakit.base.errors import VtakitError
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor

Definition = TypeVar("Definition", bound=Callable[..., Any])


class OperatorError(VtakitError, ValueError):
    """Operands or attributes that an operator does not take."""


class Kind(Enum):
    """Kind of an operator, which decides how it fuses with its neighbours (TVM, OSDI'18, section 3)."""

    INJECTIVE = "injective"  # each output element from a fixed few input elements: fuses with anything
    REDUCTION = "reduction"  # takes injective operators before it
    ANCHOR = "complex-out-fusable"  # takes injective operators after it, as convolutions do
    OPAQUE = "opaque"  # stays alone


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator.

    define   : its tensors are positional, an optional one is None; its attributes are keyword-only and static
    schedule : of the operator alone on a processor; None for the default rules
    """

    name: str
    kind: Kind
    define: Callable[..., Tensor | tuple[Tensor, ...]]
    schedule: Callable[[Sequence[Tensor]], Schedule] | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of its attributes."""
        found = signature(self.define).parameters.values()
        return tuple([parameter.name for parameter in found if parameter.kind is Parameter.KEYWORD_ONLY])


OPERATORS: dict[str, Operator] = {}


def operator(name: str, *, kind: Kind) -> Callable[[Definition], Definition]:
    """Register a definition under a name."""
    def register(define: Definition) -> Definition:
        assert name not in OPERATORS, f"two operators are named {name!r}"
        OPERATORS[name] = Operator(name, kind, define)
        return define
    return register
