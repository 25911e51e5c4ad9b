"""Random operators under random schedules: what is computed never changes, and what is refused is refused by a rule.

``python tests/compiler/schedule_fuzz.py --seed 7 --count 1000`` runs more; a failure prints the operator, the shortest
trace that still fails, and the command that repeats it.
"""

import argparse
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from random_programs import Array, Program, program

from vtakit import te
from vtakit.compiler.ir.stmt import For, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import LowerError, VerifyError, lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.te.operation import PlaceholderOp
from vtakit.runtime.cpu.function import build

MOST_SECONDS = 60.0  # of the processor's time for a pair; one takes some 0.1


# -- schedules -----------------------------------------------------------------------------------------------------------

class Scheduler:
    """Does random primitives; one that is refused leaves the schedule as it was."""

    def __init__(self, schedule: Any, rng: random.Random, refused: Counter[str]) -> None:
        self.s, self.rng, self.refused = schedule, rng, refused
        self.gpu = rng.random() < 0.2
        tags = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread")
        self.threads = {tag: te.thread_axis(tag=tag) for tag in tags}

    def run(self, count: int) -> None:
        moves: dict[str, int] = {
            "split": 8, "fuse": 3, "reorder": 4, "compute_at": 7, "inline": 2, "cache_read": 2, "cache_write": 2, "rfactor": 1,
            "mark": 3, "tile": 1, "bind": 6 if self.gpu else 0, "root": 1, "double_buffer": 2, "storage_align": 2, "set_scope": 1,
            "whole": 2, "prefetch": 1, "pragma": 1, "group": 1,
        }
        for _ in range(count):
            move = self.rng.choices([*moves], [*moves.values()])[0]
            try:
                getattr(self, move)()
            except te.ScheduleError as error:
                self.refused[f"{move}: {type(error).__name__}"] += 1

    def stage(self) -> Any:
        return self.rng.choice([st for st in self.s.stages if not st.is_group and not isinstance(st.op, PlaceholderOp)])

    def axis(self, stage: Any) -> Any:
        if not stage.leaf_iter_vars:
            raise te.ScheduleError("no axis")
        return self.rng.choice(stage.leaf_iter_vars)

    def split(self) -> None:
        stage = self.stage()
        axis, n = self.axis(stage), self.rng.choice([1, 2, 2, 3, 4, 4, 5, 8, 16])
        stage.split(axis, **{self.rng.choice(["factor", "factor", "nparts"]): n})

    def tile(self) -> None:
        stage = self.stage()
        if len(stage.leaf_iter_vars) >= 2:
            x, y = stage.leaf_iter_vars[:2]
            stage.tile(x, y, self.rng.randint(1, 5), self.rng.randint(1, 5))

    def fuse(self) -> None:
        stage = self.stage()
        at = self.rng.randrange(max(1, len(stage.leaf_iter_vars) - 1))
        stage.fuse(*stage.leaf_iter_vars[at: at + self.rng.choice([2, 2, 3])])

    def reorder(self) -> None:
        stage = self.stage()
        axes = [*stage.leaf_iter_vars]
        self.rng.shuffle(axes)
        stage.reorder(*axes[: self.rng.randint(2, max(2, len(axes)))])

    def compute_at(self) -> None:
        stage, other = self.stage(), self.stage()
        readers = self.s.readers_of(stage)
        if readers and self.rng.random() < 0.8:
            other = self.rng.choice(readers)
        stage.compute_at(other, self.axis(other))

    def inline(self) -> None:
        self.stage().compute_inline()

    def root(self) -> None:
        self.stage().compute_root()

    def cache_read(self) -> None:
        stage = self.rng.choice([st for st in self.s.stages if not st.is_group])
        self.s.cache_read(stage.origin_op.output(0), self.scope())

    def cache_write(self) -> None:
        outputs = self.stage().origin_op.outputs
        self.s.cache_write(list(outputs) if len(outputs) > 1 else outputs[0], self.scope())

    def double_buffer(self) -> None:
        self.stage().double_buffer()

    def storage_align(self) -> None:
        stage = self.stage()
        axes = getattr(stage.op, "axis", ())
        if axes:
            stage.storage_align(self.rng.choice(axes), self.rng.choice([1, 2, 4, 8]), self.rng.choice([0, 0, 1]))

    def whole(self) -> None:
        stage = self.stage()
        axes = getattr(stage.op, "axis", ())
        if axes:
            stage.whole(self.rng.choice(axes))

    def set_scope(self) -> None:
        self.stage().set_scope(self.scope())

    def prefetch(self) -> None:
        stage = self.stage()
        if stage.op.input_tensors:
            stage.prefetch(self.rng.choice(stage.op.input_tensors), self.axis(stage), self.rng.choice([1, 2]))

    def pragma(self) -> None:
        stage = self.stage()
        stage.pragma(self.axis(stage), "auto_unroll_max_step", self.rng.choice([2, 8, 64]))

    def group(self) -> None:
        last, first, holder = self.stage(), self.stage(), self.stage()
        made = self.s.create_group(last.origin_op.output(0), first.origin_op.output(0), self.rng.random() < 0.5)
        made.compute_at(holder, self.axis(holder))

    def scope(self) -> str:
        return self.rng.choice(["shared", "local"] if self.gpu else ["global", "local"])

    def rfactor(self) -> None:
        stage = self.stage()
        self.s.rfactor(stage.origin_op.output(0), self.axis(stage), self.rng.choice([0, 0, -1]))

    def mark(self) -> None:
        stage = self.stage()
        getattr(stage, self.rng.choice(["vectorize", "parallel", "unroll"]))(self.axis(stage))

    def bind(self) -> None:
        stage = self.stage()
        stage.bind(self.axis(stage), self.threads[self.rng.choice([*self.threads])])


