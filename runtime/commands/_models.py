"""Arguments that commands take that compile models."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.hw.isa.errors import VtakitError, one_of
from vtakit.runtime.commands._arguments import add_config, number

if TYPE_CHECKING:
    from vtakit.compiler.graph.passes.base import Seen
    from vtakit.runtime.module import Module

MODULE_SUFFIX = ".vtak"
_TARGETS = ("llvm", "vta")


def add_model(parser: argparse.ArgumentParser) -> None:
    """A model, and what is to be known of it before it is compiled."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="ONNX model")
    parser.add_argument("--target", default="llvm", help="what to compile for: llvm, this machine (default), or vta")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=N,N,…", help="shape of an input with open sizes")
    parser.add_argument("--batch", type=number, default=1, metavar="N", help="size of a symbolic first dimension (1)")
    add_config(parser)
    parser.add_argument("--dump-images", type=Path, metavar="DIR", help="folder for the DRAM before each launch")
    parser.add_argument("--no-cache", action="store_true", help="compile anew what was compiled before")


def model_files(path: Path, outputs: Sequence[Path | None]) -> list[tuple[str, Path]]:
    """What a command reads for a model, for `check_outputs`: the file, and its external data if an output is there already."""
    found = [("the model", path)]
    if path.suffix == MODULE_SUFFIX or not any(output is not None and output.is_file() for output in outputs):
        return found
    from vtakit.compiler.frontend.onnx.reader import external_files

    return found + [("the model's data", data) for data in external_files(path)]


def compiled(args: argparse.Namespace, after: "Seen | None" = None, device: str | None = None) -> "Module":
    """Compile the model that the arguments of `add_model` name, with a progress bar; `after` sees each pass."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from vtakit.runtime.model import compile

    if args.target not in _TARGETS:
        raise VtakitError(f"--target {args.target!r} is no target of models; {one_of(_TARGETS, args.target)}")
    if args.target == "llvm" and (args.config is not None or args.dump_images is not None):
        raise VtakitError(f"--{'config' if args.config is not None else 'dump-images'} goes with --target vta")
    shapes = _shapes(args.shape)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"compiling {args.model.name}", total=None)
        return compile(
            args.model, args.target, shapes=shapes, batch=args.batch, after=after, cache=not args.no_cache, config=args.config,
            device=device,
            progress=lambda done, count: bar.update(task, completed=done, total=count),
        )


def _shapes(words: list[str]) -> dict[str, tuple[int, ...]]:
    found = {}
    for word in words:
        name, equals, sizes = word.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes else []
        if not equals or not name or not all(part.isascii() and part.isdigit() for part in parts):
            raise VtakitError(f"--shape takes NAME=N,N,…, got {word!r}")
        if name in found:
            raise VtakitError(f"--shape names {name!r} twice")
        found[name] = tuple(int(part) for part in parts)
    return found
