"""Everything that the command line prints passes here, so that no name from a file controls the terminal."""

import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any, NoReturn

from vtakit.base.text import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

_FILE_WIDTH = 130  # columns of a table in a file or pipe


def say(text: str, *, end: str = "\n") -> None:
    """Print text on standard output."""
    print(printable(text), end=end)


def complain(text: str) -> None:
    """Print text on standard error."""
    print(printable(text), file=sys.stderr)


def console(*, stderr: bool = False, **options: Any) -> "Console":
    """Return a rich console whose text, but not its own styles, is made printable; elsewhere than on a terminal it is wide."""
    from vtakit.runtime.console import PrintableConsole

    made = PrintableConsole(stderr=stderr, **options)
    if not made.is_terminal:
        made.width = _FILE_WIDTH
    return made


def progress(*columns: "str | ProgressColumn") -> "Progress":
    """Return a progress bar on standard error, which is gone when it ends; none is drawn where that is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = columns or (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    there = console(stderr=True)
    first = TextColumn("{task.description}", markup=False)
    return Progress(first, *shown, console=there, transient=True, disable=not there.is_terminal)


class Parser(ArgumentParser):
    """A parser whose errors, which repeat the user's words, are one printable line."""

    def error(self, message: str) -> NoReturn:
        """Print one sentence, without the usage, and end with status 2."""
        self.exit(2, f"{self.prog}: {one_line(message)}; `{self.prog} --help` explains the arguments\n")
