"""Candidates of splits and orders of loops, as lists of numbers."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations
from math import prod

from vtakit.compiler.tune.task import TuneError

POLICIES = ("factors", "power2", "verbose", "all")
MOST = 100_000  # candidates of one decision: more cannot be listed in reasonable time


@cache
def splits(extent: int, parts: int, policy: str = "factors", max_factor: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Return the ways to split a loop into `parts` loops: the extents of all but the outermost one, outer before inner.

    policy     : of the extents: "factors", that divide the loop's without a rest; "power2", powers of two; "verbose", both;
                 "all", any. All but the first leave a rest, if need be, that is guarded
    max_factor : largest extent of a part

    Raises TuneError for over 100,000 ways.
    """
    sizes = [size for size in _sizes(extent, policy) if max_factor is None or size <= max_factor]
    found: list[tuple[int, ...]] = []

    def walk(chosen: tuple[int, ...], left: int) -> None:
        if len(chosen) == parts - 1:
            if policy != "factors" or extent % prod(chosen) == 0:
                found.append(chosen)
                if len(found) > MOST:
                    raise TuneError(f"a loop of {extent} has over {MOST:,} splits into {parts} by the policy {policy!r}: "
                                    "give max_factor, filter, or the policy 'power2'")
            return
        for size in sizes:
            if size > left:
                break
            walk((*chosen, size), left // size)
    walk((), extent)
    return tuple(found)


def _sizes(extent: int, policy: str) -> list[int]:
    divisors = {size for size in range(1, extent + 1) if not extent % size} if policy in ("factors", "verbose") else set()
    powers = {1 << at for at in range(extent.bit_length())} if policy in ("power2", "verbose") else set()
    return sorted(divisors | powers | (set(range(1, extent + 1)) if policy == "all" else set()))


def orders(count: int, first: int = 0, end: int | None = None) -> Iterator[list[int]]:
    """Yield the orders of `count` loops in which those from `first` to before `end` change places."""
    last = count if end is None else end
    for inner in permutations(range(first, last)):
        yield [*range(first), *inner, *range(last, count)]


def interleaved(spatial: Sequence[Sequence[int]], reduced: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the orders of levels of loops over data and over a reduction: data first, each kind's levels outer before inner.

    spatial, reduced : the loops of each axis, outer before inner; one level is a loop of each axis
    """
    data, sums = _levels(spatial), _levels(reduced)
    for merged in _merged(data[1:], sums):
        yield [*(data[0] if data else []), *[loop for level in merged for loop in level]]


def _levels(axes: Sequence[Sequence[int]]) -> list[list[int]]:
    depth = max((len(axis) for axis in axes), default=0)
    return [[axis[level] for axis in axes if level < len(axis)] for level in range(depth)]


def _merged(a: Sequence[list[int]], b: Sequence[list[int]]) -> Iterable[list[list[int]]]:
    """Return all ways to merge two sequences, each kept in its order."""
    if not a or not b:
        return [[*a, *b]]
    return [*[[a[0], *rest] for rest in _merged(a[1:], b)], *[[b[0], *rest] for rest in _merged(a, b[1:])]]
