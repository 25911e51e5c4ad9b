"""How much memory a process may still take."""

import mmap
import os
import resource
import sys
from collections.abc import Iterator

import pytest

from vtakit.base.reading import check_memory, memory_bytes

GIB = 1 << 30


@pytest.fixture
def limited() -> Iterator[None]:
    """This process may take 1 GiB more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + GIB, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_without_a_limit_it_is_the_memory_of_the_machine():
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory_bytes() <= whole
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        assert memory_bytes() == whole
    check_memory(1)
    with pytest.raises(MemoryError):
        check_memory(whole + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what a process has taken")
@pytest.mark.usefixtures("limited")
def test_a_limit_leaves_what_is_not_taken_yet():
    first = memory_bytes()
    assert 0.9 * GIB < first <= GIB
    with mmap.mmap(-1, GIB // 2):
        assert first - memory_bytes() == pytest.approx(GIB // 2, rel=0.1)
        with pytest.raises(MemoryError):
            check_memory(3 * GIB // 4)
    check_memory(3 * GIB // 4)
