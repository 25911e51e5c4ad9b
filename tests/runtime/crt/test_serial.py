"""The five functions filled in for a board behind a serial line: this end of the line has the RTL, and faults to order."""

import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from codegen_machines import need
from crt_support import GIVEN, GRAPH, HERE, SECONDS, build, shared_module, write_inputs
from support import raises

import vtakit
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.regs import mask_of, offset_of
from vtakit.runtime.crt.export import export_c
from vtakit.runtime.target import TargetError
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.target import Vta, image_of_parts
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.model import Kind, Op

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model
MEMORY = 1 << 16, 1 << 18  # address and bytes of what the program may use
LATE = ("closed: 11: split_run needs a model that is open, and an array for each input and output\n"
        "unaligned: 11: split_init needs a device and a workspace that is aligned to 64 bytes\n")
BUSY, CONFIG = mask_of("status", "busy"), offset_of("config")


class Board:
    """The other end of the line: registers and memory of an RTL device.

    reads  : by the offset of a register, what it reads as in place of what it holds, or a function of that
    refuse : requests that are answered with a code: (letter, address)
    """

    def __init__(self, reads: dict[int, Callable[[int], int]] | None = None, refuse: Sequence[tuple[str, int]] = ()) -> None:
        self.reads, self.refuse = reads or {}, refuse
        self.driver = connect("rtl", NAMED["tiny"], memory_bytes=sum(MEMORY))
        self.port = self.driver.device.port
        self.counts = dict.fromkeys("rwRWp", 0)

    def serve(self, program: subprocess.Popen[bytes]) -> None:
        """Answer requests until the program ends."""
        assert program.stdin is not None
        assert program.stdout is not None
        while head := program.stdout.read(13):
            letter, address, value = struct.unpack("<cQI", head)
            word = letter.decode()
            data = program.stdout.read(value) if word == "W" else b""
            self.counts[word] += 1
            code, answer = 0, b""
            if (word, address) in self.refuse:
                code = -7
            else:
                try:
                    answer = self._answer(word, address, value, data)
                except DeviceError:
                    code = 8
            program.stdin.write(bytes([code & 0xFF]) + (b"" if code else answer))
            program.stdin.flush()

    def _answer(self, word: str, address: int, value: int, data: bytes) -> bytes:
        if word in "RW":
            size = len(data) or value
            assert address % 64 == 0
            assert address >= MEMORY[0]
            assert address + size <= sum(MEMORY)
        if word == "r":
            held = self.port.read_register(address)
            return struct.pack("<I", self.reads.get(address, lambda held: held)(held))
        if word == "w":
            self.port.write_register(address, value)
        elif word == "W":
            self.port.write_memory(address, data)
        elif word == "R":
            return bytes(self.port.read_memory(address, value))
        else:
            assert 1 <= value <= 1000
            self.port.model.give([Op(kind=Kind.WAIT, value=value // 8 + 1)])  # a slow clock, so that time limits take no minutes
            assert self.port.model.advance()
        return b""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("serial")
    shared_module().export_c(folder)
    write_inputs(folder, GIVEN)
    return build(folder, HERE / "serial.c", HERE / "serial_main.c", f"-I{HERE}")


@pytest.fixture(scope="module")
def wanted() -> dict[str, Array]:
    return shared_module().run(GIVEN)


def talk(
    program: Path, board: Board, before: Sequence[str] = (), memory: tuple[int, int] = MEMORY
) -> tuple[int, str]:
    """Run the program against a board; returns its status and what it writes to standard error."""
    with board.driver, subprocess.Popen(
        [*before, str(program), "x.raw", *map(str, memory)], cwd=program.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        board.serve(running)
        assert running.stderr is not None
        says = running.stderr.read().decode()
        return running.wait(SECONDS), says


def check(program: Path, wanted: dict[str, Array]) -> None:
    outputs = np.fromfile(program.parent / "outputs", np.float32)
    np.testing.assert_array_equal(outputs, np.concatenate([array.ravel() for array in wanted.values()]))


def test_two_models_on_one_device(program, wanted):
    board = Board()
    assert talk(program, board) == (0, LATE)
    check(program, wanted)
    assert board.counts["R"] == 3 * 3  # outputs of two launches, in each of three runs
    assert board.counts["W"] == 2 * 16 + 3 * 2  # what is uploaded once, and inputs


@pytest.mark.parametrize(("triple", "cpu", "compiler", "runner"), [
    ("aarch64-linux-gnu", "cortex-a53", "aarch64-linux-gnu-gcc", "qemu-aarch64"),  # of a Zynq UltraScale+
    ("arm-linux-gnueabihf", "cortex-a9", "arm-linux-gnueabihf-gcc", "qemu-arm"),  # of a Zynq-7000, with 32 bits
    ("arm-unknown-linux-gnueabihf", "", "arm-linux-gnueabihf-gcc", "qemu-arm"),
])
def test_the_same_for_another_processor(tmp_path, wanted, triple, cpu, compiler, runner):
    """The parts on the processor are machine code for it, the C is compiled for it, and qemu runs both."""
    need(compiler, runner)
    there = Vta.make(config="tiny", host=Target(triple, cpu))
    image = image_of_parts(compile_parts(GRAPH, CpuKernels(there.processor), there), there)
    export_c(image, tmp_path)
    write_inputs(tmp_path, GIVEN)
    program = build(tmp_path, HERE / "serial.c", HERE / "serial_main.c", f"-I{HERE}", "-static", "-fopenmp",
                    compiler=(compiler,))
    assert talk(program, Board(), (runner,)) == (0, LATE)
    check(program, wanted)
    assert f"CC = {compiler}\n" in (tmp_path / "Makefile").read_text()
    assert f"machine code for {there.processor}" in (tmp_path / "split.h").read_text()


def other(field: str, log2: int) -> dict[int, Callable[[int], int]]:
    """Registers of a device whose configuration has another value."""
    mask = mask_of("config", field)
    shift = (mask & -mask).bit_length() - 1
    low, high = mask & 0xFFFF_FFFF, mask >> 32
    value = log2 << shift
    return {CONFIG: lambda held: held & ~low | value & 0xFFFF_FFFF, CONFIG + 4: lambda held: held & ~high | value >> 32}


@pytest.mark.parametrize(("reads", "says"), [
    ({offset_of("identity"): lambda _: 0xDEAD},
     "open: 2: there is no VTA accelerator: the register identity reads 0x0000dead, not 0x56544131; check the address of its"),
    ({offset_of("version"): lambda _: 9 << 16 | 3}, "init: 3: the accelerator has ISA version 9.3, and the model needs 1.0"),
    (other("log_batch", 1),
     "init: 4: the accelerator has another configuration than the model was compiled for: LOG_BATCH is 1, not 0; export the"),
    (other("log_wgt_buff_size", 3), "LOG_WGT_BUFF_SIZE is 3, not 8; export"),
    ({offset_of("features"): lambda held: held & ~mask_of("features", "requant")},
     "init: 5: the accelerator lacks REQUANT, which the model needs: load a bitstream that has it"),
    ({offset_of("bus"): lambda held: held & ~mask_of("bus", "address_bits") | 18 << 16},
     "open: 11: memory_address and memory_bytes reach beyond the accelerator's addresses"),
    ({offset_of("status"): lambda _: BUSY}, "open: 9: the accelerator cannot be used: it does not answer a reset; call"),
])
def test_a_board_that_is_not_what_the_model_needs(program, reads, says):
    status, sentences = talk(program, Board(reads))
    assert status == 1
    assert says in sentences
    assert sentences.count("\n") == 1


def test_a_model_of_a_later_instruction_set(tmp_path):
    """Of the same major version, with what a later minor one brought."""
    image = shared_module().image
    later = [
        replace(part, program=replace(part.program, isa_version=(1, 7))) if isinstance(part, VtaPart) else part
        for part in image.parts
    ]
    export_c(replace(image, parts=tuple(later)), tmp_path)
    write_inputs(tmp_path, GIVEN)
    program = build(tmp_path, HERE / "serial.c", HERE / "serial_main.c", f"-I{HERE}")
    assert talk(program, Board()) == (1, "init: 3: the accelerator has ISA version 1.0, and the model needs 1.7\n")


def test_memory_that_there_cannot_be(program):
    for memory in ((2**64 - 4096, 8192), (4096, 2**64 - 4096), (2**64 - 1, 0)):
        assert talk(program, Board(), memory=memory) == (1, "open: 11: memory_address + memory_bytes overflows\n")


def test_a_device_that_hangs_is_stopped_and_runs_again(program, wanted):
    """The first launch never ends: it is reset, and the next runs end well."""
    board = Board()
    state = {"hung": False, "reset": False}
    write = board.port.write_register

    def busy(held: int) -> int:
        return held | BUSY if state["hung"] and not state["reset"] else held

    def watched(address: int, value: int) -> None:
        if address == offset_of("control"):
            state["reset"] |= state["hung"] and value == mask_of("control", "reset")
            state["hung"] |= value == mask_of("control", "start")
        write(address, value)

    board.reads[offset_of("status")] = busy
    board.port.write_register = watched
    status, sentences = talk(program, board)
    late = "was stopped: device.timeout_us says how long it may take"
    assert (status, sentences) == (0, f"run: 7: launch 0 has not ended within 100000 microseconds and {late}\n{LATE}")
    check(program, wanted)


def test_a_device_that_is_lost_stays_lost(program):
    """It hangs and does not answer the reset: no later run begins, and none hangs."""
    state = {"started": False}
    board = Board({offset_of("status"): lambda held: BUSY if state["started"] else held})
    write = board.port.write_register

    def watched(address: int, value: int) -> None:
        state["started"] |= address == offset_of("control") and value == mask_of("control", "start")
        write(address, value)

    board.port.write_register = watched
    _, sentences = talk(program, board)
    said = [line.split(": ")[:2] for line in sentences.splitlines()[:5]]
    assert said == [["run", "7"], ["run", "9"], ["reset", "9"], ["run", "9"], ["reset", "9"]]
    assert "the accelerator cannot be used: it did not answer a reset; call vtakit_reset, and if that fails load the" in sentences


class Silent(Board):
    """A device that hangs in its first launch and does not answer the reset behind it, but the next one."""

    def __init__(self) -> None:
        super().__init__({offset_of("status"): lambda held: BUSY if self.hangs else held})
        self.starts = self.resets = 0
        self.write = self.port.write_register
        self.port.write_register = self.watched

    @property
    def hangs(self) -> bool:
        return self.starts == 1 and self.resets < 3  # of which the first is that of vtakit_open

    def watched(self, address: int, value: int) -> None:
        self.starts += address == offset_of("control") and value == mask_of("control", "start")
        self.resets += address == offset_of("control") and value == mask_of("control", "reset")
        self.write(address, value)


def test_a_device_that_is_lost_is_reset_and_its_models_run_again(program, wanted):
    """The memory of models that are open stays theirs."""
    board = Silent()
    status, sentences = talk(program, board)
    assert [line.split(": ")[:2] for line in sentences.splitlines()[:2]] == [["run", "7"], ["run", "9"]]
    assert (status, sentences.count("\n")) == (0, 2 + LATE.count("\n"))
    check(program, wanted)


def test_a_device_that_is_another_after_a_reset(program):
    """As often as it is asked."""
    board = Silent()
    reads = other("log_batch", 1)
    board.reads |= {at: lambda held, at=at: reads[at](held) if board.resets == 2 else held for at in reads}
    _, sentences = talk(program, board)
    said = [line.split(": ")[:2] for line in sentences.splitlines()[:5]]
    assert said == [["run", "7"], ["run", "9"], ["reset", "4"], ["run", "9"], ["reset", "4"]]


@pytest.mark.parametrize(("request_", "says"), [
    (("r", offset_of("config")), "open: 1: the driver's read_register failed with code -7 at 0x00c"),
    (("w", offset_of("control")), "open: 1: the driver's write_register failed with code -7 at 0x018"),
    (("W", MEMORY[0]), "init: 1: the driver's write_memory failed with code -7 at 0x10000"),
    (("w", offset_of("insn_count")), "run: 1: the driver's write_register failed with code -7 at 0x030"),
    (("p", 0), "run: 1: the driver's pause failed with code -7 at 0x000"),
])
def test_a_driver_that_fails(program, request_, says):
    _, sentences = talk(program, Board(refuse=[request_]))
    assert sentences.splitlines()[0] == says


def test_faults_of_later_versions_are_numbers(program):
    status, sentences = talk(program, Board({
        offset_of("status"): lambda held: held if held & BUSY else held | mask_of("status", "error"),
        offset_of("error"): lambda _: 200 | 1 << 8, offset_of("error_insn"): lambda _: 5,
    }))
    assert "run: 8: the accelerator stopped launch 0 at instruction 5 of the compute stage, with fault 200, " in sentences
    assert status == 0


def test_the_module_is_compiled_for_another_processor_by_name():
    """`host` goes with the accelerator, and is the processor of the parts beside it."""
    with raises(TargetError, "target 'llvm' has no option 'host'; it is one of target 'vta'"):
        vtakit.compile("none.onnx", host=Target("aarch64-linux-gnu"))
