"""Tables over an enumeration of the instruction set: complete, or an error that names what is missing.

Whatever does something for each opcode, memory type or ALU operation says so in such a table. A new member that one of them
does not know is refused when that module is imported, and never run as something else (docs/adding_an_alu_operation.md).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from vtakit.base.errors import VtakitError

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


class IncompleteError(VtakitError):
    """A part of vtakit that does not know a member of an enumeration."""


def for_each(members: type[E], table: Mapping[E, T], where: str) -> dict[E, T]:
    """Return a table with an entry for each member. Raises IncompleteError, which names `where` and the members without one."""
    covers(members, table, where)
    return dict(table)


def covers(members: type[E], known: Iterable[E], where: str) -> None:
    """Raise IncompleteError unless `where` knows each member."""
    if lacking := [member.name for member in members if member not in set(known)]:
        raise IncompleteError(f"{where} does not know the {members.__name__} {', '.join(lacking)}: add it there "
                              "(docs/adding_an_alu_operation.md)")
