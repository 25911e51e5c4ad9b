"""Random GPU programs on a device that runs them, against the interpreter.

Two kinds of programs: operators under random schedules in which every stage at the root is bound to blocks and threads
(`schedule_fuzz`), and rows of kernels written as loops (`passes_fuzz`).

    python tests/compiler/clike_fuzz.py --seed 0 --count 1000 --device opencl
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import passes_fuzz
import schedule_fuzz
from clike_support import on_device
from random_programs import Array, program
from wgsl_support import on_wgpu

from vtakit import te
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.stmt import For, Function, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import LowerError, VerifyError, lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.lower.interpreter.numbers import numpy_type
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.schedule.relations import AttachKind
from vtakit.compiler.te.operation import ComputeOp

Runner = Callable[[Function, list[Any]], None]  # runs a function in low "gpu" form, without shuffles, on arrays, in place


class GpuScheduler(schedule_fuzz.Scheduler):
    """Random primitives; then loops of each stage at the root become blocks and threads."""

    def __init__(self, schedule: Any, rng: random.Random, refused: Counter[str]) -> None:
        super().__init__(schedule, rng, refused)
        self.gpu = True

    def run(self, count: int) -> None:
        super().run(count)
        for stage in [*self.s.stages]:
            if isinstance(stage.op, ComputeOp) and stage.attach.kind is AttachKind.ROOT:
                try:
                    self.launch(stage)
                except te.ScheduleError as error:
                    self.refused[f"launch: {type(error).__name__}"] += 1

    def launch(self, stage: Any) -> None:
        """Bind a stage's loops: some outer ones to blocks, inner ones to threads; now and then a reduction to threads."""
        rng = self.rng
        tags = ["threadIdx.y", "threadIdx.x"] if rng.random() < 0.4 else ["threadIdx.x"]
        blocks = ["blockIdx.y", "blockIdx.x"]
        for axis in [*stage.leaf_iter_vars]:
            free = axis.kind is IterKind.DATA and stage.note(axis).thread is None
            if free and blocks and rng.random() < 0.6:
                if tags and rng.random() < 0.6:
                    outer, inner = stage.split(axis, rng.choice([2, 3, 4, 8]))
                    self.bound(stage, outer, blocks.pop())
                    self.bound(stage, inner, tags.pop())
                else:
                    self.bound(stage, axis, blocks.pop())
            elif tags and (free or (axis.kind is IterKind.REDUCE and rng.random() < 0.3)):
                self.bound(stage, stage.split(axis, rng.choice([2, 3, 4, 8]))[1], tags.pop())

    def bound(self, stage: Any, axis: Any, tag: str) -> None:
        try:
            stage.bind(axis, self.threads[tag])
        except te.ScheduleError as error:
            self.refused[f"bind: {type(error).__name__}"] += 1


class DifferenceError(AssertionError):
    """A device and the interpreter computed different things."""


def threads_of(function: Function) -> set[str]:
    """Return the tags of a function's thread loops."""
    return {s.thread for s in statements(function.body) if isinstance(s, For) and s.kind is LoopKind.THREAD}


def scheduled(seed: int, counts: Counter[str]) -> tuple[Any, Function, list[Array], list[Array]] | None:
    """Return a random operator's schedule, its function in low form, arguments, and what it makes of them; None if refused."""
    source = program(seed)
    schedule = te.create_schedule([t.op for t in source.outputs])
    want = source.arrays(seed)
    interpret(lower(te.create_schedule([t.op for t in source.outputs]), source.args), want)
    rng = random.Random(f"gpu schedule {seed}")
    GpuScheduler(schedule, rng, counts).run(rng.randint(0, 10))
    try:
        function = lower(schedule, source.args)
        low = lower_late(function, "gpu", shuffles=False)
    except (LowerError, VerifyError, PassError) as error:
        counts[f"refused: {getattr(error, 'rule', 'pass')}"] += 1
        return None
    if not any(tag.startswith(("blockIdx", "threadIdx")) for tag in threads_of(low)):
        counts["no threads"] += 1
        return None
    return schedule, low, source.arrays(seed), want


