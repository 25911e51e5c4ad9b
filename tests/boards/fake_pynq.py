"""Stand-in for PYNQ's package, as far as the driver uses it, on the files and the process of a `MappedBoard`."""

import ctypes
import mmap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from mapped_support import START, MappedBoard, TrappedPage, trap_library

PHYSICAL = 0x43C0_0000  # of the registers


class Buffer(np.ndarray):  # type: ignore[type-arg]
    """Memory of `allocate`: slices know their addresses, as those of PYNQ do."""

    board: MappedBoard
    freed = 0

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, Buffer):
            self.board, self.first = parent.board, parent.first

    first: int  # where the whole buffer lies in this process

    @property
    def device_address(self) -> int:
        return START + self._offset

    @property
    def coherent(self) -> bool:
        return self.board.caches is None

    @property
    def _offset(self) -> int:
        return int(self.__array_interface__["data"][0]) - self.first

    def flush(self) -> None:
        assert self.board.caches is not None or self._offset == 0
        if self.board.caches is not None:
            with self.board.caches.accelerator.open("r+b") as file:
                file.seek(self._offset)
                file.write(self.tobytes())

    def invalidate(self) -> None:
        assert self.board.caches is not None
        with self.board.caches.accelerator.open("rb") as file:
            file.seek(self._offset)
            self[:] = np.frombuffer(file.read(self.nbytes), np.uint8)

    def freebuffer(self) -> None:
        Buffer.freed += 1


def module(board: MappedBoard, parts: dict[str, dict[str, Any]]) -> ModuleType:
    """Return a module `pynq` whose overlay has these parts."""
    made = ModuleType("pynq")
    maps: list[mmap.mmap] = []

    class Overlay:
        def __init__(self, file: str, download: bool = True) -> None:
            if not Path(file).read_bytes():
                raise ValueError("the bitstream is empty")
            self.ip_dict, self.downloaded = parts, download

    class MMIO:
        def __init__(self, base_addr: int, length: int = 4) -> None:
            assert base_addr == PHYSICAL
            with (board.root / "dev/uio0").open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), length)
            maps.append(self._map)  # until the page no longer traps
            self.array: npt.NDArray[np.uint32] = np.frombuffer(self._map, np.uint32)
            address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
            trap_library().trap_page(address, length, TrappedPage.line.fileno())

    def allocate(shape: tuple[int, ...], dtype: Any) -> Buffer:
        (size,) = shape
        with (board.root / "dev/udmabuf0").open("r+b") as file:
            if size > board.root.joinpath("dev/udmabuf0").stat().st_size:
                raise MemoryError("no CMA memory")
            found = np.frombuffer(mmap.mmap(file.fileno(), size), dtype).view(Buffer)
        found.board, found.first = board, int(found.__array_interface__["data"][0])
        return found

    made.maps = maps  # type: ignore[attr-defined]
    made.Overlay, made.MMIO, made.allocate = Overlay, MMIO, allocate  # type: ignore[attr-defined]
    return made
