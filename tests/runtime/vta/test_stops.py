"""Programs that are wrong, that hang or that somebody interrupts: one sentence, and a device that runs the next."""

import pickle
import signal

import pytest
from driver_support import ADD, MEMORY_BYTES, TINY, tiny
from sim_support import INP, OUT, UOP, insn, load, steps, store
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.program import Program
from vtakit.runtime.vta import DeviceMemoryError, DeviceTimeout, ProgramStopped, fsim
from vtakit.runtime.vta.loaded import LoadedProgram
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.model import Model

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

FINISH = insn("finish")
NOTHING = Program(config=TINY, insns=(FINISH,))
FAR = MEMORY_BYTES // TINY.inp_bytes


def program(*words: int) -> Program:
    return Program(config=TINY, insns=words)


def adds(driver) -> bool:
    """Whether the device still works."""
    return driver.run(ADD, {"x": bytes(16)}).buffers["y"] == bytes([3] * 4) and driver.free_bytes == MEMORY_BYTES


@pytest.fixture(params=["fsim", "rtl"])
def driver(request):
    with tiny(request.param) as opened:
        yield opened


FAULTS = {
    "an index outside a scratchpad": ((load(INP), load(INP, x_size=33), FINISH), Fault.SRAM_RANGE, 1, Stage.LOAD),
    "a step outside a scratchpad": (
        (steps(reset=1), steps(reset=1, iter_in=32, dst_in=2), FINISH), Fault.SRAM_RANGE, 1, Stage.COMPUTE),
    "an address outside memory": ((load(INP, dram_base=FAR), FINISH), Fault.DRAM_RANGE, 0, Stage.LOAD),
    "a store outside memory": ((load(INP), store(dram_base=FAR), FINISH), Fault.DRAM_RANGE, 1, Stage.STORE),
    "a memory type that no load moves": ((insn("load", memory_type=OUT), FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, Stage.COMPUTE),
    "a program that goes on behind its end": ((FINISH, FINISH), Fault.FINISH_NOT_LAST, 0, Stage.COMPUTE),
    "a program without an end": ((load(INP), load(INP)), Fault.NO_FINISH, 1, Stage.LOAD),
    "a deadlock": ((load(INP), load(INP, pop_next=1), FINISH), Fault.DEADLOCK, 1, Stage.LOAD),
    "tokens that are left": ((load(INP, push_next=1), FINISH), Fault.TOKENS_LEFT, 0, Stage.LOAD),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_wrong_program_is_stopped_with_its_instruction_and_the_next_one_runs(driver, case):
    words, fault, index, stage = FAULTS[case]
    launch = driver.load(program(*words)).launch()
    for _ in range(2):
        with pytest.raises(ProgramStopped) as stopped:
            launch.wait()
        error = stopped.value
        assert (error.fault, error.index, error.disassembly, error.stage) == (fault, index, disasm(words[index], TINY), stage)
        where = f"at instruction {index} ({error.disassembly}) of the {stage.name.lower()} stage: "
        assert str(error) == f"device {driver.device.name!r} stopped the program {where}{error.detail} [{fault.name}]"
        assert error.detail
    del launch
    assert adds(driver)


def test_a_program_without_instructions(driver):
    with raises(ProgramStopped, {
        "fsim": "device 'fsim' stopped the program: the program has no instructions; it must end with FINISH [NO_FINISH]",
        "rtl": "device 'rtl' stopped the program: in cycle 9, the program does not end with FINISH [NO_FINISH]",
    }[driver.device.name]):
        driver.run(program())
    assert adds(driver)


def test_the_whole_sentence_of_each_device():
    words = load(INP), load(INP, dram_base=FAR, x_size=2), FINISH
    text = "instruction 1 (load.inp dram_base=16384 y_size=1 x_size=2) of the load stage"
    with tiny("fsim") as driver, raises(
        ProgramStopped, f"device 'fsim' stopped the program at {text}: dram_base 16384 reaches bytes 65536 to 65544, outside the "
                        "DRAM window 0 to 65536 [DRAM_RANGE]",
    ):
        driver.run(program(*words))
    with tiny("rtl") as driver, pytest.raises(ProgramStopped) as stopped:
        driver.run(program(*words))
    cycle = stopped.value.detail.split()[2].rstrip(",")
    assert int(cycle) > 40
    assert str(stopped.value) == (
        f"device 'rtl' stopped the program at {text}: in cycle {cycle}, an address lies outside the DRAM window [DRAM_RANGE]"
    )


def test_the_error_can_be_sent_to_another_process():
    error = ProgramStopped("fsim", Fault.DEADLOCK, 3, "finish", Stage.LOAD, "it waits")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.fault, copy.index, copy.stage) == (error.fault, error.index, error.stage)


@pytest.mark.parametrize(("option", "fault", "words"), [
    ("read_error", Fault.BUS_READ, (load(INP), load(INP, dram_base=4096), FINISH)),
    ("write_error", Fault.BUS_WRITE, (load(INP), store(dram_base=4096), FINISH)),
])
def test_a_memory_that_fails_is_named_with_the_instruction(option, fault, words):
    with tiny("rtl", **{option: 4096 * TINY.inp_bytes}) as driver:
        with pytest.raises(ProgramStopped) as stopped:
            driver.run(program(*words))
        assert (stopped.value.fault, stopped.value.index) == (fault, 1)
        assert adds(driver)


@pytest.mark.parametrize("bad", [load(INP), load(UOP), store(dram_base=4096)])
def test_a_failed_fetch_is_no_read_of_the_instructions_stage(bad):
    """Whichever stage would run the instruction: it never got there."""
    # The first allocation of a device holds the program: its third instruction is at byte 32.
    with tiny("rtl", read_error=32) as driver:
        with pytest.raises(ProgramStopped) as stopped:
            driver.run(program(load(INP), load(INP), bad, FINISH))
        error = stopped.value
        assert (error.fault, error.index, error.stage) == (Fault.BUS_FETCH, 2, None)
        assert f"at instruction 2 ({disasm(bad, TINY)}): " in str(error)
        assert "fetch" in str(error)
        assert "stage" not in str(error)


SLOW = {"latency": 3000, "max_cycles": 2000}


def test_a_device_that_does_not_answer_in_time_is_waited_for_again_or_reset():
    with tiny("rtl", **SLOW) as driver:
        buffers = {"x": driver.upload(bytes(16)), "y": driver.upload(b"\xaa" * 4)}
        launch = driver.load(ADD).launch(buffers)
        late = "device 'rtl' has not finished the program within 2000 cycles: wait longer, or reset it"
        with raises(DeviceTimeout, late):
            launch.wait()
        waits = 1
        while True:
            try:
                launch.wait()
                break
            except DeviceTimeout:
                waits += 1
                assert waits < 20
        assert buffers["y"].read() == bytes([3] * 4)


def test_a_timeout_in_seconds():
    with tiny("rtl", latency=100_000) as driver:
        launch = driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})
        with raises(DeviceTimeout, "device 'rtl' has not finished the program within 1e-09 s: wait longer, or reset it"):
            launch.wait(timeout_s=1e-9)
        launch.wait()


