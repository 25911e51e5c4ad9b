"""Fields of a JSON header from an untrusted file: each reader returns a value of its type, or raises."""

from collections.abc import Iterable
from typing import Any

_MOST_BYTES = 1 << 48  # of memory that any machine could give


def number(given: Any, end: int = _MOST_BYTES) -> int:
    """Return a number from 0 to `end` - 1; raises ValueError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < end:
        raise ValueError(f"{given!r:.40} is no number from 0 to {end - 1}")
    return given


def text(given: Any) -> str:
    """Return a string; raises TypeError or ValueError for anything else, half a surrogate pair included."""
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.40} is no text")
    given.encode()
    return given


def texts(given: Iterable[Any]) -> tuple[str, ...]:
    """Return strings; see `text`."""
    return tuple([text(each) for each in given])
