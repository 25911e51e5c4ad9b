"""Arguments of the commands that compile models, and what they print of a compiled one."""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.text import one_line
from vtakit.runtime.commands._arguments import (
    ISA_HELP,
    add_config,
    add_core,
    add_system,
    board_options,
    core_of,
    memory_system,
    simulated_system,
)
from vtakit.runtime.commands._sizes import read_batch, sizes_of
from vtakit.runtime.terminal import progress, say

if TYPE_CHECKING:
    from vtakit.compiler.graph.passes.base import Seen
    from vtakit.runtime.module import Module
    from vtakit.runtime.placement import Placement
    from vtakit.runtime.target import Target

MODULE_SUFFIX = ".vtak"
_OTHER_FILES = {  # what is no model to be compiled, and what takes it
    MODULE_SUFFIX: "a compiled model already; `vtakit run` and `vtakit report` take it",
    ".vta": "a program of the accelerator; `vtakit sim` runs it",
    ".vtas": "a program's text; `vtakit asm` assembles it, and `vtakit sim` runs the result",
}


def add_model(parser: argparse.ArgumentParser, *others: str, makes_code: bool = True) -> None:
    """Declare a model and how it is compiled.

    others     : files that the command takes beside models
    makes_code : whether the command makes code, which the cache may have and whose images can be written
    """
    kinds = ", ".join(["ONNX model", ".pt2 file of torch.export", ".tflite file", *others])
    parser.add_argument("model", type=Path, metavar="MODEL", help=kinds)
    parser.add_argument("--target", default="llvm", action=_TargetAction,
                        help="llvm, this machine (default); vta, the accelerator; cuda or opencl, a GPU; a machine such as "
                        "aarch64-linux-gnu; or help, "
                        "which lists them")
    parser.add_argument("--cpu", default="", metavar="NAME", help="LLVM's name of a processor, such as x86-64-v3 or neoverse-n1")
    parser.add_argument("--arch", metavar="NAME",
                        help="architecture of an NVIDIA GPU, such as sm_90a (that of the first GPU, else sm_80)")
    parser.add_argument("--machine", type=Path, action=_MachineAction, metavar="FILE.json",
                        help="fields of the processor's record that differ from what the compiler assumes of it, such as "
                        "l2_bytes; or help, which lists the fields, with the values for this machine, or for the --target and "
                        "--cpu before it")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=N,N,…",
                        help="shape of an input whose sizes the model leaves open; may be repeated. A word in place of a number "
                        "is a size that stays open, with a range after a colon: x=1,n:1..512")
    parser.add_argument("--batch", type=read_batch, metavar="N",
                        help="size of a symbolic first dimension, or a range in which it stays open, as 1..64 (1, and open if "
                        "other sizes are)")
    if makes_code:
        parser.add_argument("--ahead", action="append", default=[], metavar="WORD=N,N,…",
                            help="values of a size that stays open to compile for at once; may be repeated")
    add_config(parser)
    add_system(parser)
    parser.add_argument("--isa", metavar="ISA", help=f"instructions that programs for the accelerator may use: {ISA_HELP}")
    add_core(parser)
    parser.add_argument("--precision", default="float32",
                        help="of a CPU: float32 (default), or float16 or bfloat16, which are faster and less exact")
    parser.add_argument("--decisions", type=Path, metavar="FILE.json",
                        help="values of decisions that are not the default, as `vtakit decisions -o` writes them")
    if makes_code:
        parser.add_argument("--tuned", metavar="RECORDS.jsonl",
                            help="records of `vtakit tune`, or `shipped` for those of this package: the decisions of the best "
                            "candidates")
    if makes_code:
        parser.add_argument("--dump-images", type=Path, metavar="DIR",
                            help="with --target vta: folder for the DRAM before each launch, as files for `vtakit sim --image`")
        parser.add_argument("--no-cache", action="store_true",
                            help="compile anew, although the result of an earlier call is kept")


def add_module(parser: argparse.ArgumentParser) -> None:
    """Declare how a module file is loaded, by commands that take one in place of a model."""
    parser.add_argument("--trusted", type=Path, action="append", default=[], metavar="KEY.pub.pem",
                        help="of a .vtak file: load it only if this key has signed it (see `vtakit sign`); may be repeated")
    parser.add_argument("--recompile", action="store_true",
                        help="of a .vtak file: build the code anew from the graph in the file, and run none that it has")


def refuse_module_options(args: argparse.Namespace) -> None:
    """Refuse the arguments of `add_module` beside a model that is compiled."""
    if args.recompile or args.trusted:
        option = "--recompile" if args.recompile else "--trusted"
        raise VtakitError(f"{option} goes with a module file (.vtak), which has machine code; a model has none")


def refuse_other_files(path: Path) -> None:
    """Raise VtakitError for a file that is no model, but something of ours."""
    if cure := _OTHER_FILES.get(path.suffix):
        raise VtakitError(f"{str(path)!r} is {cure}")


