"""Device "sim:BOARD": a whole board in Verilator, driven through the pins of its serial line or of its USB."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.boards.known import LINKS, Board, find_board
from vtakit.boards.link.usb import serial_device
from vtakit.boards.shell.shell import ShellParams
from vtakit.boards.shell.simulated import MEMORY_CLOCK, MEMORY_RESET, USB_CLOCKS, SerialBoard, source_hash, to_verilog
from vtakit.cache.building import built_once
from vtakit.cache.place import cache_folder
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.link.port import LinkPort
from vtakit.runtime.vta.link.progress import shown
from vtakit.runtime.vta.registers import Port, RegisterDevice
from vtakit.sim.api import integer, keywords
from vtakit.sim.board.library import Library, library
from vtakit.sim.board.model import BoardModel

PLACE = "ulx3s"
SELF_TEST_BYTES = 1 << 14  # of the simulated board; a real one tests all of its memory
BUS_BITS = 64
MEMORIES = ("link", "chip")
LEAST_DIVISOR = 4  # that the UART works with: 20 Mbaud; the board's 3 Mbaud are 27
LEAST_MHZ, MOST_MHZ = 10, 400
_VERILOG = "board.v"
_US = 1e6  # in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a simulated board, checked.

    Raises VtakitError for a value that an option cannot have.
    """

    memory: str
    divisor: int
    self_test: int
    mhz: float | None
    memory_mhz: float | None
    link: str

    def __post_init__(self) -> None:
        if self.memory not in MEMORIES:
            raise VtakitError(f"memory is {self.memory!r:.40}; {one_of(MEMORIES, str(self.memory))}")
        for name, low, high in (("divisor", LEAST_DIVISOR, 1 << 16), ("self_test", 0, 1 << 40)):
            if not low <= integer(name, getattr(self, name)) <= high:
                raise VtakitError(f"{name} is {getattr(self, name)} and must be from {low} to {high}")
        for name in ("mhz", "memory_mhz"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int | float) or isinstance(value, bool) or not LEAST_MHZ <= value <= MOST_MHZ:
                raise VtakitError(f"{name} is {value!r:.40} and must be a number from {LEAST_MHZ} to {MOST_MHZ}")


class SimulatedSerial:
    """A `Transport`: the pins of a simulated board's serial line or USB. Its time is that of the board's clock."""

    def __init__(self, model: BoardModel) -> None:
        self._model = model

    def send(self, data: bytes) -> None:
        """Hand bytes over; they leave while time passes."""
        self._model.send(data)

    def receive(self, most: int, timeout_s: float) -> bytes:
        """Return what has come, or simulate until something has."""
        return self._model.receive(most, max(1, self._cycles(timeout_s)))

    def pause(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._model.advance(self._cycles(seconds))

    def clock(self) -> float:
        """The time in seconds since power-up."""
        return self._model.counts().cycles / (self._model.mhz * _US)

    def close(self) -> None:
        """End the simulation."""
        self._model.close()

    def _cycles(self, seconds: float) -> int:
        return round(seconds * self._model.mhz * _US)


class ChipPort:
    """A `Port` with the registers of another one; memory is read and written in the simulated chip, which takes no time."""

    def __init__(self, registers: LinkPort, content: bytearray) -> None:
        self.memory = range(len(content))
        self.registers, self._content = registers, content
        self.read_register, self.write_register = registers.read_register, registers.write_register
        self.wait_clear, self.close = registers.wait_clear, registers.close

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return bytes(memoryview(self._content)[address : address + size])

    def write_memory(self, address: int, data: bytes) -> None:
        """Write memory."""
        self._content[address : address + len(data)] = data


class SimulatedBoard(RegisterDevice):
    """A `Device`. Scratchpads keep what a program leaves in them."""

    def __init__(self, name: str, port: Port, board: Board, config: VTAConfig, model: BoardModel) -> None:
        super().__init__(name, port, config)
        assert self.bus_bytes is not None
        dram = board.system().dram
        assert dram is not None
        self.bus_bytes = min(self.bus_bytes, dram.peak_bytes_a_cycle)
        self.model = model


def open_device(
    config: VTAConfig, name: str, place: str, *, core: Mapping[str, Any] | None = None, memory: str = "link",
    divisor: int = LEAST_DIVISOR, self_test: int = SELF_TEST_BYTES, mhz: float | None = None, memory_mhz: float | None = None,
    link: str = LINKS[0],
) -> Device:
    """The board called `place` with a core of a configuration; its options are those after `place`.

    core         fields of `vtakit.hw.params.CoreParams`: {"mul_passes": 4, "windows": False}; the defaults if absent
    memory       "link": all bytes go over the serial line; "chip": the host reads and writes the content of the simulated chip,
                 which takes no time, and only registers go over the line
    divisor      clocks of a bit of the serial line: 4 makes short simulations, 27 is 3 Mbaud
    self_test    bytes of memory that the board tests at power-up, before its GEMM; at most what it has
    mhz, memory_mhz   the clock of all but the memory, and that of the memory; None: the board's
    link         "uart": the serial line; "usb": full-speed USB, for which `divisor` has no meaning
    """
    options = Options(memory=memory, divisor=divisor, self_test=self_test, mhz=mhz, memory_mhz=memory_mhz, link=link)
    board = find_board(place).clocked(mhz, memory_mhz)
    board.check_link(options.link)
    params = ShellParams(core=CoreParams.of(config, BUS_BITS, core), chip=board.chip, mhz=board.mhz, memory_mhz=board.memory_mhz)
    params = replace(params, test_bytes=min(self_test, params.memory_bytes))
    content = bytearray(params.memory_bytes)
    library_of = board_library(params, divisor, link, place)
    model = BoardModel(library_of, board.chip, board.mhz, content, divisor, board.memory_mhz)
    with ExitStack() as stack:
        stack.callback(model.close)
        port = LinkPort(SimulatedSerial(model), name, progress=shown(name))
        device = SimulatedBoard(name, port if options.memory == "link" else ChipPort(port, content), board, config, model)
        stack.pop_all()
    return device


def check_place(name: str, place: str) -> None:
    """Raise `VtakitError` if there is no such board."""
    find_board(place)


def board_library(params: ShellParams, divisor: int, link: str = LINKS[0], board: str = PLACE) -> Library:
    """Return the library of a board, built now if it is not kept. Its Verilog is kept too, by the hash of all that decides it."""
    cfg = params.core.cfg
    what = f"the model of board {board} with block {cfg.block}, batch {cfg.batch}{' and USB' * (link == 'usb')}"
    folder = cache_folder("verilog") / source_hash(params, divisor, link)[:32]

    if link == "usb":
        serial_device()  # or a sentence that says what brings it

    def write(work: Path) -> None:
        (work / _VERILOG).write_text(to_verilog(SerialBoard(params, divisor, link)))

    verilog = built_once(folder, (_VERILOG,), write, f"Verilog of {what}").data.decode()
    memory = {MEMORY_CLOCK: (MEMORY_RESET, "dq_i")} if params.two_clocks else None
    return library(verilog, what, memory, USB_CLOCKS if link == "usb" else None)


OPTIONS = keywords(open_device)
