"""Where each value of a network lies: in what the caller gives, among the parameters, or in the arena.

Kernels run one after another. Values that are needed at the same time get places that do not overlap; a kernel's result never
lies on what it reads, because its code is made as if it did not. The memory that a kernel works in is in the arena too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.fusion import Group
from vtakit.compiler.graph.ir import Graph, Value

ALIGN = 64  # bytes, a line of the cache and the widest vector


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Places of all values that kernels read or write.

    copies  : outputs that no kernel writes to: the output's number, and the value that is copied there
    scratch : of each group, the places of what it works in
    unshared_bytes : what the arena would take if no two values shared memory
    live_bytes     : the most that is needed at one time
    """

    places: Mapping[Value, Place]
    copies: tuple[tuple[int, Value], ...]
    scratch: Mapping[Group, tuple[Place, ...]]
    params_bytes: int
    arena_bytes: int
    unshared_bytes: int
    live_bytes: int


class _Span(NamedTuple):
    """How many bytes are needed, from one kernel to another, both with it."""

    size: int
    first: int
    last: int


def aligned(size: int) -> int:
    """The next multiple of `ALIGN`."""
    return -(-size // ALIGN) * ALIGN


def plan_memory(graph: Graph, groups: Sequence[Group], scratch: Mapping[Group, Sequence[int]] | None = None) -> MemoryPlan:
    """Places for a graph that runs as these groups, in their order.

    scratch : bytes of each piece of memory that groups work in
    """
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
    made = [value for value in first if value not in places]
    spans = [_Span(aligned(value.type.bytes), first[value], last[value]) for value in made]
    for at, group in enumerate(groups):
        spans += [_Span(aligned(size), at, at) for size in (scratch or {}).get(group, ())]
    needs = [sum(span.size for span in spans if span.first <= at <= span.last) for at in range(len(groups))]
    offsets, arena_bytes = _packed(spans, needs)
    arena = [Place(Region.ARENA, offset) for offset in offsets]
    places |= dict(zip(made, arena, strict=False))
    rest = iter(arena[len(made):])
    pieces = {group: tuple([next(rest) for _ in (scratch or {}).get(group, ())]) for group in groups}
    unshared = sum(span.size for span in spans)
    everywhere = {value: places[root[value]] for value in root if root[value] in places}
    return MemoryPlan(everywhere, tuple(copies), pieces, params_bytes, arena_bytes, unshared, max(needs, default=0))


# What comes first in a plan: the largest, what is needed by kernels whose need is the largest, what is needed longest, the first.
_Key = Callable[[_Span, Sequence[int]], tuple[int, ...]]
_ORDERS: tuple[_Key, ...] = (
    lambda span, _: (-span.size,),
    lambda span, needs: (-max(needs[span.first:span.last + 1]), -span.size),
    lambda span, _: (span.first - span.last, -span.size),
    lambda span, _: (-span.size * (span.last - span.first + 1),),
    lambda span, _: (span.first, -span.size),
)


def _packed(spans: Sequence[_Span], needs: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of what is needed from one kernel to another, and their end: the best of some orders.

    needs : bytes that each kernel needs at least

    Greedy by size and by breadth are of Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020),
    sections 5.2 and 5.3.
    """
    least, best = max(needs, default=0), None
    for order in _ORDERS:
        found = _placed(spans, sorted(range(len(spans)), key=lambda number: order(spans[number], needs)))
        if best is None or found[1] < best[1]:
            best = found
        if best[1] == least:
            break
    assert best is not None
    return best


def _placed(spans: Sequence[_Span], order: Sequence[int]) -> tuple[list[int], int]:
    """Each, in an order, into the tightest gap that it fits."""
    offsets: dict[int, int] = {}
    end = 0
    for number in order:
        size, begins, ends = spans[number]
        busy = sorted(
            (offsets[other], offsets[other] + spans[other].size) for other in offsets
            if spans[other].first <= ends and begins <= spans[other].last
        )
        best: tuple[int, int] | None = None  # room, offset
        at = 0
        for start, stop in busy:
            if start - at >= size and (best is None or start - at < best[0]):
                best = start - at, at
            at = max(at, stop)
        offsets[number] = at if best is None else best[1]
        end = max(end, offsets[number] + size)
    return [offsets[number] for number in range(len(spans))], end
