"""LOADs of many weights in pieces, each before the loads of an earlier part of the work, so that products hide them."""

from collections import Counter
from itertools import pairwise

from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import Target
from vtakit.hw.isa.insns import MEMORIES, MemType, Opcode, Stage

FARTHEST = 1000  # runs of LOADs before, to which a piece may move: without products between them none is hidden
SPREAD = 4  # cycles of products for each cycle of a LOAD that is spread over them: inputs are loaded meanwhile, too


def weights_ahead(steps: list[Step], target: Target) -> list[Step]:
    """Return the program with LOADs of weights in pieces where the products just before cannot hide them.

    The load stage runs ahead of products by a target's copies of a buffer. Weights that are kept for many products take longer
    than that on a slow bus, which has time while those products run. A piece passes instructions that do not touch its elements.
    """
    starts, cycles = _runs(steps)
    loads, copies = _loads(steps, starts, target), _copies(steps, starts)
    moved: dict[int, list[Step]] = {}
    gone: set[int] = set()
    run = -1
    for at, step in enumerate(steps):
        run += run + 1 < len(starts) and starts[run + 1] == at
        if not _is_whole(step):
            continue
        needed = _needed(step, target)
        first = max(0, run - target.copies)
        if sum(cycles[first:run]) >= sum(loads[first + 1:run + 1]):
            continue
        if run >= 0 and _meets(steps[starts[run]:at], step):  # weights whose products are all left out, in the same place
            continue
        slots, hidden = list[int](), 0
        for before in range(run - 1, max(-1, run - 1 - FARTHEST), -1):
            if hidden >= SPREAD * needed or _meets(steps[starts[before]:starts[before + 1]], step):
                break
            slots.append(starts[before])
            hidden += cycles[before]
        pieces = _pieces(step, len(slots)) if len(slots) > max(target.copies, copies[step.symbol]) else []
        if pieces:
            gone.add(at)
            for slot, piece in zip(reversed(slots[:len(pieces)]), pieces, strict=True):
                moved.setdefault(slot, []).append(piece)
    return [s for at, step in enumerate(steps) for s in (*moved.get(at, ()), *([step] if at not in gone else []))]


def _runs(steps: list[Step]) -> tuple[list[int], list[int]]:
    """Return the number of each run of LOADs' first instruction, and the steps of GEMMs from there to the next run."""
    starts, cycles, loading = list[int](), list[int](), False
    for at, step in enumerate(steps):
        if step.stage is Stage.LOAD and not loading:
            starts.append(at)
            cycles.append(0)
        loading = step.stage is Stage.LOAD
        if step.op is Opcode.GEMM and cycles:
            cycles[-1] += step.cycles
    return starts, cycles


def _loads(steps: list[Step], starts: list[int], target: Target) -> list[float]:
    """Return the bus's cycles for the weights that each run of LOADs loads."""
    return [sum(_needed(step, target) for step in steps[start:end] if _is_whole(step))
            for start, end in pairwise([*starts, len(steps)])]


def _copies(steps: list[Step], starts: list[int]) -> dict[str, int]:
    """Return for each buffer of weights in how many places of the scratchpad its loads of one run lie in turn."""
    places, most = dict[str, set[int]](), dict[str, int]()
    for start, end in pairwise([*starts, len(steps)]):
        loaded = [step for step in steps[start:end] if _is_whole(step)]
        for step in loaded:
            places.setdefault(step.symbol, set()).add(step.fields.get("sram_base", 0))
        for symbol, count in Counter([step.symbol for step in loaded]).items():
            most[symbol] = max(most.get(symbol, 0), count)
    return {symbol: -(-len(found) // most[symbol]) for symbol, found in places.items()}


def _needed(step: Step, target: Target) -> float:
    return _elements(step) * MEMORIES[MemType.WGT].bytes_in(target.config) / target.system.bytes_a_cycle


def _is_whole(step: Step) -> bool:
    """Return true for a LOAD of constant weights without pads."""
    return step.op is Opcode.LOAD and step.fields["memory_type"] == MemType.WGT and len(step.accesses) == 1 and not any(
        step.fields.get(f"{side}_pad_{end}") for side in "xy" for end in "01")


def _elements(step: Step) -> int:
    return step.fields["y_size"] * step.fields["x_size"]


def _meets(steps: list[Step], step: Step) -> bool:
    return any(access.meets(own) for other in steps for access in other.accesses for own in step.accesses)


def _pieces(step: Step, count: int) -> list[Step]:
    """Split a LOAD into at most `count` LOADs of some of its rows, or of parts of its only row; [] if it has one element."""
    rows, width = step.fields["y_size"], step.fields["x_size"]
    whole = rows if rows > 1 else width
    if not count or whole < 2:
        return []
    size = -(-whole // count)
    return [_piece(step, first, min(size, whole - first)) for first in range(0, whole, size)]


def _piece(step: Step, first: int, size: int) -> Step:
    fields = dict(step.fields)
    several = fields["y_size"] > 1
    sram = first * fields["x_size"] if several else first
    fields["sram_base"] = fields.get("sram_base", 0) + sram
    fields["dram_base"] = fields.get("dram_base", 0) + (first * fields["x_stride"] if several else first)
    fields["y_size" if several else "x_size"] = size
    elements = slice(fields["sram_base"], fields["sram_base"] + fields["y_size"] * fields["x_size"])
    return Step(step.op, fields, step.stage, (Access("wgt", elements, write=True),), step.symbol, step.value, part=step.part)
