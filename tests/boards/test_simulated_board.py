"""A whole board in Verilator: self-test, registers and programs through the pins of its serial line, cycles."""

import numpy as np
import pytest
from quantized_support import Layers, small_classifier, write_quantized
from support import raises, says

from vtakit.base.errors import VtakitError
from vtakit.boards.host_map import BOARD_REGISTERS, SELFTEST
from vtakit.boards.known import find_board
from vtakit.boards.shell.known_answer import known_answer
from vtakit.boards.shell.shell import ShellParams
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.regs import mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.hw.system import SYSTEMS
from vtakit.runtime import cli
from vtakit.runtime.vta import board as device
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.link.port import LinkPort
from vtakit.sim import run_image
from vtakit.sim.board.model import BoardModel
from vtakit.sim.faults import DeviceError
from vtakit.sim.workloads import Conv2d, conv2d_program

RTL = pytest.mark.xdist_group("rtl_board")  # one process builds the model
TINY = NAMED["tiny"]
NAME = "sim:ulx3s"
SHAPES = (
    Conv2d(height=8, width=8, in_channels=16, out_channels=16, kernel=3, stride=1, pad=1),
    Conv2d(height=9, width=7, in_channels=32, out_channels=16, kernel=1, stride=2, pad=0),
)


def powered() -> tuple[BoardModel, bytearray]:
    """A board that has just got its power, and the content of its chip."""
    board = find_board("ulx3s")
    params = ShellParams(core=CoreParams(cfg=TINY), chip=board.chip, mhz=board.mhz, test_bytes=device.SELF_TEST_BYTES)
    memory = bytearray(params.memory_bytes)
    found = device.board_library(params, device.LEAST_DIVISOR)
    return BoardModel(found, board.chip, board.mhz, memory, device.LEAST_DIVISOR), memory


@pytest.mark.parametrize("name", NAMED)
def test_the_program_of_the_self_test_has_its_answer(name):
    program = known_answer(NAMED[name])
    result = run_image(program.data, 0, program.insn_count, name, "fsim")
    assert bytes(result.dram)[program.result.start : program.result.stop] == program.wanted
    assert any(program.wanted)


def compare(board, model, shapes, seed):
    """Run convolutions on a board and on the cycle model: the same bytes, and cycles in all within a hundredth."""
    rng, total = np.random.default_rng(seed), {"board": 0, "model": 0}
    for shape in shapes:
        program = conv2d_program(TINY, shape)
        inputs = {b.name: rng.integers(-128, 128, b.size_bytes, np.int8).tobytes() for b in program.buffers
                  if b.kind.name == "INPUT"}
        found, wanted = board.run(program, inputs), model.run(program, inputs)
        assert found.buffers == wanted.buffers
        total["board"] += found.counters["cycles"]
        total["model"] += wanted.counters["cycles"]
    assert abs(total["board"] / total["model"] - 1) < 0.01, total


@RTL
@pytest.mark.parametrize("memory", ["link", "chip"])
def test_programs_run_through_the_pins(memory):
    """Bytes as on fsim; cycles as of system ulx3s, within a hundredth."""
    with connect(NAME, TINY, memory=memory) as board, connect("cycle", TINY, memory_bytes=32 << 20, system="ulx3s") as model:
        assert len(board.device.memory) == 32 << 20
        assert board.device.bus_bytes == 2
        compare(board, model, SHAPES, seed=5)


@RTL
@pytest.mark.parametrize(("mhz", "memory_mhz"), [(75, 100), (100, 80), (50, 100)])
@pytest.mark.slow
def test_the_memory_may_have_a_clock_of_its_own(mhz, memory_mhz):
    """Bytes as on fsim; cycles of the core as of the board's system, within a hundredth. The chip checks its own clock."""
    clocks = {"mhz": mhz, "memory_mhz": memory_mhz}
    system = find_board("ulx3s").clocked(**clocks).system()
    assert system.dram.clock == round(memory_mhz / mhz, 2)
    shapes = (*SHAPES, Conv2d(height=14, width=14, in_channels=32, out_channels=32, kernel=3, stride=1, pad=1))
    with (connect(NAME, TINY, memory="chip", **clocks) as board,
          connect("cycle", TINY, memory_bytes=32 << 20, system=system) as model):
        assert board.device.bus_bytes == pytest.approx(2 * memory_mhz / mhz, rel=0.01)
        compare(board, model, shapes, seed=mhz)


