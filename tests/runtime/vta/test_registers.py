"""The register protocol that every board shares, against a board that is a table of registers."""

import pytest
from driver_support import ADD, TINY
from support import raises

from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.errors import ConfigError, ProgramError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, AluOp, Stage
from vtakit.hw.isa.program import Program
from vtakit.hw.isa.regs import COUNTERS, IDENTITY, REGISTERS, device_features, fields_of, mask_of, offset_of, pack_config
from vtakit.runtime.vta import DeviceTimeout, Driver, ProgramStopped
from vtakit.runtime.vta.registers import RegisterDevice
from vtakit.sim.faults import DeviceError

BUSY, DONE, ERROR = (mask_of("status", field) for field in ("busy", "done", "error"))
START, RESET, CLEAR = (mask_of("control", field) for field in ("start", "reset", "clear_counters"))


class Board:
    """Registers as a table, memory as bytes; a program only ends, with `ends` as status, after `patience` waits in vain."""

    def __init__(self, memory: range = range(0x1000, 0x5000), ends: int = DONE, **registers: int) -> None:
        self.memory, self.ends, self.patience, self.closed = memory, ends, 0, False
        self.answers_resets = True
        self.bytes = bytearray(len(memory))
        self.written: list[tuple[str, int]] = []
        values = {
            "identity": IDENTITY, "version": ISA_VERSION[0] << 16 | ISA_VERSION[1], "features": device_features(TINY),
            "config": pack_config(TINY), "bus": 4 | 16 << 8 | 32 << 16,
            **{name: 1000 * n + (n << 32) for n, name in enumerate(COUNTERS)}, **registers,
        }
        self.names = {offset_of(r.name) + 4 * n: (r.name, 32 * n) for r in REGISTERS for n in range(r.words)}
        self.values = {r.name: values.get(r.name, 0) for r in REGISTERS}
        self.latched = 0

    def read_register(self, address: int) -> int:
        name, shift = self.names[address]
        if shift:
            return self.latched
        self.latched = self.values[name] >> 32
        return self.values[name] & 0xFFFF_FFFF

    def write_register(self, address: int, value: int) -> None:
        name, shift = self.names[address]
        self.written.append((name, value << shift))
        if name == "control" and value == START:
            self.values["status"] = BUSY
        elif name == "control" and value == RESET and self.answers_resets:
            self.values["status"] = 0
        elif name != "control":
            self.values[name] = self.values[name] & ~(0xFFFF_FFFF << shift) | value << shift

    def wait_clear(self, address: int, mask: int, timeout_s: float) -> str | None:
        assert (address, mask) == (offset_of("status"), BUSY)
        if self.values["status"] & BUSY:
            if self.patience:
                self.patience -= 1
                return f"{timeout_s:g} s"
            self.values["status"] = self.ends
        return None

    def read_memory(self, address: int, size: int) -> bytes:
        assert address in self.memory
        return bytes(self.bytes[address - self.memory.start :][:size])

    def write_memory(self, address: int, data: bytes) -> None:
        assert address in self.memory
        at = address - self.memory.start
        self.bytes[at : at + len(data)] = data

    def close(self) -> None:
        self.closed = True


def driver_of(board: Board, **options: object) -> Driver:
    return Driver(RegisterDevice("ulx3s", board, **options))


def launch(driver: Driver):
    return driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})


def test_what_a_device_is_it_says_itself():
    device = RegisterDevice("ulx3s", Board())
    assert (device.config, device.version, device.features) == (TINY, ISA_VERSION, device_features(TINY))
    assert device.bus_bytes == 16


@pytest.mark.parametrize("name", NAMED)
def test_every_configuration_is_read_back(name):
    assert RegisterDevice("ulx3s", Board(config=pack_config(NAMED[name])), NAMED[name]).config == NAMED[name]


@pytest.mark.parametrize(("board", "error", "message"), [
    ({"identity": 0xFFFF_FFFF}, DeviceError,
     "device 'ulx3s' … no VTA accelerator … 0xffffffff … 0x56544131"),
    ({"version": 2 << 16 | 1}, DeviceError, "device 'ulx3s' has ISA version 2.1; this vtakit knows 1.0"),
    ({"config": pack_config(NAMED["tiny_b2"])}, ConfigError,
     ("device 'ulx3s' … another configuration … LOG_BATCH 1 (asked for 0), LOG_INP_BUFF_SIZE 8 (asked for 7), "
      "LOG_WGT_BUFF_SIZE 7 (asked for 8)")),
])
def test_a_device_that_is_another_is_refused(board, error, message):
    with raises(error, message):
        RegisterDevice("ulx3s", Board(**board), TINY)


def test_a_start_writes_every_setting_first_and_the_program_lies_there():
    board = Board()
    with driver_of(board) as driver:
        launch(driver).wait()
        begun = [name for name, value in board.written if (name, value) in (("control", CLEAR), ("control", START))]
        assert board.written[-2:] == [("control", CLEAR), ("control", START)]
        assert len(begun) == 2
        settings: dict[str, int] = {}
        for name, value in board.written[:-2]:
            settings[name] = settings.get(name, 0) + value
        assert settings == {
            "insn_addr": 0x1000, "insn_count": len(ADD.insns), "window_low": 0x1000, "window_high": 0x5000,
            **{f"base_{kind.name.lower()}": 0 for kind in MEMORIES},
        }
        code = [int.from_bytes(board.bytes[at : at + 16], "little") for at in range(0, 80, 16)]
        assert code == ADD.relocated({"uops": 0x1080, "x": 0x10C0, "y": 0x1100})
    assert board.closed


