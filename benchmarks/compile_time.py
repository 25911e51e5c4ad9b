"""How long the compiler takes for a convolution with eight splits, on one core.

    python benchmarks/compile_time.py [--repeat N] [--json FILE]

Each figure is the median of repeated runs in one process, in processor time, since others may share the machine; beside it stands
the bound that it must keep. Machine code is the late passes, the text that LLVM reads, and LLVM's own work for this processor.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

BOUNDS_MS = {"record a candidate": 1.0, "copy the schedule": 0.1, "lower and verify": 60.0, "machine code": 150.0}


class Job(NamedTuple):
    """One figure: what is run before each measurement, without being measured, and what is measured."""

    name: str
    prepare: Callable[[], object]
    work: Callable[[object], object]


def convolution() -> te.Tensor:
    """A 3 × 3 convolution of 56 × 56 pixels and 64 channels (C2 of the paper), padded beforehand."""
    data, kernel = te.placeholder((1, 64, 58, 58), name="data"), te.placeholder((64, 64, 3, 3), name="kernel")
    c, dy, dx = te.reduce_axis((0, 64), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    made: te.Tensor = te.compute((1, 64, 56, 56), lambda n, k, y, x: te.sum(
        data[n, c, y + dy, x + dx] * kernel[k, c, dy, dx], axis=[c, dy, dx]), name="conv")
    return made


def record(schedule: te.Schedule) -> te.Schedule:
    """Eight splits, a reorder and marks: what a tuner does for each candidate."""
    stage = schedule.stages[-1]
    n, k, y, x, c, dy, dx = stage.leaf_iter_vars
    ko, ki = stage.split(k, 16)
    kh, ko = stage.split(ko, 2)
    yo, yi = stage.split(y, 7)
    yh, yo = stage.split(yo, 4)
    xo, xi = stage.split(x, 14)
    xh, xo = stage.split(xo, 2)
    co, ci = stage.split(c, 16)
    ch, co = stage.split(co, 2)
    stage.reorder(n, kh, yh, xh, ch, ko, yo, xo, co, dy, dx, ci, yi, xi, ki)
    stage.parallel(kh)
    stage.unroll(yi)
    stage.vectorize(ki)
    return schedule


def jobs() -> list[Job]:
    """All figures, in the order of the compiler's work."""
    result = convolution()
    args = [*result.op.input_tensors, result]
    fresh = te.create_schedule(result)
    done = record(fresh.copy())
    loops = lower(done, args)
    return [
        Job("record a candidate", lambda: None, lambda _: record(fresh.copy())),
        Job("copy the schedule", lambda: None, lambda _: done.copy()),
        Job("lower and verify", lambda: None, lambda _: lower(done, args)),
        Job("machine code", lambda: None, lambda _: compile_for(lower_late(loops))),
    ]


def median_ms(job: Job, repeat: int) -> float:
    """The median time of a job's work; the first run is not counted."""
    seconds = []
    for turn in range(repeat + 1):
        prepared = job.prepare()
        start = time.thread_time()
        job.work(prepared)
        if turn:
            seconds.append(time.thread_time() - start)
    return 1000 * statistics.median(seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=51, metavar="N", help="runs of each job (default 51)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    args = parser.parse_args()
    figures = {job.name: median_ms(job, args.repeat) for job in jobs()}
    for name, value in figures.items():
        print(f"{name:24} {value:9.3f} ms   bound {BOUNDS_MS[name]:7.1f} ms")
    if args.json:
        args.json.write_text(json.dumps({"median_ms": figures, "bounds_ms": BOUNDS_MS, "repeat": args.repeat}, indent=2) + "\n")


if __name__ == "__main__":
    main()
