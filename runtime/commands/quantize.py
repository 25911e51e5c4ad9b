"""Quantize a float model to int8, the numbers of the accelerator.

  vtakit quantize MODEL.onnx --calibration SAMPLES.npz -o INT8.onnx
  vtakit quantize MODEL.pt2 --calibration SAMPLES.npz -o INT8.onnx

SAMPLES.npz has one array for each input, by name; the first dimension counts samples. Some tens of typical inputs suffice.
The result is an ONNX model with QuantizeLinear and DequantizeLinear nodes, which onnxruntime runs too. The command prints
how far the result is from the float model: the outputs, and the values with the largest error (docs/quantization.md).
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.terminal import console, progress, say

if TYPE_CHECKING:
    from vtakit.runtime.accuracy import Accuracy

_METHODS = ("mse", "max", "percentile", "entropy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="float model: an ONNX file, or a .pt2 file of torch.export")
    parser.add_argument(
        "--calibration", type=Path, required=True, metavar="DATA.npz", help="sample inputs, from which ranges are chosen")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="INT8.onnx", help="quantized model to write")
    parser.add_argument("--evaluation", type=Path, metavar="DATA.npz",
                        help="sample inputs on which the accuracy is measured (default: some of the calibration's)")
    parser.add_argument("--weights", type=int, default=8, metavar="BITS",
                        help="bits of a weight: 8 (default), 4, 2 or 1, for accelerators such as w4 and w2")
    parser.add_argument("--activations", type=int, default=8, metavar="BITS",
                        help="bits of an activation: 8 (default), 4 or 2, for accelerators such as i4w4")
    parser.add_argument("--keep", default="0", metavar="COUNT|LAYER,…",
                        help="layers whose weights keep 8 bits: how many, of those that lose most, or names (default: 0)")
    parser.add_argument("--power-of-two", action="store_true",
                        help="scales are powers of two, one for each layer's weights: for devices that requantize by shifts")
    parser.add_argument("--symmetric", action="store_true", help="activations have no zero points")
    parser.add_argument("--method", default=_METHODS[0], help=f"how a range is chosen: {', '.join(_METHODS)} (default: mse)")
    parser.add_argument("--no-bias-correction", action="store_true", help="do not correct biases for the rounding of the weights")
    parser.add_argument("--float-matrices", action="store_true",
                        help="leave products of two computed matrices, as attention has them, in floating point")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="file for the accuracy of every value")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.method not in _METHODS:
        raise VtakitError(f"--method {args.method!r} is unknown; {one_of(_METHODS, args.method)}")
    check_outputs(
        ("--output", "the quantized model", args.output), ("--json", "the report", args.json),
        reads=(("the model", args.model), ("the calibration", args.calibration), ("the evaluation", args.evaluation)))
    from vtakit.base.writing import write_bytes
    from vtakit.runtime.quantize import quantize

    keep = int(args.keep) if args.keep.isdecimal() else args.keep.split(",")
    with progress() as bar:
        task = bar.add_task(f"compiling {one_line(args.model.name)}", total=None)
        found = quantize(
            args.model, args.calibration, weights=args.weights, activations=args.activations, keep=keep,
            power_of_two=args.power_of_two, symmetric=args.symmetric, method=args.method,
            bias_correction=not args.no_bias_correction, matrices=not args.float_matrices, evaluation=args.evaluation,
            progress=lambda what, done, count: bar.update(task, description=what, completed=done, total=count),
        )
    found.save(args.output)
    if args.json is not None:
        write_bytes(args.json, (json.dumps(found.accuracy.to_dict(), indent=2) + "\n").encode(), "the report")
    console(soft_wrap=True).print(found.accuracy.table())
    say(f"{counted(len(found.scales), 'value is', 'values are')} int8")
    for line in found.accuracy.left_lines():
        say(line)
    if args.weights < 8:
        say(_bits(found.accuracy, args.weights))
    isa = " --isa original" if args.power_of_two else ""
    say(f"next: vtakit compile {args.output} --target vta{isa} -o {args.output.with_suffix('.vtak')}")
    return 0


def _bits(accuracy: "Accuracy", bits: int) -> str:
    """Return a sentence with the bit width of the weights and the layers that stay at 8 bits."""
    kept = [one_line(layer.name) for layer in accuracy.layers if layer.bits != bits]
    few = counted(len(accuracy.layers) - len(kept), "layer has", "layers have")
    total = f"{accuracy.weight_bytes / 1e6:.2f} MB of weights"
    return f"{few} weights of {counted(bits, 'bit')}" + (f"; 8 bits keep {', '.join(kept)}" if kept else "") + f": {total}"
