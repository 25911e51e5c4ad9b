"""Residency of micro-ops in the UOP scratchpad: kernels are loaded before their first use and stay while there is room."""

from collections.abc import Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.stream import Step
from vtakit.hw.isa.insns import MemType, Opcode, Stage
from vtakit.hw.isa.program import UOPS

Words = tuple[int, ...]
TOGETHER = 32  # micro-ops of kernels used for the first time one after another that are loaded at once


@dataclass(slots=True)
class _Resident:
    base: int
    size: int
    next_use: int


def load_kernels(steps: Sequence[Step], depth: int) -> tuple[list[Step], tuple[int, ...]]:
    """The instructions with their micro-ops' places and LOADs where they are not resident; and all micro-ops of the program.

    What is needed latest makes room (Belady's rule, since the whole program is known). Kernels of equal micro-ops are one.
    A LOAD stands right before its user, and takes no tokens: so it is under way while that one waits.
    """
    uses: dict[Words, list[int]] = {}
    for at, step in enumerate(steps):
        if step.uops:
            uses.setdefault(step.uops, []).append(at)
    order = list(uses)
    place_of: dict[Words, int] = {}
    total = 0
    for words in order:
        place_of[words] = total
        total += len(words)
    planner = _Planner(depth)
    turn = dict.fromkeys(order, 0)
    number = {words: at for at, words in enumerate(order)}
    new: list[Step] = []
    for step in steps:
        if step.uops:
            words = step.uops
            turn[words] += 1
            if words not in planner.resident:
                group = [words]
                for more in order[number[words] + 1:]:
                    if more in planner.resident or turn[more] or sum(map(len, group)) + len(more) > min(TOGETHER, depth):
                        break
                    group.append(more)
                base = planner.make_room(sum(map(len, group)))
                new.append(_load(base, place_of[words], sum(map(len, group))))
                for kernel in group:
                    planner.resident[kernel] = _Resident(base, len(kernel), uses[kernel][0])
                    base += len(kernel)
            resident = planner.resident[words]
            resident.next_use = uses[words][turn[words]] if turn[words] < len(uses[words]) else len(steps)
            step.fields |= {"uop_bgn": resident.base, "uop_end": resident.base + resident.size}
        new.append(step)
    return new, tuple(word for words in order for word in words)


def _load(base: int, first: int, count: int) -> Step:
    fields = {"memory_type": int(MemType.UOP), "sram_base": base, "dram_base": first, "y_size": 1, "x_size": count}
    return Step(Opcode.LOAD, fields, Stage.COMPUTE, symbol=UOPS)


class _Planner:
    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.resident: dict[Words, _Resident] = {}

    def make_room(self, size: int) -> int:
        """The first of so many micro-ops that are free, once the kernels that are needed latest have gone."""
        if size > self.depth:
            raise VtaError(f"a kernel has {size} micro-ops and the UOP scratchpad holds {self.depth}: tile smaller")
        held = sorted(self.resident.values(), key=lambda kernel: kernel.base)
        best: tuple[float, int] | None = None
        for start in sorted({0, *(kernel.base + kernel.size for kernel in held), *(kernel.base for kernel in held)}):
            if start + size > self.depth:
                break
            gone = [kernel.next_use for kernel in held if kernel.base < start + size and start < kernel.base + kernel.size]
            soonest = min(gone, default=float("inf"))
            if best is None or soonest > best[0]:
                best = soonest, start
            if not gone:
                break
        if best is None:
            best = 0.0, self.depth - size
        start = best[1]
        self.resident = {
            words: kernel for words, kernel in self.resident.items()
            if not (kernel.base < start + size and start < kernel.base + kernel.size)
        }
        return start
