"""Memories for benches: scratchpads behind ports, and DRAM behind bursts or AXI4, with latency, stalls and error answers."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vtakit.hw.params import PAGE_BYTES
from vtakit.sim.bench.agents import Sink, Source, percent
from vtakit.sim.bench.ports import Pins, Port


class ScratchpadReads:
    """The read side of a scratchpad: `contents` at an index, `latency` cycles after it.

    kept     data stay while nothing is asked for, as in `Scratchpad`; otherwise noise follows, as where the port is shared
    """

    def __init__(
        self, pins: Pins, contents: Sequence[int], latency: int, bits: int, numbers: random.Random, *, kept: bool = True,
    ) -> None:
        self._contents, self._bits, self._random, self._kept = contents, bits, numbers, kept
        self._shows, self._enable, self._index = pins.pin("data"), pins.pin("enable"), pins.pin("index")
        self._line: deque[int | None] = deque([None] * latency)
        self._data = 0
        self.served: Callable[[], bool] = lambda: True  # whether the port is the block's in this cycle

    def drive(self) -> None:
        """Show what was asked for `latency` cycles ago."""
        value = self._line.popleft()
        if value is not None or not self._kept:
            self._data = self._random.getrandbits(self._bits) if value is None else value
        self._shows.set(self._data)

    def sample(self) -> None:
        """See what is asked for."""
        asked = self._enable.get() and self.served()
        self._line.append(self._contents[self._index.get()] if asked else None)


MOST_AHEAD = 256  # beats of the longest burst there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Timing of a memory.

    latency      cycles from a read's address to its first beat, and from a write's last beat to its answer
    stall        percent of the cycles in which each channel refuses or withholds
    outstanding  bursts accepted at once, of each direction
    wants        what it waits for before it takes a write: "any" takes address and data as they come, "data" wants all data of
                 a burst before its address, "both" takes an address and its first beat in one cycle, when both are offered
    """

    latency: int = 4
    stall: int = 0
    outstanding: int = 16
    wants: str = "any"


@dataclass(slots=True)
class _Burst:
    address: int
    beats: int
    written: int = 0
    failed: bool = False


class AxiMemory:
    """An AXI4 memory over `dram`: reads and writes in order, one beat a cycle, and every rule that a manager could break checked.

    bad   byte addresses whose beats are answered with SLVERR
    """

    def __init__(self, dram: bytearray, bus_bytes: int, timing: Timing, numbers: random.Random) -> None:
        self.dram, self._bytes, self._timing, self._random = dram, bus_bytes, timing, numbers
        self.bad: frozenset[int] = frozenset()
        self.read_bursts: list[tuple[int, int]] = []  # address and beats, as they came
        self.write_bursts: list[tuple[int, int]] = []
        self.answers: Callable[[], bool] = lambda: True  # whether writes may be answered now
        self.gives: Callable[[], bool] = lambda: True  # whether reads may be
        self._cycle = 0
        self._reads_due: deque[int] = deque()  # cycle from which each beat may be given
        self._writes: deque[_Burst] = deque()
        self._ahead: deque[dict[str, int]] = deque()  # beats whose address has not come
        self._answers_due: deque[int] = deque()
        self.open_reads = 0  # bursts whose last beat is not given
        self._agents: list[Any] = []

    def reads(self, ar: Port, r: Port) -> None:
        """Connect the read channels."""
        def given(item: dict[str, int]) -> None:
            self._reads_due.popleft()
            self.open_reads -= item["last"]

        self._r = Source(r, self._timing.stall, self._random, given)
        self._r.gate = lambda: self._reads_due[0] <= self._cycle and self.gives()
        taker = Sink("ar", ar, self._timing.stall, self._random, self._read)
        taker.open = lambda: self.open_reads < self._timing.outstanding
        self._agents += [self._r, taker]

    def writes(self, aw: Port, w: Port, b: Port) -> None:
        """Connect the write channels."""
        self._b = Source(b, self._timing.stall, self._random, lambda item: self._answers_due.popleft())
        self._b.gate = lambda: self._answers_due[0] <= self._cycle and self.answers()
        wants = self._timing.wants
        stall = 0 if wants == "both" else self._timing.stall  # there one choice is for both
        taker, beats = Sink("aw", aw, stall, self._random, self._write), Sink("w", w, stall, self._random, self._beat)
        may = [False]

        def has_room() -> bool:
            return len(self._writes) + len(self._b.queue) < self._timing.outstanding

        def begins() -> bool:
            may[0] = percent(self._random) >= self._timing.stall
            return may[0] and not self._writes and has_room() and bool(aw.valid.get() and w.valid.get())

        if wants == "both":
            taker.open = begins
            beats.open = lambda: may[0] and (bool(self._writes) or taker.ready)
        elif wants == "data":
            taker.open = lambda: has_room() and any(beat["last"] for beat in self._ahead)
        else:
            taker.open = has_room
        # Addresses are seen before data, so that both may come in one cycle.
        self._agents += [self._b, taker, beats]

    def drive(self) -> None:
        """Drive all channels."""
        for agent in self._agents:
            agent.drive()

    def sample(self) -> None:
        """See what all channels transfer."""
        for agent in self._agents:
            agent.sample()
        self._cycle += 1

    @property
    def idle(self) -> bool:
        """Return whether every burst is answered."""
        return not (self._reads_due or self._writes or self._ahead or self._answers_due)

    @property
    def ahead(self) -> int:
        """Beats of write data that came and whose address has not."""
        return len(self._ahead)

    def _read(self, item: dict[str, int]) -> None:
        address, beats = item["addr"], item["len"] + 1
        check_burst(address, beats, self._bytes, len(self.dram))
        self.read_bursts.append((address, beats))
        self.open_reads += 1
        for n in range(beats):
            at = address + n * self._bytes
            value = int.from_bytes(self.dram[at : at + self._bytes], "little")
            self._r.queue.append({"data": value, "resp": 2 * (at in self.bad), "last": int(n == beats - 1)})
            self._reads_due.append(self._cycle + self._timing.latency)

    def _write(self, item: dict[str, int]) -> None:
        address, beats = item["addr"], item["len"] + 1
        check_burst(address, beats, self._bytes, len(self.dram))
        self.write_bursts.append((address, beats))
        self._writes.append(_Burst(address, beats))
        while self._ahead and self._writes:
            self._put(self._ahead.popleft())

    def _beat(self, item: dict[str, int]) -> None:
        self._ahead.append(item)
        assert len(self._ahead) <= MOST_AHEAD, "write data come without an address"
        if self._writes:
            self._put(self._ahead.popleft())

    def _put(self, item: dict[str, int]) -> None:
        burst = self._writes[0]
        at = burst.address + burst.written * self._bytes
        data = item["data"].to_bytes(self._bytes, "little")
        for n in range(self._bytes):
            if item["strb"] >> n & 1:
                self.dram[at + n] = data[n]
        burst.written += 1
        burst.failed |= at in self.bad
        assert item["last"] == (burst.written == burst.beats), f"WLAST is {item['last']} in beat {burst.written} of {burst.beats}"
        if item["last"]:
            self._writes.popleft()
            self._b.queue.append({"resp": 2 * burst.failed})
            self._answers_due.append(self._cycle + self._timing.latency)


