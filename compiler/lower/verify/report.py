"""Report of a rule on a program."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from vtakit.compiler.ir.stmt import Stmt

if TYPE_CHECKING:
    from vtakit.compiler.lower.verify.program import Program


class Broken(NamedTuple):
    """One place where a rule is broken: what is true there, the statement, and what would work."""

    found: str
    mark: Stmt
    cure: str


class Rule(NamedTuple):
    """A property that every program has; `check` yields where a program lacks it."""

    name: str
    check: "Callable[[Program], Iterator[Broken]]"

    @property
    def doc(self) -> str:
        return self.check.__doc__ or ""
