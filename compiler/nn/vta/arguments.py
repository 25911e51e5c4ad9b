"""Numbers that operators are given."""

from numbers import Integral
from typing import Any

from vtakit.compiler.codegen.vta.errors import VtaError


def whole(what: str, given: Any, least: int | None = None, *, other: str = "") -> int:
    """A whole number, of NumPy's types too, as Python's. Raises VtaError for anything else.

    what  : how the message begins; other : what else it names that would do
    """
    if not isinstance(given, Integral) or (least is not None and given < least):
        enough = "" if least is None else f" of at least {least}"
        raise VtaError(f"{what} is {given!r:.40} and must be a whole number{enough}{other}")
    return int(given)
