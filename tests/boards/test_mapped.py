"""Device "uio:PLACE" without a board: files stand in for the kernel's, and behind them is the RTL in another process.

Each access to the mapped registers traps and is made on the RTL (trapped_page.c, mapped_rtl.py); interrupts come through a
pseudo-terminal; memory that is not coherent has caches in front of it that hide what is not synchronised (`Caches`).
"""

import fcntl
import os
import platform
import sys
import time
from pathlib import Path

import fake_pynq
import numpy as np
import pytest
from driver_support import ADD, TINY, convolution
from integer_nets import Integers, inputs_of
from mapped_support import FPGA, LINE, SIZE, START, SYNCS, MappedBoard, TrappedPage, make_tree, trap_library
from model_support import vta_module
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.regs import mask_of
from vtakit.runtime.cli import main
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.errors import DeviceTimeout, ProgramStopped
from vtakit.runtime.vta.mapped import dma, uio
from vtakit.runtime.vta.mapped.page import Page
from vtakit.sim.faults import DeviceError

traps = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux", reason="trapped_page.c is for Linux on x86-64")


BOARDS = {
    "plain": {}, "slow": {"around": {"latency": 5000}}, "coherent": {"coherent": True, "core": {"axi_cache": 0b1111}},
    "told coherent": {"coherent": True}, "high": {"start": (1 << 32) - SIZE // 2, "core": {"address_bits": 32}},
}


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Boards by name, each with its process, started when a test first asks for it."""
    started: dict[str, MappedBoard] = {}

    def board(name: str) -> MappedBoard:
        if name not in started:
            started[name] = MappedBoard(tmp_path_factory.mktemp(name.replace(" ", "_")) / "root", **BOARDS[name])
        return started[name]

    yield board
    for each in started.values():
        each.close()


@pytest.fixture
def board(boards, monkeypatch, request):
    """The board that a test names, "plain" by default, in the place of the kernel's; it must have refused nothing."""
    made = boards(getattr(request, "param", "plain"))
    made.patched(monkeypatch)
    yield made
    made.check()


def on(name: str) -> pytest.MarkDecorator:
    """Run a test on a board of `BOARDS`."""
    return pytest.mark.parametrize("board", [name], indirect=True)


@traps
@pytest.mark.rtl
@pytest.mark.xdist_group("rtl tiny")
class TestOverRtl:
    """Programs through mapped registers and memory."""

    @pytest.mark.parametrize("interrupts", [True, False])
    @pytest.mark.parametrize("board", ["plain", "slow", "coherent"], indirect=True)
    def test_programs_compute_what_numpy_does(self, board, interrupts, request):
        with connect(board.place, TINY, interrupts=interrupts) as driver:
            assert driver.device.memory == range(START, START + SIZE)
            for seed in range(4):
                work = convolution(seed)
                result = driver.run(work.program, work.inputs)
                assert np.array_equal(work.values(result.buffers["result"]), work.result), seed
                assert result.counters["cycles"] > 100
            if "slow" in request.node.callspec.id:
                assert (driver.device.port.interrupts > 0) == interrupts

    def test_caches_are_maintained_line_by_line(self, board):
        acts = board.caches.acts
        with connect(board.place, TINY) as driver:
            assert acts == [("sync_for_device", 0, SIZE, dma.Direction.BOTH)]  # no line is dirty when programs begin
            acts.clear()
            x, y = driver.allocate(100), driver.allocate(4)
            x.write(bytes(range(100)))
            assert acts == [("sync_for_device", x.address - START, 2 * LINE, dma.Direction.TO_DEVICE)]
            y.read()
            assert acts[1:] == [("sync_for_cpu", y.address - START, LINE, dma.Direction.FROM_DEVICE)]

    @pytest.mark.parametrize("act", ["sync_for_cpu", "sync_for_device"])
    def test_a_driver_that_forgets_a_cache_is_noticed(self, board, monkeypatch, act):
        real = board.caches.set
        with connect(board.place, TINY) as driver:
            driver.upload(np.full(SIZE // 4, 0x5A, np.uint8)).free()  # what an earlier program left
            monkeypatch.setattr(dma.UDmaBuf, "_set", lambda _, name, value: None if name == act else real(name, value))
            with pytest.raises((AssertionError, ProgramStopped)):  # the program, or its result, does not arrive
                assert list(driver.run(ADD, {"x": np.arange(10, 14, dtype="<i4")}).buffers["y"]) == [13, 14, 15, 16]

    def test_a_fault_names_its_instruction(self, board):
        wild = asm_program(".config tiny\nload.inp dram_base=0 y_size=1 x_size=1 x_stride=1\nfinish\n")
        with connect(board.place, TINY) as driver:
            with raises(ProgramStopped, "device … stopped the program at instruction 0 … [DRAM_RANGE]"):
                driver.run(wild)
            assert list(driver.run(ADD, {"x": bytes(16)}).buffers["y"]) == [3] * 4

    @on("slow")
    def test_a_program_that_does_not_end_in_time(self, board):
        with connect(board.place, TINY) as driver:
            loaded = driver.load(ADD)
            launch = loaded.launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})
            begin = time.monotonic()
            with raises(DeviceTimeout, "device … has not finished the program within 1e-06 s: wait longer, or reset it"):
                launch.wait(timeout_s=1e-6)
            assert time.monotonic() - begin < 5
            launch.wait(timeout_s=120)

    @on("slow")
    def test_a_device_that_runs_a_program_of_another_process_is_reset_first(self, board):
        first = connect(board.place, TINY)
        first.load(ADD).launch({"x": first.upload(bytes(16)), "y": first.allocate(4)})
        first.device.port.close()  # its process ends without a word
        with connect(board.place, TINY) as driver:
            assert list(driver.run(ADD, {"x": bytes(16)}).buffers["y"]) == [3] * 4

    @on("slow")
    def test_an_interrupt_that_never_comes_costs_no_hang(self, board, monkeypatch):
        monkeypatch.setattr(uio.Events, "enable", lambda self: True)  # it stays masked
        with connect(board.place, TINY) as driver:
            assert list(driver.run(ADD, {"x": bytes(16)}).buffers["y"]) == [3] * 4
            assert driver.device.port.interrupts == 0

    def test_another_configuration_is_refused(self, board):
        with raises(ConfigError, "device … has another configuration than asked for: …"):
            connect(board.place, "default")

    @on("told coherent")
    def test_memory_that_is_said_to_be_coherent_needs_a_core_that_asks_for_it(self, board):
        with raises(DeviceError, "device … has AxCACHE 0b0011, with which not every port looks into the caches, … with …"):
            connect(board.place, TINY)

    @on("high")
    def test_memory_beyond_the_core_s_addresses_is_refused(self, board):
        with raises(DeviceError, "device … has addresses of 32 bits, and its memory ends at 0x100020000: …"):
            connect(board.place, TINY)

    def test_a_second_program_is_refused(self, board):
        with connect(board.place, TINY), raises(DeviceError, "device … cannot be opened: … is open in another program"):
            connect(board.place, TINY)

    def test_a_bitstream_that_is_replaced_while_a_program_runs_is_one_sentence(self, board, monkeypatch):
        with connect(board.place, TINY) as driver:
            launch = driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})
            with monkeypatch.context() as gone:
                gone.setattr(driver.device.port, "read_register", lambda address: mask_of("status", "busy"))
                with raises(DeviceError, "device … is gone: its registers are no longer those of an accelerator; …"):
                    launch.wait(timeout_s=0.1)

    def test_accesses_of_more_than_a_word_are_noticed(self, board):
        """A slice of a mapping is copied by as many accesses as the C library likes: the stand-in counts them."""
        with connect(board.place, TINY) as driver:
            page = driver.device.port._registers._page
            assert page._map[1:4] != b""
        assert TrappedPage.wrong > 0
        TrappedPage.wrong = 0


