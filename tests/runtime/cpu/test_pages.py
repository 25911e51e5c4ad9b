"""Memory in large pages."""

import mmap

import numpy as np
import pytest
from support import raises

from vtakit.runtime.cpu import pages
from vtakit.runtime.cpu.pages import PAGE_BYTES, filled, reserve

SIZES = (0, 1, 100, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 5 * PAGE_BYTES + 12345)


@pytest.mark.parametrize("size", SIZES)
def test_memory_has_the_size_asked_for_and_is_its_own(size):
    first, second = reserve(size), reserve(size)
    for array, value in ((first, 1), (second, 2)):
        assert (array.shape, array.dtype, array.ctypes.data % 64) == ((size,), np.uint8, 0)
        array[...] = value
    assert np.all(first == 1)
    assert np.all(second == 2)


class Recorded(mmap.mmap):
    """Memory that notes what of it is asked to be in large pages."""

    asked: list[tuple[int, int]]

    def madvise(self, option: int, start: int = 0, length: int | None = None) -> None:
        assert option == mmap.MADV_HUGEPAGE
        assert length is not None
        Recorded.asked.append((np.frombuffer(self, np.uint8).ctypes.data + start, length))
        raise OSError("this system has none")


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="only Linux has large pages on request")
def test_whole_large_pages_are_asked_for_and_one_does_without(monkeypatch):
    Recorded.asked = []
    monkeypatch.setattr(pages.mmap, "mmap", Recorded)
    for size in SIZES:
        array = reserve(size)
        array[...] = 3
        assert np.all(array == 3)
        if size < PAGE_BYTES:
            assert Recorded.asked == []
        else:
            ((start, length),) = Recorded.asked
            assert start == array.ctypes.data
            assert start % PAGE_BYTES == 0
            assert 0 <= size - length < PAGE_BYTES
            Recorded.asked.clear()


def test_a_system_without_large_pages_does_without(monkeypatch):
    monkeypatch.delattr(pages.mmap, "MADV_HUGEPAGE", raising=False)
    monkeypatch.setattr(pages.mmap, "mmap", None)
    reserve(3 * PAGE_BYTES)[...] = 1


def test_memory_that_is_not_there_is_told():
    with raises(MemoryError, f"{1 << 60:,} bytes could not be had: Cannot allocate memory"):
        reserve(1 << 60)


@pytest.mark.parametrize("size", [0, 700, PAGE_BYTES + 12345])
def test_arrays_lie_at_their_offsets_and_zeros_between_them(size, monkeypatch):
    def dirty(count: int) -> np.ndarray:
        return np.full(count, 255, np.uint8)
    monkeypatch.setattr(pages, "reserve", dirty)
    rng = np.random.default_rng(size)
    arrays = [(512, rng.standard_normal((3, 5), np.float32)), (64, rng.integers(0, 9, (4, 2), np.int16)), (128, np.array(7.0)),
              (192, np.zeros((0, 3), np.int8))] if size else []
    wanted = np.zeros(size, np.uint8)
    for at, array in arrays:
        wanted[at:at + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    np.testing.assert_array_equal(filled(size, arrays), wanted)
