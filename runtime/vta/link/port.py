"""A board's registers and memory over its link."""

import random
import time
import zlib
from collections.abc import Iterator

from vtakit.base.text import counted
from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_REGISTERS, SELFTEST
from vtakit.boards.link.protocol import MOST_PAYLOAD, WORD_BYTES, Operation
from vtakit.runtime.vta.link.progress import Progress, silent
from vtakit.runtime.vta.link.session import PATIENCE_S, TRIES, Ask, Session
from vtakit.runtime.vta.link.transport import Transport
from vtakit.sim.faults import DeviceError

CHECK_BYTES = 16384  # memory whose checksum one request asks for
_LEAST_CHECKED = 256  # bytes; fewer are sent without a look at what is there
_SELFTEST_S = 60.0  # of the line's time, for a self-test at power-up
_FIRST_PAUSE_S, _LAST_PAUSE_S = 20e-6, 5e-3  # between looks at a register


class LinkPort:
    """A `Port` over a line of bytes.

    What the memory holds already, by a checksum that the board computes, is not sent again: weights go over the line once,
    also for the next process. What was sent is checked the same way.

    name        of the device, in messages
    patience_s, tries, pick   as of `Session`
    progress    shows how far transfers are

    Raises `DeviceError` if there is no board, one of another kind, or one whose self-test has failed.
    """

    def __init__(
        self, transport: Transport, name: str = "board", *, patience_s: float = PATIENCE_S, tries: int = TRIES,
        pick: random.Random | None = None, progress: Progress = silent,
    ) -> None:
        self.name, self._line = name, transport
        self._session = Session(transport, name, patience_s=patience_s, tries=tries, pick=pick)
        self._progress = progress
        self.sent_bytes = 0  # of memory, that went over the line
        self.kept_bytes = 0  # of memory, that were there already
        identity = self._board("board_identity")
        if identity != BOARD_IDENTITY:
            raise DeviceError(f"device {name!r} is no board of vtakit: its identity is 0x{identity:08x}, not "
                              f"0x{BOARD_IDENTITY:08x}")
        self._await_selftest()
        self.memory = range(self._board("memory_kib") << 10)

    @property
    def resent(self) -> int:
        """Requests that were sent more than once, because the line lost or damaged something."""
        return self._session.resent

    def read_register(self, address: int) -> int:
        """The 32 bits of the register at a byte address."""
        ask = Ask(operation=Operation.READ_REGISTER, address=address, length=WORD_BYTES)
        return int.from_bytes(self._session.ask(ask), "little")

    def write_register(self, address: int, value: int) -> None:
        """Write the 32 bits of a register."""
        self._session.ask(Ask(operation=Operation.WRITE_REGISTER, address=address, length=WORD_BYTES,
                              payload=value.to_bytes(WORD_BYTES, "little")))

    def wait_clear(self, address: int, mask: int, timeout_s: float) -> str | None:
        """Poll a register, first often and then every few milliseconds."""
        deadline, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while self.read_register(address) & mask:
            if time.monotonic() >= deadline:
                return f"{timeout_s:g} s"
            self._line.pause(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)
        return None

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the memory."""
        asks = (Ask(operation=Operation.READ_MEMORY, address=at, length=length, repeats=True)
                for at, length in pieces(address, size, MOST_PAYLOAD))
        found = bytearray()
        with self._progress("reading", size) as advance:
            for payload in self._session.exchange(asks):
                found += payload
                advance(len(found))
        return bytes(found)

    def write_memory(self, address: int, data: bytes) -> None:
        """Write bytes of the memory that are not there yet.

        Raises `DeviceError` if the memory does not hold them afterwards.
        """
        if len(data) < _LEAST_CHECKED:
            self._write([(address, data)], 0, len(data))
            return
        blocks = [(at, data[at - address : at - address + length]) for at, length in pieces(address, len(data), CHECK_BYTES)]
        missing = self._different(blocks)
        there = len(data) - sum(len(block) for _, block in missing)
        self.kept_bytes += there
        self._write(missing, there, len(data))
        if wrong := self._different(missing):
            raise DeviceError(f"device {self.name!r} does not keep what is written to its memory: the bytes from "
                              f"0x{wrong[0][0]:x} on differ when they are read back")

    def close(self) -> None:
        """Let go of the line."""
        self._line.close()

    def _different(self, blocks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """The blocks that the memory does not hold."""
        asks = (Ask(operation=Operation.CHECK_MEMORY, address=at, length=len(block), repeats=True) for at, block in blocks)
        sums = self._session.exchange(asks)
        return [each for each, found in zip(blocks, sums, strict=True) if zlib.crc32(each[1]) != int.from_bytes(found, "little")]

    def _write(self, blocks: list[tuple[int, bytes]], done: int, total: int) -> None:
        """Send blocks, when `done` of `total` bytes need not be sent."""
        spans = [(at, block[at - first : at - first + length])
                 for first, block in blocks for at, length in pieces(first, len(block), MOST_PAYLOAD)]
        asks = (Ask(operation=Operation.WRITE_MEMORY, address=at, length=len(span), payload=span) for at, span in spans)
        with self._progress("sending", total) as advance:
            for (_, span), _ in zip(spans, self._session.exchange(asks), strict=True):
                done += len(span)
                self.sent_bytes += len(span)
                advance(done)

    def _board(self, name: str) -> int:
        return self.read_register(BOARD_REGISTERS[name])

    def _await_selftest(self) -> None:
        """Wait until the board has tested itself. Raises DeviceError if it has found something."""
        deadline = self._line.clock() + _SELFTEST_S
        while (state := self._board("selftest")) & SELFTEST["running"]:
            if self._line.clock() > deadline:
                raise DeviceError(f"device {self.name!r} has not ended its self-test within {_SELFTEST_S:g} s: reset the board")
            self._line.pause(_LAST_PAUSE_S)
        if state & SELFTEST["memory_tested"] and not state & SELFTEST["memory_good"]:
            at, want, got, count = (self._board(f"selftest_{name}") for name in ("address", "want", "got", "errors"))
            raise DeviceError(f"device {self.name!r} has bad memory, its self-test says: {counted(count, 'wrong word')}, the "
                              f"first at 0x{at:x}, 0x{got:08x} instead of 0x{want:08x}")
        if state & SELFTEST["gemm_tested"] and not state & SELFTEST["gemm_good"]:
            raise DeviceError(f"device {self.name!r} computes wrongly, its self-test says: a GEMM with a known answer ended with "
                              f"0x{self._board('selftest_core'):08x}; build the bitstream for a slower clock")


def pieces(address: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Addresses and sizes of the parts of a piece of memory, cut at multiples of `most`."""
    at, end = address, address + size
    while at < end:
        length = min(most - at % most, end - at)
        yield at, length
        at += length
