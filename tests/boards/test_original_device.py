"""Device "original:PLACE" on models of the original's registers (original_model.py), behind files that stand in for the kernel's.

No bitstream of the original has run it. The registers are those of its published sources and drivers.
"""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import vta_fuzz
from mapped_support import Caches, make_tree
from original_model import Core, HlsModel, VcrModel
from support import raises
from vta_support import BITS

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.errors import ConfigError, ProgramError
from vtakit.hw.isa.published import VTAKIT, Isa
from vtakit.hw.values import pack, unpack
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.runtime.vta.mapped import dma, uio
from vtakit.runtime.vta.mapped.original import Hls
from vtakit.sim.checker import check_program
from vtakit.sim.faults import DeviceError

START, SIZE = 0x40000, 1 << 20
WHOLE = Isa(published=True, abilities=VTAKIT.abilities)
LOOSE = """\
.config default
.buffer x input 64
.buffer y output 16
.uop dst=0 src=0 wgt=0
load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1
load.acc dram_base=@x y_size=1 x_size=1 x_stride=1
alu.add use_imm imm=3 uop_end=1 iter_out=1 iter_in=1 push_next
store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev{}
{}finish
"""
ADD = asm_program(LOOSE.format(" push_prev", "load.uop pop_next\n"))  # the last STORE comes before FINISH


class Board:
    """A tree of files, a model of registers behind it, and caches in front of its memory."""

    def __init__(self, root, monkeypatch, kind="hls", config=DEFAULT, seed=0, *, hangs=False):
        pages = 4 if kind == "hls" else 1
        make_tree(root, start=START, size=SIZE, registers=0x1000 * pages)
        self.caches = Caches(root / "dev/udmabuf0", root / "dram")
        (root / "dram").write_bytes(bytes(SIZE))
        self.core = Core(config, root / "dram", START)
        self.model = (HlsModel(self.core, seed, hangs=hangs) if kind == "hls" else
                      VcrModel(self.core, 2 if kind == "vcr64" else 1, seed))
        self.place = f"original:{root}/dev/uio0"

        def page(name, file, size):
            assert size == 0x1000 * pages
            return self.model

        monkeypatch.setattr(uio, "Page", page)
        monkeypatch.setattr(dma.UDmaBuf, "_set", lambda _, name, value: self.caches.set(name, value))


def test_the_program_of_these_tests_keeps_the_rules():
    assert check_program(ADD, Isa.parse("original")) == []


@pytest.mark.parametrize("kind", ["hls", "vcr", "vcr64"])
def test_programs_run_one_after_the_other(tmp_path, monkeypatch, kind):
    """`done` of the program before is still set when the next one starts, for as long as its first instruction takes."""
    for seed in range(12):
        board = Board(tmp_path / f"{kind}{seed}", monkeypatch, kind, seed=seed)
        with connect(board.place, "default", registers=kind) as driver:
            for n in range(4):
                result = driver.run(ADD, {"x": np.full(16, n, "<i4")})
                assert list(result.buffers["y"]) == [n + 3] * 16
                assert ("cycles" in result.counters) == (kind != "hls")
                assert board.core.runs == n + 1
            assert driver.device.memory == range(START, START + SIZE)
        if kind == "hls":
            assert board.model.closed
            assert not any(value & 0x80 for value in board.model.control.values())


def test_a_driver_that_takes_an_old_done_is_noticed(tmp_path, monkeypatch):
    def ended(self):
        self._fetched = self._fetched or bool(self._registers.read(self.FETCH) & self.AP_DONE)
        return self._fetched and self._registers.read(self.DONE) == 1

    monkeypatch.setattr(Hls, "ended", ended)
    wrong = 0
    for seed in range(6):
        board = Board(tmp_path / str(seed), monkeypatch, seed=seed)
        with connect(board.place, "default") as driver:
            for n in range(3):
                try:
                    wrong += list(driver.run(ADD, {"x": np.full(16, n, "<i4")}).buffers["y"]) != [n + 3] * 16
                except AssertionError:  # the model: fetch is started while it runs
                    wrong += 1
                    break
    assert wrong


@pytest.mark.parametrize("operator", ["conv", "dense", "sum_pool"])
def test_random_operators_compiled_for_it(tmp_path, monkeypatch, operator):
    """The programs of `vta_fuzz`, in the published instruction set, against NumPy."""
    ran = []

    def execute_all(program, given, outputs, **_):
        board = Board(tmp_path / str(len(ran)), monkeypatch, config=program.config, seed=len(ran))
        ran.append(program)
        with connect(board.place, program.config, isa=str(WHOLE)) as driver:
            packed = {tensor.name: pack(data, BITS[str(tensor.dtype)]).tobytes() for tensor, data in given.items()}
            left = driver.run(program, packed).buffers
        return {output: unpack(np.frombuffer(left[output.name], np.uint8), BITS[str(output.dtype)]).reshape(
            [each.value for each in output.shape]) for output in outputs}

    monkeypatch.setattr(vta_fuzz, "execute_all", execute_all)
    for seed in range(3):
        vta_fuzz.check(operator, seed, device="original", isa=WHOLE)
    assert ran


