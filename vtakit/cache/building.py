"""Entries that take long to make: built by one process while the others wait, and built anew if they are damaged."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.status import Status

from vtakit.base.errors import VtakitError
from vtakit.cache.bounds import lately_used, prune
from vtakit.cache.entry import building_place, publish, read
from vtakit.cache.place import temporary_root, trouble, warn
from vtakit.cache.trust import make_private

LOCK_SECONDS = 1800  # another process that builds the same entry is waited for; it takes minutes at most
ROOM_BYTES = 256 << 20  # that the disk must have free before anything is built on it; the largest builds take about that


@dataclass(frozen=True, slots=True)
class Product:
    """The first file of an entry: where it is, and its content, which had the sum that was written beside it."""

    path: Path
    data: bytes


def built_once(folder: Path, names: Sequence[str], build: Callable[[Path], None], what: str = "RTL model") -> Product:
    """Return the first of the files `names` of the entry `folder`; `build` makes them unless they are there.

    build   gets an empty folder and leaves the files there; it runs in one process at a time, the others wait
    what    names the entry in messages

    A damaged entry is built anew. Where the folder cannot be used, because it may be somebody else's, is read-only or its disk is
    full, a `CacheWarning` says so and the entry is built in a temporary folder, for this process. After a build, entries that
    nobody has used for long make room. Raises `VtakitError` if no folder can be written, and what `build` raises.
    """
    try:
        why = trouble(folder.parent)
        if not why:
            if lately_used(folder) and (data := read(folder, names[0])) is not None:
                return Product(folder / names[0], data)
            return _built(folder, names, build, what)
    except OSError as error:
        if (data := read(folder, names[0])) is not None:  # in a folder that nobody may write to, where nothing is deleted either
            return Product(folder / names[0], data)
        why = f"it cannot be kept in {folder.parent}: {error.strerror or error}"
    warn(f"the {what} is built for this process only: {why}")
    try:
        instead = temporary_root() / folder.parent.name / folder.name
        make_private(instead.parent)
        return _built(instead, names, build, what)
    except OSError as error:
        raise VtakitError(f"cannot build the {what}: no folder for it can be written: {error.strerror or error}") from None


def _built(folder: Path, names: Sequence[str], build: Callable[[Path], None], what: str) -> Product:
    try:
        with _alone(FileLock(f"{folder}.lock"), what):  # so nobody deletes it between the look and the note that it is used
            data = read(folder, names[0])
            if data is None:
                _check_room(folder.parent)
                with building_place(folder) as work:
                    build(work)
                    data = (work / names[0]).read_bytes()
                    publish(folder, work, names)
                prune(folder.parent)
            else:
                os.utime(folder)
            return Product(folder / names[0], data)
    except Timeout:
        told = f"another process has built this {what} for {LOCK_SECONDS} s"
        raise VtakitError(f"{told}: see what holds {folder}.lock") from None


def _check_room(folder: Path) -> None:
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@contextmanager
def telling(what: str) -> Iterator[Status]:
    """Show a line on standard error while the block runs: it moves and can be updated on a terminal, and stays elsewhere."""
    console = Console(stderr=True)
    with console.status(what) as status:
        if not console.is_terminal:
            console.print(what, soft_wrap=True)
        yield status


@contextmanager
def _alone(lock: FileLock, what: str) -> Iterator[None]:
    """Hold the lock; say so if that takes a while. A pool's workers are silent, or each of them would say it."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        silent = parent_process() is not None
        with nullcontext() if silent else telling(f"waiting for another process that builds the same {what}"):
            lock.acquire(timeout=LOCK_SECONDS)
    try:
        yield
    finally:
        lock.release()
