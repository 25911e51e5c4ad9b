"""STOREs between products: a tile's accumulators are stored block by block while products of other blocks are computed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.kernels import OPERANDS
from vtakit.compiler.codegen.vta.stream import Access, Elements, Step
from vtakit.hw.isa.codec import decode_uop, encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MemType, Opcode, Stage

Ints = npt.NDArray[np.int64]
MOST_GROUPS = 8  # that a tile's STOREs are put into: each has instructions and micro-ops of its own
_NONE = -1
_MEMORIES = {"dst": "acc", "src": "inp", "wgt": "wgt"}


def stores_between(steps: list[Step], cfg: VTAConfig) -> list[Step]:
    """Return the same program with marked STOREs of a tile between its last products, and the next tile's first ones after them.

    The STOREs of a tile are put into groups. The instructions just before them that compute their accumulators are split by these
    groups, and so are the first ones after them that write there. A group's come one after another, and then its STOREs: so
    they run while the next group is computed, and the next tile waits for one group only. Instructions of different groups touch
    different accumulators, and those of one group keep their order.
    """
    if not any(step.between for step in steps):
        return steps
    found: list[Step] = []
    at, groups = 0, None
    while at < len(steps):
        end = at + 1
        if steps[at].stage is Stage.STORE:
            while end < len(steps) and steps[end].stage is Stage.STORE:
                end += 1
            stores = steps[at:end]
            groups = _Groups.of(stores, cfg) if all(store.between for store in stores) else None
            if groups is None:
                found += stores
            else:
                first = len(found)
                while first and _computes(found[first - 1]):
                    first -= 1
                found[first:] = groups.before(found[first:], stores)
        elif groups is not None and steps[at].stage is Stage.COMPUTE and any(groups.writes(a) for a in steps[at].accesses):
            loads, computing, end = _first(steps, at)
            found += [*loads, *groups.after(computing)]
            groups = None
        else:
            found.append(steps[at])
        at = end
    return found


def _first(steps: list[Step], at: int) -> tuple[list[Step], list[Step], int]:
    """Return the LOADs of inputs and weights from an instruction on that may stand before it, the compute stage's instructions up
    to the first products, and the number of the instruction behind all of these.
    """
    loads: list[Step] = []
    computing: list[Step] = []
    multiplied = False
    for end in range(at, len(steps)):
        step = steps[end]
        met = any(access.meets(own) for other in computing for access in other.accesses for own in step.accesses)
        if step.stage is Stage.STORE or (step.stage is Stage.LOAD and (multiplied or met)):
            return loads, computing, end
        (loads if step.stage is Stage.LOAD else computing).append(step)
        multiplied |= step.op is Opcode.GEMM and not step.fields.get("reset")
    return loads, computing, len(steps)


def _computes(step: Step) -> bool:
    return step.op in (Opcode.GEMM, Opcode.ALU)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The accumulators of a tile by groups of its STOREs.

    of     : the group of each element of the accumulator; -1 for none
    stores : the numbers of each group's STOREs
    """

    cfg: VTAConfig
    of_element: Ints
    stores: Sequence[range]

    @classmethod
    def of(cls, stores: Sequence[Step], cfg: VTAConfig) -> "_Groups | None":
        """Return the groups of STOREs; None if there is one STORE, or if two read one accumulator."""
        if len(stores) < 2:
            return None
        count = min(MOST_GROUPS, len(stores))
        edges = [len(stores) * at // count for at in range(count + 1)]
        found, runs = np.full(cfg.acc_depth, _NONE), [range(first, end) for first, end in pairwise(edges)]
        for number, run in enumerate(runs):
            for at in run:
                elements = stores[at].accesses[0].indices
                if (found[elements] != _NONE).any():
                    return None
                found[elements] = number
        return cls(cfg, found, runs)

    def writes(self, access: Access) -> bool:
        """Return whether an access writes accumulators of the tile."""
        return access.memory == "acc" and access.write and bool((self.of_element[access.indices] != _NONE).any())

    def before(self, steps: Sequence[Step], stores: Sequence[Step]) -> list[Step]:
        """Return the instructions before the STOREs, and these: split from the first on from which all can be."""
        parts: list[dict[int, Step]] = []
        for step in reversed(steps):
            split = self._split(step)
            if split is None:
                break
            parts.insert(0, split)
        return [*steps[:len(steps) - len(parts)],
                *[step for number, run in enumerate(self.stores) for step in (
                    *[split[number] for split in parts if number in split], *[stores[at] for at in run])]]

    def after(self, steps: Sequence[Step]) -> list[Step]:
        """Return the first instructions after the STOREs: split up to the last one up to which all can be."""
        parts: list[dict[int, Step]] = []
        for step in steps:
            split = self._split(step)
            if split is None:
                break
            parts.append(split)
        loads = [split for split in parts if next(iter(split.values())).op is Opcode.LOAD]
        rest = [split for split in parts if next(iter(split.values())).op is not Opcode.LOAD]
        numbers = range(len(self.stores))
        return [*[split[number] for number in numbers for split in loads if number in split],
                *[split[number] for number in numbers for split in rest if number in split], *steps[len(parts):]]

    def _split(self, step: Step) -> dict[int, Step] | None:
        """Return the parts of an instruction by group; None if it has other accumulators, or parts that are no instructions."""
        if step.op is Opcode.LOAD and step.fields["memory_type"] in (MemType.ACC, MemType.ACC_8BIT):
            return self._split_load(step)
        if not _computes(step):
            return None
        places = [decode_uop(self.cfg, word) for word in step.uops]
        at = _elements(step, places, "dst")
        of = self.of_element[at]
        if (of == _NONE).any():
            return None
        if step.op is Opcode.ALU and not step.fields.get("use_imm"):
            read = self.of_element[_elements(step, places, "src")]
            if ((read != _NONE) & (read != of)).any():
                return None
        if (of == of[:, :1, :1]).all():
            return {number: self._part(step, [word for word, own in zip(step.uops, of[:, 0, 0], strict=True) if own == number])
                    for number in dict.fromkeys(of[:, 0, 0].tolist())}
        for loop, own in (("out", of[0, :, 0]), ("in", of[0, 0, :])):
            if (of == (own[:, None] if loop == "out" else own)).all():
                return self._by_turns(step, places, loop, own)
        return None

    def _by_turns(self, step: Step, places: Sequence[dict[str, int]], loop: str, own: Ints) -> dict[int, Step] | None:
        found = {}
        for number in dict.fromkeys(own.tolist()):
            turns = np.flatnonzero(own == number)
            if turns[-1] - turns[0] + 1 != len(turns):
                return None
            by = {name: int(turns[0]) * step.fields.get(f"{name}_{loop}", 0) for name in OPERANDS}
            words = [encode_uop(self.cfg, *[place[name] + by[name] for name in OPERANDS]) for place in places]
            still = {f"{name}_{loop}": 0 for name in OPERANDS if len(turns) == 1 and f"{name}_{loop}" in step.fields}
            fields = {f"iter_{loop}": len(turns)} | still
            found[number] = self._part(replace(step, fields=step.fields | fields), words)
        return found

    def _part(self, step: Step, words: Sequence[int]) -> Step:
        """Return a part of an instruction, with its own accesses."""
        places = [decode_uop(self.cfg, word) for word in words]
        names = OPERANDS if step.op is Opcode.GEMM else OPERANDS[:2]
        accesses = [Access(access.memory, _run(np.unique(_elements(step, places, name))), access.write)
                    for name, access in zip(names, step.accesses, strict=False)]
        return replace(step, fields=dict(step.fields), uops=tuple(words), accesses=tuple(accesses))

    def _split_load(self, step: Step) -> dict[int, Step] | None:
        """Return the parts of a LOAD of accumulators, each of whole rows or of a part of the only row."""
        own, fields = step.accesses[0].elements, step.fields
        if not isinstance(own, slice) or any(fields.get(f"{side}_pad_{end}") for side in "xy" for end in "01"):
            return None
        of = self.of_element[own]
        rows, width = fields.get("y_size", 0), fields.get("x_size", 0)
        if not rows or (of == _NONE).any():
            return None
        found = {}
        for number in dict.fromkeys(of.tolist()):
            which = np.flatnonzero(of == number)
            first, count = int(which[0]), len(which)
            if which[-1] - first + 1 != count or (rows > 1 and (first % width or count % width)):
                return None
            found[number] = _load(step, first, count)
        return found


def _load(step: Step, first: int, count: int) -> Step:
    """Return a LOAD of so many of another's elements from the first on."""
    fields, (own, *dram) = dict(step.fields), step.accesses
    rows, width, pitch = fields["y_size"], fields["x_size"], fields.get("x_stride", 0)
    assert isinstance(own.elements, slice)
    skipped = first if rows == 1 else first // width * pitch
    wanted = {"sram_base": fields.get("sram_base", 0) + first, "dram_base": fields.get("dram_base", 0) + skipped,
              "y_size": 1 if rows == 1 else count // width, "x_size": count if rows == 1 else width}
    wanted["x_stride"] = pitch if wanted["y_size"] > 1 else 0
    fields = {name: value for name, value in (fields | wanted).items() if value or name not in wanted}
    begin = own.elements.start + first
    reach = (wanted["y_size"] - 1) * pitch + wanted["x_size"]
    found = [Access(own.memory, slice(begin, begin + count), write=True)]
    for access in dram:
        assert isinstance(access.elements, slice)
        units = (access.elements.stop - access.elements.start) // ((rows - 1) * pitch + width)
        start = access.elements.start + skipped * units
        found.append(Access(access.memory, slice(start, start + reach * units), access.write))
    return replace(step, fields=fields, accesses=tuple(found))


def _elements(step: Step, places: Sequence[dict[str, int]], name: str) -> Ints:
    """Return the elements of an operand: [micro-ops, turns of the outer loop, of the inner loop]."""
    loops = [np.arange(step.fields[f"iter_{loop}"]) * step.fields.get(f"{name}_{loop}", 0) for loop in ("out", "in")]
    return np.array([place[name] for place in places])[:, None, None] + loops[0][:, None] + loops[1]


def _run(elements: Ints) -> Elements:
    """Return elements as a slice if they lie together."""
    first, last = int(elements[0]), int(elements[-1])
    return slice(first, last + 1) if last - first + 1 == len(elements) else elements