def test_while_a_program_runs_its_memory_is_left_alone():
    with tiny("rtl", latency=3000) as driver:
        loaded, x, y = driver.load(ADD), driver.upload(bytes(16)), driver.allocate(4)
        launch = loaded.launch({"x": x, "y": y})
        for act, before in (
            (x.read, "its memory is read"), (lambda: y.write(b"1"), "its memory is written"),
            (lambda: loaded.launch({"x": x, "y": y}), "another is launched"), (loaded.free, "it is freed"),
            (lambda: driver.load(ADD), "its memory is written"),
        ):
            with raises(DeviceError, f"device 'rtl' runs a program: wait for it, or reset the device, before {before}"):
                act()
        with raises(DeviceMemoryError, f"{y!r} cannot be freed: the program that runs uses it"):
            y.free()
        launch.wait()
        assert y.read() == bytes([3] * 4)
        y.free()


def test_buffers_of_a_program_that_runs_live_on():
    with tiny("rtl", latency=3000) as driver:
        y = driver.allocate(4)
        launch = driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": y})
        assert driver.free_bytes == MEMORY_BYTES - 128 - 3 * 64  # code, micro-op, x and y
        launch.wait()
        assert driver.free_bytes == MEMORY_BYTES - 64
        assert y.read() == bytes([3] * 4)


def test_a_reset_stops_the_program_and_leaves_memory():
    with tiny("rtl", **SLOW | {"max_cycles": 100_000}) as driver:
        x, y = driver.upload(bytes(16)), driver.upload(b"\xaa" * 4)
        loaded = driver.load(ADD)
        launch = loaded.launch({"x": x, "y": y})
        driver.reset()
        with raises(DeviceError, "the program on device 'rtl' was stopped by a reset; launch it again"):
            launch.wait()
        assert (x.read(), y.read()) == (bytes(16), b"\xaa" * 4)
        loaded.launch({"x": x, "y": y}).wait()
        assert y.read() == bytes([3] * 4)