@pytest.mark.parametrize(("text", "says"), [
    (LOOSE.format("", ""), "device … would not run the program right: … nothing orders it after STORE 3, …"),
    (LOOSE.format(" push_prev", "load.uop pop_next\n").replace("alu.add use_imm imm=3", "alu.shr use_imm imm=20"),
     "device … would not run the program right: … it shifts by 20 bits, and not every implementation …"),
])
def test_a_program_that_breaks_a_rule_is_refused(tmp_path, monkeypatch, text, says):
    board = Board(tmp_path / "root", monkeypatch)
    program = asm_program(text)
    with connect(board.place, "default", isa="original+mul") as driver, raises(ProgramError, says):
        driver.load(program)
    with connect(board.place, "default", checks=False) as driver:
        driver.load(program)
    assert board.core.runs == 0


def test_features_are_those_of_the_abilities_that_are_said(tmp_path, monkeypatch):
    board = Board(tmp_path / "root", monkeypatch)
    program = asm_program(LOOSE.format(" push_prev", "load.uop pop_next\n").replace("alu.add", "alu.mul"))
    with connect(board.place, "default") as driver, raises(ProgramError, "the program needs ALU_MUL, which the device lacks"):
        driver.load(program)


def test_a_program_that_never_ends(tmp_path, monkeypatch):
    board = Board(tmp_path / "root", monkeypatch, hangs=True)
    monkeypatch.setattr("vtakit.runtime.vta.mapped.original._RESET_SECONDS", 0.05)
    with connect(board.place, "default") as driver:
        launch = driver.load(ADD).launch({"x": driver.upload(bytes(64)), "y": driver.allocate(16)})
        begin = time.monotonic()
        with raises(DeviceTimeout, "device … has not finished the program within 0.05 s: wait longer; it has no reset: …"):
            launch.wait(timeout_s=0.05)
        assert time.monotonic() - begin < 5
        with raises(DeviceError, "device … does not end its program, and the original has no reset: load its bitstream again"):
            driver.reset()
        with raises(DeviceError, "device … did not answer a reset: connect to it anew"):
            driver.allocate(4).write(b"abcd")


@pytest.mark.parametrize(("config", "options", "error", "says"), [
    ("default", {"isa": "vtakit"}, DeviceError, "device … has the published instruction set: isa is 'original', … not 'vtakit'"),
    ("default", {"registers": "hsl"}, VtakitError, "unknown registers 'hsl'; did you mean 'hls'? Known: hls, vcr, vcr64"),
    ("default", {"checks": 1}, DeviceError, "checks must be True or False, not 1"),
    ("default", {"memory_bytes": SIZE + 1}, DeviceError, "device … has 1,048,576 bytes of memory in … and 1,048,577 are …"),
    ("tiny", {}, ConfigError, "the published C bit-fields put dst_out into the first word of a GEMM, …"),
])
def test_what_cannot_be_is_one_sentence(tmp_path, monkeypatch, config, options, error, says):
    board = Board(tmp_path / "root", monkeypatch)
    with raises(error, says):
        connect(board.place, config, **options)


def test_memory_beyond_its_addresses_is_refused(tmp_path, monkeypatch):
    board = Board(tmp_path / "root", monkeypatch)
    (tmp_path / "root/sys/class/u-dma-buf/udmabuf0/phys_addr").write_text(f"0x{(1 << 32) - 4096:x}")
    with raises(DeviceError, "device … has addresses of 32 bits, and its memory ends at 0x1000ff000: give it lower memory"):
        connect(board.place, "default")


def test_a_bitstream_of_its_own_through_pynq(tmp_path, monkeypatch):
    """As on the original's PYNQ: a bitstream without a .hwh, blocks at its addresses, memory of PYNQ."""
    board = Board(tmp_path / "root", monkeypatch)
    loaded = []

    class Words:
        def __getitem__(self, at):
            return np.uint32(board.model.read(4 * at))

        def __setitem__(self, at, value):
            board.model.write(4 * at, int(value))

    class Buffer(np.ndarray):
        coherent, device_address = False, START

        def flush(self):
            self._sync(to_device=True)

        def invalidate(self):
            self._sync(to_device=False)

        def freebuffer(self):
            loaded.append("freed")

        def _sync(self, to_device):
            at = int(self.__array_interface__["data"][0]) - first
            with board.core.memory.open("r+b") as file:
                file.seek(at)
                if to_device:
                    file.write(self.tobytes())
                else:
                    self[:] = np.frombuffer(file.read(self.nbytes), np.uint8)

    first = 0

    def allocate(shape, dtype):
        nonlocal first
        made = np.zeros(shape, dtype).view(Buffer)
        first = int(made.__array_interface__["data"][0])
        return made

    def mmio(address, length):
        assert (address, length) == (0xA0000000, 0x4000)
        return SimpleNamespace(array=Words())

    bitstream = SimpleNamespace(download=lambda: loaded.append("bitstream"))
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(Bitstream=lambda path: bitstream, MMIO=mmio, allocate=allocate))
    with connect("original:vta.bit", "default", address=0xA0000000, memory_bytes=SIZE) as driver:
        assert list(driver.run(ADD, {"x": np.arange(16, dtype="<i4")}).buffers["y"]) == [*range(3, 19)]
    assert loaded == ["bitstream", "freed"]
