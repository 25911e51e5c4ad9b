"""Offsets for values with live ranges that share one block of memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class LiveRange(NamedTuple):
    """A value of `size` bytes that is live from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def needed_bytes(ranges: Sequence[LiveRange], steps: int) -> list[int]:
    """Return the bytes live at each step: the lower bound of any plan is their maximum."""
    change = [0] * (steps + 1)
    for live in ranges:
        change[live.first] += live.size
        change[live.last + 1] -= live.size
    needs, total = [], 0
    for delta in change[:steps]:
        total += delta
        needs.append(total)
    return needs


def plan_offsets(ranges: Sequence[LiveRange], needs: Sequence[int]) -> tuple[list[int], int]:
    """Return an offset for each live range, and the end of the block, in bytes: the best of several greedy plans.

    Ranges that are live at one step never overlap. Offsets are sums of sizes: if all sizes are aligned, so are the offsets.

    needs : `needed_bytes` of the ranges

    Greedy by size and by breadth are from Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020),
    sections 5.2 and 5.3.
    """
    least, best = max(needs, default=0), None
    for order in _ORDERS:
        found = _placed(ranges, sorted(range(len(ranges)), key=lambda number: order(ranges[number], needs)))
        if best is None or found[1] < best[1]:
            best = found
        if best[1] == least:
            break
    assert best is not None
    return best


# Sort keys of the greedy plans: largest first, highest pressure first, longest first, largest area first, earliest first.
_Key = Callable[[LiveRange, Sequence[int]], tuple[int, ...]]
_ORDERS: tuple[_Key, ...] = (
    lambda live, _: (-live.size,),
    lambda live, needs: (-max(needs[live.first:live.last + 1]), -live.size),
    lambda live, _: (live.first - live.last, -live.size),
    lambda live, _: (-live.size * (live.last - live.first + 1),),
    lambda live, _: (live.first, -live.size),
)


def _placed(ranges: Sequence[LiveRange], order: Sequence[int]) -> tuple[list[int], int]:
    """Place each range, in the given order, into the tightest gap that holds it."""
    offsets: dict[int, int] = {}
    end = 0
    for number in order:
        size, first, last = ranges[number]
        busy = sorted(
            (offsets[other], offsets[other] + ranges[other].size) for other in offsets
            if ranges[other].first <= last and first <= ranges[other].last
        )
        best: tuple[int, int] | None = None  # room, offset
        at = 0
        for start, stop in busy:
            if start - at >= size and (best is None or start - at < best[0]):
                best = start - at, at
            at = max(at, stop)
        offsets[number] = at if best is None else best[1]
        end = max(end, offsets[number] + size)
    return [offsets[number] for number in range(len(ranges))], end
