"""Write a page that shows where the time of a model or program goes, for a browser.

  vtakit report MODEL.onnx -o PAGE.html
  vtakit report MODEL.vtak -o PAGE.html --input IN.npz
  vtakit report INT8.onnx --target vta -o PAGE.html
  vtakit report PROGRAM.vta -o PAGE.html --input NAME=FILE

A model runs on this processor: layers, roofline, time by operator, timeline. With --target vta the page begins with the
launches on the accelerator. A program runs on a simulated accelerator: layers, roofline, stalls, timeline, traffic. Devices
cycle and rtl count cycles; fsim counts none.

Inputs of a model that --input does not name are random numbers from 0 to 1, or zeros if they are integers; buffers of a program
are zeros. The page is one file and needs no network. It needs: pip install 'vtakit[plot]'
"""

import argparse
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError, needs
from vtakit.base.reading import read_bytes
from vtakit.hw.isa.file import MAGIC, parse
from vtakit.hw.isa.program import BufferKind
from vtakit.runtime.commands._arguments import (
    add_memory_system,
    bus_bytes_of,
    check_outputs,
    pairs,
    simulated_core,
    simulated_system,
)
from vtakit.runtime.commands._models import (
    MODULE_SUFFIX,
    add_model,
    add_module,
    arrays,
    model_files,
    module_of,
    say_placement,
)
from vtakit.runtime.targets import find_class, targets
from vtakit.runtime.terminal import say

if TYPE_CHECKING:
    from vtakit.runtime.module import Module
    from vtakit.runtime.report.page import Page
    from vtakit.runtime.target import Target

_PROGRAM_SUFFIX = ".vta"
_PAGE_SUFFIXES = (".html", ".htm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, "module (.vtak)", "program (.vta)")
    add_module(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="page to write")
    parser.add_argument("--device", metavar="DEVICE",
                        help="of a program, or a model with --target vta: cycle (default), rtl or fsim; of another "
                        "model: cpu")
    parser.add_argument("--input", action="append", default=[], metavar="INPUT",
                        help="of a model: IN.npz; of a program: NAME=FILE, which may be repeated")
    add_memory_system(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program = args.model.suffix == _PROGRAM_SUFFIX
    inputs = pairs(args.input, "--input").values() if program else args.input
    reads = [("the program", args.model)] if program else model_files(args.model, [args.output])
    check_outputs(("--output", "the report", args.output), reads=[*reads, *(("the input", path) for path in inputs)])
    if args.output.suffix.lower() not in _PAGE_SUFFIXES:
        raise VtakitError(f"--output {str(args.output)!r} is a page in HTML: give it a name that ends in .html")
    with needs("a page", "plot"):
        import_module("matplotlib")
        import_module("jinja2")
    page = _program_page(args) if program else _model_page(args)
    page.save(args.output)
    say(f"{args.output}: {', '.join(section.title for section in page.sections)}")
    return 0


def _model_page(args: argparse.Namespace) -> "Page":
    from vtakit.runtime.report.ceilings import measure
    from vtakit.runtime.report.module_page import module_page

    if len(args.input) > 1:
        raise VtakitError("a model takes --input once: an .npz file with an array for each input")
    if args.input:
        arrays(Path(args.input[0]))  # what is wrong with the file itself is said before the model is compiled
    module = _module(args)
    given = arrays(Path(args.input[0]), module) if args.input else {}
    given = {**module.some_inputs(), **given} if module.inputs.keys() - given.keys() else given
    profile = module.profile(given)
    say_placement(module.placement)
    if profile.launches:
        say(profile.headline)
    title = f"{args.model.name} on {profile.launches[0].device if profile.launches else 'this processor'}"
    return module_page(title, module.summary, profile, measure(module.target, profile.layers))


def _module(args: argparse.Namespace) -> "Module":
    """Return the module, open on the device that --device names, or on its target's device for reports if it runs there."""
    from vtakit.runtime.placement import NothingPlaced

    if args.device is not None:
        return module_of(args)
    args.device = _target(args).reported or None
    try:
        return module_of(args)
    except NothingPlaced:
        args.device = None
        return module_of(args)


def _target(args: argparse.Namespace) -> "Target | type[Target]":
    if args.model.suffix != MODULE_SUFFIX:
        return find_class(args.target if args.target in targets() else "llvm")  # else the triple of a processor
    from vtakit.runtime.model import load

    with warnings.catch_warnings():  # `module_of` warns
        warnings.simplefilter("ignore")
        module = load(args.model, trusted=args.trusted or None, recompile=args.recompile)
    module.close()
    return module.target


def _program_page(args: argparse.Namespace) -> "Page":
    from vtakit import sim
    from vtakit.runtime.report.accelerator_page import accelerator_page
    from vtakit.runtime.report.report import Report
    from vtakit.runtime.report.sections import layers_of
    from vtakit.sim.api import find_device

    for name in ("shape", "config", "isa", "decisions", "machine"):
        if getattr(args, name):
            raise VtakitError(f"{str(args.model)!r} is a program: --{name} goes with a model")
    if args.batch is not None:
        raise VtakitError(f"{str(args.model)!r} is a program: --batch goes with a model")
    device = args.device or "cycle"
    traced = "trace" in find_device(device).OPTIONS
    data = read_bytes(args.model, "program file")
    if not data.startswith(MAGIC[:4]):
        raise VtakitError(f"{str(args.model)!r} is not a vtakit program file")
    program = parse(data, f"program file {str(args.model)!r}")
    inputs = {name: read_bytes(path, f"input {name}") for name, path in pairs(args.input, "--input").items()}
    for buffer in program.buffers:
        if buffer.kind is BufferKind.INPUT and buffer.data is None:
            inputs.setdefault(buffer.name, bytes(buffer.size_bytes))
    options: dict[str, Any] = ({"trace": True} if traced else {})
    options |= simulated_system(args, device) | simulated_core(args, device)
    result = sim.run(program, inputs, device=device, **options)
    bus_bytes = bus_bytes_of(options) if "cycles" in result.counters else None
    layers = layers_of(args.model.name, program, result.counters, result.trace, bus_bytes=bus_bytes)
    return accelerator_page(f"{args.model.name} on {device}", Report(device, tuple(layers), result.trace))
