"""Tokens between stages, placed by what instructions touch.

What each instruction must be ordered after follows from the elements that it touches, not from the order in which stages
are written. A token goes from the newest instruction that another must wait for to the one that waits, unless tokens that
are there already order the two; so there is never a token too many, and none is left.

Loading and storing have no queue between them: where a LOAD reads what a STORE wrote, the compute stage takes the token of one
and gives one to the other, in an instruction of its own. It stands as early in the compute stage as the LOAD can start.
Otherwise the LOAD would wait for products that do not concern it.

A queue holds a thousand tokens. Where a stage could give more before the other has taken enough, it waits for that one; and where
it has given nearly as many already, the other waits for its newest instruction at once, in the place of many before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

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


def with_tokens(steps: Sequence[Step], sizes: Mapping[str, int], *, to_the_end: bool = False) -> list[Step]:
    """The program with dependence flags set, so that no two stages race, and with instructions that only pass tokens on.

    sizes      : elements of each memory that accesses are given of
    to_the_end : the compute stage ends only when all STOREs have
    """
    order, passed = _Order(sizes), _passed_early(steps, sizes)
    for at, step in enumerate(steps):
        for load in passed.get(at, ()):
            order.pass_on(load)
        order.append(step)
    if to_the_end:
        order.wait_for_stores()
    return order.steps


def _passed_early(steps: Sequence[Step], sizes: Mapping[str, int]) -> dict[int, list[Step]]:
    """The LOADs of what STOREs wrote, by the number of the instruction before which the compute stage should wait for these.

    That is after the products that last used the LOAD's place in a scratchpad, and those that the LOADs before it wait for.
    """
    touched = {name: np.full(size, -1, np.int32) for name, size in sizes.items()}  # by STORE in DRAM, by products in scratchpads
    found: dict[int, list[Step]] = {}
    start = computed = -1  # numbers of instructions; the latter of the last one of the compute stage
    for at, step in enumerate(steps):
        mine = [(access, touched[access.memory][access.elements]) for access in step.accesses]
        if step.stage is Stage.LOAD:
            start = max([start, *[int(last.max()) for _, last in mine]])
            stored = any(not access.write and (last >= 0).any() for access, last in mine)
            if stored and computed > start:
                found.setdefault(start + 1, []).append(step)
            continue
        if step.stage is Stage.COMPUTE:
            computed = at
        for access in step.accesses:
            if access.write is (step.stage is Stage.STORE) and access.memory != "acc":
                touched[access.memory][access.elements] = at
    return found


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

    def pass_on(self, load: Step) -> None:
        """Let the compute stage wait for what a later LOAD reads, unless it knows of that already."""
        read = [access for access in load.accesses if _WRITER.get(access.memory) is None]
        index = max(int(self._written[access.memory][access.elements].max()) for access in read)
        if self._now[Stage.COMPUTE][Stage.STORE] < index and self._now[Stage.LOAD][Stage.STORE] < index:
            self._wait_in_compute(Stage.STORE, index)

    def wait_for_stores(self) -> None:
        """Let the compute stage wait for the last STORE, unless it knows of that already."""
        last = self._newest[Stage.STORE]
        if self._now[Stage.COMPUTE][Stage.STORE] < last:
            self._wait_in_compute(Stage.STORE, last)

    def _wait_in_compute(self, other: Stage, index: int) -> None:
        """Add an instruction of the compute stage that only waits for instruction `index` of another."""
        after = [index if each is other else -1 for each in Stage]
        nothing = Step(Opcode.LOAD, {"memory_type": int(MemType.UOP)}, Stage.COMPUTE)
        self._add(nothing, self._givers(Stage.COMPUTE, after))

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
            self._wait_in_compute(other, index)
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
