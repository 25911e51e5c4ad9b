"""Programs on devices: what they compute, what stays in memory between launches, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from driver_support import ADD, MEMORY_BYTES, convolution, tiny
from support import raises

from vtakit import sim
from vtakit.base.errors import VtakitError
from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import ISA_VERSION
from vtakit.hw.isa.program import Buffer, BufferKind, Program
from vtakit.runtime.vta import DeviceMemoryError, connect
from vtakit.sim.faults import DeviceError

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model


@pytest.fixture(params=["fsim", "cycle", "rtl"])
def driver(request):
    with tiny(request.param) as opened:
        yield opened


def test_a_program_computes_what_numpy_does(driver):
    for seed in range(8):
        work = convolution(seed)
        result = driver.run(work.program, work.inputs)
        assert np.array_equal(work.values(result.buffers["result"]), work.result), seed
        assert driver.free_bytes == MEMORY_BYTES


@pytest.mark.parametrize("config", ["default", "b2x16", "blk8", "i4w4", "tiny_acc16", "tiny_i4w2"])
def test_programs_of_other_configurations(config):
    with connect("fsim", config) as driver:
        for seed in range(3):
            work = convolution(seed, NAMED[config])
            assert np.array_equal(work.values(driver.run(work.program, work.inputs).buffers["result"]), work.result)


def test_a_launch_changes_its_result_and_no_other_byte(driver):
    """Memory is full of noise and in pieces, so that every buffer lies somewhere else each time."""
    rng = np.random.default_rng(5)
    for seed in range(6):
        work = convolution(seed)
        holes = [driver.upload(rng.bytes(int(rng.integers(1, 900)))) for _ in range(12)]
        for hole in holes[:: 2]:
            hole.free()
        loaded = driver.load(work.program)
        bound = {name: driver.upload(data) for name, data in work.inputs.items()}
        bound["result"] = driver.allocate(work.program.buffer("result").size_bytes)
        before = driver.device.read(0, MEMORY_BYTES)
        loaded.launch(bound).wait()
        after = bytearray(driver.device.read(0, MEMORY_BYTES))
        # The instructions, which the launch relocates, lie in front of all else that was loaded.
        code = slice(loaded._code.address, loaded._code.address + loaded._code.size_bytes)
        result = slice(bound["result"].address, bound["result"].address + bound["result"].size_bytes)
        assert np.array_equal(work.values(bytes(after[result])), work.result)
        after[result], after[code] = before[result], before[code]
        assert after == before


def test_buffers_stay_on_the_device_from_launch_to_launch(driver):
    """Three launches of one program, each on the result of the one before, in two buffers that take turns."""
    wide = asm_program("""\
