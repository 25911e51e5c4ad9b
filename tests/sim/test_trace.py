"""A trace as text, against a count of single cycles."""

from collections import Counter

import pytest
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.insns import Stage
from vtakit.sim.trace import Span, Trace

LETTER = {"busy": "#", "wait_prev": "<", "wait_next": ">", "wait_memory": "m", "idle": "."}


def trace_of(**stages: str) -> Trace:
    """A trace from a letter for each cycle of each stage."""
    names = {letter: name for name, letter in LETTER.items()}
    causes = []
    for stage in Stage:
        text = stages[stage.name.lower()]
        starts = [at for at in range(len(text)) if not at or text[at] != text[at - 1]]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            causes.append(Span(stage=stage, start=start, end=end, name=names[text[start]]))
    return Trace(cycles=len(stages["load"]), instructions=(), causes=tuple(causes))


STAGES = {
    "load": "..mmmm####>>>>mm##......................",
    "compute": ".....<<<<<<<####<<####mm####>>>>####....",
    "store": "<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<####mm....",
}


def test_a_letter_a_cycle_is_the_trace_itself():
    trace = trace_of(**STAGES)
    assert trace.to_text(40) == "\n".join(f"{name:8}{text}" for name, text in STAGES.items())
    assert trace.to_text(10, start=12, end=22).splitlines()[1] == "compute ####<<####"[:8] + STAGES["compute"][12:22]


@pytest.mark.parametrize("width", [1, 3, 7, 10, 39])
@pytest.mark.parametrize(("start", "end"), [(0, 40), (5, 40), (3, 31), (20, 21 + 19)])
def test_a_letter_is_what_most_of_its_cycles_are(width, start, end):
    lines = trace_of(**STAGES).to_text(width, start, end).splitlines()
    for line, text in zip(lines, STAGES.values(), strict=True):
        for at, letter in enumerate(line[8:].ljust(width)):
            first, last = (start + (end - start) * n // width for n in (at, at + 1))
            counts = Counter(text[first:last])
            assert (letter == " ") == (not counts)
            assert not counts or counts[letter] == max(counts.values())


@pytest.mark.parametrize(("width", "start", "end"), [(0, 0, 40), (10, 40, 40), (10, -1, 4), (10, 0, 41), (10, 7, 7)])
def test_cycles_that_there_are_not(width, start, end):
    message = f"a trace of 40 cycles has no text of {width} letters from cycle {start} to {end}"
    with raises(VtakitError, message):
        trace_of(**STAGES).to_text(width, start, end)
