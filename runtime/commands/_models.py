"""Arguments that commands take that compile models."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vtakit.hw.isa.errors import VtakitError, one_of
from vtakit.runtime.commands._arguments import add_config, number

if TYPE_CHECKING:
    from vtakit.compiler.codegen.llvm.target import Target
    from vtakit.compiler.graph.passes.base import Seen
    from vtakit.runtime.module import Module

MODULE_SUFFIX = ".vtak"
_TARGETS = ("llvm", "vta")
_DEVICES = ("cpu", "fsim", "rtl")


def add_model(parser: argparse.ArgumentParser) -> None:
    """A model, and what is to be known of it before it is compiled."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="ONNX model, or a .pt2 file of torch.export")
    parser.add_argument("--target", default="llvm",
                        help="what to compile for: llvm, this machine (default), vta, or a machine such as aarch64-linux-gnu")
    parser.add_argument("--cpu", default="", metavar="NAME", help="LLVM's name of a processor, such as x86-64-v3 or neoverse-n1")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=N,N,…", help="shape of an input with open sizes")
    parser.add_argument("--batch", type=number, default=1, metavar="N", help="size of a symbolic first dimension (1)")
    add_config(parser)
    parser.add_argument("--dump-images", type=Path, metavar="DIR", help="folder for the DRAM before each launch")
    parser.add_argument("--precision", default="float32",
                        help="of what a CPU computes: float32 (default), or float16 or bfloat16, which are less exact")
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

    target = _target(args.target, args.cpu)
    if target != "vta" and (args.config is not None or args.dump_images is not None):
        raise VtakitError(f"--{'config' if args.config is not None else 'dump-images'} goes with --target vta")
    shapes = _shapes(args.shape)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"compiling {args.model.name}", total=None)
        return compile(
            args.model, target, shapes=shapes, batch=args.batch, precision=args.precision, after=after,
            cache=not args.no_cache, config=args.config, device=device,
            progress=lambda done, count: bar.update(task, completed=done, total=count),
        )


def _target(word: str, cpu: str) -> "Literal['llvm', 'vta'] | Target":
    """What --target and --cpu mean together."""
    from vtakit.compiler.codegen.llvm.target import Target

    if word == "vta" and cpu:
        raise VtakitError("--cpu goes with a target that is a processor: llvm, or LLVM's name of a machine")
    if word == "vta":
        return "vta"
    if word == "llvm" and not cpu:
        return "llvm"
    if word != "llvm" and "-" not in word:
        raise VtakitError(f"--target {word!r} is no target of models; {one_of((*_TARGETS, 'aarch64-linux-gnu'), word)}")
    return Target(Target.host().triple if word == "llvm" else word, cpu)


def module_of(args: argparse.Namespace) -> "Module":
    """The module that the arguments of `add_model` and --device name: a file of one, or a model that is compiled."""
    device = args.device
    if device == "cycle":
        from vtakit.runtime.vta.registry import unknown_device

        raise unknown_device(device)
    if device is not None and device not in _DEVICES:
        raise VtakitError(f"--device {device!r} is no device of models; {one_of(_DEVICES, device)}")
    if args.model.suffix != MODULE_SUFFIX:
        _check_device(device, accelerator=args.target == "vta")
        return compiled(args, device=device)
    from vtakit.runtime.model import load

    if args.shape or args.batch != 1 or args.config is not None or args.precision != "float32":
        raise VtakitError(f"{str(args.model)!r} is compiled already: --shape, --batch, --config and --precision go with an ONNX "
                          "model")
    module = load(args.model, device)
    _check_device(device, accelerator=bool(module.image.vta_parts))
    return module


def _check_device(device: str | None, *, accelerator: bool) -> None:
    """Refuse a device that a model is not compiled for."""
    if device is not None and (device == "cpu") is accelerator:
        why = "the accelerator (--target vta): use --device fsim or rtl" if accelerator else "the CPU: use --target vta"
        raise VtakitError(f"--device {device}: the model is compiled for {why}")


def arrays(path: Path) -> dict[str, Any]:
    """The arrays of the .npz file that --input names."""
    import zipfile

    import numpy as np

    try:
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise VtakitError(f"--input {str(path)!r} has one array without a name: write it with numpy.savez")
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise VtakitError(f"cannot read --input {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise VtakitError(f"--input {str(path)!r} is no .npz file of numbers, or a damaged one: {error}") from None


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
