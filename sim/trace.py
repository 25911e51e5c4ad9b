"""Trace of what each stage did in every cycle, and of starts and retirements of instructions, for Perfetto's timeline."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES

_CAUSE, _START, _RETIRE, _END = range(4)
_CAUSES = tuple(CYCLE_CAUSES)
_LETTERS = dict(zip(_CAUSES, "#<>m.", strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Cycles from `start` up to but not including `end`, of one stage; cycle 0 is that in which the program was started.

    name    a cause of `hw.isa.regs.CYCLE_CAUSES`; of an instruction, empty
    index   number of the instruction; of a cause, -1
    """

    stage: Stage
    start: int
    end: int
    name: str = ""
    index: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run. `causes` of a stage follow each other without a gap; instructions of a stage may overlap."""

    cycles: int
    instructions: tuple[Span, ...]
    causes: tuple[Span, ...]

    @classmethod
    def from_events(cls, events: npt.NDArray[Any]) -> "Trace":
        """From the harness's records of cycle, index, stage and kind, in the order of time; none are an empty trace."""
        ends = events["cycle"][events["kind"] == _END]
        if len(ends) > 1:
            raise VtakitError(f"a trace shows one run, and {len(ends)} have ended")
        cycles = int(ends[0]) if len(ends) else 0
        instructions: list[Span] = []
        causes: list[Span] = []
        for stage in Stage:
            mine = events[(events["stage"] == stage) & (events["kind"] != _END)]
            started = {int(e["index"]): int(e["cycle"]) for e in mine if e["kind"] == _START}
            retired = {int(e["index"]): int(e["cycle"]) + 1 for e in mine if e["kind"] == _RETIRE}
            instructions += [
                Span(stage=stage, start=at, end=retired.get(index, cycles), index=index) for index, at in started.items()
            ]
            changes = mine[mine["kind"] == _CAUSE]
            edges = [*changes["cycle"].tolist(), cycles]
            causes += [
                Span(stage=stage, start=edges[n], end=edges[n + 1], name=_CAUSES[cause])
                for n, cause in enumerate(changes["index"].tolist())
            ]
        return cls(cycles=cycles, instructions=tuple(instructions), causes=tuple(causes))

    def totals(self) -> dict[str, int]:
        """Cycles by stage and cause, under the names of the counters."""
        found = {f"{stage.name.lower()}_{cause}": 0 for stage in Stage for cause in _CAUSES}
        for span in self.causes:
            found[f"{span.stage.name.lower()}_{span.name}"] += span.end - span.start
        return found

    def to_text(self, width: int = 100, start: int = 0, end: int | None = None) -> str:
        """A line for each stage, `width` letters long, of the cycles from `start` up to but not including `end`.

        A letter is what the stage's cycles there were spent on most: ``#`` busy, ``<`` a token from the stage before, ``>`` one
        from the stage after, ``m`` memory, ``.`` no instruction.

        Raises `VtakitError` if there are no such cycles, or no letters.
        """
        last = self.cycles if end is None else end
        if not 0 <= start < last <= self.cycles or width < 1:
            raise VtakitError(f"a trace of {self.cycles} cycles has no text of {width} letters from cycle {start} to {last}")
        edges = [start + (last - start) * n // width for n in range(width + 1)]
        lines = []
        for stage in Stage:
            spent = [dict.fromkeys(_CAUSES, 0) for _ in range(width)]
            for span in self.causes:
                if span.stage is stage and span.start < last and span.end > start:
                    letter = max(bisect_right(edges, max(span.start, start)) - 1, 0)
                    while letter < width and edges[letter] < span.end:
                        spent[letter][span.name] += min(span.end, edges[letter + 1]) - max(span.start, edges[letter], start)
                        letter += 1
            text = "".join(_LETTERS[max(_CAUSES, key=causes.__getitem__)] if any(causes.values()) else " " for causes in spent)
            lines.append(f"{stage.name.lower():8}{text}".rstrip())
        return "\n".join(lines)

    def to_perfetto(self, listing: Sequence[str]) -> str:
        """JSON of the trace event format, a cycle as a microsecond; `listing` holds each instruction's text.

        Each stage has a track of causes and, since instructions overlap, as many tracks of instructions as it needs.
        """
        events: list[dict[str, object]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "vta, 1 us = 1 cycle"}}]
        track = 0
        for stage in Stage:
            lanes: list[list[Span]] = []
            for span in sorted((s for s in self.instructions if s.stage is stage), key=lambda s: s.start):
                free = next((lane for lane in lanes if lane[-1].end <= span.start), None)
                if free is None:
                    lanes.append([span])
                else:
                    free.append(span)
            rows = [("", [s for s in self.causes if s.stage is stage]), *((f" insn {n}", lane) for n, lane in enumerate(lanes))]
            for name, spans in rows:
                track += 1
                title = {"name": f"{stage.name.lower()}{name}"}
                events.append({"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": title})
                events.append({"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}})
                events += [
                    {"ph": "X", "pid": 1, "tid": track, "ts": s.start, "dur": s.end - s.start, **_label(s, listing)}
                    for s in spans
                ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def _label(span: Span, listing: Sequence[str]) -> dict[str, object]:
    if span.index < 0:
        return {"name": span.name, "cat": "cause"}
    text = listing[span.index]
    return {"name": text.split()[0], "cat": "instruction", "args": {"index": span.index, "text": text}}
