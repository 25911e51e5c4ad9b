"""Run a model on arrays.

  vtakit run MODEL.onnx --input in.npz --output out.npz --json report.json
  vtakit run MODEL.onnx --target vta --device rtl --input in.npz
  vtakit run model.vtak --input in.npz                  what `vtakit compile` wrote

in.npz has an array for each input, by name; out.npz gets one for each output. Without --output the results' types and ranges are
printed. --json and --profile say how long each layer takes, and of those on the accelerator where their cycles went.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.commands._models import add_model, arrays, model_files, module_of

if TYPE_CHECKING:
    from vtakit.runtime.module import Module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser)
    parser.add_argument("--device", metavar="D", help="what to run it on: cpu, or with --target vta fsim (default) or rtl")
    parser.add_argument("--input", type=Path, metavar="IN.npz", help="arrays, by the names of the inputs")
    parser.add_argument("--output", type=Path, metavar="OUT.npz", help="where to write the results")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="where to write the time of each layer")
    parser.add_argument("--profile", action="store_true", help="print the time of each layer")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    import numpy as np

    reads = [*model_files(args.model, [args.output, args.json]), ("the input", args.input)]
    check_outputs(("--output", "the results", args.output), ("--json", "the report", args.json), reads=reads)
    given = arrays(args.input) if args.input else {}
    module = module_of(args)
    made = module.run(given)
    if args.dump_images is not None:
        module.dump_images(args.dump_images, given)
    if args.output is not None:
        from vtakit.hw.isa.file import unwritable, written_whole

        with written_whole(args.output, "the results") as file, unwritable(args.output, "the results"), file.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **made)
    else:
        for name, array in made.items():
            print(f"{name}: {array.dtype}{list(array.shape)}{_range(array)}")
    if args.profile or args.json is not None:
        _report(module, given, args)
    return 0


def _range(array: Any) -> str:
    return f" from {array.min()} to {array.max()}" if array.size else ""


def _report(module: "Module", given: dict[str, Any], args: argparse.Namespace) -> None:
    from vtakit.hw.isa.file import write_bytes

    profile = module.profile(given)
    if args.json is not None:
        write_bytes(args.json, (json.dumps(profile.to_dict(), indent=2) + "\n").encode(), "the report")
    if args.profile:
        from rich.console import Console

        Console().print(profile.tables())
