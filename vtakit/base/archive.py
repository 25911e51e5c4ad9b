"""ZIP archives (.npz, .pt2) from untrusted sources: sizes are checked before anything is inflated."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

from vtakit.base.limits import MAX_EXPANSION, MAX_INFLATED_BYTES, MAX_MEMBERS, check_limit, check_name

_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate"}
_ENCRYPTED = 1  # flag bit of a member
_FAULTS = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, OverflowError,
    IndexError, KeyError, TypeError, SyntaxError, RecursionError,
)


class ArchiveError(ValueError):
    """An archive that is damaged, or that declares more than it contains. The message does not name the archive's file."""


class Archive:
    """The members of a ZIP archive.

    stored : whether every member must be stored, none deflated
    sizes  : bytes of each member once it is inflated, by name

    Raises ArchiveError, or LimitError for too many members, a long name, or members that would expand too far.
    """

    def __init__(self, data: bytes | BinaryIO, *, stored: bool = False) -> None:
        with _archive_errors():
            stream = io.BytesIO(data) if isinstance(data, bytes) else data
            size = stream.seek(0, io.SEEK_END)
            self._file = zipfile.ZipFile(stream)
            members = self._file.infolist()
        check_limit(len(members), MAX_MEMBERS, "the number of files in the archive")
        self.sizes: dict[str, int] = {}
        packed = 0
        for member in members:
            check_name(member.filename, "the name of a file in the archive,")
            if member.filename in self.sizes:
                raise ArchiveError(f"it has two files {member.filename!r}")
            self._check(member)
            self.sizes[member.filename] = member.file_size
            packed += member.compress_size
        if packed > size:
            raise ArchiveError(f"its files overlap: they take {packed:,} bytes of its {size:,}")
        saved = sum(self.sizes.values()) - packed
        if stored and saved:
            raise ArchiveError("its files are compressed")
        check_limit(saved, max(MAX_INFLATED_BYTES, 16 * size), f"what inflating an archive of {size:,} bytes adds", " bytes")

    @staticmethod
    def _check(member: zipfile.ZipInfo) -> None:
        what = f"its file {member.filename!r}"
        if member.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"{what} is encrypted")
        if member.compress_type not in _METHODS:
            raise ArchiveError(f"{what} is compressed by method {member.compress_type}; known: {', '.join(_METHODS.values())}")
        if member.compress_type == zipfile.ZIP_STORED and member.compress_size != member.file_size:
            raise ArchiveError(f"{what} is stored, with {member.compress_size:,} bytes of {member.file_size:,}")
        check_limit(
            member.file_size, MAX_EXPANSION * max(1, member.compress_size),
            f"{what}, compressed to {member.compress_size:,} bytes,", " bytes",
        )

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a member to be read. Raises ArchiveError where it is damaged."""
        with _archive_errors(f"its file {name!r}"), self._file.open(name) as stream:
            yield stream

    def read(self, name: str) -> bytes:
        """Return a member's bytes, its checksum verified. Raises ArchiveError where it is damaged."""
        with self.opened(name) as stream:
            found = stream.read(self.sizes[name])
            if len(found) != self.sizes[name] or stream.read(1):
                raise EOFError(f"it has {len(found):,} bytes and declares {self.sizes[name]:,}")
            return found


@contextmanager
def _archive_errors(what: str = "") -> Iterator[None]:
    """Turn what Python's ZIP reader raises for a damaged archive into an ArchiveError."""
    try:
        yield
    except ArchiveError:
        raise
    except _FAULTS as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ArchiveError(f"{what} cannot be read: {why}" if what else why) from None
