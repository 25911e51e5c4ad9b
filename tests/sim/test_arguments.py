"""Wrong arguments of `run_image` and `run`, each with its whole message; what `run` does with right ones."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sim_support import ACC_8BIT, FINISH, INP, OUT, TINY, UOP, load, steps, store
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.errors import ConfigError, ProgramError
from vtakit.hw.isa.file import save
from vtakit.hw.isa.insns import AluOp
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Program, Relocation
from vtakit.runtime import cli
from vtakit.sim import run, run_image
from vtakit.sim.api import DEVICES
from vtakit.sim.faults import ProgramFault

CODE = to_bytes([FINISH])
KNOWN_MEMORIES = "acc, acc_8bit, inp, out, uop, wgt"


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"device": "verilator"}, VtakitError, f"unknown device 'verilator'; known: {', '.join(sorted(DEVICES))}"),
    ({"device": "fsin"}, VtakitError, f"unknown device 'fsin'; did you mean 'fsim'? Known: {', '.join(sorted(DEVICES))}"),
    ({"order": "egaer"}, VtakitError,
     "unknown order 'egaer'; did you mean 'eager'? Known: eager, lazy, program, or an integer seed"),
    ({"order": "1"}, VtakitError, "unknown order '1'; known: eager, lazy, program, or an integer seed"),
    ({"order": True}, VtakitError, "unknown order True; known: eager, lazy, program, or an integer seed"),
    ({"order": None}, VtakitError, "unknown order None; known: eager, lazy, program, or an integer seed"),
    ({"order": 1.5}, VtakitError, "unknown order 1.5; known: eager, lazy, program, or an integer seed"),
    ({"path": "complied"}, VtakitError, "unknown path 'complied'; did you mean 'compiled'? Known: auto, compiled, plain"),
    ({"path": None}, VtakitError, "unknown path None; known: auto, compiled, plain"),
    ({"bases": {"ipn": 0}}, VtakitError,
     f"unknown memory 'ipn' among the base registers; did you mean 'inp'? Known: {KNOWN_MEMORIES}"),
    ({"bases": {"INP": 0}}, VtakitError, f"unknown memory 'INP' among the base registers; known: {KNOWN_MEMORIES}"),
    ({"bases": {"inp": -64}}, VtakitError, "base register 'inp' is -64 … multiple of 64 … 2**40"),
    ({"bases": {"inp": 32}}, VtakitError, "base register 'inp' is 32 … multiple of 64 … 2**40"),
    ({"bases": {"out": 1 << 40}}, VtakitError, f"base register 'out' is {1 << 40} … multiple of 64 … 2**40"),
    ({"window": (-1, 4)}, VtakitError, "the DRAM window -1 to 4 does not lie in the image of 16 bytes"),
    ({"window": (0, 17)}, VtakitError, "the DRAM window 0 to 17 does not lie in the image of 16 bytes"),
    ({"window": (8, 4)}, VtakitError, "the DRAM window 8 to 4 does not lie in the image of 16 bytes"),
    ({"insn_addr": 16}, ProgramFault, "1 instruction … byte 16 end … byte 32 … DRAM image … 16 bytes [DRAM_RANGE]"),
    ({"insn_addr": -16}, ProgramFault, "1 instruction … byte -16 end … byte 0 … DRAM image … 16 bytes [DRAM_RANGE]"),
    ({"insn_addr": 8}, ProgramFault, "insn_addr 8 is not a multiple of 16 [DRAM_RANGE]"),
    ({"insn_count": 2}, ProgramFault, "2 instructions … byte 0 end … byte 32 … DRAM image … 16 bytes [DRAM_RANGE]"),
    ({"insn_count": -1}, ProgramFault, "-1 instructions … byte 0 end … byte -16 … DRAM image … 16 bytes [DRAM_RANGE]"),
    ({"insn_count": 1 << 70}, ProgramFault,
     f"{1 << 70} instructions … byte 0 end … byte {1 << 74} … DRAM image … 16 bytes [DRAM_RANGE]"),
    ({"dram": b""}, ProgramFault, "1 instruction … byte 0 end … byte 16 … DRAM image … 0 bytes [DRAM_RANGE]"),
    ({"dram": b"", "insn_count": 0}, ProgramFault, "the program has no instructions; it must end with FINISH [NO_FINISH]"),
    ({"config": {"LOG_BLOCK": 8}}, ConfigError, "illegal configuration: LOG_BLOCK must be from 0 to 7, got 8"),
    ({"dram": None}, VtakitError, "dram must be bytes or an array, not NoneType"),
    ({"dram": 3}, VtakitError, "dram must be bytes or an array, not int"),
    ({"insn_addr": "0"}, VtakitError, "insn_addr must be an integer, not '0'"),
    ({"insn_count": 1.0}, VtakitError, "insn_count must be an integer, not 1.0"),
    ({"device": []}, VtakitError, f"unknown device []; known: {', '.join(sorted(DEVICES))}"),
    ({"ordre": "lazy"}, VtakitError,
     "device 'fsim' … no option 'ordre' … did you mean 'order'? Known: bases, order, path, published, window"),
    ({"bases": 3}, VtakitError, "bases must map memory types to byte addresses, not 3"),
    ({"bases": {"inp": None}}, VtakitError, "base register 'inp' must be an integer, not None"),
    ({"window": 3}, VtakitError, "window must be (first byte, byte after the last), not 3"),
    ({"window": (0,)}, VtakitError, "window must be (first byte, byte after the last), not (0,)"),
    ({"window": ("a", 4)}, VtakitError, "window must be an integer, not 'a'"),
    ({"config": 8}, ConfigError, "a configuration is a VTAConfig, a name, a mapping or a path, not int"),
])
def test_a_wrong_argument_of_run_image_is_refused(changes, error, message):
    with raises(error, message):
        run_image(**{"dram": CODE, "insn_addr": 0, "insn_count": 1} | changes)


def test_numpy_integers_and_arrays_are_taken(path):
    image = np.frombuffer(CODE, np.uint32)
    assert run_image(image, np.int64(0), np.uint8(1), order=np.int64(3), path=path).dram == CODE


def test_without_numba_the_definition_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "vtakit.sim.compiled", None)
    assert run_image(CODE, 0, 1).dram == CODE
    with raises(VtakitError, "the compiled path needs numba (pip install 'vtakit[sim]', or use path 'plain'): "
                             "import of vtakit.sim.compiled halted; None in sys.modules"):
        run_image(CODE, 0, 1, path="compiled")


def test_run_wants_a_program():
    with raises(ProgramError, "run takes a Program (vtakit.hw.isa.file.load reads one), not str"):
        run("program.vta")


def test_the_window_may_be_all_or_nothing(path):
    for window in ((0, 16), (16, 16), (0, 0)):
        assert run_image(CODE, 0, 1, window=window, path=path).dram == CODE


def test_an_image_of_any_bytes_is_taken_and_kept(path):
    image = bytes(range(16)) + to_bytes([encode(TINY, "store", memory_type=OUT, y_size=1, x_size=1), FINISH])
    want = bytes(4) + image[4:]
    for given in (image, bytearray(image), memoryview(image)):
        assert run_image(given, 16, 2, "tiny", path=path).dram == want
        assert bytes(given) == image


def adder() -> Program:
    """result = image + 1, on one input element."""
    cfg = TINY
    return Program(
        config=cfg, uops=(0,),
        buffers=(
            Buffer(name="image", size_bytes=4), Buffer(name="bias", size_bytes=4, data=b"\x0a\x14\x1e\x28"),
            Buffer(name="result", size_bytes=4, kind=BufferKind.OUTPUT),
        ),
        insns=(
            load(ACC_8BIT), load(ACC_8BIT, sram_base=1), load(UOP),
            steps("alu", alu_opcode=AluOp.ADD, dst_in=1, iter_in=2, use_imm=1, imm=1, push_next=1), store(pop_prev=1), FINISH,
        ),
        relocations=(Relocation(0, "image"), Relocation(1, "bias"), Relocation(2, UOPS), Relocation(4, "result")),
    )


def test_run_fills_buffers_and_returns_them(path):
    want = {"image": b"\x01\x02\x03\x04", "bias": b"\x0a\x14\x1e\x28", "result": b"\x02\x03\x04\x05"}
    for given in (b"\x01\x02\x03\x04", bytearray(b"\x01\x02\x03\x04"), memoryview(b"\x01\x02\x03\x04"),
                  np.array([1, 2, 3, 4], np.int8), np.array([[1, 3], [2, 4]], np.int8).T):
        result = run(adder(), {"image": given}, path=path)
        assert result.buffers == want
        assert result.acc[:2].tolist() == [[[2, 3, 4, 5]], [[11, 21, 31, 41]]]


def test_run_takes_less_than_a_buffer_and_replaces_data(path):
    result = run(adder(), {"image": b"\x01\x02", "bias": b"\x05"}, path=path)
    assert result.buffers == {"image": b"\x01\x02\x00\x00", "bias": b"\x05\x00\x00\x00", "result": b"\x02\x03\x01\x01"}


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"buffers": None}, ProgramError, "input buffer 'image' (4 bytes) is not given"),
    ({"buffers": {"bias": b""}}, ProgramError, "input buffer 'image' (4 bytes) is not given"),
    ({"buffers": {"image": b"", "img": b""}}, ProgramError,
     "the program has no buffer 'img'; did you mean 'image'? Known: bias, image, result"),
    ({"buffers": {"image": b"", "uops": b""}}, ProgramError, "the program has no buffer 'uops'; known: bias, image, result"),
    ({"buffers": {"image": bytes(5)}}, ProgramError, "buffer 'image' holds 4 bytes, got 5"),
    ({"buffers": {"image": np.zeros(4, np.int32)}}, ProgramError, "buffer 'image' holds 4 bytes, got 16"),
    ({"buffers": {"image": 4}}, VtakitError, "the contents of buffer 'image' must be bytes or an array, not int"),
    ({"buffers": {"image": "abcd"}}, VtakitError, "the contents of buffer 'image' must be bytes or an array, not str"),
    ({"buffers": {"image": [1, 2, 3, 400]}}, VtakitError, "the contents of buffer 'image' must be bytes or an array, not list"),
    ({"config": "tiny_b2"}, ProgramError,
     ("… program … another configuration … LOG_BATCH 0 (device 1), LOG_INP_BUFF_SIZE 7 (device 8), "
      "LOG_WGT_BUFF_SIZE 8 (device 7)")),
    ({"config": DEFAULT.to_dict() | {"LOG_BATCH": 99}}, ConfigError,
     "illegal configuration: LOG_BATCH must be from 0 to 8, got 99"),
    ({"device": "verilator"}, VtakitError, f"unknown device 'verilator'; known: {', '.join(sorted(DEVICES))}"),
    ({"path": "slow"}, VtakitError, "unknown path 'slow'; known: auto, compiled, plain"),
])
def test_a_wrong_argument_of_run_is_refused(arguments, error, message):
    with raises(error, message):
        run(adder(), **{"buffers": {"image": b"abcd"}} | arguments)


def test_a_simulation_that_needs_more_memory_than_there_is_is_refused(monkeypatch):
    asked = []

    def check_memory(size: int) -> None:
        asked.append(size)
        raise MemoryError
    monkeypatch.setattr("vtakit.sim.api.check_memory", check_memory)
    size = len(adder().link().dram)
    with raises(ProgramError, f"… 3 times … {size} bytes of DRAM … more than …"):
        run(adder(), {"image": b"abcd"})
    assert asked == [3 * size]


@pytest.mark.parametrize("size", [1 << 29, 1 << 62])
def test_a_program_file_does_not_make_a_command_take_much_memory(tmp_path, capsys, size):
    program = adder()
    buffers = [replace(buffer, size_bytes=size) if buffer.name == "result" else buffer for buffer in program.buffers]
    save(replace(program, buffers=tuple(buffers)), tmp_path / "large.vta")
    assert cli.main(["disasm", str(tmp_path / "large.vta")]) == 0
    for command in ("check", "sim"):
        assert cli.main([command, str(tmp_path / "large.vta")]) == 2
        assert "the limit is 268,435,456" in capsys.readouterr().err


def test_run_takes_the_configuration_that_the_program_is_for(path):
    for config in ("tiny", TINY, TINY.to_dict(), None):
        assert run(adder(), {"image": b"abcd"}, config, path=path).buffers["result"] == b"bcde"


@pytest.mark.parametrize("config", ["tiny", None])
def test_run_refuses_a_program_for_another_version_of_the_instruction_set(config):
    with raises(ProgramError, "the program needs ISA version 2.0 and the device has 1.0"):
        run(replace(adder(), isa_version=(2, 0)), {"image": b"abcd"}, config)


def test_a_fault_of_a_linked_program_counts_its_own_instructions(path):
    program = replace(adder(), insns=(*adder().insns[:5], load(INP, sram_base=32), FINISH))
    with raises(ProgramFault, "instruction 5 (load.inp sram_base=32 y_size=1 x_size=1): sram_base 32 + 1 elements = 33 exceeds "
                              "the 32 of the inp scratchpad [SRAM_RANGE]"):
        run(program, {"image": b"abcd"}, path=path)
