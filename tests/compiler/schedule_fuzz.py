"""Random operators under random schedules: what is computed never changes, and what is refused is refused by a rule.

``python tests/compiler/schedule_fuzz.py --seed 7 --count 1000`` runs more; a failure prints the operator, the shortest
trace that still fails, and the command that repeats it.
"""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtakit import te
from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir.stmt import For, LoopKind
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import statements, substitute
from vtakit.compiler.lower import LowerError, VerifyError, lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.te.operation import PlaceholderOp
from vtakit.runtime.cpu.function import build

Array = np.ndarray
MOST_SECONDS = 60.0  # of a pair; one takes some 0.1, on a busy machine


@dataclass
class Program:
    """An operator: what to schedule, its arguments, and the values of its symbolic sizes."""

    name: str
    outputs: list[Any]
    args: list[Any]
    sizes: dict[Any, int] = field(default_factory=dict)

    def arrays(self, seed: int) -> list[Array]:
        """Random inputs, and outputs of garbage."""
        rng = np.random.default_rng(seed)
        found = []
        sizes = {var: const(value, var.dtype) for var, value in self.sizes.items()}
        for tensor in self.args:
            shape = [int_value(Analyzer().simplify(substitute(e, sizes))) for e in tensor.shape]
            found.append(rng.integers(-4, 5, shape).astype(str(tensor.dtype)))
        return found


# -- operators -----------------------------------------------------------------------------------------------------------

