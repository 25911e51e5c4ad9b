"""Scratch buffers that share memory: one block of DRAM, offsets planned from the live ranges of the program itself.

A value is live from the first instruction that moves it to the last one, in the order of the finished instruction stream. Any
other order, such as that of a graph's nodes or of the stages, is not the one in which the accelerator runs. Tokens are placed
afterwards, by address, so an instruction that reuses memory waits for the last read of what was there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vtakit.compiler.codegen.memory_plan import LiveRange, needed_bytes, plan_offsets
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MEMORIES, MemType
from vtakit.hw.isa.program import dram_alignment


@dataclass(frozen=True, slots=True)
class Shared:
    """A program whose scratch buffers lie in one block.

    steps      : instructions; those that move scratch values count from `name` and say which value they move
    name       : of the block's buffer; "" if the program has no scratch buffer
    size_bytes : of the block
    """

    steps: list[Step]
    name: str
    size_bytes: int


def share_scratch(
    steps: list[Step], scratch: Mapping[str, int], taken: Collection[str], cfg: VTAConfig, unit_bytes: int,
) -> Shared:
    """Place all scratch buffers of a program in one block of DRAM.

    scratch    : size in bytes of each scratch buffer
    taken      : names that the block's buffer must not have
    unit_bytes : bytes of one unit of an access to DRAM
    """
    offsets, size_bytes = _plan(steps, scratch, dram_alignment(cfg))
    if not offsets:
        return Shared(steps, "", 0)
    name = "scratch__"
    while name in taken:
        name += "_"

    def moved(step: Step) -> Step:
        if step.symbol not in offsets:
            return step
        at = offsets[step.symbol]
        element_bytes = MEMORIES[MemType(step.fields["memory_type"])].bytes_in(cfg)
        fields = step.fields | {"dram_base": step.fields.get("dram_base", 0) + at // element_bytes}
        accesses = tuple([_moved(access, name, at // unit_bytes) if access.memory == step.symbol else access
                          for access in step.accesses])
        return replace(step, fields=fields, accesses=accesses, symbol=name, value=step.symbol)
    return Shared([moved(step) for step in steps], name, size_bytes)


def _plan(steps: Sequence[Step], scratch: Mapping[str, int], alignment: int) -> tuple[dict[str, int], int]:
    """Return the offset of each scratch buffer that the program uses, and the size of the block, in bytes."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for at, step in enumerate(steps):
        if step.symbol in scratch:
            first.setdefault(step.symbol, at)
            last[step.symbol] = at
    points = {at: number for number, at in enumerate(sorted({*first.values(), *last.values()}))}
    ranges = [LiveRange(-(-scratch[name] // alignment) * alignment, points[first[name]], points[last[name]]) for name in first]
    if not ranges:
        return {}, 0
    offsets, size_bytes = plan_offsets(ranges, needed_bytes(ranges, len(points)))
    return dict(zip(first, offsets, strict=True)), size_bytes


def _moved(access: Access, memory: str, units: int) -> Access:
    elements = access.elements
    there = slice(elements.start + units, elements.stop + units) if isinstance(elements, slice) else elements + units
    return Access(memory, there, access.write)
