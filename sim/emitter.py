"""Appending instructions so that tokens order each after everything that it conflicts with.

Tokens of a queue are taken in the order in which they are given, so the emitter always gives from the newest instruction of
a stage and takes at the next one of the neighbour; stages that are no neighbours are ordered through compute.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vtakit.hw.isa.codec import Insn, encode
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import FLAG_QUEUES, FORMATS, MEMORIES, MemType, Opcode, Queue, Stage
from vtakit.sim.access import Access, Clock, Shadow

_GIVER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("push")}
_TAKER = {queue: (stage, flag) for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("pop")}
_BETWEEN = {(_GIVER[queue][0], _TAKER[queue][0]): queue for queue in Queue}
_TOKEN_ONLY = {Stage.LOAD: MemType.INP, Stage.COMPUTE: MemType.UOP, Stage.STORE: MemType.OUT}


@dataclass(slots=True)
class _Emitted:
    op: Opcode
    fields: dict[str, int]
    stage: Stage
    clock: Clock  # what has certainly retired when it retires, itself included


def complete(op: Opcode, fields: dict[str, int]) -> Insn:
    """An instruction with the absent fields 0."""
    return Insn(op, dict.fromkeys((f.name for f in FORMATS[op].fields if f.name != "opcode"), 0) | fields)


class Emitter:
    """A program that grows by one instruction at a time, free of races and deadlock at every point.

    spare_give, spare_take  asked for each token that could be given or taken although nothing requires it
    """

    def __init__(self, cfg: VTAConfig, dram_bytes: int, spare_give: Callable[[], bool], spare_take: Callable[[], bool]) -> None:
        self._cfg = cfg
        self._spare_give, self._spare_take = spare_give, spare_take
        self._emitted: list[_Emitted] = []
        self._shadow = Shadow(cfg, dram_bytes)
        self._now: list[Clock] = [[-1, -1, -1] for _ in Stage]
        self._pending: list[deque[int]] = [deque() for _ in Queue]  # who gave the tokens that nothing takes yet
        self._ending = False

    def emit(self, op: Opcode, fields: dict[str, int], accesses: list[Access]) -> None:
        """Append an instruction that touches `accesses`."""
        stage = complete(op, fields).stage
        takes: list[Queue] = []
        for conflict in self._shadow.conflicts(stage, accesses, self._now[stage]):
            takes += self._order(stage, conflict.stage, conflict.index, takes)
        for queue in Queue:
            if _TAKER[queue][0] is stage and queue not in takes and self._pending[queue] and self._spare_take():
                takes.append(queue)
        self._append(op, fields, stage, accesses, takes)

    def token_only(self, stage: Stage, takes: list[Queue] | None = None) -> None:
        """Append an instruction of `stage` that moves nothing and takes tokens from `takes`."""
        kind = _TOKEN_ONLY[stage]
        self._append(MEMORIES[kind].opcodes[0], {"memory_type": int(kind)}, stage, [], takes or [])

    def finish(self) -> list[int]:
        """Take the tokens that are left, append FINISH, and return the program's words."""
        self._ending = True
        for queue in Queue:
            while self._pending[queue]:
                self.token_only(_TAKER[queue][0], [queue])
        self._append(Opcode.FINISH, {}, Stage.COMPUTE, [], [])
        return [encode(self._cfg, FORMATS[e.op].name, **e.fields) for e in self._emitted]

    def _order(self, stage: Stage, after: Stage, index: int, takes: list[Queue]) -> list[Queue]:
        """Order the next instruction of `stage` after instruction `index` of stage `after`.

        Returns the queue that it must take a token from, unless it does already; further tokens are taken by
        instructions emitted here.
        """
        if self._now[stage][after] >= index:
            return []
        queue = _BETWEEN.get((after, stage))
        if queue is None:  # load and store are no neighbours: through compute
            self.token_only(Stage.COMPUTE, self._order(Stage.COMPUTE, after, index, []))
            return self._order(stage, Stage.COMPUTE, len(self._emitted) - 1, takes)
        if not any(giver >= index for giver in self._pending[queue]):
            last = max(i for i, e in enumerate(self._emitted) if e.stage is after)
            self._emitted[last].fields[_GIVER[queue][1]] = 1
            self._pending[queue].append(last)
        while self._pending[queue][0] < index:
            self.token_only(stage, [queue])
        return [] if queue in takes else [queue]

    def _append(self, op: Opcode, fields: dict[str, int], stage: Stage, accesses: list[Access], takes: list[Queue]) -> None:
        index, clock = len(self._emitted), self._now[stage]
        for queue in takes:
            giver = self._emitted[self._pending[queue].popleft()]
            fields[_TAKER[queue][1]] = 1
            clock[:] = map(max, clock, giver.clock)
        clock[stage] = index
        self._emitted.append(_Emitted(op, fields, stage, clock.copy()))
        self._shadow.record(index, stage, accesses)
        for queue in Queue:
            if _GIVER[queue][0] is stage and not self._ending and self._spare_give():
                fields[_GIVER[queue][1]] = 1
                self._pending[queue].append(index)
