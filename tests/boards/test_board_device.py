"""Device "board:PORT": a pseudo-terminal is the serial port; behind it the link's model stands before the core in Verilator."""

import errno
import random
import subprocess
import sys
import time

import numpy as np
import pytest
import serial
from driver_support import ADD
from integer_nets import Integers, inputs_of
from model_support import vta_module
from serial_board import CoreBus, SerialBoard, serial_board
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.errors import ConfigError
from vtakit.runtime.cli import main
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.rtl import open_device as open_rtl
from vtakit.sim.faults import DeviceError


@pytest.fixture(scope="module")
def core():
    """The RTL of the smallest configuration, driven at its registers."""
    return open_rtl(NAMED["tiny"], memory_bytes=1 << 20).port


@pytest.mark.rtl
@pytest.mark.xdist_group("rtl tiny")
class TestWithACore:
    """Programs through the serial port."""

    def test_a_program_runs(self, core):
        with serial_board(CoreBus(core)) as board, connect(f"board:{board.path}", "tiny") as driver:
            assert driver.device.memory == range(1 << 20)
            result = driver.run(ADD, {"x": np.arange(4, dtype="<i4")})
            assert list(result.buffers["y"]) == [3, 4, 5, 6]
            assert result.counters["cycles"] > 100

    def test_weights_are_sent_once_for_several_processes(self, core):
        weights = random.Random(1).randbytes(100_000)
        with serial_board(CoreBus(core)) as board:
            with connect(f"board:{board.path}", "tiny") as driver:
                driver.upload(weights)
            before = board.came
            with connect(f"board:{board.path}", "tiny") as driver:
                assert driver.upload(weights).read() == weights
            assert board.came - before < 20_000  # requests to read, and for checksums

    def test_another_configuration_is_refused(self, core):
        with serial_board(CoreBus(core)) as board, raises(ConfigError, "device … has another configuration than asked for: …"):
            connect(f"board:{board.path}", "default")

    def test_a_board_that_is_unplugged_is_one_sentence_and_no_wait(self, core):
        with serial_board(CoreBus(core)) as board, connect(f"board:{board.path}", "tiny") as driver:
            buffer = driver.upload(b"still there")
            board.unplug()
            begin = time.monotonic()
            with raises(DeviceError, f"the serial port of device 'board:{board.path}' is gone: … is the board unplugged?"):
                buffer.read()
            assert time.monotonic() - begin < 5

    def test_a_second_program_at_the_port_is_refused(self, core):
        with serial_board(CoreBus(core)) as board, connect(f"board:{board.path}", "tiny"):
            program = f"from vtakit.runtime.vta import connect; connect('board:{board.path}', 'tiny')"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert "is open in another program" in done.stderr


@pytest.mark.parametrize(("answer", "message"), [
    (b"", "device '…' does not answer: … is it plugged in, programmed, and at this port?"),
    (b"login: ", "device '…' does not answer: … and no whole frame: …"),
])
def test_something_else_at_the_port_is_one_sentence(answer, message):
    board = SerialBoard(lambda data: answer)
    begin = time.monotonic()
    with raises(DeviceError, message.replace("…'", f"board:{board.path}'", 1)):
        connect(f"board:{board.path}", "tiny")
    assert time.monotonic() - begin < 8
    board.unplug()


@pytest.mark.parametrize(("device", "message"), [
    ("board:/dev/no-such-port", "device 'board:/dev/no-such-port' cannot be opened: there is no /dev/no-such-port; …"),
    ("board", "device 'board' needs the place of the board behind a colon: board:/dev/ttyUSB0"),
    ("board:", "device 'board:' needs the place … board:/dev/ttyUSB0"),
    ("fsim:3", "there is one device 'fsim' only, and 'fsim:3' names a place: give 'fsim'"),
    ("bord:/dev/ttyUSB0", "unknown device 'bord:/dev/ttyUSB0'; …"),
])
def test_a_device_that_is_not_there_is_one_sentence(device, message):
    with raises((DeviceError if "cannot" in message else VtakitError), message):
        connect(device, "tiny")


def test_a_file_that_is_no_port_is_one_sentence(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("no port")
    for path in ("/dev/null", file, tmp_path):
        with raises(DeviceError, f"device 'board:{path}' cannot be opened: {path} is no serial port; …"):
            connect(f"board:{path}", "tiny")


def test_a_port_of_another_group_says_which(tmp_path, monkeypatch):
    """Tests may run as root, whom no port refuses."""
    def refuse(*_: object, **__: object) -> None:
        raise serial.SerialException(errno.EACCES, "could not open port")

    port = tmp_path / "ttyUSB0"
    port.write_text("")
    monkeypatch.setattr(serial, "Serial", refuse)
    with raises(DeviceError, f"device … cannot be opened: you may not use {port}: add your user to group '{port.group()}', …"):
        connect(f"board:{port}", "tiny")


@pytest.mark.parametrize("baud", [0, 10**9])
def test_a_rate_that_cannot_be_is_refused(baud):
    with raises(DeviceError, f"baud must be from 9600 to 12000000, not {baud}"):
        connect("board:/dev/null", "tiny", baud=baud)


def test_vtakit_run_without_a_board_ends_with_one_sentence_and_status_2(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = Integers("small", seed=1)
    graph = net.finish(net.conv(net.input(1, 3, 4, 4), 4))
    vta_module(graph, "tiny").save("small.vtak")
    np.savez("in.npz", **inputs_of(graph))
    assert main(["run", "small.vtak", "--input", "in.npz", "--device", "board:/dev/ttyNone"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("vtakit run: device 'board:/dev/ttyNone' cannot be opened: there is no /dev/ttyNone; ")
    assert said.count("\n") == 1
    assert main(["run", "small.vtak", "--input", "in.npz", "--device", "board:/dev/null", "--baud", "300"]) == 2
    assert capsys.readouterr().err == "vtakit run: baud must be from 9600 to 12000000, not 300\n"
