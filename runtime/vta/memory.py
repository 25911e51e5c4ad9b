"""A device's memory, given out in pieces."""

from bisect import bisect_left

from vtakit.runtime.vta.errors import DeviceMemoryError
from vtakit.sim.api import integer

GRANULE_BYTES = 64  # pieces begin and end at multiples of this, so that two never share a beat of the bus


class Allocator:
    """Pieces of a range of bytes, the first that fits; free neighbours become one.

    device   its name, for messages
    """

    def __init__(self, device: str, memory: range) -> None:
        self._device, self._memory = device, memory
        start, end = -(-memory.start // GRANULE_BYTES) * GRANULE_BYTES, memory.stop // GRANULE_BYTES * GRANULE_BYTES
        self._free = [(start, end)] if start < end else []  # (first byte, byte after the last), ascending, never touching
        self._used: dict[int, int] = {}  # first byte -> byte after the last
        self._dropped: list[int] = []

    @property
    def free_bytes(self) -> int:
        """Bytes that are not given out."""
        self._collect()
        return sum(end - start for start, end in self._free)

    @property
    def used_bytes(self) -> int:
        """Bytes that are given out."""
        self._collect()
        return sum(end - start for start, end in self._used.items())

    def allocate(self, size: int, align: int = GRANULE_BYTES) -> int:
        """The address of `size` bytes, a multiple of `align`, a power of two.

        Raises `DeviceMemoryError` if no free piece is large enough.
        """
        size, align = integer("the size of a buffer", size), integer("the alignment of a buffer", align)
        if size < 0:
            raise DeviceMemoryError(f"a buffer of device {self._device!r} must have at least 0 bytes, not {size}")
        if align < 1 or align & (align - 1):
            raise DeviceMemoryError(f"the alignment of a buffer of device {self._device!r} must be a power of two, not {align}")
        align = max(align, GRANULE_BYTES)
        self._collect()
        room = max(-(-size // GRANULE_BYTES), 1) * GRANULE_BYTES
        for at, (start, end) in enumerate(self._free):
            first = -(-start // align) * align
            if first + room <= end:
                self._free[at : at + 1] = [(a, b) for a, b in ((start, first), (first + room, end)) if a < b]
                self._used[first] = first + room
                return first
        largest = max((end - start for start, end in self._free), default=0)
        raise DeviceMemoryError(
            f"device {self._device!r} has no {size} free bytes in one piece at a multiple of {align}: {self.free_bytes} of its "
            f"{len(self._memory)} bytes are free, at most {largest} in one piece; free buffers, or give it more memory"
        )

    def free(self, address: int) -> None:
        """Give a piece back.

        Raises `DeviceMemoryError` if none begins there.
        """
        if address not in self._used:
            raise DeviceMemoryError(f"device {self._device!r} has no buffer at byte {address} to free")
        start, end = address, self._used.pop(address)
        at = bisect_left(self._free, (start, end))
        if at < len(self._free) and self._free[at][0] == end:
            end = self._free.pop(at)[1]
        if at and self._free[at - 1][1] == start:
            start = self._free.pop(at - 1)[0]
            at -= 1
        self._free.insert(at, (start, end))

    def drop(self, address: int) -> None:
        """Give a piece back later: for the collector of garbage, which comes at any time, also in the midst of `allocate`."""
        self._dropped.append(address)

    def _collect(self) -> None:
        while self._dropped:
            self.free(self._dropped.pop())
