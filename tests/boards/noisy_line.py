"""A line that damages what it carries, in the link's own time: each piece of bytes is an event in the future of one side."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from vtakit.sim.faults import DeviceError

BYTE_S = 10 / 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Chances, for each piece that is sent in either direction.

    flips      a few of its bytes are changed
    cuts       it ends early, or begins late
    losses     nothing of it comes
    doubles    it comes once more, at once or much later
    delays     it comes late, after others
    garbage    bytes of no frame come before it
    unplugs    of the whole line, for each piece to the board
    resets     of the board, likewise
    """

    flips: float = 0.0
    cuts: float = 0.0
    losses: float = 0.0
    doubles: float = 0.0
    delays: float = 0.0
    garbage: float = 0.0
    unplugs: float = 0.0
    resets: float = 0.0


class NoisyLine:
    """A `Transport` to a board that is a function from bytes to bytes.

    longest_delay_s    of a piece
    """

    def __init__(
        self, board: Callable[[bytes], bytes], reset: Callable[[], None], noise: Noise, random: random.Random,
        longest_delay_s: float,
    ) -> None:
        self._board, self._reset, self._noise, self._random, self._longest = board, reset, noise, random, longest_delay_s
        self._time = 0.0
        self._order = count()
        self._events: list[tuple[float, int, str, bytes]] = []
        self._come = bytearray()
        self._gone = False
        self.faults = 0
        self.resets = 0

    def send(self, data: bytes) -> None:
        if self._chance(self._noise.unplugs):
            self._gone = True
        self._check()
        if self._chance(self._noise.resets):
            self.resets += 1
            self._at(self._time, "reset", b"")
        self._carry(data, "to")

    def receive(self, most: int, timeout_s: float) -> bytes:
        self._check()
        assert timeout_s > 0
        end = self._time + timeout_s
        while not self._come and self._events and self._events[0][0] <= end:
            self._happen()
        if not self._come:
            self._time = end
        taken = bytes(self._come[:most])
        del self._come[:most]
        return taken

    def pause(self, seconds: float) -> None:
        self._check()
        end = self._time + seconds
        while self._events and self._events[0][0] <= end:
            self._happen()
        self._time = end

    def clock(self) -> float:
        return self._time

    def close(self) -> None:
        self._gone = True

    def _happen(self) -> None:
        self._time, _, kind, data = heapq.heappop(self._events)
        if kind == "reset":
            self._reset()
        elif kind == "back":
            self._come += data
        else:
            answer = self._board(data)
            if answer:
                self._carry(answer, "back")

    def _check(self) -> None:
        if self._gone:
            raise DeviceError("the line is gone")

    def _carry(self, data: bytes, way: str) -> None:
        noise, pick = self._noise, self._random
        at = self._time + len(data) * BYTE_S
        again = self._chance(noise.doubles)
        if self._chance(noise.delays):
            at += pick.uniform(0, self._longest)
        for _ in range(1 + again):
            self._at(at, way, self._damaged(data))
            at += pick.choice([0, pick.uniform(0, self._longest)])

    def _damaged(self, data: bytes) -> bytes:
        noise, pick = self._noise, self._random
        found = bytearray(data)
        if self._chance(noise.losses):
            return b""
        if self._chance(noise.flips):
            for _ in range(pick.choice([1, 1, 1, 2, 5])):
                found[pick.randrange(len(found))] ^= 1 << pick.randrange(8) if pick.random() < 0.7 else pick.randrange(1, 256)
        if self._chance(noise.cuts):
            at = pick.randrange(len(found) + 1)
            found = pick.choice([found[:at], found[at:], found[:at] + found[at + pick.randrange(1, 4):]])
        if self._chance(noise.garbage):
            extra = pick.randbytes(pick.choice([1, 5, 40, 1500]))
            found = pick.choice([extra + found, found + extra, extra.replace(b"\x7e", b"\x7d") + found])
        return bytes(found)

    def _at(self, time: float, kind: str, data: bytes) -> None:
        if data or kind == "reset":
            heapq.heappush(self._events, (time, next(self._order), kind, data))

    def _chance(self, share: float) -> bool:
        hit = share > 0 and self._random.random() < share
        self.faults += hit
        return hit