@RTL
@pytest.mark.slow
def test_another_board_runs_programs_with_its_own_chip():
    """Bytes as on fsim; cycles as of the board's system, within a hundredth. The chip checks its own datasheet."""
    name = "icepi-zero"
    board = find_board(name)
    with connect(f"sim:{name}", TINY) as there, connect("cycle", TINY, memory_bytes=32 << 20, system=board.system()) as model:
        assert there.device.port.read_register(BOARD_REGISTERS["clock_khz"]) == 1000 * board.mhz
        compare(there, model, SHAPES, seed=7)


@RTL
def test_the_host_uses_memory_while_a_program_runs():
    """The driver would refuse it; the arbiter serves both."""
    rng = np.random.default_rng(6)
    program = conv2d_program(TINY, Conv2d(height=14, width=14, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1))
    inputs = {b.name: rng.integers(-128, 128, b.size_bytes, np.int8).tobytes() for b in program.buffers if b.kind.name == "INPUT"}
    with connect(NAME, TINY, memory="chip") as board, connect("fsim", TINY, memory_bytes=1 << 22) as truth:
        wanted = truth.run(program, inputs).buffers
        line = board.device.port.registers
        buffers = {b.name: board.upload(inputs.get(b.name, bytes(b.size_bytes))) for b in program.buffers
                   if b.kind.name in ("INPUT", "OUTPUT")}
        running = board.load(program).launch(buffers)
        model = board.device.model
        begin, there = model.counts().cycles, 16 << 20
        for size in (1, 8, 300, 1024):
            data = rng.integers(0, 256, size, np.uint8).tobytes()
            line.write_memory(there, data)
            assert line.read_memory(there, size) == data
            there += 4096 - 13
        assert line.read_register(offset_of("status")) & mask_of("status", "busy"), "the program is too short for this test"
        assert model.counts().cycles - begin > 10_000
        running.wait()
        for name, buffer in buffers.items():
            assert buffer.read(program.buffer(name).size_bytes) == wanted[name]


@RTL
@pytest.mark.parametrize("link", [(), pytest.param(("--link", "usb"), marks=[pytest.mark.rtl, pytest.mark.slow])])
def test_a_network_runs_through_the_pins(link, tmp_path, monkeypatch):
    """`vtakit run`: program, weights, inputs and results are bytes on the serial line, or over USB."""
    monkeypatch.chdir(tmp_path)
    write_quantized(small_classifier(), tmp_path)
    made = {}
    for name, options in ((NAME, link), ("fsim", ())):
        words = ["run", "q.onnx", "--target", "vta", "--config", "tiny", "--device", name, "--input", "in.npz", *options]
        assert cli.main([*words, "--output", f"{name.partition(':')[0]}.npz"]) == 0
        with np.load(f"{name.partition(':')[0]}.npz") as found:
            made[name] = {key: found[key] for key in found.files}
    for key, array in made["fsim"].items():
        np.testing.assert_array_equal(made[NAME][key], array)


