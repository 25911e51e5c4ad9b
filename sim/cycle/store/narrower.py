"""`hw.store.narrower.Narrower` and `hw.store.requantizer.Requantizer`: parts of elements on their way, and how many may be."""

from typing import Any

from vtakit.hw.timing import PLAIN_AHEAD, REQUANT_LATENCY, SCALED_AHEAD
from vtakit.sim.cycle.state import record

_RING = 32  # more than are under way
_PLAIN_WAY = 2  # cycles from a read to the queue of output values

# plain, scaled: bit n is set if a part was asked for n cycles ago; fills: whether a part fills its beat, in a ring
NARROWER = record("room", "plain", "scaled", "found", "first", "newest", fills=_RING)


def reset_narrower(s: Any, p: Any) -> None:
    """Set the registers that a reset does not clear."""
    s.room = SCALED_AHEAD if p.requantizes else PLAIN_AHEAD


def settled(s: Any) -> Any:
    """Return whether nothing to be requantized is under way."""
    return s.scaled == 0


def narrower(s: Any, is_part: Any, scales: Any, pools: Any, looks_up: Any, fills: Any, taken: Any) -> None:
    """One cycle; `taken`: the oldest output value is."""
    if is_part:
        s.fills[s.newest] = fills
        s.newest = (s.newest + 1) % _RING
        if scales:
            s.scaled |= 1
        else:
            s.plain |= 1
    s.first = (s.first + taken) % _RING
    s.room += taken - is_part
    way = _PLAIN_WAY + pools + REQUANT_LATENCY + looks_up
    s.found += (s.plain >> _PLAIN_WAY & 1) + (s.scaled >> way & 1) - taken
    s.plain = s.plain << 1 & ((1 << _PLAIN_WAY + 1) - 1)
    s.scaled = s.scaled << 1 & ((1 << way + 1) - 1)
