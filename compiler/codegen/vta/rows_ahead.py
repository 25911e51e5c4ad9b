"""LOADs of rows for depthwise convolutions: in the parts that their steps wait for."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.insns import MemType, Opcode, Stage

_LOADS = (Opcode.LOAD, Opcode.PAD_LOAD)


def rows_ahead(steps: list[Step]) -> list[Step]:
    """Return the program with LOADs cut behind the last row that each DWCONV reads, and moved up past DWCONVs.

    A tile that is computed in strips of rows has one place in INP. So its first strip waits for the first LOAD only, and the
    first LOAD of the next tile for the first strip. Rows of pads that lie in INP already are not written again. Instructions are
    fetched in order, and the queues of stages are short: behind all DWCONVs of a tile a LOAD would be fetched late. The
    order of LOADs stays, and nothing moves past an instruction that touches the same elements.
    """
    if all(step.op is not Opcode.DWCONV for step in steps):
        return steps
    found: list[Step] = []
    for step in _cut(steps):
        at = len(found)
        if step.stage is Stage.LOAD:
            while at and _passes(step, found[at - 1]):
                at -= 1
            if all(each.op is not Opcode.DWCONV for each in found[at:]):
                at = len(found)
        found.insert(at, step)
    return found


def _passes(load: Step, other: Step) -> bool:
    """Return whether a LOAD may stand before an instruction of a depthwise convolution."""
    beside = other.op is Opcode.DWCONV or other.stage is Stage.STORE or (other.op is Opcode.LOAD and other.stage is Stage.COMPUTE)
    return beside and not any(access.meets(own) for access in other.accesses for own in load.accesses)


def _cut(steps: list[Step]) -> Iterator[Step]:
    """Yield the instructions, LOADs of inputs in parts."""
    ends: dict[int, set[int]] = {}  # of each LOAD, the elements behind the last one that a DWCONV reads
    live: list[int] = []
    for at, step in enumerate(steps):
        if _is_inputs(step):
            live = [load for load in live if not steps[load].accesses[0].meets(step.accesses[0])] + [at]
        elif step.op is Opcode.DWCONV:
            read = step.accesses[1]
            last = int(read.indices[-1]) + 1
            for load in live:
                if steps[load].accesses[0].meets(read):
                    ends.setdefault(load, set()).add(last)
    held: dict[int, tuple[int, int]] = {}  # rows of pads in INP by their first element: the element behind them, and their value
    for at, step in enumerate(steps):
        if not _is_inputs(step):
            yield step
            continue
        parts = [*_parts(_without(step, held), ends[at])] if at in ends else [step]
        yield from parts
        own = step.accesses[0].elements
        assert isinstance(own, slice)
        held = {first: run for first, run in held.items() if run[0] <= own.start or own.stop <= first} | _pads(step)


def _pads(step: Step) -> dict[int, tuple[int, int]]:
    """Return the rows of pads above and below that a LOAD writes."""
    own, width = step.accesses[0].elements, _width(step)
    assert isinstance(own, slice)
    above, below = (step.fields.get(name, 0) * width for name in ("y_pad_0", "y_pad_1"))
    runs = {own.start: own.start + above, own.stop - below: own.stop}
    return {first: (end, step.fields.get("pad_value", 0)) for first, end in runs.items() if first < end}


def _without(step: Step, held: dict[int, tuple[int, int]]) -> Step:
    """Return a LOAD without the rows of pads that lie in INP already: each of their elements would take a cycle."""
    own, width = step.accesses[0].elements, _width(step)
    assert isinstance(own, slice)
    known = [first for first, run in _pads(step).items() if held.get(first) == run]
    begin, end = 0, (own.stop - own.start) // width
    for first in known if step.fields.get("y_size") else ():
        begin, end = (step.fields["y_pad_0"], end) if first == own.start else (begin, end - step.fields["y_pad_1"])
    return _rows(step, begin, end) if known and step.fields.get("y_size") else step


def _width(step: Step) -> int:
    return sum(step.fields.get(name, 0) for name in ("x_pad_0", "x_size", "x_pad_1"))


def _is_inputs(step: Step) -> bool:
    return step.op in _LOADS and step.fields["memory_type"] == MemType.INP


def _parts(step: Step, ends: Iterable[int]) -> Iterator[Step]:
    """Yield a LOAD in parts of whole rows, each with a row from DRAM; cut behind the rows that hold these elements."""
    fields, width = step.fields, _width(step)
    pads, rows = fields.get("y_pad_0", 0), fields.get("y_size", 0)
    first, count = fields.get("sram_base", 0), pads + rows + fields.get("y_pad_1", 0)
    cuts = sorted({-(-(end - first) // width) for end in ends})
    inside = [cut for cut in cuts if pads < cut < pads + rows]
    for begin, end in pairwise([0, *inside, count]):
        yield _rows(step, begin, end) if inside else step


def _rows(step: Step, begin: int, end: int) -> Step:
    """Return a LOAD of some rows of another, pads included, with a row from DRAM."""
    fields, pads, rows = dict(step.fields), step.fields.get("y_pad_0", 0), step.fields["y_size"]
    above, below = max(0, min(end, pads) - begin), max(0, end - max(begin, pads + rows))
    skipped, width = max(0, begin - pads), _width(step)
    wanted = {"y_pad_0": above, "y_pad_1": below, "y_size": end - begin - above - below,
              "sram_base": fields.get("sram_base", 0) + begin * width,
              "dram_base": fields.get("dram_base", 0) + skipped * fields.get("x_stride", 0)}
    wanted["x_stride"] = fields.get("x_stride", 0) if wanted["y_size"] > 1 else 0
    for name, value in wanted.items():
        fields.pop(name, None)
        if value:
            fields[name] = value
    padded = any(fields.get(name) for name in ("x_pad_0", "x_pad_1", "y_pad_0", "y_pad_1"))
    if not padded:
        fields.pop("pad_value", None)
    own = Access(step.accesses[0].memory, slice(wanted["sram_base"], wanted["sram_base"] + (end - begin) * width), write=True)
    dram = [_of_rows(access, step.fields, skipped, wanted["y_size"]) for access in step.accesses[1:]]
    return Step(step.op if padded else Opcode.LOAD, fields, step.stage, (own, *dram), step.symbol, step.value, part=step.part)


def _of_rows(access: Access, fields: dict[str, int], first: int, count: int) -> Access:
    """Return an access to DRAM of so many of a LOAD's rows."""
    assert isinstance(access.elements, slice)
    pitch = fields.get("x_stride", 0)
    whole = (fields["y_size"] - 1) * pitch + fields["x_size"]
    units = (access.elements.stop - access.elements.start) // whole
    begin = access.elements.start + first * pitch * units
    return Access(access.memory, slice(begin, begin + ((count - 1) * pitch + fields["x_size"]) * units), access.write)