def decisions_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the file of --decisions says: layer -> decision -> value. Raises VtakitError for a file that does not."""
    from vtakit.compiler.graph.decisions import read_decisions

    return read_decisions(args.decisions)


def model_files(path: Path, outputs: Sequence[Path | None]) -> list[tuple[str, Path]]:
    """Return the files that a model is read from, for `check_outputs`: itself, and external data if an output exists already."""
    found = [("the model", path)]
    if path.suffix == MODULE_SUFFIX or not any(output is not None and output.is_file() for output in outputs):
        return found
    from vtakit.compiler.frontend.onnx.reader import external_files

    return found + [("the model's data", data) for data in external_files(path)]


def compiled(
    args: argparse.Namespace, after: "Seen | None" = None, device: str | None = None, host: str | None = None, **options: Any
) -> "Module":
    """Compile the model that the arguments of `add_model` name, with a progress bar; `after` sees each pass.

    host            : the processor beside the accelerator, which --cpu then is of; None is this machine
    device, options : as the user gave them; None is the target's own device
    """
    from vtakit.runtime.model import compile
    from vtakit.runtime.placement import PlacementWarning

    refuse_other_files(args.model)
    target, decisions = target_of(args, host), decisions_of(args)
    shapes, batch = sizes_of(args.shape, args.batch, args.ahead)
    with progress() as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", PlacementWarning)  # `say_placement` says it
        task = bar.add_task(f"compiling {one_line(args.model.name)}", total=None)
        return compile(
            args.model, target, shapes=shapes, batch=batch, precision=args.precision, decisions=decisions,
            tuned=args.tuned, after=after, cache=not args.no_cache, device=device, **options,
            progress=lambda done, count: bar.update(task, completed=done, total=count),
        )


def say_placement(placement: "Placement") -> None:
    """Print which layers run on the accelerator and which on the CPU, if the model was compiled for the accelerator."""
    warn_placement(placement)
    if placement.launches or placement.warning:
        say(str(placement))


def warn_placement(placement: "Placement") -> None:
    """Warn if a model is compiled for the accelerator and nothing of it runs there."""
    from vtakit.runtime.placement import PlacementWarning

    if placement.warning:
        warnings.warn(placement.warning, PlacementWarning, stacklevel=2)


class _TargetAction(argparse.Action):
    """--target; `help` prints the targets and ends."""

    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, option: str | None = None) -> None:
        if value == "help":
            from vtakit.runtime.targets import find_class, targets

            for name in targets():
                cls = find_class(name)
                say(f"{name:8} {cls.summary} (--device {', '.join(cls.devices)})")
            parser.exit()
        setattr(args, self.dest, value)


class _MachineAction(argparse.Action):
    """--machine; `help` prints the record of the target so far and ends."""

    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, option: str | None = None) -> None:
        if value == Path("help"):
            from vtakit.compiler.codegen.llvm.machine import facts
            from vtakit.compiler.codegen.llvm.machines import machine_of
            from vtakit.runtime.cpu.target import Cpu

            if args.target != "llvm" and "-" not in args.target:
                raise VtakitError(f"--machine goes with --target llvm; this is --target {args.target}")
            options = {"triple": args.target} if "-" in args.target else {}
            there = machine_of(Cpu.make(**options, **({"cpu": args.cpu} if args.cpu else {})))
            for fact in facts():
                say(f"{fact.name:22} {getattr(there, fact.name):>9,} {fact.unit}: {fact.meaning}")
            parser.exit()
        setattr(args, self.dest, value)


def target_of(args: argparse.Namespace, host: str | None) -> "Target":
    """Return the target that --target, --cpu, --config and --host name together."""
    from vtakit.runtime.target import Target
    from vtakit.runtime.targets import find_class, target, targets

    word, options = args.target, dict[str, Any]()
    name = "llvm" if "-" in word else word
    if name not in targets():
        raise VtakitError(f"--target {word!r} is unknown; {one_of((*targets(), 'aarch64-linux-gnu'), word)}")
    if name != word:
        options["triple"] = word
    options |= {name: getattr(args, name) for name in ("config", "system", "isa", "machine", "arch")
                if getattr(args, name) is not None}
    if core := core_of(args):
        if "core" not in find_class(name).options:
            raise VtakitError(f"options of a smaller core go with --target vta; this is --target {word}")
        options["core"] = core
    if host is not None:
        if "-" not in host:
            raise VtakitError(f"--host {host!r} is no machine: give LLVM's name of one, such as aarch64-linux-gnu")
        options["host"] = target("llvm", triple=host, **({"cpu": args.cpu} if args.cpu else {}))
    elif args.cpu:
        options["cpu"] = args.cpu
    for option in options:
        if option not in find_class(name).options:
            having = " or ".join(other for other in targets() if option in find_class(other).options)
            raise VtakitError(f"--{option} goes with --target {having}, or a machine; this is --target {word}"
                              if option == "cpu" else f"--{option} goes with --target {having}; this is --target {word}")
    if getattr(args, "dump_images", None) is not None and find_class(name).dump_images is Target.dump_images:
        raise VtakitError(f"--dump-images goes with a target that has launches; --target {word} has none")
    return target(name, **options)


def module_of(args: argparse.Namespace) -> "Module":
    """Return the module that the arguments of `add_model`, --device and `add_memory_system` name: loaded, or compiled."""
    device = args.device
    options = memory_system(args, device) | board_options(args)
    if args.model.suffix != MODULE_SUFFIX:
        refuse_module_options(args)
        return compiled(args, device=device, **options)
    from vtakit.runtime.model import load

    given = any(getattr(args, name, None) is not None for name in ("config", "isa", "machine", "arch", "decisions", "tuned"))
    given = given or bool(core_of(args))
    if args.shape or args.ahead or args.batch is not None or args.precision != "float32" or given:
        raise VtakitError(f"{str(args.model)!r} is compiled already: --shape, --batch, --ahead, --config, --isa, --machine, "
                          "--arch, --precision, --decisions, --tuned and options of a smaller core go with a model that is not")
    options = simulated_system(args, device) | board_options(args)
    return load(args.model, device, trusted=args.trusted or None, recompile=args.recompile, **options)


def arrays(path: Path, module: "Module | None" = None) -> dict[str, Any]:
    """Return the arrays of the .npz file that --input names.

    module : whose inputs they are. Arrays that fit none have no data: the run that they are given to says what is wrong
    """
    from vtakit.compiler.frontend.npz import read_npz

    return read_npz(path, "--input", lambda name, header: module is not None and module.takes(name, header.shape, header.dtype))
