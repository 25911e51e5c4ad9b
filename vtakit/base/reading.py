"""Reading files of strangers: regular ones only, sizes checked before anything is read."""

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from vtakit.base.errors import FileError, VtakitError

_STATM = Path("/proc/self/statm")  # of Linux: pages of this process, of its address space first


@contextmanager
def opened(
    path: str | Path, what: str, most_bytes: int | None = None, *, error: Callable[[str], VtakitError] = FileError,
    follow: bool = True,
) -> Iterator[tuple[BufferedReader, int]]:
    """Yield a regular file, open to be read, and its size in bytes.

    most_bytes : limit on its size; `memory_bytes` if None
    error      : makes what is raised
    follow     : whether the path may be a symbolic link

    Reading a device or a pipe may never end, so both are refused, and opening one does not block. Raises `error`, whose message
    calls the file `what`, for these, for a file that cannot be read, and for one above the limit.
    """
    def unreadable(why: object) -> VtakitError:
        return error(f"cannot read {what} {str(path)!r}: {why}")

    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError) as found:
        raise unreadable(getattr(found, "strerror", None) or found) from None
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise unreadable(_kind(state.st_mode))
        limit = memory_bytes() if most_bytes is None else most_bytes
        if state.st_size > limit:
            whose = "the memory for it" if most_bytes is None else "the limit"
            raise unreadable(f"it has {state.st_size:,} bytes; {whose} is {limit:,} (docs/files.md)")
    except BaseException:
        os.close(handle)
        raise
    with open(handle, "rb") as stream:
        try:
            yield stream, state.st_size
        except OSError as found:
            raise unreadable(found.strerror or found) from None


def memory_bytes() -> int:
    """Return the memory that this process may still take: this machine's, or what its limit (`ulimit -v`) leaves."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    whole = page_bytes * os.sysconf("SC_PHYS_PAGES")
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed == resource.RLIM_INFINITY:
        return whole
    taken = int(_STATM.read_text().split()[0]) * page_bytes if _STATM.exists() else 0
    return max(0, min(whole, allowed - taken))


def check_memory(size_bytes: int) -> None:
    """Raise MemoryError if so much is more than `memory_bytes`: a system may grant it, and end the process as it is used."""
    if size_bytes > memory_bytes():
        raise MemoryError


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return f"it is a {kinds.get(stat.S_IFMT(mode), 'special file')}, and must be a regular file: write the data to a file first"


def read_bytes(
    path: str | Path, what: str, most_bytes: int | None = None, *, error: Callable[[str], VtakitError] = FileError,
    follow: bool = True,
) -> bytes:
    """Return the bytes of a regular file; see `opened`, also for what it raises."""
    with opened(path, what, most_bytes, error=error, follow=follow) as (stream, size):
        return stream.read(size)
