"""Quantise a float ONNX model to int8.

  vtakit quantize MODEL.onnx --calibration data.npz -o model_int8.onnx

data.npz has an array for each input, by name, whose first dimension counts samples. The result is an ONNX model with
QuantizeLinear and DequantizeLinear, which onnxruntime runs too. Printed is how far it is from the float model: outputs and the
worst values.
"""

import argparse
import json
from pathlib import Path

from vtakit.hw.isa.errors import VtakitError, one_of
from vtakit.runtime.commands._arguments import check_outputs

_METHODS = ("mse", "max", "percentile", "entropy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="float model")
    parser.add_argument(
        "--calibration", type=Path, required=True, metavar="DATA.npz", help="sample inputs that ranges are chosen from")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="INT8.onnx", help="where to write the quantised model")
    parser.add_argument("--evaluation", type=Path, metavar="DATA.npz", help="sample inputs to measure the accuracy on")
    parser.add_argument("--method", default=_METHODS[0], help=f"how ranges are chosen: {', '.join(_METHODS)} (default: mse)")
    parser.add_argument("--no-bias-correction", action="store_true", help="leave the biases as they are")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="where to write the accuracy of every value")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.method not in _METHODS:
        raise VtakitError(f"--method {args.method!r} is no way to choose ranges; {one_of(_METHODS, args.method)}")
    check_outputs(
        ("--output", "the quantised model", args.output), ("--json", "the report", args.json),
        reads=(("the model", args.model), ("the calibration", args.calibration), ("the evaluation", args.evaluation)))
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from vtakit.hw.isa.file import write_bytes
    from vtakit.runtime.quantise import quantize

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"compiling {args.model.name}", total=None)
        found = quantize(
            args.model, args.calibration, method=args.method, bias_correction=not args.no_bias_correction,
            evaluation=args.evaluation,
            progress=lambda what, done, count: bar.update(task, description=what, completed=done, total=count),
        )
    found.save(args.output)
    if args.json is not None:
        write_bytes(args.json, (json.dumps(found.accuracy.to_dict(), indent=2) + "\n").encode(), "the report")
    Console(soft_wrap=True).print(found.accuracy.table())
    left = found.accuracy.left
    print(f"{len(found.scales)} values are int8" + (f"; in floating point stay {', '.join(left)}" if left else ""))
    return 0
