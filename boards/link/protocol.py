"""The frames of the host link, as data: gateware, model and host are derived from this. docs/link.md explains them."""

import re
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

VERSION = 1
FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20  # a FLAG or ESCAPE inside a frame is ESCAPE and the byte xor FLIP, as in RFC 1662
CRC_BYTES = 4
MOST_PAYLOAD = 1024
BUFFER_BYTES = 4096  # requests that the board has received and not yet served, a power of two
BUFFER_FRAMES = 16  # likewise
KEPT = 16  # frames whose status the board remembers
WORD_BYTES = 4
NUMBERS = 1 << 16  # of sequences, and of sessions

# Fields of a frame before its payload: names and widths in bytes, little-endian.
REQUEST = {"session": 2, "sequence": 2, "operation": 1, "length": 3, "address": 5}
REPLY = {"session": 2, "sequence": 2, "operation": 1, "status": 1, "expected": 2, "length": 2}
REQUEST_BYTES, REPLY_BYTES = sum(REQUEST.values()), sum(REPLY.values())
MOST_CHECKED = (1 << 8 * REQUEST["length"]) - 1  # bytes of one CHECK_MEMORY
# Payload of the reply to HELLO, but for the number of the session behind it.
ABOUT = b"VTAL" + VERSION.to_bytes(2, "little") + MOST_PAYLOAD.to_bytes(2, "little") + BUFFER_BYTES.to_bytes(4, "little")
HELLO_BYTES = len(ABOUT) + REQUEST["session"]


class Operation(IntEnum):
    """Operation of a request.

    HELLO has any number and changes nothing. OPEN begins the session after the last one, with the number 0.
    """

    HELLO = 1
    OPEN = 2
    READ_REGISTER = 3
    WRITE_REGISTER = 4
    READ_MEMORY = 5
    WRITE_MEMORY = 6
    CHECK_MEMORY = 7


class Status(IntEnum):
    """Result of a request. Only OK and BUS_ERROR say that it was carried out."""

    OK = 0
    BUS_ERROR = 1
    REFUSED = 2
    SEQUENCE = 3
    SESSION = 4
    GONE = 5
    TIMEOUT = 6


STATUS_DOC = {
    Status.OK: "carried out",
    Status.BUS_ERROR: "carried out, and the bus answered with an error",
    Status.REFUSED: "unknown operation, or a length or address that it cannot have",
    Status.SEQUENCE: "not the expected number, and older than those whose status is kept",
    Status.SESSION: "of another session than the board's last",
    Status.GONE: "carried out before; its payload is no longer kept",
    Status.TIMEOUT: "the board's bus did not answer in time; the access may still happen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A frame to the board."""

    session: int
    sequence: int
    operation: int
    address: int = 0
    length: int = 0
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        """The frame on the line."""
        return enframed(_packed(REQUEST, self) + self.payload)

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """The request with this content; None if it is too short for one."""
        if len(content) < REQUEST_BYTES:
            return None
        return cls(**_unpacked(REQUEST, content), payload=content[REQUEST_BYTES:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A frame from the board.

    expected    number of the next request that the board will carry out
    """

    session: int
    sequence: int
    operation: int
    status: int
    expected: int
    payload: bytes = b""

    @property
    def length(self) -> int:
        """Bytes of the payload."""
        return len(self.payload)

    def to_bytes(self) -> bytes:
        """The frame on the line."""
        return enframed(_packed(REPLY, self) + self.payload)

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """The reply with this content; None if it is none."""
        if len(content) < REPLY_BYTES:
            return None
        fields, payload = _unpacked(REPLY, content), content[REPLY_BYTES:]
        return cls(**fields, payload=payload) if fields.pop("length") == len(payload) else None


def enframed(content: bytes) -> bytes:
    """A frame on the line: its content and CRC-32 between two FLAGs, without any FLAG inside."""
    whole = content + zlib.crc32(content).to_bytes(CRC_BYTES, "little")
    for special in (ESCAPE, FLAG):  # ESCAPE first: the other one brings in more of them
        whole = whole.replace(bytes([special]), bytes([ESCAPE, special ^ FLIP]))
    return bytes([FLAG]) + whole + bytes([FLAG])


class Deframer:
    """Contents of the whole frames in a stream of bytes; all else is dropped.

    most    bytes of the longest content
    """

    def __init__(self, most: int) -> None:
        self._most = 2 * (most + CRC_BYTES)  # on the line
        self._inside = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the contents of the frames that they complete."""
        found = []
        *ended, rest = data.split(bytes([FLAG]))
        for piece in ended:
            self._take(piece)
            content = unescaped(bytes(self._inside)) if len(self._inside) <= self._most else None
            self._inside.clear()
            if content is not None and len(content) > CRC_BYTES:
                body, check = content[:-CRC_BYTES], content[-CRC_BYTES:]
                if zlib.crc32(body) == int.from_bytes(check, "little"):
                    found.append(body)
        self._take(rest)
        return found

    def _take(self, piece: bytes) -> None:
        self._inside += piece[: self._most + 1 - len(self._inside)]  # one byte too many says that there were more


def unescaped(data: bytes) -> bytes | None:
    """The bytes between two FLAGs as they were before they were escaped; None if they end within an escape."""
    if (len(data) - len(data.rstrip(bytes([ESCAPE])))) % 2:
        return None
    return _PAIR.sub(lambda pair: bytes([pair[0][1] ^ FLIP]), data)


_PAIR = re.compile(re.escape(bytes([ESCAPE])) + b"(?s:.)")


def _packed(fields: dict[str, int], frame: Request | Reply) -> bytes:
    return b"".join([int(getattr(frame, name)).to_bytes(width, "little") for name, width in fields.items()])


def _unpacked(fields: dict[str, int], content: bytes) -> dict[str, int]:
    found, at = {}, 0
    for name, width in fields.items():
        found[name] = int.from_bytes(content[at : at + width], "little")
        at += width
    return found
