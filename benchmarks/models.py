"""Whole networks at their published sizes on one thread, beside onnxruntime.

    python benchmarks/models.py [--repeat N] [--batch N] [--size N] [--json FILE] [NETWORK …]

Each row has the least processor time of repeated runs of both, taken in turns, what compilation took, and the greatest difference
of the two results.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when they are loaded

import numpy as np
import onnxruntime

import vtakit
from vtakit import models


def milliseconds(run: Callable[[], Any]) -> float:
    """The processor's time for one run."""
    begin = time.thread_time()
    run()
    return 1000 * (time.thread_time() - begin)


def measure(name: str, batch: int, size: int | None, repeat: int) -> dict[str, float]:
    """Times in milliseconds, multiplications, and the difference of the results."""
    model = models.build(name, size=size)
    given = models.inputs(name, batch, size=size)
    begin = time.thread_time()
    module = vtakit.compile(model, batch=batch)
    compiled = 1000 * (time.thread_time() - begin)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (want,) = theirs.run(None, given)
    (got,) = module.run(given).values()
    pairs = [(milliseconds(lambda: module.run(given)), milliseconds(lambda: theirs.run(None, given))) for _ in range(repeat)]
    ours, other = (min(column) for column in zip(*pairs, strict=True))
    return {
        "ours_ms": ours, "onnxruntime_ms": other, "compile_ms": compiled, "difference": float(np.abs(got - want).max()),
        "parameters": models.parameter_count(model), "macs": sum(layer.macs for layer in module.image.layers),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(models.NETWORKS)} (all)")
    parser.add_argument("--repeat", type=int, default=9, metavar="N", help="runs of each network (default 9)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images or sentences at once (default 1)")
    parser.add_argument("--size", type=int, metavar="N", help="pixels of a side, where a network has a choice")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    args = parser.parse_args()
    print(f"{'':14}{'parameters':>12}{'MMAC':>8}{'ours ms':>10}{'GMAC/s':>8}{'theirs ms':>11}{'ratio':>7}{'compile s':>11}"
          f"{'difference':>12}")
    found = {}
    for name in args.networks or models.NETWORKS:
        size = args.size if models.find(name).resizable else None
        row = found[name] = measure(name, args.batch, size, args.repeat)
        rate, ratio = row["macs"] / row["ours_ms"] / 1e6, row["ours_ms"] / row["onnxruntime_ms"]
        print(f"{name:14}{row['parameters']:12,}{row['macs'] / 1e6:8.0f}{row['ours_ms']:10.2f}{rate:8.1f}"
              f"{row['onnxruntime_ms']:11.2f}{ratio:7.2f}{row['compile_ms'] / 1000:11.1f}"
              f"{row['difference']:12.1e}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
