"""The container of program and module files: prefix, JSON header, payload, SHA-256."""

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from vtakit.base.errors import VtakitError

PREFIX = struct.Struct("<8sIIQ")  # magic, version, bytes of the header, bytes of the payload
_DIGEST_BYTES = hashlib.sha256().digest_size


class Hash(Protocol):
    """A hash of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes."""

    def digest(self) -> bytes:
        """Return the hash of the bytes so far."""

    def hexdigest(self) -> str:
        """Return the same in hexadecimal."""


def packed(magic: bytes, version: int, header: Mapping[str, Any], payload: Iterable[bytes]) -> bytes:
    """Return the bytes of a program or module file: prefix, header as JSON, payload, SHA-256 of these."""
    rest = [*payload]
    return b"".join(pieces(magic, version, header, rest, sum(map(len, rest))))


def pieces(
    magic: bytes, version: int, header: Mapping[str, Any], payload: Iterable[bytes | memoryview], payload_bytes: int,
    digest: Hash | None = None,
) -> Iterator[bytes | memoryview]:
    """Yield what `packed` returns piece by piece, so that a large file need not be in memory as one.

    payload : pieces of bytes, `payload_bytes` together; each is only valid until the next is asked for
    digest  : a SHA-256 that is updated with each piece; at the end it is that of the whole file
    """
    head = json.dumps(header, separators=(",", ":")).encode()
    found: Hash = hashlib.sha256() if digest is None else digest
    for piece in chain([PREFIX.pack(magic, version, len(head), payload_bytes), head], payload):
        found.update(piece)
        yield piece
    last = found.digest()
    found.update(last)
    yield last


def unpacked(
    data: memoryview, where: str, kind: str, magic: bytes, versions: Sequence[int], error: Callable[[str], VtakitError],
) -> tuple[bytes, memoryview]:
    """Return header and payload of what `packed` wrote.

    where, kind : the file in messages, and what it should be, "program" or "module"
    versions    : those that can be read

    Raises `error` for another magic or version, for truncation and for damage.
    """
    if data[:len(magic)] != magic:
        raise error(f"{where} is not a vtakit {kind} file (its first bytes are {data[:8].hex() or 'missing'})")
    if len(data) < PREFIX.size:
        raise error(f"{where} is truncated: it has {len(data)} bytes and its prefix alone has {PREFIX.size}")
    _, version, head_bytes, payload_bytes = PREFIX.unpack_from(data)
    if version not in versions:
        known = f"version{'s' if len(versions) > 1 else ''} {' and '.join(map(str, versions))}"
        raise error(f"{where} has {kind} file version {version}; this vtakit reads {known}")
    begin = PREFIX.size + head_bytes
    size = begin + payload_bytes + _DIGEST_BYTES
    if len(data) != size:
        state = "truncated" if len(data) < size else "too long"
        raise error(f"{where} is {state}: it has {len(data)} bytes and says that it has {size}")
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise error(f"{where} is damaged: its SHA-256 does not match its contents")
    return bytes(data[PREFIX.size:begin]), data[begin:-_DIGEST_BYTES]
