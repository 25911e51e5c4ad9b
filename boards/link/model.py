"""The board's end of the link in Python: the definition that the gateware is compared with, and fast enough for long tests."""

import zlib
from typing import Protocol

from vtakit.boards.link.protocol import (
    ABOUT,
    KEPT,
    MOST_CHECKED,
    MOST_PAYLOAD,
    NUMBERS,
    REQUEST_BYTES,
    WORD_BYTES,
    Deframer,
    Operation,
    Reply,
    Request,
    Status,
)


class Bus(Protocol):
    """Registers and memory of a board. Each access returns its result and whether the bus answered without an error."""

    def read_register(self, address: int) -> tuple[int, bool]:
        """Read 32 bits."""

    def write_register(self, address: int, value: int) -> bool:
        """Write 32 bits."""

    def read_memory(self, address: int, size: int) -> tuple[bytes, bool]:
        """Read bytes."""

    def write_memory(self, address: int, data: bytes) -> bool:
        """Write bytes."""


class BoardModel:
    """A link that answers at once. Until the first session is opened, it carries nothing out.

    register_bits, memory_bits    widths of byte addresses
    """

    def __init__(self, bus: Bus, *, register_bits: int, memory_bits: int) -> None:
        self._bus, self._register_bits, self._memory_bits = bus, register_bits, memory_bits
        self._deframer = Deframer(REQUEST_BYTES + MOST_PAYLOAD)
        self._session, self._opened = 0, False
        self._expected = 0
        self._statuses: list[Status] = []  # of the requests that were carried out last, without their payloads
        self._last, self._kept = Status.OK, b""  # status and payload of the last

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the line; return those that the board sends."""
        requests = (Request.parse(content) for content in self._deframer.feed(data))
        return b"".join([self._serve(request) for request in requests if request is not None])

    def _serve(self, request: Request) -> bytes:
        if request.operation == Operation.HELLO:
            return self._reply(request, Status.OK, ABOUT + self._session.to_bytes(2, "little"))
        if request.operation == Operation.OPEN and request.sequence == 0 and request.session == (self._session + 1) % NUMBERS:
            self._session, self._opened, self._expected, self._statuses = request.session, True, 0, []
        if not self._opened or request.session != self._session:
            return self._reply(request, Status.SESSION)
        age = (self._expected - request.sequence) % NUMBERS
        if age == 0:
            self._last, self._kept = self._carry_out(request)
            later = Status.GONE if self._kept else self._last
            self._statuses = [*self._statuses, later][-KEPT:]
            self._expected = (self._expected + 1) % NUMBERS
        elif age > len(self._statuses):
            return self._reply(request, Status.SEQUENCE)
        elif age > 1:
            return self._reply(request, self._statuses[-age])
        return self._reply(request, self._last, self._kept)

    def _reply(self, request: Request, status: Status, payload: bytes = b"") -> bytes:
        return Reply(session=request.session, sequence=request.sequence, operation=request.operation, status=status,
                     expected=self._expected, payload=payload).to_bytes()

    def _carry_out(self, request: Request) -> tuple[Status, bytes]:
        address, length = request.address, request.length
        if not self._legal(request):
            return Status.REFUSED, b""
        good = True
        data = b""
        match request.operation:
            case Operation.READ_REGISTER:
                value, good = self._bus.read_register(address)
                data = value.to_bytes(WORD_BYTES, "little")
            case Operation.WRITE_REGISTER:
                good = self._bus.write_register(address, int.from_bytes(request.payload, "little"))
            case Operation.READ_MEMORY:
                data, good = self._bus.read_memory(address, length)
            case Operation.WRITE_MEMORY:
                good = self._bus.write_memory(address, request.payload)
            case Operation.CHECK_MEMORY:
                found, good = self._bus.read_memory(address, length)
                data = zlib.crc32(found).to_bytes(WORD_BYTES, "little")
        return (Status.OK, data) if good else (Status.BUS_ERROR, b"")

    def _legal(self, request: Request) -> bool:
        """True if a request can be carried out."""
        operation, length = request.operation, request.length
        if len(request.payload) != (length if operation in _WRITES else 0):
            return False
        match operation:
            case Operation.OPEN:
                return True
            case Operation.READ_REGISTER | Operation.WRITE_REGISTER:
                return length == WORD_BYTES and not request.address % WORD_BYTES and request.address < 1 << self._register_bits
            case Operation.READ_MEMORY | Operation.WRITE_MEMORY | Operation.CHECK_MEMORY:
                most = MOST_CHECKED if operation == Operation.CHECK_MEMORY else MOST_PAYLOAD
                return 0 < length <= most and request.address + length <= 1 << self._memory_bits
        return False


_WRITES = Operation.WRITE_REGISTER, Operation.WRITE_MEMORY
