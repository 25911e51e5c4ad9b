"""The `vtakit` command. Each of its commands is a module of `vtakit.runtime.commands`, imported only when it is called."""

import argparse
import ast
import io
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import fill

import vtakit
from vtakit.base.errors import VtakitError, one_of
from vtakit.base.process import ends_politely
from vtakit.base.text import one_line
from vtakit.runtime.commands._files import ABOUT
from vtakit.runtime.terminal import Parser, complain

_COMMANDS = Path(__file__).with_name("commands")
EXIT_ERROR = 2
_MOST_LETTERS = 40  # of an unknown command that are repeated
_WIDTH = 100  # of the text below a command's options


def summaries() -> dict[str, str]:
    """Return every command with the first line of its module's docstring, read without importing it."""
    names = [module.name for module in pkgutil.iter_modules([str(_COMMANDS)]) if not module.name.startswith("_")]
    docs = {name: ast.get_docstring(ast.parse((_COMMANDS / f"{name}.py").read_text(encoding="utf-8"))) for name in names}
    return {name: (doc or "").partition("\n")[0] for name, doc in docs.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit status: 0, 1 if the command found what it looks for, 2 for an error."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words and not words[0].startswith("-") else ""
    who = one_line(f"vtakit {name[:_MOST_LETTERS]}".strip())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal's encoding lacks becomes its number
            stream.reconfigure(errors="backslashreplace")
    try:
        with ends_politely(), _warnings_as_sentences(who):
            status = _run(name, words)
        if sys.stdout is not None:  # it is closed in `vtakit … >&-`
            sys.stdout.flush()
        return status
    except VtakitError as error:
        complain(f"{who}: {error}")
    except SystemExit:
        _leave_quietly()
        raise
    except KeyboardInterrupt:
        _leave_quietly()
        complain(f"{who}: interrupted; nothing was left half-written")
    except BrokenPipeError:  # the reader of the output, such as `head`, has left: no error
        _drop_output()
        return 0
    except MemoryError:
        complain(f"{who}: this machine has too little memory for that")
    except OSError as error:
        complain(f"{who}: {one_line(str(error.filename or 'standard output'))}: {error.strerror or error}")
        _drop_output()
    return EXIT_ERROR


@contextmanager
def _warnings_as_sentences(who: str) -> Iterator[None]:
    """Show warnings as a line each while the block runs, without the place in the source that gives them."""
    def show(message: Warning | str, *_: object, **__: object) -> None:
        complain(f"{who}: warning: {one_line(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # a second command of the same process says them too
        warnings.showwarning = show
        yield


def _drop_output() -> None:
    """Discard what is still to be printed, so that Python does not fail once more as it ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_quietly() -> None:
    """Silence warnings about parts of a design that were never used because the command ended early."""
    warnings.simplefilter("ignore")


def _run(name: str, words: list[str]) -> int:
    if not name:
        return _help(words)
    commands = summaries()
    if name not in commands:
        raise VtakitError(f"unknown command {name[:_MOST_LETTERS]!r}; {one_of(commands, name[:_MOST_LETTERS])}")
    module = import_module(f"vtakit.runtime.commands.{name}")
    parser = Parser(
        prog=f"vtakit {name}", description=module.__doc__, epilog=fill(ABOUT.get(name, ""), _WIDTH), allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(words[1:])))


def _help(words: list[str]) -> int:
    commands = summaries()
    width = max(map(len, commands))
    listing = "\n".join(f"  {name:{width}}  {summary}" for name, summary in commands.items())
    parser = Parser(
        prog="vtakit", usage="vtakit COMMAND …", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{(vtakit.__doc__ or '').partition(chr(10))[0]}\n\ncommands:\n{listing}",
        epilog="`vtakit COMMAND --help` explains a command; `vtakit doctor` tells what is installed for which job.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vtakit {vtakit.__version__}")
    parser.parse_args(words)
    parser.print_help()
    return 0