class BurstMemory:
    """DRAM behind a block's `requests` and `returned` streams: bursts of (address, last), beats back in order.

    bad   byte addresses whose beats come back marked as errors
    """

    def __init__(
        self, dram: bytes | bytearray, bus_bytes: int, timing: Timing, requests: Port, returned: Port, numbers: random.Random
    ) -> None:
        self._dram, self._bytes, self._latency = dram, bus_bytes, timing.latency
        self._due: deque[int] = deque()
        self._cycle = 0
        self._requests = Sink("requests", requests, timing.stall, numbers, self._read)
        self._returned = Source(returned, timing.stall, numbers, lambda item: self._due.popleft())
        self._returned.gate = lambda: self._due[0] <= self._cycle
        self.bad: frozenset[int] = frozenset()
        self.bursts: list[tuple[int, int]] = []  # address and beats, as they came

    def drive(self) -> None:
        """Drive both streams."""
        self._returned.drive()
        self._requests.drive()

    def sample(self) -> None:
        """See what both streams transfer."""
        self._returned.sample()
        self._requests.sample()
        self._cycle += 1

    @property
    def idle(self) -> bool:
        """Return whether every beat has been sent."""
        return not self._due

    def _read(self, item: dict[str, int]) -> None:
        address, beats = item["address"], item["last"] + 1
        check_burst(address, beats, self._bytes, len(self._dram))
        self.bursts.append((address, beats))
        for at in range(address, address + beats * self._bytes, self._bytes):
            value = int.from_bytes(self._dram[at : at + self._bytes], "little")
            self._returned.queue.append({"data": value, "error": int(at in self.bad)})
            self._due.append(self._cycle + self._latency)


def check_burst(address: int, beats: int, bus_bytes: int, memory_bytes: int) -> None:
    """A burst is of whole beats, crosses no page and stays in the memory."""
    end = address + beats * bus_bytes
    assert address % bus_bytes == 0, f"a burst begins at 0x{address:x}, inside a beat"
    assert address // PAGE_BYTES == (end - 1) // PAGE_BYTES, f"a burst of {beats} beats at 0x{address:x} crosses 4 KiB"
    assert end <= memory_bytes, f"a burst of {beats} beats at 0x{address:x} leaves the memory"