def test_ways_to_memory_are_of_a_simulated_board(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = Layers(3, channels=3, size=6)
    net.relu(net.conv("x", 6))
    write_quantized(net, tmp_path)
    for options, message in (
        (("--device", "rtl", "--memory", "chip"), "device 'rtl' has no option 'memory'; …"),
        (("--device", NAME, "--memory", "flash"), "memory is 'flash'; known: chip, link"),
        (("--device", NAME, "--latency", "3"), "--latency describes the accelerator's memory, which devices …"),
    ):
        assert cli.main(["run", "q.onnx", "--target", "vta", "--config", "tiny", "--input", "in.npz", *options]) == 2
        assert says(capsys.readouterr().err.strip(), f"vtakit run: {message}")


@RTL
def test_a_board_tests_itself_and_says_what_it_is():
    model, memory = powered()
    port = LinkPort(device.SimulatedSerial(model), NAME)
    registers = {name: port.read_register(at) for name, at in BOARD_REGISTERS.items()}
    assert registers["clock_khz"] == 80_000
    assert registers["memory_kib"] == 32 << 10
    assert registers["selftest"] == sum(SELFTEST.values()) - SELFTEST["running"]
    assert (registers["selftest_errors"], registers["selftest_core"]) == (0, 2)
    program = known_answer(TINY)
    assert bytes(memory[program.result.start : program.result.stop]) == program.wanted
    with pytest.raises(DeviceError):
        port.write_register(BOARD_REGISTERS["selftest"], 1)
    with pytest.raises(DeviceError):
        port.read_register(max(BOARD_REGISTERS.values()) + 4)
    port.close()


@RTL
def test_bad_memory_is_told():
    model, memory = powered()
    at = 0x1238
    while not any(memory[at : at + 8]):  # until the first pass has been there
        model.advance(100)
    memory[at + 1] ^= 0x40
    with raises(DeviceError, f"device '{NAME}' has bad memory, its self-test says: 1 wrong word, the first at 0x{at:x}, …"):
        LinkPort(device.SimulatedSerial(model), NAME)
    model.close()


@RTL
def test_a_core_that_computes_wrongly_is_told():
    """A weight changes between the program's copy into memory and its run."""
    model, memory = powered()
    program = known_answer(TINY)
    last = program.data[: program.result.start].rstrip(b"\0")
    while bytes(memory[: len(last)]) != last:
        model.advance(20)
    memory[len(last) - 1] ^= 0x55
    with raises(DeviceError, f"device '{NAME}' computes wrongly, its self-test says: a GEMM with a known answer ended with …"):
        LinkPort(device.SimulatedSerial(model), NAME)
    model.close()


@RTL
def test_the_core_is_refused_while_the_board_tests_itself():
    model, _ = powered()

    class Impatient(LinkPort):
        def _await_selftest(self) -> None:
            pass

    port = Impatient(device.SimulatedSerial(model), NAME)
    assert port.read_register(BOARD_REGISTERS["selftest"]) & SELFTEST["running"]
    with pytest.raises(DeviceError):
        port.read_register(0)
    LinkPort._await_selftest(port)
    assert port.read_register(0) == int.from_bytes(b"VTA1", "big")
    port.close()


@RTL
def test_what_the_chip_finds_ends_the_simulation():
    """A board whose clock is faster than its chip can take: the first command with too little time is named."""
    board = find_board("ulx3s")
    params = ShellParams(core=CoreParams(cfg=TINY), chip=board.chip, mhz=board.mhz, test_bytes=device.SELF_TEST_BYTES)
    found = device.board_library(params, device.LEAST_DIVISOR)
    model = BoardModel(found, board.chip, 120, bytearray(params.memory_bytes), device.LEAST_DIVISOR)
    with raises(DeviceError, "simulation of the board: SDRAM, clock 8003: PRECHARGE comes 66.7 us after power-up, which takes …"):
        LinkPort(device.SimulatedSerial(model), NAME)
    model.close()


def test_wrong_options_are_refused():
    for options, message in (
        ({"memory": "flash"}, "memory is 'flash'; known: chip, link"),
        ({"divisor": 3}, "divisor is 3 and must be from 4 to 65536"),
        ({"self_test": -1}, "self_test is -1 and must be from 0 to …"), ({"divisor": "x"}, "divisor must be an integer, not 'x'"),
        ({"mhz": 0}, "mhz is 0 and must be a number from 10 to 400"),
        ({"memory_mhz": 150}, "the SDRAM MT48LC16M16A2-75 cannot have a clock of 150 MHz: it runs at 133 MHz at most"),
        ({"link": "can"}, "board 'ulx3s' has no link 'can'; known: uart, usb"),
        ({"links": "usb"}, f"device '{NAME}' has no option 'links'; …"),
    ):
        with raises(VtakitError, message):
            connect(NAME, TINY, **options)
    with raises(VtakitError, "unknown board 'ulx4s'; did you mean 'ulx3s'? …"):
        find_board("ulx4s")


def test_the_board_has_the_memory_of_the_named_system():
    board = find_board("ulx3s")
    dram = SYSTEMS["ulx3s"].dram
    assert dram is not None
    assert board.chip.timing(board.mhz).capacity_bytes == dram.capacity_bytes


def test_clocks_that_are_equal_are_one():
    board = find_board("ulx3s")
    assert board.memory_mhz is None
    assert board.clocked(100, 100) == board.clocked(100, None)
    assert board.clocked(None, 100).memory_mhz == 100
    assert board.system().latency == SYSTEMS["ulx3s"].latency
    assert board.system().dram.clock == 1
