"""A board at a serial port that a pseudo-terminal stands in for: the link's model in front of a simulated core."""

import os
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from select import select

from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_PAGE, BOARD_REGISTERS, HOST_ADDRESS_BITS
from vtakit.boards.link.model import BoardModel
from vtakit.runtime.vta.registers import Port
from vtakit.sim.faults import DeviceError

_LOOK_S = 0.05


class CoreBus:
    """A `Bus` in front of a simulated core's `Port`, and the board's own registers, which `board` changes by name."""

    def __init__(self, port: Port, **board: int) -> None:
        self._port = port
        values = {"board_identity": BOARD_IDENTITY, "memory_kib": len(port.memory) >> 10, "selftest": 0b11110, **board}
        self.board = {BOARD_REGISTERS[name]: value for name, value in values.items()}

    def read_register(self, address: int) -> tuple[int, bool]:
        if address >= BOARD_PAGE:
            return self.board.get(address, 0), True
        try:
            return self._port.read_register(address), True
        except DeviceError:
            return 0, False

    def write_register(self, address: int, value: int) -> bool:
        try:
            self._port.write_register(address, value)
        except DeviceError:
            return False
        return True

    def read_memory(self, address: int, size: int) -> tuple[bytes, bool]:
        return self._port.read_memory(address, size), address + size <= self._port.memory.stop

    def write_memory(self, address: int, data: bytes) -> bool:
        self._port.write_memory(address, data)
        return True


class SerialBoard:
    """Answers at a pseudo-terminal.

    path       of the port
    board      what answers: a function from bytes to bytes
    """

    def __init__(self, board: object) -> None:
        self.board = board
        self._ours, theirs = os.openpty()
        tty.setraw(theirs)
        self.path = os.ttyname(theirs)
        self._theirs = theirs
        self._stop = threading.Event()
        self.came = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stop.is_set():
            if not select([self._ours], [], [], _LOOK_S)[0]:
                continue
            with suppress(OSError):
                data = os.read(self._ours, 4096)
                self.came += len(data)
                answer = self.board(data)
                while answer:
                    answer = answer[os.write(self._ours, answer):]

    def unplug(self) -> None:
        """Take the port away."""
        self._stop.set()
        self._thread.join()
        for handle in (self._ours, self._theirs):
            with suppress(OSError):
                os.close(handle)


@contextmanager
def serial_board(bus: CoreBus) -> Iterator[SerialBoard]:
    """A board with this bus at a serial port."""
    model = BoardModel(bus, register_bits=HOST_ADDRESS_BITS, memory_bits=40)
    board = SerialBoard(model.feed)
    try:
        yield board
    finally:
        board.unplug()
