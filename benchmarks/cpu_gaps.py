"""Layers and blocks that users meet and that are easy to leave slow, beside onnxruntime and OpenVINO, on this machine.

    python benchmarks/cpu_gaps.py [--only TEXT] [--repeat N] [--threads N] [--floats] [--json FILE]

Integer products and convolutions of all kinds, tables, blocks of RegNetX, ResNeXt, DenseNet and U-Net, encoders of transformers
in int8, with dynamic quantization and in float16. Models are made by script, with quantize and dequantize nodes around each
layer. Ours and the peers take turns in one process, as in `cpu_suite.py`; ratios are medians of the ratios of a
turn, and above 1 where ours is faster. `--floats` adds our time for the same layers in float32, which int8 is never to exceed.
"""

import argparse
import json
import os
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import cpu_gap_models
import cpu_peers
import cpu_suite
import numpy as np

import vtakit
from vtakit.runtime.module import Module


def measure(
    case: cpu_gap_models.Case, peers: tuple[cpu_peers.Peer, ...], threads: int, repeat: int, *, floats: bool,
) -> dict[str, Any]:
    """Milliseconds of each, and ratios."""
    model, given = case.make(True), {"x": np.random.default_rng(1).standard_normal(case.shape, np.float32)}
    runs: dict[str, cpu_suite.Run] = {
        cpu_suite.OURS: partial(Module(vtakit.compile(model, cache=False).image, threads=threads).run, given)}
    runs |= {peer.name: peer.prepare(model, given, threads, "float32" if case.kind == "float16" else case.kind) for peer in peers}
    if floats:
        runs["float32"] = partial(Module(vtakit.compile(case.make(False), cache=False).image, threads=threads).run, given)
    difference = cpu_suite.compared(runs, np.inf, case.name)
    turns = cpu_suite.in_turns(runs, repeat, cpu_suite.clock_of(threads))
    others = [{name: turn[name] for name in turn if name != "float32"} for turn in turns]
    found = cpu_suite.figures(others, 0, 0) | {"difference": difference}
    if floats:
        found["float32"] = statistics.median(turn["float32"] / turn[cpu_suite.OURS] for turn in turns)
        found["ms"]["float32"] = 1e3 * statistics.median(turn["float32"] for turn in turns)
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in the name")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns (default 15)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of each run (default 1)")
    parser.add_argument("--floats", action="store_true", help="measure our float32 form of each model as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    given = parser.parse_args()
    peers, rows = cpu_peers.found(install=False), {}
    names = [cpu_suite.OURS, *[peer.name for peer in peers], *["float32"] * given.floats]
    print(f"{'':24}" + "".join(f"{name + ' ms':>16}" for name in names) + f"{'best peer':>11}{'difference':>12}")
    for case in cpu_gap_models.cases():
        if given.only not in case.name:
            continue
        row = rows[case.name] = measure(case, peers, given.threads, given.repeat, floats=given.floats)
        print(f"{case.name:24}" + "".join(f"{row['ms'][name]:16.3f}" for name in names)
              + f"{row.get('best', np.nan):11.2f}{row['difference']:12.1e}", flush=True)
    if given.json:
        found = {"machine": cpu_suite.machine(), "threads": given.threads, "cases": rows}
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
