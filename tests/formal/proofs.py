"""Every proof there is, as data: the checker, how it is decided, and how long that may take."""

from collections.abc import Callable
from dataclasses import dataclass

from formal.bursts import BurstsCoverRows
from formal.checker import Checker, SmallParams
from formal.reads import ReadsComeBackInOrder
from formal.tokens import TokensAreKept
from formal.writes import WritesAreWhole

from vtakit.hw.isa.insns import TOKEN_QUEUE_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One run of the prover.

    cycles        look at all runs of so many cycles; None: prove for all time
    cover_cycles  each cover is reached within so many; 0: another proof of the same checker shows it
    deep          too slow for every test run
    """

    name: str
    checker: Callable[[], Checker]
    cycles: int | None = None
    cover_cycles: int = 0
    seconds: int = 60
    deep: bool = False


def small(*, outstanding: int = 2, address_bits: int = 2, bus_bits: int = 8, burst_beats: int = 2) -> SmallParams:
    """A memory port of a few bits."""
    return SmallParams(
        bus_bits=bus_bits, address_bits=address_bits, outstanding=outstanding, burst_beats=burst_beats,
        buffer_beats=2 * burst_beats,
    )


PROOFS = (
    *(Proof(name=f"tokens, depth {depth}", checker=lambda depth=depth: TokensAreKept(depth), cover_cycles=min(depth, 10) + 2)
      for depth in (1, 3)),
    Proof(name=f"tokens, depth {TOKEN_QUEUE_DEPTH}", checker=lambda: TokensAreKept(TOKEN_QUEUE_DEPTH)),
    Proof(
        name="bursts, 3 rows of 7 bytes", cover_cycles=20,
        checker=lambda: BurstsCoverRows(small(bus_bits=16, address_bits=5), count_bits=2, bytes_bits=3),
    ),
    *(Proof(name=f"reads, {count} outstanding", checker=lambda count=count: ReadsComeBackInOrder(small(outstanding=count), 2),
            cover_cycles=cover_cycles) for count, cover_cycles in ((1, 0), (2, 15), (3, 0))),
    Proof(name="reads, three readers", checker=lambda: ReadsComeBackInOrder(small(), 3)),
    Proof(name="reads, bursts of 4", checker=lambda: ReadsComeBackInOrder(small(burst_beats=4), 2)),
    Proof(name="writes, 2 outstanding", checker=lambda: WritesAreWhole(small()), cover_cycles=20),
)