# -- runs ----------------------------------------------------------------------------------------------------------------

Runner = Callable[[Any, list[Array]], None]


def run(source: Program, schedule: Any, seed: int, runner: Runner = interpret) -> list[Array]:
    """What a schedule computes from the random inputs of a seed."""
    function = lower(schedule, source.args)
    arrays = source.arrays(seed)
    runner(function, arrays)
    return arrays


class DifferenceError(AssertionError):
    """Two schedules of one operator computed different things."""


class EndlessError(AssertionError):
    """A pair took longer than any should."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise EndlessError within, once the processor has worked that long: a busy machine makes nothing slower by that."""
    def give_up(*_: Any) -> None:
        raise EndlessError(f"no end within {seconds:g} s")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def replayed(seed: int, steps: Sequence[Any]) -> tuple[Program, Any]:
    """The operator of a seed and its schedule after those of the steps that can be done."""
    source = program(seed)
    schedule = te.create_schedule([t.op for t in source.outputs])
    for step in steps:
        with suppress(te.ScheduleError):
            schedule.replay(te.Trace((step,)))
    return source, schedule


def compare(source: Program, schedule: Any, seed: int, want: list[Array], runner: Runner) -> str:
    try:
        got = run(source, schedule, seed, runner)
    except (LowerError, VerifyError) as error:
        return error.rule
    for tensor, x, y in zip(source.args, want, got, strict=True):
        if not np.array_equal(x, y):
            at = tuple(int(i) for i in np.argwhere(x != y)[0])
            raise DifferenceError(f"{tensor.name}[{', '.join(map(str, at))}] is {y[at]}, want {x[at]}; {np.sum(x != y)} differ")
    return ""


def one(seed: int, refused: Counter[str], runner: Runner = interpret) -> Any:
    """Run one seed; raises what goes wrong, with the schedule's trace as `trace`."""
    source = program(seed)
    rng = random.Random(f"schedule {seed}")
    schedule = te.create_schedule([t.op for t in source.outputs])
    try:
        with bounded(MOST_SECONDS):
            want = run(source, te.create_schedule([t.op for t in source.outputs]), seed)
            Scheduler(schedule, rng, refused).run(rng.randint(1, 14))
            refused[compare(source, schedule, seed, want, runner)] += 1
    except Exception as error:
        error.trace = schedule.trace  # type: ignore[attr-defined]
        raise