class Build:
    """Makes a random operator from small parts; integers, so that any order of adding gives the same."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes: dict[Any, int] = {}

    def size(self, least: int = 0, most: int = 12) -> tuple[Any, int]:
        """An extent: a number, or a symbolic size of that value; 0 now and then where that is no less than the least."""
        value = 0 if least == 0 and self.rng.random() < 0.1 else self.rng.randint(max(least, 1), most)
        if self.rng.random() < 0.2:
            var = te.size_var(f"n{len(self.sizes)}")
            self.sizes[var] = value
            return var, value
        return value, value

    def chain(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        made = [a]
        for at in range(self.rng.randint(1, 4)):
            prev, extra = made[-1], self.rng.choice(made)
            made.append(te.compute((m, n), lambda i, j, p=prev, e=extra, k=at: p[i, j] * 2 + e[i, j] + k, name=f"B{at}"))
        return [made[-1]], [a, made[-1]]

    def stencil(self) -> tuple[list[Any], list[Any]]:
        (n, _) = self.size(0, 14)
        width, stride, dilation = self.rng.randint(1, 4), self.rng.randint(1, 3), self.rng.randint(1, 2)
        a = te.placeholder((n * stride + width * dilation,), "int32", name="A")
        b = te.compute(a.shape, lambda i: a[i] + 1, name="B")
        c = te.compute(
            (n,), lambda i: sum((b[i * stride + d * dilation] * (d + 1) for d in range(1, width)), b[i * stride]), name="C",
        )
        d = te.compute((n,), lambda i: c[i] * 3, name="D")
        return [d], [a, d]

    def blur(self) -> tuple[list[Any], list[Any]]:
        (h, _), (w, _) = self.size(0, 8), self.size(0, 8)
        a = te.placeholder((h + 2, w + 2), "int32", name="A")
        x = te.compute((a.shape[0], w), lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2], name="X")
        y = te.compute((h, w), lambda i, j: x[i, j] + x[i + 1, j] + x[i + 2, j], name="Y")
        return [y], [a, y]

    def padded_conv(self) -> tuple[list[Any], list[Any]]:
        n, k, pad = self.rng.randint(2, 10), self.rng.randint(1, 4), self.rng.randint(0, 2)
        if n + 2 * pad < k:
            k = 1
        ci, co = self.rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 4]), self.rng.randint(1, 5)
        a = te.placeholder((ci, n), "int32", name="A")
        w = te.placeholder((co, ci, k), "int32", name="W")
        p = te.compute((ci, n + 2 * pad), lambda c, i: te.if_then_else(te.all(i >= pad, i < n + pad), a[c, i - pad], 0), name="P")
        rc, rk = te.reduce_axis((0, ci), name="rc"), te.reduce_axis((0, k), name="rk")
        c = te.compute((co, n + 2 * pad - k + 1), lambda o, i: te.sum(p[rc, i + rk] * w[o, rc, rk], axis=[rc, rk]), name="C")
        d = te.compute(c.shape, lambda o, i: te.select(c[o, i] > 0, c[o, i], 0), name="D")
        return [d], [a, w, d]

    def matmul(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _), (depth, _) = self.size(), self.size(), self.size()
        a, b = te.placeholder((m, depth), "int32", name="A"), te.placeholder((n, depth), "int32", name="B")
        k = te.reduce_axis((0, depth), name="k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
        if self.rng.random() < 0.5:
            return [c], [a, b, c]
        d = te.compute((m, n), lambda i, j: c[i, j] + i, name="D")
        return [d], [a, b, d]

    def normalise(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
        top = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="T")
        b = te.compute((m, n), lambda i, j: a[i, j] - top[i], name="B")
        total = te.compute((m,), lambda i: te.sum(b[i, r], axis=r), name="S")
        c = te.compute((m, n), lambda i, j: b[i, j] * total[i], name="C")
        return [c], [a, c]

    def transposed(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((n, m), lambda i, j: a[j, i] + 1, name="B")
        c = te.compute((m, n), lambda i, j: b[j, i] + a[i, j], name="C")
        return [c], [a, c]

    def reshaped(self) -> tuple[list[Any], list[Any]]:
        m, n = self.rng.randint(1, 8), self.rng.randint(1, 8)
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((m, n), lambda i, j: a[i, j] * 2, name="B")
        c = te.compute((m * n,), lambda i: b[i // n, i % n] + 1, name="C")
        d = te.compute((n, m), lambda i, j: c[j * n + i], name="D")
        return [d], [a, d]

    def triangular(self) -> tuple[list[Any], list[Any]]:
        (n, _) = self.size(0, 9)
        a = te.placeholder((n,), "int32", name="A")
        b = te.compute((n,), lambda i: a[i] + 1, name="B")
        c = te.compute((n,), lambda i: te.sum(b[(k := te.reduce_axis((0, i + 1), name="k"))], axis=k), name="C")
        return [c], [a, c]

    def half(self) -> tuple[list[Any], list[Any]]:
        """A triangle of a matrix, the lower or the upper one, along rows or columns."""
        (n, _) = self.size(0, 9)
        upper, columns = self.rng.random() < 0.5, self.rng.random() < 0.5
        a = te.placeholder((n, n), "int32", name="A")
        b = te.compute((n, n), lambda i, j: a[i, j] * 2, name="B")

        def row(i: Any) -> Any:
            k = te.reduce_axis((i, n) if upper else (0, i + 1), name="k")
            return te.sum(b[k, i] if columns else b[i, k], axis=k)

        c = te.compute((n,), row, name="C")
        return [c], [a, c]

    def two_outputs(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((m, n), lambda i, j: a[i, j] + 1, name="B")
        x, y = te.compute((m, n), lambda i, j: (b[i, j] * 2, b[i, j] - a[i, j]), name="C")
        return [x], [a, x, y]

    def gather(self) -> tuple[list[Any], list[Any]]:
        (m, _), n = self.size(0, 9), self.rng.randint(5, 9)
        a, at = te.placeholder((n,), "int32", name="A"), te.placeholder((m,), "int32", name="I")
        b = te.compute((n,), lambda i: a[i] * 3, name="B")
        c = te.compute((m,), lambda i: b[te.if_then_else(at[i] < 0, 0, at[i])], name="C")
        return [c], [a, at, c]

    def largest(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(0, 6), self.size(0, 9)
        a = te.placeholder((m, n), "int32", name="A")

        def better(x: Any, y: Any) -> tuple[Any, Any]:
            first = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
            return te.select(first, x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])

        pick = te.comm_reducer(better, lambda t0, t1: (te.const(1 << 20, t0), te.min_value(t1)), name="argmax")
        k = te.reduce_axis((0, n), name="k")
        i, v = te.compute((m,), lambda r: pick((k.var, a[r, k]), axis=k), name="C")
        return [i], [a, i, v]

    def running(self) -> tuple[list[Any], list[Any]]:
        first = self.rng.randint(1, 2)
        (m, _), (n, _) = self.size(first, 7), self.size(0, 7)
        a = te.placeholder((m, n), "int32", name="A")
        state = te.placeholder((m, n), "int32", name="state")
        init = te.compute((first, n), lambda t, i: a[t, i] - t, name="first")
        scaled = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="scaled")
        update = te.compute((m, n), lambda t, i: scaled[t, i] + a[t, i], name="next")
        out = te.scan(init, update, state, inputs=[a], name="scan")
        if self.rng.random() < 0.5:
            return [out], [a, out]
        read = te.compute((m, n), lambda t, i: out[t, i] + a[t, i], name="read")  # the first rows and all others
        return [read], [a, read]


KINDS = (
    "chain", "stencil", "blur", "padded_conv", "matmul", "normalise", "transposed", "reshaped", "triangular", "two_outputs",
    "gather", "largest", "running", "half",
)


def program(seed: int) -> Program:
    """The operator of a seed, built anew at each call."""
    rng = random.Random(f"operator {seed}")
    build = Build(rng)
    name = rng.choice(KINDS)
    outputs, args = getattr(build, name)()
    return Program(name, outputs, args, build.sizes)


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
            "prefetch": 1, "pragma": 1, "group": 1,
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
    """Raise EndlessError within, once that long has passed."""
    def give_up(*_: Any) -> None:
        raise EndlessError(f"no end within {seconds:g} s")

    start, before = time.monotonic(), signal.signal(signal.SIGALRM, give_up)
    others, _ = signal.setitimer(signal.ITIMER_REAL, seconds)  # pytest bounds its tests by the same timer
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, max(others - (time.monotonic() - start), 1e-3) if others else 0)


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