PART = {"vta_0": {"type": "vtakit:user:vta:1.0", "phys_addr": fake_pynq.PHYSICAL, "addr_range": 4096}, "ps": {"type": "ps"}}


@pytest.fixture
def bitstream(tmp_path):
    """The name of a device of PYNQ, whose bitstream and .hwh are files."""
    for name in ("vta.bit", "vta.hwh"):
        (tmp_path / name).write_bytes(b"a design")
    return f"pynq:{tmp_path}/vta.bit"


@traps
@pytest.mark.rtl
@pytest.mark.xdist_group("rtl tiny")
class TestOverPynq:
    """Programs through a module in the place of PYNQ's package."""

    @pytest.fixture
    def device(self, board, bitstream, monkeypatch):
        monkeypatch.setitem(sys.modules, "pynq", fake_pynq.module(board, PART))
        yield bitstream
        TrappedPage.wrong = trap_library().free_page()

    @pytest.mark.parametrize("board", ["plain", "coherent"], indirect=True)
    def test_programs_compute_what_numpy_does(self, board, device):
        freed = fake_pynq.Buffer.freed
        with connect(device, TINY, memory_bytes=SIZE) as driver:
            assert driver.device.memory == range(START, START + SIZE)
            for seed in range(3):
                work = convolution(seed)
                assert np.array_equal(work.values(driver.run(work.program, work.inputs).buffers["result"]), work.result), seed
        assert fake_pynq.Buffer.freed == freed + 1

    @pytest.mark.parametrize(("options", "says"), [
        ({"ip": "vta_1"}, "device … has no part 'vta_1'; it has ps, vta_0"),
        ({"memory_bytes": 1 << 30}, "device … cannot be opened: pynq has no 1,073,741,824 bytes of memory in one piece: …"),
        ({"memory_bytes": 1}, "memory_bytes must be at least 4096, not 1"),
    ])
    def test_what_is_not_there_is_one_sentence(self, bitstream, board, monkeypatch, options, says):
        monkeypatch.setitem(sys.modules, "pynq", fake_pynq.module(board, PART))
        with raises(DeviceError, says):
            connect(bitstream, TINY, **options)

    @pytest.mark.parametrize(("parts", "says"), [
        ({"dma": {"type": "x"}}, "device … has no part of type vtakit:user:vta:1.0: name one with the option ip; it has dma"),
        ({"a": PART["vta_0"], "b": PART["vta_0"]}, "device … has several accelerators: name one with the option ip; it has a, b"),
    ])
    def test_overlays_without_one_accelerator_are_refused(self, bitstream, board, monkeypatch, parts, says):
        monkeypatch.setitem(sys.modules, "pynq", fake_pynq.module(board, parts))
        with raises(DeviceError, says):
            connect(bitstream, TINY)

    def test_a_bitstream_that_pynq_does_not_take(self, bitstream, board, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "pynq", fake_pynq.module(board, PART))
        (tmp_path / "vta.bit").write_bytes(b"")
        with raises(DeviceError, "device … cannot be opened: pynq cannot load … the bitstream is empty"):
            connect(bitstream, TINY)
        (tmp_path / "vta.hwh").unlink()
        with raises(DeviceError, "device … cannot be opened: … has no vta.hwh beside it, which tells pynq its addresses"):
            connect(bitstream, TINY)


