"""Run a model on arrays.

  vtakit run MODEL.onnx --input IN.npz --output OUT.npz
  vtakit run INT8.onnx --target vta --device rtl --input IN.npz --profile
  vtakit run MODEL.vtak --input IN.npz                  a file that `vtakit compile` wrote

IN.npz has one array for each input, by name; OUT.npz gets one for each output. Without --output the command prints the type and
range of each result. --profile and --json give the cost of each layer: cycles and bytes on the accelerator, time on the CPU.

With --target vta the accelerator runs the layers in int8, and the CPU the others; the command lists what is left to the CPU.
A float model must be quantized first: `vtakit quantize`.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError
from vtakit.base.text import one_line
from vtakit.runtime.commands._arguments import add_board, add_memory_system, check_outputs
from vtakit.runtime.commands._models import add_model, add_module, arrays, model_files, module_of, say_placement, warn_placement
from vtakit.runtime.terminal import console, say

if TYPE_CHECKING:
    from vtakit.runtime.module import Module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, "module (.vtak)")
    add_module(parser)
    parser.add_argument("--device", metavar="DEVICE",
                        help="cpu; with --target vta fsim, the functional simulator (default), rtl, the hardware in "
                        "Verilator, cycle, which counts the cycles of rtl, sim:ulx3s, a whole board in Verilator, "
                        "board:/dev/ttyUSB0, a board at a serial port, uio:/dev/uio0 or pynq:FILE.bit, the FPGA of a Zynq that "
                        "this runs on, or original:/dev/uio0, the same with the original's bitstream")
    parser.add_argument("--input", type=Path, metavar="IN.npz", help="arrays, by the names of the inputs")
    parser.add_argument("--output", type=Path, metavar="OUT.npz", help="file for the results")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="file for the cost of each layer")
    parser.add_argument("--profile", action="store_true", help="print the cost of each layer: cycles, or time on the CPU")
    add_memory_system(parser)
    add_board(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    import numpy as np

    reads = [*model_files(args.model, [args.output, args.json]), ("the input", args.input)]
    check_outputs(("--output", "the results", args.output), ("--json", "the report", args.json), reads=reads)
    if args.input:
        arrays(args.input)  # what is wrong with the file itself is said before the model is compiled
    module = module_of(args)
    given = arrays(args.input, module) if args.input else {}
    _check_given(module, given, args.input)
    made = _by_name(module.run(given))
    if not args.profile:  # which says the same
        say_placement(module.placement)
        _say_cycles(module)
    if args.dump_images is not None:
        module.dump_images(args.dump_images, given)
    if args.output is not None:
        from vtakit.base.writing import unwritable, written_whole

        with written_whole(args.output, "the results") as file, unwritable(args.output, "the results"), file.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **made)
    else:
        for name, array in made.items():
            say(f"{one_line(name)}: {array.dtype}{list(array.shape)}{_range(array)}")
    if args.profile or args.json is not None:
        _report(module, given, args)
    return 0


def _by_name(made: dict[str, Any]) -> dict[str, Any]:
    """Return results as arrays: an element of a sequence has its number behind the name, an empty optional is left out."""
    found = {}
    for name, value in made.items():
        elements = enumerate(value) if isinstance(value, list) else []
        found.update({f"{name}.{at}": each for at, each in elements} if isinstance(value, list) else {name: value})
    return {name: value for name, value in found.items() if value is not None}


def _check_given(module: "Module", given: dict[str, Any], path: Path | None) -> None:
    """Raise VtakitError for an input of the model without an array, unless it is an optional one."""
    missing = [name for name, kind in module.inputs.items() if name not in given and not kind.startswith("optional ")]
    if not missing:
        return
    kinds = ", ".join(f"{name!r} ({module.inputs[name]})" for name in missing)
    have = "--input is not given" if path is None else f"--input {str(path)!r} has no array of that name"
    name = missing[0]
    array = f"{name}=…" if name.isidentifier() else f"**{{{name!r}: …}}"
    raise VtakitError(f"the model needs {kinds}, and {have}: write the arrays with numpy.savez('IN.npz', {array}) and give "
                      "--input IN.npz")


def _say_cycles(module: "Module") -> None:
    """Say how many cycles the accelerator took, where the device counts them."""
    launches = [counters["cycles"] for counters in module.counters if "cycles" in counters]
    if launches:
        say(f"{sum(launches):,} cycles on the accelerator")


def _range(array: Any) -> str:
    return f" from {array.min()} to {array.max()}" if array.size else ""


def _report(module: "Module", given: dict[str, Any], args: argparse.Namespace) -> None:
    from vtakit.base.writing import write_bytes

    profile = module.profile(given)
    if args.json is not None:
        write_bytes(args.json, (json.dumps(profile.to_dict(), indent=2) + "\n").encode(), "the report")
    if args.profile:
        warn_placement(module.placement)
        for line in profile.lines:
            say(line)
        console().print(profile.tables())
