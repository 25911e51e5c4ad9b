"""The static memory plan of a network on a CPU: each value is an input, an output, a parameter or lies in the arena.

Kernels run one after another. Values that are live at the same time never overlap. A kernel's result never overlaps its operands:
the code generator assumes that they do not alias. Workspace of kernels is in the arena too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.memory_plan import LiveRange, needed_bytes, plan_offsets
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.fusion import Group
from vtakit.compiler.graph.ir import Graph, Value

ALIGN = 64  # bytes, a line of the cache and the widest vector


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Places of all values that kernels read or write.

    copies  : outputs that no kernel writes to: the output's number, and the value to copy there
    scratch : places of each group's workspace
    unshared_bytes : size of the arena if no two values shared memory
    live_bytes     : peak of the bytes that are live at one time, a lower bound of the arena
    """

    places: Mapping[Value, Place]
    copies: tuple[tuple[int, Value], ...]
    scratch: Mapping[Group, tuple[Place, ...]]
    params_bytes: int
    arena_bytes: int
    unshared_bytes: int
    live_bytes: int


def aligned(size: int, align: int = ALIGN) -> int:
    """Round up to a multiple of `align` bytes."""
    return -(-size // align) * align


def plan_memory(
    graph: Graph, groups: Sequence[Group], scratch: Mapping[Group, Sequence[int]] | None = None, align: int = ALIGN,
) -> MemoryPlan:
    """Plan the memory of a graph whose groups run in the given order.

    scratch : sizes in bytes of each group's workspaces
    align   : bytes that the offset of a parameter or in the arena is a multiple of
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
        params_bytes += aligned(value.type.bytes, align)
    copies = []
    for i, (_, value) in enumerate(graph.outputs):
        if root[value] in places:
            copies.append((i, value))
        else:
            places[root[value]] = Place(Region.OUTPUT, i)
    made = [value for value in first if value not in places]
    spans = [LiveRange(aligned(value.type.bytes, align), first[value], last[value]) for value in made]
    for at, group in enumerate(groups):
        spans += [LiveRange(aligned(size, align), at, at) for size in (scratch or {}).get(group, ())]
    needs = needed_bytes(spans, len(groups))
    offsets, arena_bytes = plan_offsets(spans, needs)
    arena = [Place(Region.ARENA, offset) for offset in offsets]
    places |= dict(zip(made, arena, strict=False))
    rest = iter(arena[len(made):])
    pieces = {group: tuple([next(rest) for _ in (scratch or {}).get(group, ())]) for group in groups}
    unshared = sum(span.size for span in spans)
    everywhere = {value: places[root[value]] for value in root if root[value] in places}
    return MemoryPlan(everywhere, tuple(copies), pieces, params_bytes, arena_bytes, unshared, max(needs, default=0))
