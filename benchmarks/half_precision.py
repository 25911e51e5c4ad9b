"""How far networks in bfloat16 are off, and how long they take beside float32.

    python benchmarks/half_precision.py [--images N] [NETWORK …]     print the table
    python benchmarks/half_precision.py --write                      write it into docs/half_precision.md

Weights are random, images are of 224x224 pixels. The signal to noise is that of the outputs, in decibels: of float32's results
to the differences from them. Times are medians of turns, one thread.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import numpy as np

import vtakit
from vtakit import models

NAMES = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2")
PAGE = Path(__file__).parents[1] / "docs" / "half_precision.md"
BEGIN, END = "<!-- begin: benchmarks/half_precision.py --write -->\n", "<!-- end -->\n"
PRECISIONS = ("float32", "bfloat16")


def row(name: str, images: int) -> str:
    """A line of the table."""
    model = models.build(name)
    exact, half = (vtakit.compile(model, precision=precision) for precision in PRECISIONS)
    signal = noise = 0.0
    worst, same, turns = 0.0, 0, []
    for seed in range(images):
        rng = np.random.default_rng(seed)
        given = {port.name: rng.standard_normal(port.shape, np.float32) for port in exact.image.inputs}
        begin = time.perf_counter()
        (want,) = exact.run(given).values()
        middle = time.perf_counter()
        (got,) = half.run(given).values()
        turns.append((middle - begin) / (time.perf_counter() - middle))
        signal, noise = signal + float((want**2).sum()), noise + float(((got - want) ** 2).sum())
        worst = max(worst, float(np.abs(got - want).max() / np.abs(want).max()))
        same += int(got.argmax() == want.argmax())
    decibels = 10 * np.log10(signal / noise)
    return f"| {name} | {decibels:.1f} dB | {worst:.2%} | {same} of {images} | {statistics.median(turns):.1f} |"


def main() -> None:
    """Measure, print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NAMES)} (all)")
    parser.add_argument("--images", type=int, default=10, metavar="N", help="images of each network (default 10)")
    parser.add_argument("--write", action="store_true", help=f"write the table into docs/{PAGE.name}")
    args = parser.parse_args()
    lines = ["| network | signal to noise | worst, of the greatest output | same class | times as fast as float32 |",
             "|---|---:|---:|---:|---:|"]
    for name in args.networks or NAMES:
        lines.append(row(name, args.images))
        print(lines[-1], flush=True)
    if args.write:
        before, rest = PAGE.read_text().split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


if __name__ == "__main__":
    main()
