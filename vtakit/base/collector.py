"""Python's cyclic garbage collector while many objects are made that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 50_000  # that are made between two searches for garbage; Python's own number is 700


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector search less often: it took a tenth of a compilation for the accelerator.

    A compiler's objects live until its end, and each search looks through them. Thresholds of 0, with which Python never
    searches, and larger ones stay.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
