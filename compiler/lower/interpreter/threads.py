"""Threads in lockstep: each is a generator that yields at a barrier and goes on once all have arrived."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from vtakit.compiler.lower.interpreter.errors import DivergenceError
from vtakit.compiler.lower.interpreter.memory import Path, Position, path_text


class Arrival(NamedTuple):
    """What a thread waits with at a barrier.

    site : which barrier it is
    kind : "shared", "warp", "implicit" (the order of statements before barriers are placed) or "allreduce"
    payload : for an all-reduce (path, number of the group, values or None, combine, identity)
    """

    site: int
    kind: str
    payload: tuple[Any, ...] = ()


Thread = Generator[list[Arrival], dict[Path, Any] | None, None]


def run(position: Position, tag: str, body: Callable[[int], Thread], extent: int) -> None:
    """All threads of the outermost thread loop of a block, to their end."""
    threads = lockstep(position, tag, body, extent)
    answer: dict[Path, Any] | None = None
    while True:
        try:
            arrivals = threads.send(answer)
        except StopIteration:
            return
        answer = _combine(arrivals) if arrivals[0].kind == "allreduce" else None
        if arrivals[0].kind != "warp":
            position.phase += 1


def lockstep(position: Position, tag: str, body: Callable[[int], Thread], extent: int) -> Thread:
    """The threads of one loop from barrier to barrier; raises DivergenceError where they do not all arrive at the same one."""
    around = position.path
    waiting = [(((*around, (tag, i, extent))), body(i)) for i in range(extent)]
    answer: dict[Path, Any] | None = None
    while waiting:
        arrived: list[Arrival] = []
        ended: list[Path] = []
        first: tuple[Path, Arrival] | None = None
        for path, thread in waiting:
            position.path = path
            try:
                found = thread.send(answer)
            except StopIteration:
                ended.append(path)
                continue
            if first is not None and found[0].site != first[1].site:
                raise DivergenceError(f"thread {path_text(first[0])} and thread {path_text(path)} wait at different barriers")
            first = first or (path, found[0])
            arrived += found
        position.path = around
        if ended and first is not None:
            raise DivergenceError(
                f"thread {path_text(first[0])} waits at a barrier at which thread {path_text(ended[0])} never arrives"
            )
        if first is None:
            return
        answer = yield arrived


def _combine(arrivals: list[Arrival]) -> dict[Path, Any]:
    """The result of an all-reduce for each thread: over the threads of its group, in the order of their indices."""
    groups: dict[Any, list[Any]] = {}
    for _, _, (_, group, values, combine, identity) in arrivals:
        partial = groups.setdefault(group, list(identity))
        if values is not None:
            groups[group] = list(combine(*partial, *values))
    return {path: groups[group] for _, _, (path, group, *_) in arrivals}
