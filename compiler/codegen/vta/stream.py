"""The instructions of a program as they are made, ordered by tokens where two stages touch the same memory.

What each instruction must be ordered after follows from the elements that it touches, not from the order in which stages
are written. A token goes from the newest instruction that another must wait for to the one that waits, unless tokens that
are there already order the two; so there is never a token too many, and none is left.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.insns import FLAG_QUEUES, MEMORIES, MemType, Opcode, Queue, Stage

Clock = tuple[int, int, int]  # for each stage, the number of its last instruction that has certainly retired; -1 for none
Elements = slice | npt.NDArray[np.int64]

_GIVER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("push")}
_TAKER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("pop")}
_BETWEEN = {(_GIVER[queue][0], _TAKER[queue][0]): queue for queue in Queue}
# Who writes a memory; the others that touch it only read. All of DRAM is written by STORE.
_WRITER = {"inp": Stage.LOAD, "wgt": Stage.LOAD, "acc": Stage.COMPUTE}
_READER = {"inp": (Stage.COMPUTE,), "wgt": (Stage.COMPUTE,), "acc": (Stage.STORE,)}


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of a scratchpad, or of a buffer in DRAM, that an instruction touches."""

    memory: str
    elements: Elements


@dataclass(slots=True)
class Step:
    """An instruction: its fields without those of its micro-ops, and what they are.

    symbol : the buffer in DRAM that dram_base counts from, or ""
    uops   : the words of its micro-ops
    """

    op: Opcode
    fields: dict[str, int]
    stage: Stage
    clock: Clock
    symbol: str = ""
    uops: tuple[int, ...] = ()


class Stream:
    """A program that grows by one instruction at a time.

    sizes : elements of each memory of which accesses are given: scratchpads, and buffers in DRAM that are written and read
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.steps: list[Step] = []
        self._now: list[Clock] = [(-1, -1, -1) for _ in Stage]
        self._compute: list[tuple[Clock, int]] = []  # of every compute instruction, to find the first that knows something
        self._written = {name: np.full(size, -1, np.int32) for name, size in sizes.items()}
        self._read = {
            (name, stage): np.full(size, -1, np.int32)
            for name, size in sizes.items() for stage in _READER.get(name, (Stage.LOAD, Stage.COMPUTE))
        }

    def append(
        self, op: Opcode, fields: dict[str, int], stage: Stage, accesses: Sequence[Access] = (), *, symbol: str = "",
        uops: tuple[int, ...] = (),
    ) -> None:
        """Add an instruction; whether an access writes follows from the stage."""
        after = [-1, -1, -1]
        for access in accesses:
            writer = _WRITER.get(access.memory, Stage.STORE)
            if writer is not stage:
                after[writer] = max(after[writer], int(self._written[access.memory][access.elements].max()))
                continue
            for reader in _READER.get(access.memory, (Stage.LOAD, Stage.COMPUTE)):
                after[reader] = max(after[reader], int(self._read[access.memory, reader][access.elements].max()))
        takes = [self._order(stage, other, after[other]) for other in Stage if other is not stage]
        self._add(Step(op, fields, stage, self._now[stage], symbol, uops), [take for take in takes if take is not None])
        index = len(self.steps) - 1
        for access in accesses:
            writes = _WRITER.get(access.memory, Stage.STORE) is stage
            history = self._written[access.memory] if writes else self._read[access.memory, stage]
            history[access.elements] = index

    def _order(self, stage: Stage, other: Stage, index: int) -> tuple[Queue, int] | None:
        """The token, if one is needed, that orders the next instruction of `stage` after instruction `index` of `other`."""
        if self._now[stage][other] >= index:
            return None
        queue = _BETWEEN.get((other, stage))
        if queue is not None:
            return queue, index
        first = bisect_left(self._compute, index, key=lambda pair: pair[0][other])  # no neighbours: through compute
        if first == len(self._compute):
            take = self._order(Stage.COMPUTE, other, index)
            fields = {"memory_type": int(MemType.UOP)}  # moves nothing
            self._add(Step(Opcode.LOAD, fields, Stage.COMPUTE, self._now[Stage.COMPUTE]), [] if take is None else [take])
        return self._order(stage, Stage.COMPUTE, self._compute[first][1])

    def _add(self, step: Step, takes: list[tuple[Queue, int]]) -> None:
        clock = list(self._now[step.stage])
        for queue, giver in takes:
            step.fields[_TAKER[queue][1]] = 1
            self.steps[giver].fields[_GIVER[queue][1]] = 1
            clock = [max(a, b) for a, b in zip(clock, self.steps[giver].clock, strict=True)]
        clock[step.stage] = len(self.steps)
        step.clock = self._now[step.stage] = (clock[0], clock[1], clock[2])
        if step.stage is Stage.COMPUTE:
            self._compute.append((step.clock, len(self.steps)))
        self.steps.append(step)


def stage_of(kind: MemType) -> Stage:
    """The stage that moves a memory type."""
    return MEMORIES[kind].stage
