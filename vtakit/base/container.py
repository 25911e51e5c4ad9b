"""The container of program and module files: prefix, JSON header, payload, SHA-256."""

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from vtakit.base.errors import VtakitError

PREFIX = struct.Struct("<8sIIQ")  # magic, version, bytes of the header, bytes of the payload
_DIGEST_BYTES = hashlib.sha256().digest_size


def packed(magic: bytes, version: int, header: Mapping[str, Any], payload: Iterable[bytes]) -> bytes:
    """Return the bytes of a program or module file: prefix, header as JSON, payload, SHA-256 of these."""
    head, rest = json.dumps(header, separators=(",", ":")).encode(), b"".join(payload)
    body = PREFIX.pack(magic, version, len(head), len(rest)) + head + rest
    return body + hashlib.sha256(body).digest()


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
