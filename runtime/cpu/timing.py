"""Timing of functions."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured times.

    seconds : of one run, the mean of `number` runs in a row; one for each repeat
    number  : runs in a row
    """

    seconds: tuple[float, ...]
    number: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def min(self) -> float:
        return min(self.seconds)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)

    def __str__(self) -> str:
        return f"{self.median * 1e3:.4g} ms (median of {len(self.seconds)} x {self.number} runs; least {self.min * 1e3:.4g} ms)"


def measure(run: Callable[[], object], repeat: int, number: int | None, min_repeat_ms: float) -> Timing:
    """Time `run`, after one run that is not counted.

    number : runs in a row; None for as many as take `min_repeat_ms`

    Raises ValueError if `repeat` or `number` is no whole number of at least 1.
    """
    if not all(isinstance(times, int) and times >= 1 for times in (repeat, 1 if number is None else number)):
        raise ValueError(f"time(repeat={repeat!r}, number={number!r}): both are whole numbers of at least 1")
    run()
    count = number or 1
    while number is None:
        spent = _spend(run, count)
        if spent * 1e3 >= min_repeat_ms:
            break
        count = max(count + 1, min(count * 10, int(count * min_repeat_ms / 1e3 / max(spent, 1e-9) * 1.1)))
    return Timing(tuple(_spend(run, count) / count for _ in range(repeat)), count)


def _spend(run: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - begin
