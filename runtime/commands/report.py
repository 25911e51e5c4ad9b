"""Write a page of where the time of a model or a program went, to be read in a browser.

  vtakit report MODEL.onnx -o page.html
  vtakit report model.vtak -o page.html --input in.npz
  vtakit report MODEL.onnx --target vta --device rtl -o page.html
  vtakit report PROGRAM.vta -o page.html --device rtl --input NAME=FILE

A model runs on this processor: layers, roofline, time by operator, timeline; with --target vta what it does on the accelerator
comes first, launch by launch, as for a program. Inputs that --input does not name are random numbers from 0 to 1, or zeros where
they are integers. A program runs on a simulated accelerator, by default the hardware in Verilator: layers, roofline, stalls,
timeline, traffic; fsim is quick and has no cycles. Buffers that --input does not name hold zeros.
The page is one file and needs no network; `vtakit[plot]` brings what makes it.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.hw.isa.errors import VtakitError, needs
from vtakit.hw.isa.file import MAGIC, parse, read_bytes
from vtakit.hw.isa.program import BufferKind
from vtakit.runtime.commands._arguments import check_outputs, pairs
from vtakit.runtime.commands._models import add_model, arrays, model_files, module_of

if TYPE_CHECKING:
    from vtakit.runtime.report.page import Page

_PROGRAM_SUFFIX = ".vta"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="where to write the page")
    parser.add_argument("--device", help="of a program: rtl (default) or fsim; of a model as vtakit run has it")
    parser.add_argument("--input", action="append", default=[], metavar="IN", help="of a model: IN.npz; of a program: NAME=FILE")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program = args.model.suffix == _PROGRAM_SUFFIX
    inputs = pairs(args.input, "--input").values() if program else args.input
    reads = [("the program", args.model)] if program else model_files(args.model, [args.output])
    check_outputs(("--output", "the report", args.output), reads=[*reads, *(("the input", path) for path in inputs)])
    with needs("a page", "plot"):
        import_module("matplotlib")
        import_module("jinja2")
    page = _program_page(args) if program else _model_page(args)
    page.save(args.output)
    print(f"{args.output}: {', '.join(section.title for section in page.sections)}")
    return 0


def _model_page(args: argparse.Namespace) -> "Page":
    from vtakit.runtime.report.ceilings import measure
    from vtakit.runtime.report.module_page import module_page

    if len(args.input) > 1:
        raise VtakitError("a model takes --input once: an .npz file with an array for each input")
    given = arrays(Path(args.input[0])) if args.input else {}
    module = module_of(args)
    for port in module.image.inputs:
        if port.name not in given:
            given[port.name] = _some(port.shape, port.dtype)
    profile = module.profile(given)
    title = f"{args.model.name} on {profile.launches[0].device if profile.launches else 'this processor'}"
    return module_page(title, module.image, profile, measure(module.image.target))


def _some(shape: tuple[int, ...], kind: Any) -> Any:
    import numpy as np

    from vtakit.compiler.graph.builder import numpy_dtype

    dtype = numpy_dtype(kind)
    if dtype.kind in "biu":
        return np.zeros(shape, dtype)
    return np.random.default_rng(0).random(shape).astype(dtype)


def _program_page(args: argparse.Namespace) -> "Page":
    from vtakit import sim
    from vtakit.hw.params import CoreParams
    from vtakit.runtime.report.accelerator_page import accelerator_page
    from vtakit.runtime.report.report import Report
    from vtakit.runtime.report.sections import layers_of
    from vtakit.sim.api import find_device

    if args.shape or args.batch != 1:
        raise VtakitError(f"{str(args.model)!r} is a program: --shape and --batch go with an ONNX model")
    device = args.device or "rtl"
    traced = "trace" in find_device(device).OPTIONS
    data = read_bytes(args.model, "program file")
    if not data.startswith(MAGIC[:4]):
        raise VtakitError(f"{str(args.model)!r} is not a vtakit program file")
    program = parse(data, f"program file {str(args.model)!r}")
    inputs = {name: read_bytes(path, f"input {name}") for name, path in pairs(args.input, "--input").items()}
    for buffer in program.buffers:
        if buffer.kind is BufferKind.INPUT and buffer.data is None:
            inputs.setdefault(buffer.name, bytes(buffer.size_bytes))
    options: dict[str, Any] = {"trace": True} if traced else {}
    result = sim.run(program, inputs, device=device, **options)
    bus_bytes = CoreParams().bus_bits / 8 if "cycles" in result.counters else None
    layers = layers_of(args.model.name, program, result.counters, result.trace, bus_bytes=bus_bytes)
    return accelerator_page(f"{args.model.name} on {device}", Report(device, tuple(layers), result.trace))
