"""Module files with other headers and right checksums."""

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

PREFIX = struct.Struct("<8sIIQ")  # of module files and program files
DIGEST = hashlib.sha256().digest_size


def with_header_text(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a module file with the text of its header changed, and its checksum."""
    magic, version, head, payload = PREFIX.unpack_from(data)
    text = change(data[PREFIX.size:PREFIX.size + head])
    body = PREFIX.pack(magic, version, len(text), payload) + text + data[PREFIX.size + head:-DIGEST]
    return body + hashlib.sha256(body).digest()


def with_header(data: bytes, change: Callable[[Any], object]) -> bytes:
    """Return a module file whose header `change` has changed in place, and its checksum."""
    def changed(text: bytes) -> bytes:
        header = json.loads(text)
        change(header)
        return json.dumps(header).encode()
    return with_header_text(data, changed)