def check_scheduled(seed: int, runner: Runner, counts: Counter[str]) -> None:
    """Run one random schedule; raises DifferenceError, or what the device raises."""
    found = scheduled(seed, counts)
    if found is None:
        return
    _, low, got, want = found
    try:
        runner(low, got)
    except CodegenError as error:
        counts[f"refused by the code generator: {str(error)[-60:]}"] += 1
        return
    _compare(got, want)
    counts["ran"] += 1


def _compare(got: list[Array], want: list[Array]) -> None:
    for at, (x, y) in enumerate(zip(got, want, strict=True)):
        if not np.array_equal(x, y):
            first = tuple(int(i) for i in np.argwhere(x != y)[0])
            raise DifferenceError(f"argument {at} at {first} is {x[first]}, want {y[first]}; {np.sum(x != y)} of {x.size} differ")


def written(seed: int) -> tuple[Function, list[Array], list[Array]] | None:
    """Return a random row of kernels in low form, arguments, and what it makes of them; None for one without threads."""
    generator = passes_fuzz.Generator(seed)
    generator.gpu = True
    function = generator.function()
    if not any(tag.startswith(("blockIdx", "threadIdx")) for tag in threads_of(function)):
        return None
    a = np.array([[generator.rng.randint(0, 9) for _ in range(generator.columns)] for _ in range(generator.rows)],
                 numpy_type(function.params[0].dtype))
    args = [a, np.zeros(a.shape, numpy_type(function.params[1].dtype))]
    want = [x.copy() for x in args]
    interpret(function, want)
    for step in passes_fuzz.late_passes("gpu", shuffles=False):
        if step.name != "check_memory":  # here the host computes too
            function = step.run(function)
    return function, args, want


def check_written(seed: int, runner: Runner, counts: Counter[str]) -> None:
    """Run one random row of kernels; raises DifferenceError, or what the device raises."""
    found = written(seed)
    if found is None:
        counts["no threads"] += 1
        return
    low, got, want = found
    try:
        runner(low, got)
    except CodegenError as error:
        counts[f"refused by the code generator: {str(error)[-60:]}"] += 1
        return
    _compare(got, want)
    counts["ran"] += 1


CHECKS = {"scheduled": check_scheduled, "written": check_written}
DEVICES: dict[str, Runner] = {"opencl": on_device, "wgsl": on_wgpu, "interpreter": interpret}


def fuzz(kind: str, seed: int, count: int, runner: Runner, *, log: Callable[[str], None] | None = None) -> Counter[str]:
    """Run programs from a seed on; returns how many ran, and why others did not.

    log : is told of failures, which then do not end the run

    Raises AssertionError with the command that repeats a failure.
    """
    counts: Counter[str] = Counter()
    for at in range(seed, seed + count):
        try:
            CHECKS[kind](at, runner, counts)
        except Exception as error:
            text = f"{kind} {at}: {type(error).__name__}: {error}"
            if log is None:
                raise AssertionError(
                    f"{text}\n\nreplay: python tests/compiler/clike_fuzz.py --kind {kind} --seed {at} --count 1"
                ) from error
            counts["FAILED"] += 1
            log(text)
        if log is not None and (at - seed + 1) % 100 == 0:
            log(f"{at - seed + 1} of {count}: {counts['ran']} ran")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", choices=[*CHECKS], default="scheduled")
    parser.add_argument("--device", choices=[*DEVICES], default="opencl")
    args = parser.parse_args()
    counts = fuzz(args.kind, args.seed, args.count, DEVICES[args.device],
                  log=lambda text: print(text.splitlines()[0][:300], flush=True))
    for name, number in counts.most_common():
        print(f"{number:6} {name}")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
