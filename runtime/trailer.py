"""The layout of a signature at the end of a module file.

    the module file · 8 bytes mark · 32 bytes public key · 64 bytes signature
"""

from typing import NamedTuple

_MARK = b"\x89VTASIG\x02"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_BYTES = len(_MARK) + _KEY_BYTES + _SIGNATURE_BYTES


class Trailer(NamedTuple):
    """A signature.

    key       : the public key that the file names, 32 bytes
    signature : 64 bytes
    """

    key: bytes
    signature: bytes

    def dump(self) -> bytes:
        """Return the bytes that are appended to a module file."""
        return _MARK + self.key + self.signature


def trailer_of(data: bytes) -> Trailer | None:
    """Return the signature at the end of a file's bytes; None if there is none."""
    found = data[-_BYTES:]
    if len(data) <= _BYTES or not found.startswith(_MARK):
        return None
    return Trailer(found[len(_MARK):-_SIGNATURE_BYTES], found[-_SIGNATURE_BYTES:])


def unsigned(data: bytes) -> memoryview:
    """Return a module file's bytes without the signature, if there is one."""
    view = memoryview(data)
    return view[:-_BYTES] if trailer_of(data) is not None else view
