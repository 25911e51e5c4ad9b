"""A device's memory: pieces never overlap, come back, and are refused once they are gone."""

import gc

import pytest
from driver_support import MEMORY_BYTES, TINY, tiny
from hypothesis import given
from hypothesis import strategies as st
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.runtime.vta import DeviceMemoryError, connect
from vtakit.runtime.vta.memory import GRANULE_BYTES, Allocator

SIZE = 40 * GRANULE_BYTES


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(0, 600), st.sampled_from([1, 64, 128, 256, 1024])) | st.integers(0, 50), max_size=60),
)
def test_pieces_are_as_in_a_map_of_granules(start, steps):
    """The naive model is one flag a granule; the first place where a piece fits is taken."""
    allocator = Allocator("toy", range(start, start + SIZE))
    first = -(-start // GRANULE_BYTES)
    taken = dict.fromkeys(range(first, (start + SIZE) // GRANULE_BYTES), False)
    live: list[tuple[int, range]] = []
    for step in steps:
        if isinstance(step, int):
            if live:
                address, granules = live.pop(step % len(live))
                allocator.free(address)
                taken |= dict.fromkeys(granules, False)
        else:
            size, align = step
            count = max(1, -(-size // GRANULE_BYTES))
            fits = (
                at for at in taken
                if at * GRANULE_BYTES % align == 0 and all(not taken.get(at + n, True) for n in range(count))
            )
            at = next(fits, None)
            if at is None:
                with pytest.raises(DeviceMemoryError):
                    allocator.allocate(size, align)
            else:
                assert allocator.allocate(size, align) == at * GRANULE_BYTES
                granules = range(at, at + count)
                live.append((at * GRANULE_BYTES, granules))
                taken |= dict.fromkeys(granules, True)
        assert allocator.used_bytes == GRANULE_BYTES * sum(taken.values())
        assert allocator.free_bytes == GRANULE_BYTES * (len(taken) - sum(taken.values()))


def test_memory_that_is_full_says_how_full():
    allocator = Allocator("toy", range(SIZE))
    for _ in range(19):
        allocator.allocate(2 * GRANULE_BYTES)
    allocator.free(4 * GRANULE_BYTES)
    with raises(DeviceMemoryError, "device 'toy' has no 200 free bytes in one piece at a multiple of 64: 256 of its 2560 bytes "
                                   "are free, at most 128 in one piece; free buffers, or give it more memory"):
        allocator.allocate(200)


@pytest.mark.parametrize(("size", "align", "message"), [
    (-1, 64, "a buffer of device 'toy' must have at least 0 bytes, not -1"),
    (1, 96, "the alignment of a buffer of device 'toy' must be a power of two, not 96"),
])
def test_what_is_no_piece(size, align, message):
    with raises(DeviceMemoryError, message):
        Allocator("toy", range(SIZE)).allocate(size, align)


def test_a_piece_is_freed_once():
    allocator = Allocator("toy", range(SIZE))
    allocator.free(allocator.allocate(1))
    with raises(DeviceMemoryError, "device 'toy' has no buffer at byte 0 to free"):
        allocator.free(0)


@pytest.fixture
def driver():
    with tiny("fsim") as opened:
        yield opened


def test_a_buffer_keeps_its_bytes_and_only_its_own(driver):
    low, buffer, high = (driver.upload(bytes([n]) * 100) for n in (1, 2, 3))
    buffer.write(b"abc", offset=97)
    assert buffer.read() == b"\x02" * 97 + b"abc"
    assert buffer.read(2, offset=98) == b"bc"
    assert buffer.read(offset=99) == b"c"
    assert (low.read(), high.read()) == (b"\x01" * 100, b"\x03" * 100)
    assert buffer.address % TINY.wgt_bytes == 0
    assert driver.allocate(1, align=4096).address % 4096 == 0


@pytest.mark.parametrize(("act", "what"), [
    (lambda b: b.read(101), "101 bytes from byte 0 on"),
    (lambda b: b.read(offset=101), "-1 bytes from byte 101 on"),
    (lambda b: b.read(1, offset=100), "1 bytes from byte 100 on"),
    (lambda b: b.read(1, offset=-1), "1 bytes from byte -1 on"),
    (lambda b: b.write(b"12", offset=99), "2 bytes from byte 99 on"),
])
def test_bytes_beside_a_buffer_are_refused(driver, act, what):
    with raises(DeviceMemoryError, f"{what} do not lie in <100 bytes at 0x0 of device 'fsim'>"):
        act(driver.allocate(100))


@pytest.mark.parametrize("act", [lambda b: b.read(), lambda b: b.write(b"1"), lambda b: b.free()])
def test_a_freed_buffer_is_not_used(driver, act):
    with driver.allocate(100) as buffer:
        buffer.free()
        with raises(DeviceMemoryError, "<100 bytes at 0x0 of device 'fsim', freed> is used after it was freed"):
            act(buffer)
    assert driver.free_bytes == MEMORY_BYTES


def test_a_buffer_that_nothing_refers_to_is_freed(driver):
    buffer = driver.allocate(100)
    assert driver.free_bytes == MEMORY_BYTES - 128
    del buffer
    gc.collect()
    assert driver.free_bytes == MEMORY_BYTES


def test_what_is_no_bytes_is_refused(driver):
    with raises(VtakitError, "what is uploaded must be bytes or an array, not int"):
        driver.upload(4)


@pytest.mark.parametrize("size", [0, 4095, (1 << 40) + 1, "1M", True])
def test_a_memory_that_cannot_be_is_refused(size):
    with raises(VtakitError, f"memory_bytes must be an integer from 4096 to {1 << 40}, not {size!r}"):
        connect("fsim", TINY, memory_bytes=size)