@traps
@pytest.mark.rtl
@pytest.mark.xdist_group("rtl tiny")
def test_a_model_runs_by_the_command(board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = Integers("small", seed=1)
    graph = net.finish(net.conv(net.input(1, 3, 4, 4), 4))
    vta_module(graph, "tiny").save("small.vtak")
    given = inputs_of(graph)
    np.savez("in.npz", **given)
    words = ["run", "small.vtak", "--input", "in.npz", "--output", "out.npz", "--device", board.place]
    assert main(words) == 0
    with np.load("out.npz") as got:
        for name, array in vta_module(graph, "tiny").run(given).items():
            np.testing.assert_array_equal(got[name], array)


def test_pynq_is_asked_for_where_it_is_not(bitstream, tmp_path):
    with raises(DeviceError, "device … needs the package pynq, which the PYNQ image of a board has; on other systems take …"):
        connect(bitstream, "tiny")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """The files of a board without anything behind them: its registers read as zero."""
    make_tree(tmp_path)
    monkeypatch.setattr(uio, "open_events", lambda path: os.open(path, os.O_RDWR))
    return tmp_path


def opened(tree: Path, **options: object) -> None:
    connect(f"uio:{tree}/dev/uio0", "tiny", **options)


def test_registers_behind_which_is_nothing(tree):
    with raises(DeviceError, "device … is no VTA accelerator: its identity is 0x00000000, not 0x56544131"):
        opened(tree, interrupts=False)


@pytest.mark.parametrize(("name", "says"), [
    ("dev/uio0", "there is no … this machine has UIO devices: uio0 (vta); …"),
    ("dev/udmabuf0", "there is no … load u-dma-buf, … this machine has: udmabuf0"),
    ("sys/class/u-dma-buf/udmabuf0/size", "… is not there"),
    ("sys/class/u-dma-buf/udmabuf0/sync_for_cpu", "there is no … it is an attribute of u-dma-buf"),
    ("sys/class/uio/uio0/maps/map0/size", "… is not there"),
])
def test_a_file_that_is_not_there(tree, name, says):
    (tree / name).unlink()
    with raises(DeviceError, f"device … cannot be opened: {says}"):
        opened(tree)


@pytest.mark.parametrize(("name", "text", "says"), [
    (FPGA, "unknown", "the FPGA has no bitstream, its state is 'unknown'; load the overlay of `vtakit vivado`"),
    ("sys/class/uio/uio0/maps/map0/size", "0x100", "… has 0x100 bytes of registers, and 0x1000 are needed: is it …"),
    ("sys/class/u-dma-buf/udmabuf0/phys_addr", "none", "… reads 'none', which is no number"),
    ("sys/class/u-dma-buf/udmabuf0/size", str(1 << 62), "… bytes of … cannot be mapped: …"),
])
def test_an_attribute_that_says_something_else(tree, name, text, says):
    (tree / name).write_text(text)
    with raises(DeviceError, f"device … cannot be opened: {says}"):
        opened(tree)


def test_a_buffer_that_is_too_small_for_the_programs(tree):
    with raises(DeviceError, "device … has 262,144 bytes of memory in … and 1,000,000 are needed: insmod …"):
        opened(tree, memory_bytes=1_000_000)


def test_files_that_one_may_not_open(tree, monkeypatch):
    """Root may open everything, so the kernel's answer is planted."""
    real = os.open

    def refused(path, flags, *more):
        if str(path).endswith("dev/uio0"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refused)
    with raises(DeviceError, "device … cannot be opened: you may not open … run as root, or let a udev rule …"):
        opened(tree)


def test_a_device_that_is_no_buffer(tree):
    (tree / "dev/other").write_bytes(bytes(4096))
    with raises(DeviceError, "device … cannot be opened: … is no u-dma-buf, there is no …"):
        opened(tree, memory=str(tree / "dev/other"))


def test_an_older_udmabuf_is_found(tree):
    (tree / "sys/class/u-dma-buf").rename(tree / "sys/class/udmabuf")
    with raises(DeviceError, "device … is no VTA accelerator: …"):
        opened(tree, interrupts=False)
    assert [(tree / "sys/class/udmabuf/udmabuf0" / name).read_text() for name in SYNCS] == ["0", str(SIZE), "0", "", "1"]


def test_a_module_that_was_unloaded_is_one_sentence(tree, monkeypatch):
    buffer = dma.UDmaBuf("uio:x", tree / "dev/udmabuf0", tree)
    buffer.write(START, b"abc")
    assert buffer.read(START, 3) == b"abc"

    def gone(*_):
        raise OSError(19, "No such device")

    monkeypatch.setattr(os, "pwrite", gone)
    with raises(DeviceError, "device 'uio:x' cannot keep its memory coherent: … No such device; is the module …"):
        buffer.read(START, 3)
    buffer.close()


def test_a_locked_device_is_unlocked_by_an_error(tree):
    for _ in range(2):
        with raises(DeviceError, "… is no VTA accelerator: …"):
            opened(tree, interrupts=False)
    with (tree / "dev/uio0").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with raises(DeviceError, "device … cannot be opened: … is open in another program"):
            opened(tree)


@pytest.mark.parametrize(("device", "options", "says"), [
    ("uio", {}, "device 'uio' needs the place of the board behind a colon: uio:/dev/uio0"),
    ("uio:/dev/no-such-uio", {}, "device 'uio:/dev/no-such-uio' cannot be opened: there is no /dev/no-such-uio; …"),
    ("uio:no-such-name", {}, "device 'uio:no-such-name' cannot be opened: no UIO device is called 'no-such-name'; …"),
    ("uio:/dev/null", {"interrupts": 2}, "interrupts must be True or False, not 2"),
    ("uio:/dev/null", {"memory_bytes": "a"}, "memory_bytes must be an integer, not 'a'"),
    ("uio:/dev/null", {"interupts": True}, "device 'uio:/dev/null' has no option 'interupts'; did you mean 'interrupts'? …"),
])
def test_wrong_words_are_one_sentence(device, options, says):
    with raises(DeviceError if "cannot" in says or "interrupts must" in says else VtakitError, says):
        connect(device, "tiny", **options)


def test_a_register_outside_the_page_is_refused(tree):
    with (tree / "dev/uio0").open("r+b") as file:
        page = Page("uio:x", file.fileno(), 4096)
        for address in (4096, -4, 2):
            with raises(DeviceError, "device 'uio:x' has no register at … 0x1000 bytes of registers are mapped"):
                page.read(address)
        page.write(8, 0xFFFFFFFF)
        assert page.read(8) == 0xFFFFFFFF
        page.close()
