"""Write files whole or not at all."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vtakit.base.errors import FileError


@contextmanager
def written_whole(path: str | Path, what: str) -> Iterator[Path]:
    """Yields a file to write; once the block has ended well, that stands at `path`. Before, and after an error, nothing changes.

    A device or pipe, such as /dev/stdout, is yielded itself. What keeps the file from standing there is a `FileError` that
    calls it `what`.
    """
    target = Path(path)
    with unwritable(target, what):
        if target.exists() and not target.is_file():
            temporary = target
        else:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".vtakit.", suffix=target.suffix)
            os.close(handle)
            temporary = Path(name)
    try:
        yield temporary
        if temporary != target:
            with unwritable(target, what):
                umask = os.umask(0)
                os.umask(umask)
                temporary.chmod(0o666 & ~umask)
                temporary.replace(target)
    except BaseException:
        if temporary != target:
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def unwritable(path: str | Path, what: str) -> Iterator[None]:
    """Turn an OSError or ValueError of the block, which writes the file `what` at `path`, into a `FileError`."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {what} {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None


def write_bytes(path: str | Path, data: bytes | bytearray, what: str) -> None:
    """Write a file whole or not at all; failure is a `FileError` that calls it `what`."""
    with written_whole(path, what) as file, unwritable(path, what):
        file.write_bytes(data)


def write_pieces(path: str | Path, pieces: Iterable[bytes | memoryview], what: str) -> None:
    """Write a file piece by piece, whole or not at all; failure to write is a `FileError` that calls it `what`."""
    with written_whole(path, what) as file, unwritable(path, what), open(file, "wb") as stream:
        stream.writelines(pieces)


def make_folder(path: str | Path) -> Path:
    """Make a folder, and those above it, unless it is there; failure is a `FileError`."""
    to = Path(path)
    try:
        to.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot make the folder {str(to)!r}: {getattr(error, 'strerror', None) or error}") from None
    return to
