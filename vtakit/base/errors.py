"""The errors that a user's input can cause: one sentence each, never a traceback on the command line."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from vtakit.base.text import one_line, printable


class VtakitError(Exception):
    """A request that cannot be met. The message says what was asked, what is true, where, and what would work.

    The message repeats names from files; as text its control characters are escapes.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class FileError(VtakitError, OSError):
    """A file or folder that cannot be read or written."""


def one_of(names: Iterable[str], given: str) -> str:
    """The cure for an unknown name: the nearest known one, then all of them."""
    known = sorted(one_line(str(name)) for name in names)
    near = difflib.get_close_matches(one_line(given), known, n=1)
    listing = ", ".join(known)
    return f"did you mean {near[0]!r}? Known: {listing}" if near else f"known: {listing}"


@contextmanager
def needs(purpose: str, extra: str) -> Iterator[None]:
    """A package that cannot be imported inside is a `VtakitError`: `purpose` needs it, and vtakit's `extra` brings it."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "vtakit").partition(".")[0]
        if package == "vtakit":  # a mistake of ours
            raise
        raise VtakitError(f"{purpose} needs the package {package}: pip install 'vtakit[{extra}]'") from None
