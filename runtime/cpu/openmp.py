"""The OpenMP runtime that parallel loops run on.

It is the one of the machine's compiler (libgomp, or LLVM's libomp). Threads that wait soon sleep, if this process has not loaded
the runtime before: those that spin on bring a shared machine to a halt. With libgomp they look first for about as long as waking
one takes, so that short waits cost no wake-up, and long ones at most twice as much as to sleep at once. After a fork, the child
has one thread and its parallel loops are serial there, because the runtime's other threads do not exist in it and waiting for
them would never end.
"""

import ctypes
import ctypes.util
import functools
import os
import threading
from functools import partial

ENTRIES = ("GOMP_barrier", "GOMP_parallel", "omp_get_max_threads", "omp_get_num_threads", "omp_get_thread_num")
_forked: set[int] = set()  # threads that are a fork's copy of one that may have had others at work
_MOST_THREADS = (1 << 31) - 1  # of an int in C; a loop starts no more than it has parts
_WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}  # pauses of 25 to 45 ns; libomp does not know the second
_NAMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libomp.dylib")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The runtime; None if the machine has none."""
    found = ctypes.util.find_library("gomp")
    ours = {} if any(name in os.environ for name in _WAITING) else _WAITING
    os.environ.update(ours)  # read when the runtime is loaded
    try:
        for name in (*_NAMES, *([found] if found else [])):
            try:
                loaded = ctypes.CDLL(name)
            except OSError:
                continue
            if all(hasattr(loaded, entry) for entry in ENTRIES):
                os.register_at_fork(after_in_child=partial(_stay_alone, loaded))
                return loaded
    finally:
        for name in ours:
            del os.environ[name]
    return None


def _stay_alone(loaded: ctypes.CDLL) -> None:
    """In a child process: its one thread must not wait for those of its parent's runtime."""
    loaded.omp_set_num_threads(1)
    _forked.add(threading.get_ident())


def address(name: str) -> int:
    """The address of one of the runtime's functions."""
    loaded = library()
    assert loaded is not None
    return ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value or 0


def set_threads(count: int) -> None:
    """Set the number of threads for parallel loops that this thread of Python starts from now on.

    Raises ValueError if `count` is under 1. Without an OpenMP runtime, and after a fork, there is always one.
    """
    if count < 1:
        raise ValueError(f"{count} threads: a parallel loop needs at least 1")
    loaded = library()
    if loaded is not None and threading.get_ident() not in _forked:
        loaded.omp_set_num_threads(min(count, _MOST_THREADS))


class Limit:
    """Within a ``with`` of it, parallel loops started by that thread of Python use so many threads; several may be within."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._before = threading.local()

    def __enter__(self) -> None:
        self._before.threads = threads()
        set_threads(self._count)

    def __exit__(self, *_: object) -> None:
        set_threads(self._before.threads)


def threads() -> int:
    """Return the most threads of a parallel loop: as many as this process may use processors, if nothing else was set."""
    loaded = library()
    return 1 if loaded is None else int(loaded.omp_get_max_threads())