.config tiny
.buffer x input 4
.buffer y output 4
.uop dst=0 src=0 wgt=0
load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1
load.acc_8bit dram_base=@x y_size=1 x_size=1 x_stride=1
alu.add use_imm imm=3 uop_end=1 iter_out=1 iter_in=1 push_next
store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev
finish
""")
    one, two = driver.upload(np.arange(4, dtype=np.int8)), driver.allocate(4)
    with driver.load(wide) as loaded:
        for x, y in ((one, two), (two, one), (one, two)):
            loaded.launch({"x": x, "y": y}).wait()
    assert np.frombuffer(two.read(), np.int8).tolist() == [9, 10, 11, 12]
    assert np.frombuffer(one.read(), np.int8).tolist() == [6, 7, 8, 9]
    assert driver.free_bytes == MEMORY_BYTES - 2 * 64


@pytest.mark.parametrize("options", [
    {"stall": 60, "seed": 5}, {"bandwidth": 9, "latency": 200, "outstanding": 1}, {"stall": 95, "latency": 0, "seed": 1},
], ids=str)
def test_one_device_runs_many_programs_on_a_bad_memory(options):
    with tiny("rtl", **options) as driver:
        for seed in range(5):
            work = convolution(seed)
            assert np.array_equal(work.values(driver.run(work.program, work.inputs).buffers["result"]), work.result), seed


def test_counters_are_those_of_the_simulators():
    work = convolution(3)
    want = {name: sim.run(work.program, work.inputs, device=name).counters for name in ("fsim", "cycle", "rtl")}
    for name, counters in want.items():
        with tiny(name) as driver:
            for _ in range(2):  # they begin anew with each launch
                assert driver.run(work.program, work.inputs).counters == counters


def test_a_trace_is_of_the_last_launch():
    work, other = convolution(3), convolution(4)
    want = sim.run(work.program, work.inputs, device="rtl", trace=True).trace
    with tiny("rtl", trace=True) as driver:
        driver.run(other.program, other.inputs)
        got = driver.run(work.program, work.inputs).trace
        assert got.totals() == want.totals()
        assert got.instructions == want.instructions
    with tiny("rtl") as driver:
        assert driver.run(work.program, work.inputs).trace is None


def test_contents_of_a_program_are_loaded_once_and_may_be_replaced(driver):
    constant = replace(ADD, buffers=(
        Buffer(name="x", size_bytes=16, kind=BufferKind.CONST, data=np.arange(4, dtype="<i4").tobytes()), ADD.buffer("y"),
    ))
    y = driver.allocate(4)
    with driver.load(constant) as loaded:
        loaded.launch({"y": y}).wait()
        assert y.read() == bytes([3, 4, 5, 6])
        loaded.launch({"x": driver.upload(np.full(4, 20, "<i4")), "y": y}).wait()
        assert y.read() == bytes([23] * 4)
        loaded.launch({"y": y}).wait()
        assert y.read() == bytes([3, 4, 5, 6])
        assert loaded.buffers["x"].read() == np.arange(4, dtype="<i4").tobytes()


def test_a_result_can_be_asked_for_again(driver):
    launch = driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})
    assert launch.wait() == launch.wait()


WRONG = {
    "a missing input": (lambda d: {"y": d.allocate(4)}, "input buffer 'x' (16 bytes) is not given"),
    "a missing output": (lambda d: {"x": d.allocate(16)}, "output buffer 'y' (4 bytes) is not given"),
    "an unknown name": (lambda d: {"z": d.allocate(4)}, "the program has no buffer 'z'; known: x, y"),
    "an array": (lambda d: {"x": np.zeros(4)},
                 "buffer 'x' must be a DeviceBuffer (`upload` makes one of an array), not ndarray"),
    "a small buffer": (lambda d: {"x": d.allocate(15)}, "buffer 'x' needs 16 bytes, got <15 bytes at 0xc0 of device 'fsim'>"),
}


@pytest.mark.parametrize("case", WRONG)
def test_buffers_that_do_not_fit_are_refused(case):
    given, message = WRONG[case]
    with tiny("fsim") as driver, driver.load(ADD) as loaded, raises(ProgramError, message):
        loaded.launch(given(driver))


def _scratch_again(driver, loaded):
    return {"x": loaded.buffers["s"], "y": driver.allocate(4)}


def _output_again(driver, loaded):
    both = driver.allocate(16)
    return {"x": both, "y": both}


@pytest.mark.parametrize(("given", "names"), [(_scratch_again, ("x", "s")), (_output_again, ("x", "y"))])
def test_a_buffer_that_is_written_has_one_name(given, names):
    program = replace(ADD, buffers=(*ADD.buffers, Buffer(name="s", size_bytes=16, kind=BufferKind.SCRATCH)))
    with tiny("fsim") as driver, driver.load(program) as loaded:
        buffers = given(driver, loaded)
        with raises(ProgramError, f"{buffers['x']!r} is given as '{names[0]}' and as '{names[1]}', and the program writes to it: "
                                  "give each a buffer of its own"):
            loaded.launch(buffers)


def test_one_input_may_have_two_names():
    program = replace(ADD, buffers=(*ADD.buffers, Buffer(name="z", size_bytes=16, kind=BufferKind.INPUT)))
    with tiny("fsim") as driver, driver.load(program) as loaded:
        x, y = driver.upload(bytes(16)), driver.allocate(4)
        loaded.launch({"x": x, "y": y, "z": x}).wait()
        assert y.read() == bytes([3] * 4)


def test_a_freed_buffer_and_one_of_another_device_are_refused():
    with tiny("fsim") as driver, tiny("fsim") as other, driver.load(ADD) as loaded:
        there, freed = other.allocate(16), driver.allocate(16)
        freed.free()
        with raises(ProgramError, "buffer 'x' lies on another device: <16 bytes at 0x0 of device 'fsim'>"):
            loaded.launch({"x": there})
        with raises(DeviceMemoryError, "<16 bytes at 0xc0 of device 'fsim', freed> is used after it was freed"):
            loaded.launch({"x": freed, "y": driver.allocate(4)})


def test_a_buffer_that_is_not_aligned_for_programs_is_refused():
    with connect("fsim", "default") as driver:
        program = Program(config=driver.config, insns=ADD.insns[-1:], buffers=ADD.buffers)
        first = driver.allocate(1, align=64)
        buffers = {"x": driver.allocate(16, align=64), "y": driver.allocate(4)}
        with driver.load(program) as loaded, raises(ProgramError, "buffer 'x' lies at byte 64, which is no multiple of 256"):
            loaded.launch(buffers)
        first.free()


@pytest.mark.parametrize(("inputs", "message"), [
    ({}, "input buffer 'x' (16 bytes) is not given"),
    ({"x": bytes(17)}, "buffer 'x' holds 16 bytes, got 17"),
    ({"x": bytes(16), "q": b""}, "the program has no buffer 'q'; known: x, y"),
])
def test_run_refuses_wrong_inputs_and_keeps_no_memory(inputs, message):
    with tiny("fsim") as driver:
        with raises(ProgramError, message):
            driver.run(ADD, inputs)
        assert driver.free_bytes == MEMORY_BYTES


@pytest.mark.parametrize(("program", "message"), [
    (replace(ADD, config=NAMED["tiny_b2"], uops=()),
     ("the program is for another configuration than the device: LOG_BATCH 1 (device 0), LOG_INP_BUFF_SIZE 8 (device 7), "
      "LOG_WGT_BUFF_SIZE 7 (device 8)")),
    (replace(ADD, isa_version=(ISA_VERSION[0] + 1, 0)), "the program needs ISA version 2.0 and the device has 1.0"),
    (b"program", "load takes a Program (vtakit.hw.isa.file.load reads one), not bytes"),
])
def test_a_program_that_the_device_cannot_run_is_refused(program, message):
    with tiny("fsim") as driver, raises(ProgramError, message):
        driver.load(program)


def test_a_program_that_does_not_fit_is_not_loaded_in_part():
    large = replace(ADD, buffers=(*ADD.buffers, Buffer(name="s", size_bytes=MEMORY_BYTES, kind=BufferKind.SCRATCH)))
    with tiny("fsim") as driver:
        message = ("device 'fsim' has no 65536 free bytes in one piece at a multiple of 64: 65344 of its 65536 bytes are free, "
                   "at most 65344 in one piece; free buffers, or give it more memory")
        with raises(DeviceMemoryError, message):
            driver.load(large)
        assert driver.free_bytes == MEMORY_BYTES


def test_a_part_of_a_program_that_was_freed_is_not_used():
    constant = replace(ADD, buffers=(Buffer(name="x", size_bytes=16, kind=BufferKind.CONST, data=bytes(16)), ADD.buffer("y")))
    with tiny("fsim") as driver:
        loaded, y = driver.load(constant), driver.allocate(4)
        loaded.buffers["x"].free()
        with raises(DeviceMemoryError, "<16 bytes at 0xc0 of device 'fsim', freed> is used after it was freed"):
            loaded.launch({"y": y})
        loaded.launch({"x": driver.upload(bytes(16)), "y": y}).wait()
        loaded.free()
        y.free()
        assert driver.free_bytes == MEMORY_BYTES


def test_a_freed_program_is_not_launched():
    with tiny("fsim") as driver:
        loaded = driver.load(ADD)
        loaded.free()
        with raises(ProgramError, "the program is launched after it was freed: load it again"):
            loaded.launch()
        assert driver.free_bytes == MEMORY_BYTES


@pytest.mark.parametrize(("device", "config", "options", "message"), [
    ("fpga", "tiny", {}, "unknown device 'fpga'; known: board, cycle, fsim, original, pynq, rtl, sim, uio"),
    (3, "tiny", {}, "unknown device 3; known: board, cycle, fsim, original, pynq, rtl, sim, uio"),
    ("fsim", "tiny", {"latency": 3},
     "device 'fsim' has no option 'latency'; known: max_steps, memory_bytes, order, path, published"),
    ("rtl", "tiny", {"bandwidth": 0}, "bandwidth is 0 and must be from 1 to 100"),
])
def test_a_device_that_cannot_be_opened(device, config, options, message):
    with raises(VtakitError, message):
        connect(device, config, **options)


def test_a_closed_device_is_not_used(driver):
    buffer, name = driver.upload(bytes(16)), driver.device.name
    driver.close()
    driver.close()
    for act in (lambda: driver.allocate(4), buffer.read, driver.reset, lambda: driver.load(ADD)):
        with raises(DeviceError, f"device {name!r} is closed: connect to it anew"):
            act()
