"""Tokens between stages, placed by what instructions touch.

What each instruction must be ordered after follows from the elements that it touches, not from the order in which stages
are written. A token goes from the newest instruction that another must wait for to the one that waits, unless tokens that
are there already order the two; so there is never a token too many, and none is left.

A queue holds a thousand tokens. Where a stage could give more before the other has taken enough, it waits for that one; and where
it has given nearly as many already, the other waits for its newest instruction at once, in the place of many before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np

from vtakit.compiler.codegen.vta.stream import Step
from vtakit.hw.isa.insns import FLAG_QUEUES, TOKEN_QUEUE_DEPTH, MemType, Opcode, Queue, Stage

Clock = tuple[int, int, int]  # for each stage, the number of its last instruction that has certainly retired; -1 for none

_GIVER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("push")}
_TAKER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("pop")}
_BETWEEN = {(_GIVER[queue][0], _TAKER[queue][0]): queue for queue in Queue}
# Who writes a memory, and who else reads it. All of DRAM is written by STORE.
_WRITER = {"inp": Stage.LOAD, "wgt": Stage.LOAD, "acc": Stage.COMPUTE}
_READERS = {"inp": (Stage.COMPUTE,), "wgt": (Stage.COMPUTE,), "acc": (Stage.STORE,)}
_DRAM_READERS = (Stage.LOAD, Stage.COMPUTE)
CROWDED = TOKEN_QUEUE_DEPTH // 2  # tokens that may wait in a queue when an instruction is added that may give another


def with_tokens(steps: Iterable[Step], sizes: Mapping[str, int]) -> list[Step]:
    """The program with dependence flags set, so that no two stages race, and with instructions that only pass tokens on.

    sizes : elements of each memory that accesses are given of
    """
    order = _Order(sizes)
    for step in steps:
        order.append(step)
    return order.steps


class _Order:
    """A program that grows by one instruction at a time, and is ordered at every point."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.steps: list[Step] = []
        self._clocks: list[Clock] = []  # what has certainly retired when an instruction has
        self._now: list[Clock] = [(-1, -1, -1) for _ in Stage]
        self._compute: list[int] = []
        self._newest = [-1 for _ in Stage]
        self._takers: dict[Queue, list[int]] = {queue: [] for queue in Queue}
        self._written = {name: np.full(size, -1, np.int32) for name, size in sizes.items()}
        self._read = {
            (name, stage): np.full(size, -1, np.int32)
            for name, size in sizes.items() for stage in _READERS.get(name, _DRAM_READERS)
        }

    def append(self, step: Step) -> None:
        """Add an instruction after everything that it conflicts with."""
        after = [-1, -1, -1]
        for access in step.accesses:
            writer = _WRITER.get(access.memory, Stage.STORE)
            if writer is not step.stage:
                after[writer] = max(after[writer], int(self._written[access.memory][access.elements].max()))
            elif access.write:
                for reader in _READERS.get(access.memory, _DRAM_READERS):
                    after[reader] = max(after[reader], int(self._read[access.memory, reader][access.elements].max()))
        self._add(step, self._givers(step.stage, after))
        index = len(self.steps) - 1
        for access in step.accesses:
            if access.write:
                self._written[access.memory][access.elements] = index
            elif _WRITER.get(access.memory, Stage.STORE) is not step.stage:
                self._read[access.memory, step.stage][access.elements] = index

    def _givers(self, stage: Stage, after: list[int]) -> dict[Queue, int]:
        """Whose tokens the next instruction of `stage` takes, to run after one of each stage and to find room for its own."""
        givers: dict[Queue, int] = {}  # one token of a queue is taken: that of the newest, which knows of those before it
        for other in Stage:
            take = None if other is stage else self._order(stage, other, max(after[other], self._room(stage, other)))
            if take is not None:
                queue, giver = take
                givers[queue] = max(giver, givers.get(queue, -1))
        return givers

    def _room(self, stage: Stage, other: Stage) -> int:
        """The instruction of `other` that has taken enough of the tokens of `stage`; -1 if few may wait."""
        takers = self._takers[_BETWEEN[stage, other]] if (stage, other) in _BETWEEN else []
        if len(takers) < CROWDED or len(takers) - bisect_right(takers, self._now[stage][other]) < CROWDED:
            return -1
        return takers[-(CROWDED // 2 + 1)]

    def _order(self, stage: Stage, other: Stage, index: int) -> tuple[Queue, int] | None:
        """The token, if one is needed, that orders the next instruction of `stage` after instruction `index` of `other`.

        A stage knows of all tokens that it has taken, so one that it lacks is newer than any given to it: each token is
        the next of its queue.
        """
        if self._now[stage][other] >= index:
            return None
        queue = _BETWEEN.get((other, stage))
        if queue is not None:
            takers = self._takers[queue]
            waiting = len(takers) - bisect_right(takers, self._clocks[index][stage])
            return queue, index if waiting + 1 < TOKEN_QUEUE_DEPTH else self._newest[other]
        first = bisect_left(self._compute, index, key=lambda at: self._clocks[at][other])  # no neighbours: through compute
        if first == len(self._compute):
            after = [index if each is other else -1 for each in Stage]
            nothing = Step(Opcode.LOAD, {"memory_type": int(MemType.UOP)}, Stage.COMPUTE)
            self._add(nothing, self._givers(Stage.COMPUTE, after))
        return self._order(stage, Stage.COMPUTE, self._compute[first])

    def _add(self, step: Step, givers: Mapping[Queue, int]) -> None:
        clock = list(self._now[step.stage])
        for queue, giver in givers.items():
            step.fields[_TAKER[queue][1]] = 1
            self.steps[giver].fields[_GIVER[queue][1]] = 1
            self._takers[queue].append(len(self.steps))
            clock = [max(a, b) for a, b in zip(clock, self._clocks[giver], strict=True)]
        clock[step.stage] = len(self.steps)
        self._now[step.stage] = (clock[0], clock[1], clock[2])
        self._clocks.append(self._now[step.stage])
        self._newest[step.stage] = len(self.steps)
        if step.stage is Stage.COMPUTE:
            self._compute.append(len(self.steps))
        self.steps.append(step)
