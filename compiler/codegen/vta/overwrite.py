"""The first products of an accumulator written over what is there, in the place of steps that reset it."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from vtakit.compiler.codegen.vta.kernels import OPERANDS, Place
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.windows import accumulators
from vtakit.hw.isa.codec import decode_uop, encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import Opcode


def overwrite(steps: list[Step], cfg: VTAConfig) -> list[Step]:
    """Return the same program without the resets whose elements are all overwritten next by the first steps of GEMMs."""
    new: list[tuple[Step, ...]] = [(step,) for step in steps]
    open_: list[_Reset] = []
    for at, step in enumerate(steps):
        for reset in [reset for reset in open_ if any(access.meets(reset.access) for access in step.accesses)]:
            if not reset.take(at, step, cfg):
                open_.remove(reset)
            elif not reset.left:
                open_.remove(reset)
                new[reset.at] = ()
                for where, parts in reset.replaced.items():
                    new[where] = parts
        if step.op is Opcode.GEMM and step.fields.get("reset"):
            open_.append(_Reset(at, step.accesses[0], set(_split(cfg, *_loops(step)).elements), {}))
    return [step for parts in new for step in parts]


@dataclass(slots=True, eq=False)
class _Reset:
    """A reset, what of it no product has met yet, and what would be in the places of those that have."""

    at: int
    access: Access
    left: set[int]
    replaced: dict[int, tuple[Step, ...]]

    def take(self, at: int, step: Step, cfg: VTAConfig) -> bool:
        """Let an instruction that may meet its elements write them first; whether the reset may still go."""
        if step.op is Opcode.DWCONV:
            return self._take_window(at, step)
        if step.op is not Opcode.GEMM or step.fields.get("reset"):
            return False
        split = _split(cfg, *_loops(step))
        if not split.elements & self.left:
            return True
        if not split.elements <= self.left or not split.parts:
            return False
        self.left -= split.elements
        self.replaced[at] = tuple([_part(step, part, first=part is split.parts[0]) for part in split.parts])
        return True


    def _take_window(self, at: int, step: Step) -> bool:
        elements = accumulators(step)
        if not elements & self.left:
            return True
        if not elements <= self.left:
            return False
        self.left -= elements
        self.replaced[at] = (replace(step, fields=step.fields | {"overwrite": 1}),)
        return True


_Loop = tuple[int, Place]  # extent, steps of the operands
_Part = tuple[tuple[int, ...], int, int]  # micro-ops, extents of the two loops


class _Split(NamedTuple):
    """Split of a GEMM: the elements it writes, and equivalent instructions whose first one writes each element first.

    parts : none if loops do not part the steps that write first from those that add
    """

    elements: frozenset[int]
    parts: tuple[_Part, ...]


def _loops(step: Step) -> tuple[tuple[int, ...], _Loop, _Loop]:
    """Micro-ops and the two loops of a GEMM."""
    def loop(name: str) -> _Loop:
        dst, src, wgt = [step.fields.get(f"{operand}_{name}", 0) for operand in OPERANDS]
        return step.fields[f"iter_{name}"], (dst, src, wgt)
    return step.uops, loop("out"), loop("in")


def _part(step: Step, part: _Part, *, first: bool) -> Step:
    words, outer, inner = part
    fields = step.fields | {"iter_out": outer, "iter_in": inner}
    fields |= {f"{name}_out": 0 for name in OPERANDS if outer == 1} | {f"{name}_in": 0 for name in OPERANDS if inner == 1}
    return replace(step, fields=fields | ({"overwrite": 1} if first else {}), uops=words)


@lru_cache(maxsize=4096)
def _split(cfg: VTAConfig, words: tuple[int, ...], outer: _Loop, inner: _Loop) -> _Split:
    """A loop that does not move the destination adds: its first turn writes first, with the first micro-op of a destination."""
    places = [decode_uop(cfg, word) for word in words]
    destinations, where = np.unique([place["dst"] for place in places], return_index=True)
    firsts = sorted(where.tolist())
    elements = destinations
    for extent, steps in (outer, inner):
        if steps[0]:
            elements = np.add.outer(elements, np.arange(extent) * steps[0]).ravel()
    whole = frozenset(elements.tolist())
    if len(whole) != len(elements):
        return _Split(whole, ())
    across = [extent if steps[0] else 1 for extent, steps in (outer, inner)]
    parts = [(tuple([words[at] for at in firsts]), across[0], across[1])]
    rest = tuple([words[at] for at in sorted(set(range(len(words))) - set(firsts))])
    if rest:
        parts.append((rest, outer[0], inner[0]))
    for (extent, (dst, src, wgt)), extents in ((outer, (outer[0] - 1, inner[0])), (inner, (across[0], inner[0] - 1))):
        if not dst and extent > 1:
            later = tuple([
                encode_uop(cfg, places[at]["dst"], places[at]["src"] + src, places[at]["wgt"] + wgt) for at in firsts
            ])
            parts.append((later, *extents))
    return _Split(whole, tuple(parts))
