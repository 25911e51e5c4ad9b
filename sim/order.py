"""The order in which three stages run a program's instructions: tokens, command queues and a chosen interleaving.

Order never depends on data, so it is computed before anything runs. Each token queue has one giver and one taker, so
whether a program deadlocks and which tokens are left does not depend on the interleaving, only what a missing
dependence breaks does.
"""

import random
from collections import deque
from collections.abc import Callable
from operator import index
from typing import SupportsIndex

import numpy as np

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, FLAG_QUEUES, FLAGS, TOKEN_QUEUE_DEPTH, Queue, Stage
from vtakit.sim.decode import Decoded, Ints
from vtakit.sim.faults import ProgramFault

Pick = Callable[[list[tuple[int, int]]], tuple[int, int]]  # ready (instruction, stage) pairs -> the one that runs next

POLICIES: dict[str, Pick] = {
    "program": lambda ready: min(ready),  # the program's own order as far as tokens allow
    "eager": lambda ready: min(ready, key=lambda pair: pair[1]),  # producers run ahead: load, compute, store
    "lazy": lambda ready: max(ready, key=lambda pair: pair[1]),  # consumers first: store, compute, load
}


def picker(order: str | SupportsIndex) -> Pick:
    """The choice that an `order` option means: a policy's name, or the seed of random choices."""
    if isinstance(order, SupportsIndex) and not isinstance(order, bool):
        return random.Random(index(order)).choice
    if not isinstance(order, str) or order not in POLICIES:
        raise VtakitError(f"unknown order {order!r}; {one_of(POLICIES, str(order))}, or an integer seed")
    return POLICIES[order]


# Queues by stage and the bits of set flags, stage in the upper bits.
_QUEUES_OF = [
    tuple(int(FLAG_QUEUES[stage, flag]) for bit, flag in enumerate(FLAGS) if code >> bit & 1 and (stage, flag) in FLAG_QUEUES)
    for stage in Stage for code in range(1 << len(FLAGS))
]


def token_queues(d: Decoded, flags: tuple[str, ...]) -> list[tuple[int, ...]]:
    """For each instruction the queues that its flags among `flags` name, in the order of `flags`."""
    codes = sum((d[flag] << bit for bit, flag in enumerate(FLAGS) if flag in flags), d.stage << len(FLAGS))
    return [_QUEUES_OF[code] for code in codes.tolist()]


def execution_order(d: Decoded, order: str | int = "program") -> Ints:
    """The instruction numbers in the order in which they run and retire.

    Raises `ProgramFault` for a deadlock, a token queue that overflows in this interleaving, or tokens left over.
    """
    pick = picker(order)
    stage_of = d.stage.tolist()
    pops, pushes = token_queues(d, FLAGS[:2]), token_queues(d, FLAGS[2:])
    todo = [np.flatnonzero(d.stage == stage).tolist() for stage in Stage]
    position, waiting = [0, 0, 0], [0, 0, 0]
    tokens: list[deque[int]] = [deque() for _ in Queue]  # who gave each waiting token
    fetched = 0
    done: list[int] = []
    while len(done) < d.count:
        while fetched < d.count and waiting[stage_of[fetched]] < COMMAND_QUEUE_DEPTH:
            waiting[stage_of[fetched]] += 1
            fetched += 1
        ready = [
            (todo[s][position[s]], s)
            for s in (0, 1, 2)
            if position[s] < len(todo[s]) and todo[s][position[s]] < fetched
            and all(tokens[queue] for queue in pops[todo[s][position[s]]])
        ]
        if not ready:
            raise _deadlock(d, [todo[s][position[s]] for s in (0, 1, 2) if position[s] < len(todo[s])], fetched, pops, tokens)
        index, stage = pick(ready) if len(ready) > 1 else ready[0]
        for queue in pops[index]:
            tokens[queue].popleft()
        for queue in pushes[index]:
            tokens[queue].append(index)
            if len(tokens[queue]) > TOKEN_QUEUE_DEPTH:
                full = f"the {queue_name(queue)} queue already holds its {TOKEN_QUEUE_DEPTH} tokens"
                raise d.fault(Fault.TOKEN_OVERFLOW, index, full)
        position[stage] += 1
        waiting[stage] -= 1
        done.append(index)
    for queue, givers in enumerate(tokens):
        if givers:
            rest = f"{len(givers)} left in the {queue_name(queue)} queue at the end"
            raise d.fault(Fault.TOKENS_LEFT, givers[-1], f"no instruction takes its token: {rest}")
    return np.array(done, np.int64)


def queue_name(queue: int) -> str:
    """A queue as messages call it."""
    return Queue(queue).name.lower().replace("_", "-")


def _deadlock(
    d: Decoded, heads: list[int], fetched: int, pops: list[tuple[int, ...]], tokens: list[deque[int]]
) -> ProgramFault:
    """Name the earliest instruction that has not run: it is fetched, since fetch is in order, so it waits for a token."""
    index = min(heads)
    missing = queue_name(next(queue for queue in pops[index] if not tokens[queue]))
    detail = f"it waits for ever for a token in the {missing} queue"
    if fetched < d.count:
        detail += f"; {COMMAND_QUEUE_DEPTH} instructions wait for one stage, so none after {fetched - 1} is fetched"
    return d.fault(Fault.DEADLOCK, index, detail)
