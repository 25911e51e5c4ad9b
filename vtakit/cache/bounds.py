"""Keep entries within a bounded size: those that nobody has used for longest go first."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from vtakit.base.container import Hash
from vtakit.cache.entry import GONE, building_place, discard, publish

LIMIT_BYTES = 2 << 30  # of one kind of entries; one has 1 to 10 MB
GRACE_SECONDS = 3600.0  # in which an entry that was looked up is surely loaded, or its test done


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """An entry: when it was last looked up (seconds since 1970), its bytes, its folder."""

    used: float
    size_bytes: int
    folder: Path


def keep(folder: Path, name: str, data: Iterable[bytes | memoryview], digest: Hash | None = None) -> None:
    """Write an entry of one file, given in pieces; others make room.

    digest : the SHA-256 that whoever yields the pieces updates with them; made here if None

    Nothing is kept, and nothing is said, while another process writes this entry, and where the folder cannot be written.
    """
    with suppress(OSError), FileLock(f"{folder}.lock", timeout=0), building_place(folder) as work:
        found: Hash = hashlib.sha256() if digest is None else digest
        with open(work / name, "wb") as file:
            for piece in data:
                if digest is None:
                    found.update(piece)
                file.write(piece)
        publish(folder, work, (name,), {name: found.hexdigest()})
        prune(folder.parent)


def entries(root: Path) -> list[Kept]:
    """Return the entries of a folder, least recently used first; those that vanish meanwhile are left out."""
    found = []
    for folder in root.glob("*"):
        with suppress(OSError):
            if folder.is_dir() and not folder.is_symlink() and not folder.suffix:
                found.append(Kept(folder.stat().st_mtime, _size_bytes(folder), folder))
    return sorted(found)


def _size_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    total, left = 0, [str(folder)]
    while left:
        with os.scandir(left.pop()) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False):
                    left.append(each.path)
                else:
                    total += each.stat(follow_symlinks=False).st_size
    return total


def lately_used(folder: Path) -> bool:
    """Return whether an entry was looked up so lately that nobody deletes it now, nor before it is loaded."""
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime < GRACE_SECONDS / 2
    return False


def prune(root: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Delete the entries that nobody has used for longest, until the others have at most `limit_bytes`.

    An entry that was looked up in the last hour, or whose lock somebody holds, stays. A process that has loaded one keeps it.
    """
    for path in root.glob(f"*{GONE}"):  # of a process that was killed
        shutil.rmtree(path, ignore_errors=True)
    found = entries(root)
    total = sum(entry.size_bytes for entry in found)
    for entry in found:
        if total <= limit_bytes:
            return
        with suppress(Timeout, OSError), FileLock(f"{entry.folder}.lock", timeout=0):
            if time.time() - entry.folder.stat().st_mtime >= GRACE_SECONDS:
                discard(entry.folder)
                total -= entry.size_bytes
