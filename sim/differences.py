"""First difference between two runs: the element of what they leave, or the cycle in which they part."""

import numpy as np

from vtakit.hw.isa.insns import Stage
from vtakit.sim.api import Result
from vtakit.sim.trace import Span, Trace


def first_difference(got: Result, want: Result) -> str | None:
    """The first element in which two results differ, accumulator first; None if they are equal."""
    if not np.array_equal(got.acc, want.acc):
        where = np.argwhere(got.acc != want.acc)
        at = tuple(int(i) for i in where[0])
        return (
            f"acc[{at[0]}] row {at[1]} lane {at[2]}: got {got.acc[at]}, want {want.acc[at]}; "
            f"{len(where)} of {want.acc.size} values differ"
        )
    if got.dram != want.dram:
        a, b = np.frombuffer(got.dram, np.uint8), np.frombuffer(want.dram, np.uint8)
        byte = np.flatnonzero(a != b)
        return f"DRAM byte 0x{byte[0]:x}: got {a[byte[0]]}, want {b[byte[0]]}; {len(byte)} bytes differ"
    for name, value in want.counters.items():
        if got.counters.get(name) != value:
            return f"counter {name}: got {got.counters.get(name)}, want {value}"
    return None


def first_cycle(got: Result, want: Result) -> str | None:
    """Return the earliest cycle in which two traced runs differ, with what is different there; None if they are equal.

    Starts and ends of instructions are compared, causes of each stage's cycles, and every counter.
    """
    assert got.trace is not None
    assert want.trace is not None
    found = [*_instructions(got.trace, want.trace), *_causes(got.trace, want.trace)]
    if found:
        cycle, text = min(found)
        total = f"{got.trace.cycles} cycles in all, want {want.trace.cycles}"
        return f"cycle {cycle}: {text}; {len(found)} differences, {total}"
    for name, value in want.counters.items():
        if got.counters.get(name) != value:
            return f"counter {name}: got {got.counters.get(name)}, want {value}"
    return None


def _instructions(got: Trace, want: Trace) -> list[tuple[int, str]]:
    """Return the cycle and the text of each instruction that starts or ends at another cycle."""
    mine = {(span.stage, span.index): span for span in got.instructions}
    theirs = {(span.stage, span.index): span for span in want.instructions}
    found = []
    for stage, index in mine.keys() | theirs.keys():
        a, b = mine.get((stage, index)), theirs.get((stage, index))
        for what in ("start", "end"):
            here, there = (None if span is None else getattr(span, what) for span in (a, b))
            if here != there:
                cycle = min(at for at in (here, there) if at is not None)
                found.append((cycle, f"{_name(stage)} instruction {index} {what}s in cycle {here}, want {there}"))
    return found


def _causes(got: Trace, want: Trace) -> list[tuple[int, str]]:
    """Return the first cycle of each stage that is spent on something else."""
    found = []
    for stage in Stage:
        a, b = (_spans(trace, stage) for trace in (got, want))
        for mine, theirs in zip(a, b, strict=False):
            if (mine.start, mine.name) != (theirs.start, theirs.name):
                cycle = min(mine.start, theirs.start)
                found.append((cycle, f"the {_name(stage)} stage is {_at(a, cycle)}, want {_at(b, cycle)}"))
                break
        else:
            if len(a) != len(b):
                cycle = max(a, b, key=len)[min(len(a), len(b))].start
                found.append((cycle, f"the {_name(stage)} stage is {_at(a, cycle)}, want {_at(b, cycle)}"))
    return found


def _spans(trace: Trace, stage: Stage) -> list[Span]:
    return [span for span in trace.causes if span.stage is stage]


def _at(spans: list[Span], cycle: int) -> str:
    return next((span.name for span in spans if span.start <= cycle < span.end), "at its end")


def _name(stage: Stage) -> str:
    return stage.name.lower()
