"""Where each value of a network lies: in what the caller gives, among the parameters, or in the arena.

Kernels run one after another. Values that are needed at the same time get places that do not overlap; a kernel's result never
lies on what it reads, because its code is made as if it did not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.fusion import Group
from vtakit.compiler.graph.ir import Graph, Value

ALIGN = 64  # bytes, a line of the cache and the widest vector


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Places of all values that kernels read or write.

    copies : outputs that no kernel writes to: the output's number, and the value that is copied there
    unshared_bytes : what the arena would take if no two values shared memory
    """

    places: Mapping[Value, Place]
    copies: tuple[tuple[int, Value], ...]
    params_bytes: int
    arena_bytes: int
    unshared_bytes: int


def aligned(size: int) -> int:
    """The next multiple of `ALIGN`."""
    return -(-size // ALIGN) * ALIGN


def plan_memory(graph: Graph, groups: Sequence[Group]) -> MemoryPlan:
    """Places for a graph that runs as these groups, in their order."""
    root = {value: value for value in (*graph.inputs, *graph.constants)}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for at, group in enumerate(groups):
        for value in group.inputs:
            last[root[value]] = at
        for value in group.outputs:
            root[value] = root[group.inputs[0]] if group.view else value
            if not group.view:
                first[value] = last[value] = at
    places: dict[Value, Place] = {value: Place(Region.INPUT, i) for i, value in enumerate(graph.inputs)}
    params_bytes = 0
    for value in graph.constants:
        places[value] = Place(Region.PARAMS, params_bytes)
        params_bytes += aligned(value.type.bytes)
    copies = []
    for i, (_, value) in enumerate(graph.outputs):
        if root[value] in places:
            copies.append((i, value))
        else:
            places[root[value]] = Place(Region.OUTPUT, i)
    spans = {value: (first[value], last[value]) for value in first if value not in places}
    offsets, arena_bytes = _packed(spans)
    places |= {value: Place(Region.ARENA, offset) for value, offset in offsets.items()}
    unshared = sum(aligned(value.type.bytes) for value in spans)
    everywhere = {value: places[root[value]] for value in root if root[value] in places}
    return MemoryPlan(everywhere, tuple(copies), params_bytes, arena_bytes, unshared)


def _packed(spans: Mapping[Value, tuple[int, int]]) -> tuple[dict[Value, int], int]:
    """Offsets of values that live from one kernel to another: the largest first, each into the tightest gap that it fits.

    Greedy by size, as in Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020), section 5.2.
    """
    offsets: dict[Value, int] = {}
    end = 0
    for value in sorted(spans, key=lambda v: -v.type.bytes):
        size = aligned(value.type.bytes)
        begins, ends = spans[value]
        busy = sorted(
            (offsets[other], offsets[other] + aligned(other.type.bytes)) for other in offsets
            if spans[other][0] <= ends and begins <= spans[other][1]
        )
        best: tuple[int, int] | None = None  # room, offset
        at = 0
        for start, stop in busy:
            if start - at >= size and (best is None or start - at < best[0]):
                best = start - at, at
            at = max(at, stop)
        offsets[value] = at if best is None else best[1]
        end = max(end, offsets[value] + size)
    return offsets, end
