"""Measure accuracy, bytes and exact RTL cycles of networks quantized to eight bits and fewer.

Two networks are trained in NumPy: that of examples/digits on images of 8x8 pixels, and the residual one of
tests/trained_network.py on images of 32x32 pixels in three colours. Accuracy is that on images that training has not seen. Each
runs, one image at a time, on the accelerator whose weights have as many bits, with the bytes of the CPU's integers.

    python benchmarks/low_precision.py            print the table
    python benchmarks/low_precision.py --write    write it into docs/quantization.md
"""

import argparse
import sys
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from page_parts import write_between

import vtakit
from vtakit.runtime.module import Module

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
COLOURED = import_module("trained_network")
TRAINING = import_module("training")  # of examples/digits, where `trained_network` has looked
PAGE = ROOT / "docs" / "quantization.md"
BEGIN, END = "<!-- begin: benchmarks/low_precision.py --write -->\n", "<!-- end -->\n"
CASES = (  # accelerator, bits of weights and of activations, layers whose weights keep eight
    ("default", 8, 8, 0), ("w4", 8, 8, 0), ("w4", 4, 8, 0), ("w4", 4, 8, 1), ("w4", 4, 8, 2), ("i4w4", 4, 4, 0),
    ("i4w4", 4, 4, 1), ("w2", 2, 8, 0), ("w2", 1, 8, 0), ("w2", 2, 8, 1), ("w2", 2, 8, 2),
)
CALIBRATED = 100  # images


def digits() -> tuple[onnx.ModelProto, Any, Any]:
    """Train the network of examples/digits; return its model, training set and test set."""
    spec = util.spec_from_file_location("digits_example", ROOT / "examples" / "digits" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    example = util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data, tested = TRAINING.digits()
    *_, (weights, _) = TRAINING.train(data)
    return example.export(weights), data, tested


def coloured() -> tuple[onnx.ModelProto, Any, Any]:
    """Train the residual network; return its model, training set and test set."""
    data, tested = COLOURED.images()
    *_, weights = COLOURED.train(data)
    return COLOURED.export(weights), data, tested


def accuracy(model: onnx.ModelProto, tested: Any) -> float:
    """Return the top-1 accuracy in percent."""
    logits = vtakit.compile(model, batch=len(tested.labels)).run({"image": tested.images})["logits"]
    return 100 * float(np.mean(logits.argmax(1) == tested.labels))


def row(name: str, model: onnx.ModelProto, data: Any, tested: Any, case: tuple[str, int, int, int]) -> str:
    """Quantize, run on the RTL and the CPU, compare their bytes; return a row of the table."""
    config, bits, activations, keep = case
    made = vtakit.quantize(model, data.images[:CALIBRATED], weights=bits, activations=activations, keep=keep)
    image = {"image": tested.images[:1]}
    wanted = vtakit.compile(made.model, batch=1).run(image)["logits"]
    with Module(vtakit.compile(made.model, "vta", batch=1, config=config).image, "rtl") as hardware:
        profile = hardware.profile(image)
        assert np.array_equal(hardware.run(image)["logits"], wanted), f"{name}: {config} gives other bytes than the CPU"
    cycles = sum(report.total.cycles or 0 for report in profile.launches)
    read = sum(report.total.read_bytes for report in profile.launches)
    kept = [layer.name for layer in made.accuracy.layers if layer.bits != bits]
    weights = f"{bits}" + (f", 8 in {' and '.join(kept)}" if kept else "")
    right, held = accuracy(made.model, tested), made.accuracy.weight_bytes
    counts = len(profile.launches), f"{read:,}", f"{cycles:,}"
    cells = name, weights, activations, f"`{config}`", f"{right:.1f} %", f"{held:,}", *counts
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    head = ("network", "bits of weights", "of activations", "accelerator", "accuracy", "bytes of weights", "launches",
            "bytes read", "cycles")
    rows = [f"| {' | '.join(head)} |", f"|---|---|---|---|{'---:|' * (len(head) - 4)}"]
    for name, make in (("digits, 8x8", digits), ("coloured digits, 32x32", coloured)):
        model, data, tested = make()
        rows.append(f"| {name} | float32 | float32 | CPU | {accuracy(model, tested):.1f} % | | | | |")
        rows += [row(name, model, data, tested, case) for case in CASES]
    table = "\n".join(rows) + "\n"
    if not args.write:
        sys.stdout.write(table)
        return
    write_between(PAGE, BEGIN, table, END)


if __name__ == "__main__":
    main()
