"""One run cut into parts, each with its own cycles and stalls: the layers of a network that is one program."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.program import Program
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.report.layer import Layer
from vtakit.sim.trace import Trace


def sections(
    cfg: VTAConfig, words: Sequence[int], ends: Mapping[str, int], trace: Trace | None, *, bus_bytes: float | None = None,
    macs: Mapping[str, int] | None = None,
) -> list[Layer]:
    """The layers of one run of the instructions `words`.

    ends    in order: a part's name, and the number of the instruction after its last
    trace   of that run; without one the parts have no cycles
    macs    multiplications that a part is for, by name

    A part lasts from the retirement of the last instruction of all parts before it to that of its own last. So every cycle of
    every stage belongs to one part, and the parts' cycles add up to the run's.

    Raises `VtakitError` if the ends do not ascend to the number of instructions, or `macs` names no part.
    """
    firsts = [0, *ends.values()]
    if any(first > last for first, last in pairwise(firsts)) or firsts[-1] != len(words):
        raise VtakitError(f"the parts of a program of {counted(len(words), 'instruction')} must end in order, the last at "
                          f"{len(words)}: {', '.join(f'{name} {end}' for name, end in ends.items())}")
    if macs is not None and not isinstance(macs, Mapping):
        raise VtakitError(f"macs must be a mapping of parts' names, not {macs!r:.40}")
    if unknown := set(macs or {}) - set(ends):
        raise VtakitError(f"macs names {next(iter(unknown))!r}, which is none of the parts {', '.join(ends)}")
    layers = [
        Layer.of(name, cfg, words[first:last], {}, bus_bytes=bus_bytes, macs=(macs or {}).get(name))
        for name, (first, last) in zip(ends, pairwise(firsts), strict=True)
    ]
    if trace is None:
        return layers
    edges = _edges(trace, firsts[1:])
    spent = _spent(trace, edges)
    return [
        replace(layer, cycles=end - start, stages=stages)
        for layer, (start, end), stages in zip(layers, pairwise(edges), spent, strict=True)
    ]


def layers_of(
    name: str, program: Program, counters: Mapping[str, int], trace: Trace | None, *, bus_bytes: float | None = None,
    macs: Mapping[str, int] | None = None,
) -> list[Layer]:
    """The layers of one run of a program: its parts, or all of it under `name`.

    counters   what was measured, as in a `Result` of vtakit.sim or a `LaunchResult`
    trace      of that run; a device that has cycles but no trace knows those of the whole program only, which is then one layer
    macs       multiplications that a layer is for, by name

    Raises `VtakitError` if `macs` names no layer.
    """
    ends = {part.name: part.end for part in program.parts} or {name: len(program.insns)}
    layers = sections(program.config, program.insns, ends, trace, bus_bytes=bus_bytes, macs=macs)
    if len(layers) > 1 and (trace is not None or "cycles" not in counters):
        return layers
    label = name if len(layers) > 1 else layers[0].name
    total = sum(layer.macs for layer in layers)
    return [Layer.of(label, program.config, program.insns, counters, bus_bytes=bus_bytes, macs=total)]


def _edges(trace: Trace, ends: list[int]) -> list[int]:
    """The cycle in which each part begins, and that after the last."""
    retired = [0] * len(ends)
    for span in trace.instructions:
        part = bisect_right(ends, span.index)
        retired[part] = max(retired[part], span.end)
    edges = [0]
    for cycle in retired[:-1]:
        edges.append(max(edges[-1], cycle))
    return [*edges, trace.cycles]


def _spent(trace: Trace, edges: list[int]) -> list[dict[str, dict[str, int]]]:
    """For each part, cycles by stage and cause."""
    found = [{stage.name.lower(): dict.fromkeys(CYCLE_CAUSES, 0) for stage in Stage} for _ in edges[1:]]
    for span in trace.causes:
        part = bisect_right(edges, span.start) - 1
        while part < len(found) and edges[part] < span.end:
            found[part][span.stage.name.lower()][span.name] += min(span.end, edges[part + 1]) - max(span.start, edges[part])
            part += 1
    return found
