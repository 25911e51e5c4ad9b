"""An entry of the cache: a folder of files beside their SHA-256 sums, without which none of them is taken.

The sums also name the entry, so that files that belong to another one are noticed. `sha256sum --check SHA256SUMS` reads them.
"""

import hashlib
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from vtakit.cache.trust import PRIVATE, distrust, trusted_bytes

SUMS = "SHA256SUMS"
GONE = ".gone"  # ending of a folder that is being deleted
_NEW = ".new"  # ending of one that is being filled


def read(folder: Path, name: str) -> bytes | None:
    """Return a file's content if it is as it was written: by this user or root, with the sum that was written beside it.

    None if it is missing, damaged, or may be somebody else's.
    """
    try:
        if folder.is_symlink() or distrust(folder):
            return None
        lines = trusted_bytes(folder / SUMS).decode().splitlines()
        data = trusted_bytes(folder / name)
    except (OSError, ValueError):
        return None
    wanted = _line(name, hashlib.sha256(data).hexdigest())
    return data if lines[:1] == [_head(folder)] and wanted in lines else None


@contextmanager
def building_place(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside the entry `folder`, gone afterwards; what a process that was killed has left there goes first.

    For the process that holds the entry's lock.
    """
    place = folder.with_name(f"{folder.name}.build")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(PRIVATE)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def publish(folder: Path, work: Path, names: Iterable[str], sums: Mapping[str, str] | None = None) -> None:
    """Move files from `work`, on the same file system, to the entry `folder`, which appears in one step.

    sums : SHA-256 sums of files for which they are known already, in hexadecimal

    It replaces an older one. For the process that holds the entry's lock. Raises `OSError`.
    """
    new = folder.with_name(folder.name + _NEW)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(PRIVATE)
    lines = [_head(folder)]
    for name in names:
        (work / name).replace(new / name)
        (new / name).chmod((new / name).stat().st_mode & PRIVATE)
        found = (sums or {}).get(name)
        lines.append(_line(name, hashlib.sha256((new / name).read_bytes()).hexdigest() if found is None else found))
    (new / SUMS).touch(PRIVATE & ~0o100)
    (new / SUMS).write_text("\n".join(lines) + "\n")
    discard(folder)
    new.rename(folder)


def discard(folder: Path) -> None:
    """Delete an entry, which vanishes in one step; nothing happens if there is none."""
    gone = folder.with_name(f"{folder.name}-{uuid.uuid4().hex[:8]}{GONE}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
    if gone.is_symlink() or gone.is_file():
        gone.unlink()
    shutil.rmtree(gone, ignore_errors=True)


def _head(folder: Path) -> str:
    return f"# vtakit {folder.parent.name}/{folder.name}"


def _line(name: str, digest: str) -> str:
    return f"{digest}  {name}"
