"""Real networks in int8 beside onnxruntime: how many outputs are within one quantum, with its optimisations and without.

    python benchmarks/quantized_agreement.py [--images N] [--size N] [NETWORK …]     print the table
    python benchmarks/quantized_agreement.py --write                                 write it into docs/quantization.md

Weights are random, images are of 64x64 pixels where there is a choice. Models are those that `vtakit.quantize` makes, and
ResNet-18 as onnxruntime's static quantizer makes it too.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from page_parts import write_between

import vtakit
from vtakit import models

NAMES = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "dqn", "dcgan")
CALIBRATED = 4  # images that ranges are chosen from
PAGE = Path(__file__).parents[1] / "docs" / "quantization.md"
BEGIN, END = "<!-- begin: benchmarks/quantized_agreement.py --write -->\n", "<!-- end -->\n"

Arrays = dict[str, np.ndarray]


class Reader(CalibrationDataReader):
    """Samples for onnxruntime's quantizer, one at a time."""

    def __init__(self, samples: list[Arrays]) -> None:
        self.samples: Iterator[Arrays] = iter(samples)

    def get_next(self) -> Arrays | None:
        """The next sample."""
        return next(self.samples, None)


def by_onnxruntime(model: onnx.ModelProto, samples: list[Arrays]) -> onnx.ModelProto:
    """A model as onnxruntime's static quantizer makes it: symmetric int8, weights by channel."""
    logging.getLogger().setLevel(logging.ERROR)  # where its quantizer says what might be better
    with tempfile.TemporaryDirectory() as folder:
        first, path = Path(folder, "float.onnx"), Path(folder, "quantized.onnx")
        quant_pre_process(model, first, skip_symbolic_shape=True)  # folds batch normalization
        quantize_static(
            first, path, Reader(samples), per_channel=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True})
        return onnx.load(path)


def session(model: onnx.ModelProto, optimised: bool) -> onnxruntime.InferenceSession:
    """A model in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def quantum(model: onnx.ModelProto) -> float:
    """The real value of 1 in the int8 value that the output is made of."""
    makers = {node.output[0]: node for node in model.graph.node}
    last = makers[model.graph.output[0].name]
    while last.op_type != "DequantizeLinear":
        last = makers[last.input[0]]
    scales = [tensor for tensor in model.graph.initializer if tensor.name == last.input[1]]
    return float(onnx.numpy_helper.to_array(scales[0]).max())


def shown(got: list[np.ndarray], want: list[np.ndarray], step: float) -> str:
    """How much of two lists of outputs is within a quantum, and whether it is equal."""
    if all(a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True)):
        return "100 % (equal)"
    within = np.mean([np.abs(a - b) < 1.5 * step for a, b in zip(got, want, strict=True)])
    return f"{100 * within:.4g} %"


def row(title: str, model: onnx.ModelProto, images: list[Arrays]) -> str:
    """A line of the table."""
    step = quantum(model)
    runs: list[Any] = [session(model, False), session(model, True)]
    plain, optimised = ([run.run(None, x)[0] for x in images] for run in runs)
    module = vtakit.compile(model)
    found = [next(iter(module.run(x).values())) for x in images]
    cells = [shown(found, optimised, step), shown(found, plain, step), shown(optimised, plain, step)]
    return f"| {title} | {' | '.join(cells)} |"


def rows(names: list[str], count: int, wanted: int) -> Iterator[str]:
    """The table's lines."""
    for name in names:
        size = wanted if models.find(name).resizable else None
        model, given = models.build(name, size=size), models.inputs(name, CALIBRATED + count, size=size, seed=2)
        samples = [{key: array[at:at + 1] for key, array in given.items()} for at in range(CALIBRATED + count)]
        calibration = {key: array[:CALIBRATED] for key, array in given.items()}
        title = models.find(name).title
        made = vtakit.quantize(model, calibration, evaluation={key: array[:1] for key, array in given.items()}).model
        yield row(f"{title}, vtakit", made, samples[CALIBRATED:])
        if name == "resnet18":
            yield row(f"{title}, onnxruntime", by_onnxruntime(model, samples[:CALIBRATED]), samples[CALIBRATED:])


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(models.NETWORKS)} ({', '.join(NAMES)})")
    parser.add_argument("--images", type=int, default=4, metavar="N", help="images, or noises, of each network (4)")
    parser.add_argument("--size", type=int, default=64, metavar="N", help="pixels of a side, where there is a choice (64)")
    parser.add_argument("--write", action="store_true", help="write the page instead of printing")
    args = parser.parse_args()
    if args.write and args.networks:
        parser.error("--write needs every network: name none")
    head = ("network, quantized by", "vtakit and onnxruntime", "and without its optimisations", "onnxruntime with and without")
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for line in rows(args.networks or list(NAMES), args.images, args.size):
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    table = "\n".join(lines) + "\n"
    if not args.write:
        sys.stdout.write(table)
        return
    write_between(PAGE, BEGIN, table, END)


if __name__ == "__main__":
    main()
