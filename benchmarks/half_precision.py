"""How far networks in bfloat16 and float16 are off, and how long they take beside float32.

    python benchmarks/half_precision.py [--images N] [NETWORK …]     print the table
    python benchmarks/half_precision.py --write                      write it into docs/half_precision.md

Weights are random. The signal to noise is that of the outputs, in decibels: of float32's results
to the differences from them. Times are medians of turns, one thread.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import numpy as np
from page_parts import write_between

import vtakit
from vtakit import models
from vtakit.runtime.module import Module

NAMES = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "dqn", "dcgan", "lstm", "bert_mini")
PAGE = Path(__file__).parents[1] / "docs" / "half_precision.md"
WITHOUT_CLASSES = ("dcgan", "bert_mini")  # networks that make an image, and vectors
BEGIN, END = "<!-- begin: benchmarks/half_precision.py --write -->\n", "<!-- end -->\n"
PRECISIONS = ("bfloat16", "float16")


def rows(name: str, images: int) -> list[str]:
    """A network's lines of the table, one for each precision."""
    model = models.build(name)
    exact, *narrow = (vtakit.compile(model, precision=precision) for precision in ("float32", *PRECISIONS))
    signal, noise, worst, same = 0.0, [0.0] * len(narrow), [0.0] * len(narrow), [0] * len(narrow)
    turns: list[list[float]] = [[] for _ in narrow]
    count = 0
    for seed in range(images):
        given = models.inputs(name, seed=seed)
        want, seconds = timed(exact, given)
        signal, count = signal + float((want**2).sum()), count + want.size // want.shape[-1]
        for at, module in enumerate(narrow):
            got, own_seconds = timed(module, given)
            turns[at].append(seconds / own_seconds)
            noise[at] += float(((got - want) ** 2).sum())
            worst[at] = max(worst[at], float(np.abs(got - want).max() / np.abs(want).max()))
            same[at] += int((got.argmax(-1) == want.argmax(-1)).sum())
    lines = []
    for at, (precision, module) in enumerate(zip(PRECISIONS, narrow, strict=True)):
        decibels, weights = 10 * np.log10(signal / noise[at]), module.image.params_bytes / exact.image.params_bytes
        classes = "" if name in WITHOUT_CLASSES else f"{same[at]} of {count}"
        lines.append(f"| {name} | {precision} | {decibels:.1f} dB | {worst[at]:.2%} | {classes} | {weights:.0%} | "
                     f"{statistics.median(turns[at]):.2f} |")
    return lines


def timed(module: Module, given: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
    """A run's first output, and its seconds."""
    begin = time.perf_counter()
    out = module.run(given)
    return next(iter(out.values())), time.perf_counter() - begin


def main() -> None:
    """Measure, print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NAMES)} (all)")
    parser.add_argument("--images", type=int, default=10, metavar="N", help="images of each network (default 10)")
    parser.add_argument("--write", action="store_true", help=f"write the table into docs/{PAGE.name}")
    args = parser.parse_args()
    lines = ["| network | precision | signal to noise | worst, of the greatest output | same class | weights | times as fast |",
             "|---|---|---:|---:|---:|---:|---:|"]
    for name in args.networks or NAMES:
        lines += rows(name, args.images)
        print(*lines[-len(PRECISIONS):], sep="\n", flush=True)
    if args.write:
        write_between(PAGE, BEGIN, "\n".join(lines) + "\n", END)


if __name__ == "__main__":
    main()
