"""Accuracy of int8 networks by `vtakit.quantize` and by onnxruntime's static quantizer, from the same samples.

The networks are those of quantization_networks.py, trained on rendered digits. Each side gets the same calibration samples;
onnxruntime runs what both make, on one thread. Of onnxruntime's quantizer every option of `OPTIONS` is tried, by channel, and
the best is the one with the most right answers, then with the highest signal to noise. Needs `pip install torch`.

    python benchmarks/quantization_peers.py --folder FOLDER [NETWORK …]   print the table; FOLDER keeps the trained networks
    python benchmarks/quantization_peers.py --folder FOLDER --write       write it into docs/quantization.md
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
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from page_parts import write_between
from quantization_networks import BACKGROUND, NETWORKS, TESTED, rendered, trained

import vtakit

PAGE = Path(__file__).parents[1] / "docs" / "quantization.md"
BEGIN, END = "<!-- begin: benchmarks/quantization_peers.py --write -->\n", "<!-- end -->\n"
CALIBRATED = 32  # images
SYMMETRIC = {"ActivationSymmetric": True, "WeightSymmetric": True}
INT8, UINT8 = QuantType.QInt8, QuantType.QUInt8
MINMAX, ENTROPY, PERCENTILE = CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile
OPTIONS: dict[str, dict[str, Any]] = {
    f"{name} {method.name}": {
        "activation_type": data, "weight_type": weight, "calibrate_method": method, "extra_options": extra}
    for name, data, weight, extra in (
        ("U8S8", UINT8, INT8, {}), ("S8S8", INT8, INT8, {}), ("S8S8 symmetric", INT8, INT8, SYMMETRIC),
        ("U8U8", UINT8, UINT8, {}))
    for method in (MINMAX, ENTROPY, PERCENTILE)
}
OPTIONS["U8S8 MinMax reduced"] = OPTIONS["U8S8 MinMax"] | {"reduce_range": True}

Array = np.ndarray[Any, Any]


class Reader(CalibrationDataReader):
    """Samples for onnxruntime's quantizer, one at a time."""

    def __init__(self, images: Array) -> None:
        self.each: Iterator[Array] = iter(images)

    def get_next(self) -> dict[str, Array] | None:
        """The next sample."""
        image = next(self.each, None)
        return None if image is None else {"image": image[None]}


def by_onnxruntime(path: Path, images: Array, options: dict[str, Any]) -> onnx.ModelProto:
    """Return a network as onnxruntime's static quantizer makes it."""
    with tempfile.TemporaryDirectory() as folder:
        first, made = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        quant_pre_process(str(path), str(first), skip_symbolic_shape=True)
        quantize_static(first, made, Reader(images), per_channel=True, **options)
        return onnx.load(made)


def logits(model: onnx.ModelProto, images: Array) -> Array:
    """Return what onnxruntime makes of images."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: Array = session.run(None, {"image": images})[0]
    return found


def right(found: Array, labels: Array, masks: Array) -> float:
    """Return the share of right answers in percent: images, or pixels of digits in a segmentation."""
    if found.ndim == 2:
        return 100 * float(np.mean(found.argmax(1) == labels))
    inked = masks != BACKGROUND
    return 100 * float(np.mean(found.argmax(1)[inked] == masks[inked]))


def decibels(real: Array, found: Array) -> float:
    """Return the signal-to-noise ratio."""
    noise = float(np.square(real.astype(np.float64) - found).sum())
    return 10 * float(np.log10(np.square(real.astype(np.float64)).sum() / max(noise, 1e-30)))


def row(name: str, folder: Path) -> str:
    """Quantize a network by both sides; return a row of the table."""
    path = trained(name, folder)
    samples, _, _ = rendered(TESTED, None, seed=1)
    samples = samples[np.random.default_rng(3).permutation(len(samples))[:CALIBRATED]]
    images, labels, masks = rendered(0, TESTED, seed=2)
    real = logits(onnx.load(path), images)
    quantized = vtakit.quantize(path, samples, evaluation=samples[:1])
    ours = logits(quantized.model, images)
    peers = []
    for option, given in OPTIONS.items():
        try:
            theirs = logits(by_onnxruntime(path, samples, given), images)
        except (RuntimeError, ValueError, onnxruntime.capi.onnxruntime_pybind11_state.Fail) as error:
            print(f"{name}, {option}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
            continue
        peers.append((right(theirs, labels, masks), decibels(real, theirs), option))
    best, loudest = max(peers), max(peers, key=lambda peer: peer[1])
    cells = (NETWORKS[name][0], f"{right(real, labels, masks):.2f} %", f"{right(ours, labels, masks):.2f} %",
             f"{best[0]:.2f} % ({best[2]})", f"{decibels(real, ours):.1f}", f"{loudest[1]:.1f} ({loudest[2]})",
             len(quantized.accuracy.left))
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)} (all)")
    parser.add_argument("--folder", type=Path, required=True, help="folder of trained networks; what it lacks is trained")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    args.folder.mkdir(parents=True, exist_ok=True)
    head = ("network", "float", "vtakit", "onnxruntime's best", "vtakit, dB", "onnxruntime's best, dB", "nodes left in float")
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for name in args.networks or NETWORKS:
        lines.append(row(name, args.folder))
        print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join(lines) + "\n"
    if not args.write:
        sys.stdout.write(table)
        return
    write_between(PAGE, BEGIN, table, END)


if __name__ == "__main__":
    main()
