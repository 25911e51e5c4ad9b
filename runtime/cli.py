"""The `vtakit` command: one module of `vtakit.runtime.commands` a command, imported only when it is called."""

import argparse
import ast
import io
import os
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import vtakit
from vtakit.hw.isa.errors import VtakitError, one_of
from vtakit.hw.isa.process import ends_politely

_COMMANDS = Path(__file__).with_name("commands")
EXIT_ERROR = 2


def summaries() -> dict[str, str]:
    """Every command with the first line of its module's docstring, read without importing it."""
    names = [module.name for module in pkgutil.iter_modules([str(_COMMANDS)]) if not module.name.startswith("_")]
    docs = {name: ast.get_docstring(ast.parse((_COMMANDS / f"{name}.py").read_text(encoding="utf-8"))) for name in names}
    return {name: (doc or "").partition("\n")[0] for name, doc in docs.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 where the command found what it looks for, 2 for an error."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words and not words[0].startswith("-") else ""
    who = f"vtakit {name}".strip()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its number
            stream.reconfigure(errors="backslashreplace")
    try:
        with ends_politely():
            status = _run(name, words)
        if sys.stdout is not None:  # it is closed in `vtakit … >&-`
            sys.stdout.flush()
        return status
    except VtakitError as error:
        print(f"{who}: {error}", file=sys.stderr)
    except SystemExit:
        _leave_quietly()
        raise
    except KeyboardInterrupt:
        _leave_quietly()
        print(f"{who}: interrupted; nothing was left half-written", file=sys.stderr)
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone: not an error of ours
        _drop_output()
        return 0
    except MemoryError:
        print(f"{who}: this machine has too little memory for that", file=sys.stderr)
    except OSError as error:
        print(f"{who}: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        _drop_output()
    return EXIT_ERROR


def _drop_output() -> None:
    """What is still to be printed goes nowhere, so that Python does not fail over it once more as it ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_quietly() -> None:
    """Parts of a design that an end has cut off would complain, as they go, that nobody has used them."""
    warnings.simplefilter("ignore")


def _run(name: str, words: list[str]) -> int:
    if not name:
        return _help(words)
    commands = summaries()
    if name not in commands:
        raise VtakitError(f"unknown command {name!r}; {one_of(commands, name)}")
    module = import_module(f"vtakit.runtime.commands.{name}")
    parser = argparse.ArgumentParser(
        prog=f"vtakit {name}", description=module.__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(words[1:])))


def _help(words: list[str]) -> int:
    commands = summaries()
    width = max(map(len, commands))
    listing = "\n".join(f"  {name:{width}}  {summary}" for name, summary in commands.items())
    parser = argparse.ArgumentParser(
        prog="vtakit", usage="vtakit COMMAND …", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{(vtakit.__doc__ or '').partition(chr(10))[0]}\n\ncommands:\n{listing}",
        epilog="`vtakit COMMAND --help` explains a command.", allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vtakit {vtakit.__version__}")
    parser.parse_args(words)
    parser.print_help()
    return 0
