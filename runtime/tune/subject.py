"""A task in the process that measures it: arrays, the results of the reference, and the best candidate so far."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vtakit.runtime.tune.binary import Array, Binary, Failed, Port, bound, random_array

# Largest difference to the reference, relative to the largest result: roundings of sums in another order. Integers are equal.
RELATIVE_ERROR = {"float64": 1e-10, "float32": 2e-4, "float16": 2e-2, "bfloat16": 5e-2}
GUARD = 64  # bytes on each side of a result that a candidate must leave alone
FILL = 77  # of every byte of a result before the first run
KEPT = 32  # tasks whose arrays stay in the memory of a process
NEAR = 1.5  # times the cost of the incumbent up to which a candidate is measured in turn with it


class Effort(NamedTuple):
    """How much a candidate is measured.

    sample_s : least time of one sample, of as many runs as that takes
    quick    : samples after two runs that warm up
    rounds   : samples of the candidate and of the incumbent in turn, if they are near; twice as many if it may be the new one
    most_s   : time after which no sample begins
    """

    sample_s: float = 0.001
    quick: int = 5
    rounds: int = 7
    most_s: float = 0.5


class Caches(NamedTuple):
    """Contents of caches before a run, as inside a network: what the layer before wrote, and no weights.

    evicted_bytes : of other data that are touched: more than the L2 cache of a core has
    kept          : numbers of the parameters that are read afterwards
    """

    evicted_bytes: int
    kept: tuple[int, ...]


class Measured(NamedTuple):
    """The measurement of a candidate: median and interquartile range of its samples in seconds, and whether it is the best."""

    cost: float
    spread: float
    best: bool


class Subject:
    """A task with random inputs.

    ports : of its functions
    seed  : of the inputs
    alone : whether candidates run on this thread only: its processor time is taken then, which others here do not change
    caches, cores : before each run caches of these cores have other data; None leaves what the run before has left
    """

    def __init__(
        self, ports: Sequence[Port], seed: int, *, alone: bool = True, caches: Caches | None = None, cores: Sequence[int] = (),
    ) -> None:
        self.ports, self._caches, self._cores = tuple(ports), caches, tuple(cores)
        self._others = np.zeros(0 if caches is None else caches.evicted_bytes // 8, np.int64)
        self._now = time.thread_time_ns if alone else time.perf_counter_ns
        self._guarded = [_guarded(port) for port in ports]
        self.arrays = [array for _, array in self._guarded]
        for at, (port, array) in enumerate(zip(ports, self.arrays, strict=True)):
            if not port.written:
                array[...] = random_array(port, (seed, at))
        self._inputs = [None if port.written else array.copy() for port, array in zip(ports, self.arrays, strict=True)]
        self.wanted: list[Array] = []
        self.best: Callable[[], None] | None = None
        self.best_cost = 0.0

    def define(self, reference: Binary, kept: Path) -> None:
        """Take the results of the reference as the right ones: from the file of an earlier process, or of a run."""
        if kept.exists():
            with np.load(kept) as found:
                raw = [found[name] for name in sorted(found.files)]
        else:
            bound(reference, self.arrays)()
            raw = [array.view(np.uint8) if array.ndim else array.reshape(1).view(np.uint8) for array in self._results()]
            np.savez(kept, **{f"{at:03d}": array for at, array in enumerate(raw)})
        self.wanted = [array.copy().view(result.dtype).reshape(result.shape)
                       for array, result in zip(raw, self._results(), strict=True)]

    def keep(self, binary: Binary, cost: float) -> None:
        """Take the incumbent of an earlier process."""
        self.best, self.best_cost = bound(binary, self.arrays), cost

    def measure(self, binary: Binary, effort: Effort) -> Measured:
        """Run a candidate, compare its results, and time it. Raises Failed for a wrong one."""
        if binary.ports != self.ports:
            raise Failed("wrong", "the candidate takes other arrays than the reference")
        for port, (raw, _) in zip(self.ports, self._guarded, strict=True):
            if port.written:
                raw[...] = FILL
        run = bound(binary, self.arrays)
        run()
        self._check()
        begun, once = time.perf_counter(), self._seconds(run, 1)
        count = max(1, round(effort.sample_s / max(once, 1e-7)))
        samples = [self._seconds(run, count) for _ in range(effort.quick if once < effort.most_s / 2 else 1)]
        if len(samples) == 1:
            samples.append(once)
        cost = statistics.median(samples)
        best = self.best is None
        if self.best is None:
            samples += [self._seconds(run, count) for _ in _until(begun + effort.most_s, 2 * effort.rounds)]
            cost = statistics.median(samples)
        elif cost < NEAR * self.best_cost and once < effort.most_s / 2:
            share, samples, best = self._in_turn(run, self.best, count, effort.rounds, effort.most_s)
            if best:
                again, samples, best = self._in_turn(run, self.best, count, 2 * effort.rounds, effort.most_s)
                share = max(share, again)
            cost = self.best_cost * (share if best else max(share, 1.0))
        if best:
            self.best, self.best_cost = run, cost
        return Measured(cost, _spread(samples), best)

    def _in_turn(
        self, run: Callable[[], None], best: Callable[[], None], count: int, rounds: int, most_s: float,
    ) -> tuple[float, list[float], bool]:
        """Time a candidate and the incumbent in turn.

        Returns the median of the turns' ratios, the samples at which the incumbent keeps its cost, and whether the candidate is
        faster in three turns of four: of many that are as fast, the luckiest would else replace each other.
        """
        ratios = list[float]()
        for at in _until(time.perf_counter() + most_s, rounds):
            first, second = (run, best) if at % 2 else (best, run)  # neither is always first
            a, b = self._seconds(first, count), self._seconds(second, count)
            ratios.append(a / b if first is run else b / a)
        faster = sum(ratio < 1 for ratio in ratios) >= 0.75 * len(ratios)
        return statistics.median(ratios), [ratio * self.best_cost for ratio in ratios], faster

    def _seconds(self, run: Callable[[], None], count: int) -> float:
        """Return the mean time of some runs, in a row unless caches have other data before each."""
        now, spent = self._now, 0
        if self._caches is None:
            begin = now()
            for _ in range(count):
                run()
            return (now() - begin) / count / 1e9
        for _ in range(count):
            self._evict(self._caches)
            begin = now()
            run()
            spent += now() - begin
        return spent / count / 1e9

    def _evict(self, caches: Caches) -> None:
        """Fill the caches with other data, then with the inputs that the layer before has just written."""
        if len(self._cores) > 1:  # each has an L2 cache of its own
            for core in self._cores:
                os.sched_setaffinity(0, {core})
                self._others += 1
            os.sched_setaffinity(0, self._cores)
        else:
            self._others += 1
        for at in caches.kept:
            self._guarded[at][0].max()

    def _results(self) -> list[Array]:
        return [array for port, array in zip(self.ports, self.arrays, strict=True) if port.written]

    def _check(self) -> None:
        """Raise Failed for results or inputs that are not as they should be."""
        for port, before, (raw, array) in zip(self.ports, self._inputs, self._guarded, strict=True):
            if before is not None and before.tobytes() != array.tobytes():
                array[...] = before
                raise Failed("wrong", "the candidate wrote to an input")
            end = GUARD + array.nbytes + (array.ctypes.data - raw.ctypes.data - GUARD)
            if port.written and not ((raw[:array.ctypes.data - raw.ctypes.data] == FILL).all() and (raw[end:] == FILL).all()):
                raise Failed("wrong", "the candidate wrote beside a result")
        for wanted, got in zip(self.wanted, self._results(), strict=True):
            off, most = difference(wanted, got)
            if not off <= most:
                raise Failed("wrong", f"a result is off by {off:.3g}, and {most:.3g} is allowed")


def difference(wanted: Array, got: Array) -> tuple[float, float]:
    """Return how far results are from the wanted ones, and how far they may be: not at all, of whole numbers."""
    allowed = RELATIVE_ERROR.get(str(wanted.dtype))
    if allowed is None:
        return float((wanted != got).sum()), 0.0
    want, have = wanted.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], have[~finite], equal_nan=True) or not np.isfinite(have[finite]).all():
        return float("inf"), 0.0
    return float(np.abs(want[finite] - have[finite]).max(initial=0)), allowed * float(np.abs(want[finite]).max(initial=0))


def _guarded(port: Port) -> tuple[Array, Array]:
    """Return bytes with a guard on each side, and the array in them, whose address is a multiple of 64."""
    kind = port.kind
    size = int(np.prod(port.shape, dtype=np.int64)) * kind.itemsize
    raw = np.full(size + 3 * GUARD, FILL, np.uint8)
    at = GUARD + -raw.ctypes.data % GUARD
    return raw, raw[at:at + size].view(kind).reshape(port.shape)


def _until(deadline: float, most: int) -> Any:
    """Yield up to `most` times, at least once, until a time."""
    for at in range(most):
        if at and time.perf_counter() > deadline:
            return
        yield at


def _spread(samples: Sequence[float]) -> float:
    """Return the interquartile range."""
    if len(samples) < 2:
        return 0.0
    quarters = statistics.quantiles(samples, n=4)
    return quarters[2] - quarters[0]
