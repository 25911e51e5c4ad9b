"""Depth limit of recursive walks over a program, which take one or a few Python calls a level of an expression or a statement."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# Python's own limit is mostly 1,000. This many calls fit into a stack of 8 MiB, which threads have as well, even where each goes
# through C, as those of `sorted` or of `hash` do.
MOST_CALLS = 10_000

_lock = Lock()
_inside = 0  # how many, of all threads, since the limit is the interpreter's
_before = 0


@contextmanager
def deep() -> Iterator[None]:
    """Let calls go `MOST_CALLS` deep within, or deeper if Python's limit is higher; also a decorator."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, MOST_CALLS))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and sys.getrecursionlimit() == MOST_CALLS:  # else somebody set it meanwhile
                sys.setrecursionlimit(_before)
