"""Threads in lockstep: each is a generator that yields at a barrier and goes on once all have arrived."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from vtakit.compiler.ir.warp_calls import PRODUCT_CALLS, WARP_CALLS
from vtakit.compiler.lower.interpreter.errors import DivergenceError
from vtakit.compiler.lower.interpreter.memory import Path, Position, path_text
from vtakit.compiler.lower.interpreter.warps import COLLECTIVE, by_lane, lanes_needed, products_of, whole

LENIENT = ("implicit", COLLECTIVE)  # at which not all threads of a block need to arrive


class Arrival(NamedTuple):
    """Arrival of a thread at a barrier.

    site : which barrier it is, numbered as they stand in the program
    kind : "shared", "warp", "implicit" (the order of statements before barriers are placed), "allreduce", a shuffle's name, or
        "collective": a call that the lanes of a warp make together
    path : the thread
    payload : for an all-reduce (number of the group, values or None, combine, identity), for a shuffle (value, distance or
        lane, width), for a call that lanes make together (name, arguments)
    """

    site: int
    kind: str
    path: Path
    payload: tuple[Any, ...] = ()


class Release(NamedTuple):
    """Release of the threads at a site, with the value that each gets there."""

    site: int
    answers: dict[Path, Any]


Thread = Generator[list[Arrival], Release | None, None]


def run(position: Position, tag: str, body: Callable[[int], Thread], extent: int) -> None:
    """All threads of the outermost thread loop of a block, to their end; raises DivergenceError where they wait apart.

    Implicit barriers are passed by those threads that get there, others having taken another branch: first the one that
    stands first in the program, so that all meet again after the branches.
    """
    threads = lockstep(position, tag, body, extent)
    release: Release | None = None
    while True:
        try:
            arrivals = threads.send(release)
        except StopIteration:
            return
        first = min(arrivals)
        apart = next((arrival for arrival in arrivals if arrival.site != first.site), None)
        if apart is not None and first.kind not in LENIENT:
            raise DivergenceError(
                f"thread {path_text(first.path)} and thread {path_text(apart.path)} wait at different barriers"
            )
        here = [arrival for arrival in arrivals if arrival.site == first.site]
        answers = _combine(here) if first.kind == "allreduce" else _shuffle(here) if first.kind.startswith("shuffle") else {}
        if first.kind == COLLECTIVE:
            together(position, here)
        if first.kind in ("shared", "implicit"):
            position.phase += 1
        release = Release(first.site, answers)


def lockstep(position: Position, tag: str, body: Callable[[int], Thread], extent: int) -> Thread:
    """The threads of one loop from barrier to barrier; raises DivergenceError where one has ended and others wait for it."""
    around = position.path
    threads = [((*around, (tag, i, extent)), body(i)) for i in range(extent)]
    waiting: dict[Path, list[Arrival]] = {}
    ended: list[Path] = []
    release: Release | None = None
    while len(ended) < extent:
        for path, thread in threads:
            held = waiting.get(path)
            if path in ended or (held is not None and release is not None and all(a.site != release.site for a in held)):
                continue
            position.path = path
            try:
                waiting[path] = thread.send(release if held is not None else None)
            except StopIteration:
                waiting.pop(path, None)
                ended.append(path)
        position.path = around
        arrivals = [arrival for held in waiting.values() for arrival in held]
        strict = next((arrival for arrival in arrivals if arrival.kind not in LENIENT), None)
        if ended and strict is not None:
            raise DivergenceError(
                f"thread {path_text(strict.path)} waits at a barrier at which thread {path_text(ended[0])} never arrives"
            )
        if arrivals:
            release = yield arrivals


def _shuffle(arrivals: list[Arrival]) -> dict[Path, Any]:
    """Return the value that each thread gets from another of its group."""
    order = sorted(arrivals, key=lambda arrival: _linear(arrival.path))
    found: dict[Path, Any] = {}
    for i, (_, kind, path, (value, by, width)) in enumerate(order):
        lane = i % width
        source = lane + by if kind == "shuffle_down" else by
        found[path] = order[i - lane + source].payload[0] if 0 <= source < width and i - lane + source < len(order) else value
    return found


def together(position: Position, arrivals: list[Arrival]) -> None:
    """Make a call for each warp, or warpgroup, that has arrived; raises DivergenceError where lanes of one are missing."""
    here = position.path
    groups: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        call = WARP_CALLS[arrival.payload[0]]
        position.path = arrival.path
        groups.setdefault(position.thread() // lanes_needed(call, arrival.payload[1]), []).append(arrival)
    for group in groups.values():
        group.sort(key=lambda arrival: _linear(arrival.path))
        name, args = group[0].payload
        call = WARP_CALLS[name]
        if len(group) != lanes_needed(call, args):
            raise DivergenceError(
                f"{name} is made by {lanes_needed(call, args)} lanes together, and {len(group)} come, the first being thread "
                f"{path_text(group[0].path)}"
            )
        position.path = group[0].path
        if call.whole:
            call.run(*map(whole, args))
        else:
            lanes = [[by_lane(position, arrival.path, arg) for arg in arrival.payload[1]] for arrival in group]
            if name in PRODUCT_CALLS:
                products_of(position).make(name, lanes)
            else:
                call.run(lanes)
    position.path = here


def _linear(path: Path) -> tuple[int, ...]:
    """Threads in the order of a warp's lanes: x runs fastest."""
    return tuple(at for _, at, _ in sorted(path, reverse=True))


def _combine(arrivals: list[Arrival]) -> dict[Path, Any]:
    """The result of an all-reduce for each thread: over the threads of its group, in the order of their indices."""
    groups: dict[Any, list[Any]] = {}
    for _, _, _, (group, values, combine, identity) in arrivals:
        partial = groups.setdefault(group, list(identity))
        if values is not None:
            groups[group] = list(combine(*partial, *values))
    return {arrival.path: groups[arrival.payload[0]] for arrival in arrivals}