def shrink(seed: int, trace: Any, error: Exception, runner: Runner = interpret) -> Any:
    """The trace without steps that the failure does not need; steps that need one of those go with it."""
    if isinstance(error, EndlessError):  # each try would take as long, and a primitive without end is in no trace
        return trace
    source = program(seed)
    try:
        want = run(source, te.create_schedule([t.op for t in source.outputs]), seed)
    except Exception:  # the operator fails by itself
        return te.Trace(())
    steps = [*trace.steps]
    at = len(steps)
    while at > 0:
        at = min(at, len(steps)) - 1
        fewer, schedule = replayed(seed, steps[:at] + steps[at + 1:])
        if len(schedule.trace.steps) < len(steps) and _fails(fewer, schedule, seed, want, error, runner):
            steps = [*schedule.trace.steps]
    return te.Trace(tuple(steps))


def _fails(source: Program, schedule: Any, seed: int, want: list[Array], error: Exception, runner: Runner) -> bool:
    try:
        compare(source, schedule, seed, want, runner)
    except Exception as other:
        return type(other) is type(error)
    return False


def fuzz(seed: int, count: int, runner: Runner = interpret, log: Callable[[str], None] = lambda text: None) -> Counter[str]:
    """Run seeds from `seed` on; returns how many pairs each rule refused, "" for those that ran.

    Raises AssertionError with the shortened trace and the command that repeats it.
    """
    refused: Counter[str] = Counter()
    for at in range(seed, seed + count):
        try:
            one(at, refused, runner)
        except Exception as error:
            trace = getattr(error, "trace", te.Trace(()))
            small = shrink(at, trace, error, runner)
            raise AssertionError(
                f"{program(at).name}, seed {at}: {type(error).__name__}: {error}\n\n{small}\n\n"
                f"replay: python tests/compiler/schedule_fuzz.py --seed {at} --count 1"
            ) from error
        if (at - seed + 1) % 100 == 0:
            log(f"{at - seed + 1} of {count}: {refused['']} ran")
    return refused


def run_machine_code(function: Any, arrays: list[Array]) -> None:
    """Run a function as machine code; one with a GPU's threads by the interpreter, before and after the passes for a GPU."""
    threads = {s.thread for s in statements(function.body) if isinstance(s, For) and s.kind is LoopKind.THREAD}
    if threads <= {"vthread"}:
        build(lower_late(function))(*arrays)
        return
    want = [array.copy() for array in arrays]
    interpret(function, want)
    try:
        low = lower_late(function, "gpu")
    except PassError as error:
        if "the host touches" not in str(error):
            raise
        low = lower_late(function)  # stages on the host beside those of a kernel
    interpret(low, arrays)
    for x, y in zip(want, arrays, strict=True):
        assert np.array_equal(x, y), "the passes change what the kernel computes"


DEVICES: dict[str, Runner] = {"interpreter": interpret, "llvm": run_machine_code}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--device", choices=[*DEVICES], default="interpreter", help="what runs the scheduled program")
    parser.add_argument("--keep-going", action="store_true", help="print all failures, one line each")
    args = parser.parse_args()
    runner = DEVICES[args.device]
    if args.keep_going:
        total: Counter[str] = Counter()
        for seed in range(args.seed, args.seed + args.count):
            try:
                total += fuzz(seed, 1, runner)
            except AssertionError as error:
                total["FAILED"] += 1
                print(f"{seed}: {str(error).splitlines()[0][:200]}", flush=True)
        print(total)
        return 1 if total["FAILED"] else 0
    print(fuzz(args.seed, args.count, runner, log=print))
    return 0


if __name__ == "__main__":
    sys.exit(main())