def test_a_device_that_does_not_answer_a_reset_is_lost():
    with tiny("rtl", latency=100_000, max_cycles=2000) as driver:
        launch = driver.load(ADD).launch({"x": driver.upload(bytes(16)), "y": driver.allocate(4)})
        with pytest.raises(DeviceTimeout):
            launch.wait()
        with raises(DeviceError, "device 'rtl' does not answer a reset within 2000 cycles: connect to it anew, with a larger "
                    "max_cycles"):
            driver.reset()
        with raises(DeviceError, "device 'rtl' did not answer a reset: connect to it anew"):
            driver.allocate(4)
        with raises(DeviceError, "the program on device 'rtl' was stopped by a reset; launch it again"):
            launch.wait()


def test_run_stops_a_program_that_has_not_ended_in_time():
    with tiny("rtl", latency=3000, max_cycles=5000) as driver:
        with raises(DeviceTimeout, "device 'rtl' has not finished the program within 5000 cycles: wait longer, or reset it"):
            driver.run(ADD, {"x": bytes(16)})
        assert driver.free_bytes == MEMORY_BYTES
        driver.run(NOTHING)


@pytest.fixture
def hears_ctrl_c():
    """Ctrl-C is heard even where the tests ignore it, as under `nohup` or in CI."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("cycles", [1, 2, 3, 4, 5, 20, 40])
def test_ctrl_c_stops_the_program_and_the_device_can_be_used_on(monkeypatch, cycles):
    """It comes in the midst of the host's first access, or between two."""
    with tiny("rtl", latency=100_000) as driver:
        buffers = {"x": driver.upload(bytes(16)), "y": driver.upload(b"\xaa" * 4)}
        launch = driver.load(ADD).launch(buffers)
        advance, calls = Model.advance, []

        def interrupted(model, *given):
            calls.append(given)
            if len(calls) == 1:
                advance(model, cycles)
                signal.raise_signal(signal.SIGINT)
            return advance(model, *given)

        monkeypatch.setattr(Model, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            launch.wait()
        with raises(DeviceError, "the program on device 'rtl' was stopped by a reset; launch it again"):
            launch.wait()
        assert buffers["y"].read() == b"\xaa" * 4
        for buffer in buffers.values():
            buffer.free()
        del launch
        assert adds(driver)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_in_the_functional_simulator(monkeypatch):
    def interrupted(*args: object, **options: object) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)

    with tiny("fsim") as driver:
        monkeypatch.setattr(fsim, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            driver.run(ADD, {"x": bytes(16)})
        assert adds(driver)


def test_the_end_of_a_block_stops_a_program_that_still_uses_its_memory():
    with tiny("rtl", latency=3000) as driver:
        for inner in (driver.load(ADD), driver.allocate(4)):
            with inner:
                loaded, y = (inner, driver.allocate(4)) if inner.__class__ is LoadedProgram else (driver.load(ADD), inner)
                launch = loaded.launch({"x": driver.upload(bytes(16)), "y": y})
            with raises(DeviceError, "the program on device 'rtl' was stopped by a reset; launch it again"):
                launch.wait()


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), "1 s", None])
def test_a_wait_without_a_bound_is_refused(timeout_s):
    with tiny("fsim") as driver, raises(VtakitError, f"timeout_s must be a number of seconds above 0, not {timeout_s!r}"):
        driver.run(NOTHING, timeout_s=timeout_s)


def test_more_steps_than_the_functional_simulator_is_to_run_are_refused():
    with tiny("fsim", max_steps=31) as bounded:
        bounded.run(program(steps(reset=1, iter_in=31), FINISH))
        with raises(DeviceError, "the program has 32 steps, and device 'fsim' runs at most 31: raise max_steps"):
            bounded.run(program(steps(reset=1, iter_in=32), FINISH))
        assert bounded.run(NOTHING).counters["insn_counter"] == 1


def test_a_bus_that_breaks_its_protocol_ends_the_launch(monkeypatch):
    with tiny("rtl") as driver:
        launch = driver.load(NOTHING).launch()
        advance = Model.advance

        def broken(model, *cycles):
            monkeypatch.setattr(Model, "advance", advance)
            raise DeviceError("the RTL broke the AXI protocol in cycle 9: WLAST is wrong")

        monkeypatch.setattr(Model, "advance", broken)
        with raises(DeviceError, "the RTL broke the AXI protocol in cycle 9: WLAST is wrong"):
            launch.wait()
        assert adds(driver)
