"""`vtakit run --device board:PORT` while the port goes away, falls silent, or talks nonsense in the midst of a run."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from select import select

import numpy as np
import pytest
from integer_nets import Integers, inputs_of
from model_support import vta_module
from serial_board import CoreBus, SerialBoard

from vtakit.boards.host_map import HOST_ADDRESS_BITS
from vtakit.boards.link.model import BoardModel
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.regs import mask_of, offset_of
from vtakit.runtime.cli import main
from vtakit.runtime.vta.rtl import open_device as open_rtl

pytestmark = [pytest.mark.rtl, pytest.mark.xdist_group("rtl tiny")]
SECONDS = 60
MEMORY = 4 << 20


@pytest.fixture(scope="module")
def core():
    """The RTL of the smallest configuration, driven at its registers."""
    return open_rtl(NAMED["tiny"], memory_bytes=MEMORY).port


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A module with 150 KB of weights, its inputs and what it gives, in a folder."""
    folder = tmp_path_factory.mktemp("model")
    net = Integers("wide", seed=1)
    graph = net.finish(net.conv(net.conv(net.input(1, 256, 1, 1), 512, 1), 64, 1))
    vta_module(graph, "tiny").save(folder / "wide.vtak")
    np.savez(folder / "in.npz", **inputs_of(graph))
    assert main(["run", str(folder / "wide.vtak"), "--input", str(folder / "in.npz"), "--output", str(folder / "want.npz"),
                 "--device", "fsim"]) == 0
    return folder


class QuickBus(CoreBus):
    """A board whose programs have ended when their state is asked for: a look at the RTL lets few of its cycles pass."""

    def __init__(self, core) -> None:
        super().__init__(core)
        self._core = core

    def read_register(self, address):
        if address == offset_of("status"):
            self._core.wait_clear(address, mask_of("status", "busy"), SECONDS)
        return super().read_register(address)


class Failing:
    """A board whose line changes its ways once so many bytes have come."""

    def __init__(self, core, after, then) -> None:
        core.write_memory(0, bytes(MEMORY))
        self._model = BoardModel(QuickBus(core), register_bits=HOST_ADDRESS_BITS, memory_bits=40)
        self._left, self._then = after, then

    def __call__(self, data):
        self._left -= len(data)
        return self._model.feed(data) if self._left > 0 else self._then(self._model, data)


def run(model, board, *more):
    """Run the command."""
    words = ["run", str(model / "wide.vtak"), "--input", str(model / "in.npz"), "--output", str(model / "got.npz")]
    return main([*words, "--device", f"board:{board.path}", *more])


def same(model):
    """Return True if the results are those of the functional simulator."""
    with np.load(model / "want.npz") as want, np.load(model / "got.npz") as got:
        return sorted(want.files) == sorted(got.files) and all(np.array_equal(want[name], got[name]) for name in want.files)


AFTER = (40, 100_000)


@pytest.mark.parametrize("after", AFTER)
def test_a_port_that_goes_away(model, core, after, capsys):
    board = SerialBoard(None)
    gone = threading.Event()

    def unplug(_model, _data):
        gone.set()
        return b""

    board.board = Failing(core, after, unplug)
    thread = threading.Thread(target=lambda: gone.wait(SECONDS) and board.unplug())
    thread.start()
    begin = time.monotonic()
    assert run(model, board) == 2
    assert time.monotonic() - begin < 30
    thread.join()
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"vtakit run: the serial port of device 'board:{board.path}' is gone: ")


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("then", [lambda model, data: b"", lambda model, data: b"\x00login: \x7e\xff" * 3],
                         ids=["silent", "nonsense"])
def test_a_board_that_stops_to_answer(model, core, after, then, capsys):
    """An error within 8 times a fifth of a second, and then the same command with a board that answers."""
    board = SerialBoard(Failing(core, after, then))
    begin = time.monotonic()
    assert run(model, board) == 2
    assert time.monotonic() - begin < 30
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"vtakit run: device 'board:{board.path}' does not answer")
    board.board = Failing(core, 1 << 40, then)
    assert run(model, board) == 0
    assert same(model)
    board.unplug()


def test_a_board_that_is_reset_in_the_midst(model, core, capsys):
    """It has forgotten the session: an error, and the next run begins anew."""
    fresh = BoardModel(QuickBus(core), register_bits=HOST_ADDRESS_BITS, memory_bits=40)
    board = SerialBoard(Failing(core, 5_000, lambda model, data: fresh.feed(data)))
    assert run(model, board) == 2
    assert "has forgotten this program" in capsys.readouterr().err
    assert run(model, board) == 0
    assert same(model)
    board.unplug()


def test_weights_go_over_the_line_once(model, core):
    """The second run sends inputs and looks at checksums."""
    board = SerialBoard(Failing(core, 1 << 40, None))
    came = []
    for _ in range(2):
        before = board.came
        assert run(model, board) == 0
        assert same(model)
        came.append(board.came - before)
    assert came[0] > 150_000
    assert came[1] < came[0] / 10
    board.unplug()


def on_terminal(model, board):
    """The command in a process of its own, whose standard error is a terminal, and that terminal."""
    ours, theirs = pty.openpty()
    words = ["run", str(model / "wide.vtak"), "--input", str(model / "in.npz"), "--output", str(model / "got.npz")]
    child = subprocess.Popen([sys.executable, "-m", "vtakit.runtime", *words, "--device", f"board:{board.path}"], stderr=theirs,
                             stdout=subprocess.DEVNULL, start_new_session=True,
                             env=os.environ | {"TERM": "xterm", "COLUMNS": "150"})
    os.close(theirs)
    return child, ours


def text_of(ours, child):
    """Read the terminal until the command has ended, and return its text."""
    shown, deadline = b"", time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        elif child.poll() is not None:
            break
    child.wait(SECONDS)
    return shown.decode(errors="replace")


def test_a_large_transfer_shows_how_far_it_is(model, core):
    board = SerialBoard(Failing(core, 1 << 40, None))
    child, ours = on_terminal(model, board)
    shown = text_of(ours, child)
    os.close(ours)
    assert child.returncode == 0
    assert f"board:{board.path}: sending" in shown
    board.unplug()


def test_ctrl_c_ends_a_wait_for_a_silent_board(model, core):
    """One sentence, no traceback, and no long wait."""
    silent = threading.Event()
    board = SerialBoard(Failing(core, 20_000, lambda model, data: silent.set() or b""))
    child, ours = on_terminal(model, board)
    assert silent.wait(SECONDS)
    os.kill(child.pid, signal.SIGINT)
    begin = time.monotonic()
    shown = text_of(ours, child)
    os.close(ours)
    assert time.monotonic() - begin < 10
    assert child.returncode == 2
    assert "vtakit run: interrupted; nothing was left half-written" in shown
    board.unplug()