def test_counters_are_read_whole():
    counters = launch(driver_of(Board())).wait().counters
    assert {name: counters[name] for name in COUNTERS} == {name: 1000 * n + (n << 32) for n, name in enumerate(COUNTERS)}


def test_a_device_without_the_stages_counters_has_all_cycles_only():
    counters = launch(driver_of(Board(bus=4 | 16 << 8 | 32 << 16 | mask_of("bus", "no_causes")))).wait().counters
    assert counters["cycles"] == 0
    assert not counters.keys() & set(COUNTERS[1:])


def test_a_fault_is_read_from_the_registers():
    error = Fault.DRAM_RANGE | Stage.STORE << 8
    with driver_of(Board(ends=ERROR, error=error, error_insn=3, cycles=77)) as driver, raises(
        ProgramStopped, "device 'ulx3s' stopped the program at instruction 3 (store.out y_size=1 x_size=1 x_stride=1 pop_prev) "
                        "of the store stage: in cycle 77, an address lies outside the DRAM window [DRAM_RANGE]",
    ):
        launch(driver).wait()


def test_a_fault_that_nobody_knows():
    with driver_of(Board(ends=ERROR, error=99)) as driver, raises(
        DeviceError, "device 'ulx3s' stopped … fault 99 … not know"
    ):
        launch(driver).wait()


def test_a_device_that_says_nothing_at_its_end():
    with driver_of(Board(ends=0)) as driver, raises(
        DeviceError, "device 'ulx3s' neither finished … nor … fault … reset …"
    ):
        launch(driver).wait()


def test_a_timeout_leaves_the_program_running_and_a_reset_ends_it():
    board = Board()
    board.patience = 1
    with driver_of(board) as driver:
        started = launch(driver)
        with raises(DeviceTimeout, "device 'ulx3s' … not finished … within 3 s … wait longer … reset …"):
            started.wait(3)
        assert ("control", RESET) not in board.written
        driver.reset()
        assert board.written[-1] == ("control", RESET)
        with raises(DeviceError, "the program on device 'ulx3s' was stopped by a reset; launch it again"):
            started.wait()
        launch(driver).wait()


def test_a_device_that_is_closed_is_left_at_rest():
    board = Board()
    with driver_of(board) as driver:
        started = launch(driver)
    assert (board.values["status"], board.closed) == (0, True)
    with raises(DeviceError, "the program on device 'ulx3s' was stopped by a reset; launch it again"):
        started.wait()


def test_a_device_that_ignores_a_reset_is_lost():
    board = Board()
    with driver_of(board) as driver:
        launch(driver)
        board.answers_resets, board.patience = False, 1
        with raises(DeviceError, "device 'ulx3s' … not answer a reset within 60 s … connect … anew"):
            driver.reset()
        with raises(DeviceError, "device 'ulx3s' did not answer a reset: connect to it anew"):
            driver.load(ADD)


def test_a_link_that_breaks_in_a_start_is_told_and_the_device_reset(monkeypatch):
    board = Board()
    with driver_of(board) as driver:
        write = board.write_register

        def broken(address: int, value: int) -> None:
            if (address, value) == (offset_of("control"), START):
                monkeypatch.setattr(board, "write_register", write)
                raise DeviceError("the line to ulx3s is cut")
            write(address, value)

        monkeypatch.setattr(board, "write_register", broken)
        with raises(DeviceError, "the line to ulx3s is cut"):
            launch(driver)
        assert board.written[-1] == ("control", RESET)
        launch(driver).wait()


def test_instructions_that_were_written_in_part_are_written_again(monkeypatch):
    board = Board()
    with driver_of(board) as driver, driver.load(ADD) as loaded:
        x, y, other = driver.upload(bytes(16)), driver.allocate(4), driver.allocate(4)
        loaded.launch({"x": x, "y": y}).wait()
        code = bytes(board.bytes[:80])
        write = board.write_memory

        def cut(address: int, data: bytes) -> None:
            write(address, data[:64])
            raise DeviceError("the line to ulx3s is cut")

        monkeypatch.setattr(board, "write_memory", cut)
        with raises(DeviceError, "the line to ulx3s is cut"):
            loaded.launch({"x": x, "y": other})
        monkeypatch.setattr(board, "write_memory", write)
        assert bytes(board.bytes[:80]) != code  # the store has the other address
        loaded.launch({"x": x, "y": y}).wait()
        assert bytes(board.bytes[:80]) == code


def test_a_device_without_a_feature_refuses_programs_that_need_it():
    program = Program(config=TINY, insns=(encode(TINY, "alu", alu_opcode=AluOp.MUL), encode(TINY, "finish")))
    with driver_of(Board(features=0)) as driver, raises(ProgramError, "the program needs ALU_MUL, which the device lacks"):
        driver.load(program)


def test_fields_of_a_register():
    assert fields_of("error", 0x0203) == {"fault": 3, "stage": 2}
