"""What stops a program in hardware only when it runs: indices, addresses, errors of the memory; and what stops it beside that."""

from functools import partial

import pytest
from sim_support import ACC, CODE_AT, FINISH, INP, OUT, TINY, UOP, WGT, execute, insn, load, steps, store
from test_faults import INDEX, INDEX_UOPS, INSIDE, LOAD_UOPS

from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, MEMORIES, MemType, Stage
from vtakit.hw.isa.regs import mask_of
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.differences import first_difference
from vtakit.sim.faults import ProgramFault
from vtakit.sim.rtl.host import (
    Kind,
    Op,
    Surroundings,
    command,
    program_settings,
    read_register,
    session,
    until_idle,
    write_register,
)

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

PARAMS = CoreParams(cfg=TINY)
INP_BYTES, ACC_BYTES, OUT_BYTES = (MEMORIES[kind].bytes_in(TINY) for kind in (INP, ACC, OUT))


def run(words, dram=b"", **options):
    image = dram.ljust(CODE_AT, b"\0") + to_bytes(list(words))
    return run_image(image, CODE_AT, len(words), TINY, "rtl", max_cycles=100_000, **options)


def stopped_by(words, dram=b"", **options):
    with pytest.raises(ProgramFault) as stopped:
        run(words, dram, **options)
    return stopped.value.fault, stopped.value.index


@pytest.mark.parametrize("case", INDEX)
def test_an_index_beyond_a_scratchpad_stops_the_hardware(case):
    fields, *_ = INDEX[case]
    assert stopped_by((LOAD_UOPS, steps(), steps(**fields), FINISH), INDEX_UOPS) == (Fault.SRAM_RANGE, 2)


@pytest.mark.parametrize("fields", INSIDE, ids=str)
def test_an_index_that_is_inside_or_not_used_runs_in_hardware(fields):
    words = (LOAD_UOPS, steps(**fields), FINISH)
    assert first_difference(run(words, INDEX_UOPS), execute(words, "plain", dram=INDEX_UOPS)) is None


@pytest.mark.parametrize("first", [32, 64, 1 << 15])  # of 32 accumulators
def test_elements_and_parameters_that_begin_outside_the_accumulators_are_not_stored(first):
    requant = partial(insn, "requant", memory_type=OUT, y_size=1, x_size=1)
    for word in (store(sram_base=first), requant(sram_base=first), requant(params=first)):
        assert stopped_by((store(), word, FINISH)) == (Fault.SRAM_RANGE, 1), word


@pytest.mark.parametrize("kind", [INP, WGT, UOP, ACC, OUT])
@pytest.mark.parametrize("side", ["below", "above"])
def test_an_address_outside_the_window_names_its_instruction_among_others(kind, side):
    """Above, it is the third of three rows that leaves it."""
    def move(dram_base: int) -> int:
        rows = {"dram_base": dram_base, "x_size": 2, "y_size": 3, "x_stride": 8}
        return store(**rows) if kind is OUT else load(kind, **rows)

    low, high = 64 // MEMORIES[kind].bytes_in(TINY), CODE_AT // MEMORIES[kind].bytes_in(TINY)
    lowest, highest = move(low), move(high - 18)
    bad = move(low - 1) if side == "below" else move(high - 17)
    window = (64, CODE_AT)
    assert run((lowest, highest, highest, lowest, FINISH), window=window).counters["insn_counter"] == 5
    assert stopped_by((lowest, highest, bad, highest, lowest, lowest, FINISH), window=window) == (Fault.DRAM_RANGE, 2)


EDGE = 1 << PARAMS.address_bits
AT_THE_EDGE = {  # settings, instructions in memory from byte 0, the fault and the instruction that is named
    "an empty program": ({"insn_count": 0}, (FINISH,), Fault.NO_FINISH, 0),
    "all of the program": ({"insn_addr": EDGE - 16, "insn_count": 1 << 23}, (FINISH,), Fault.DRAM_RANGE, 1),
    "its end": ({"insn_addr": EDGE - 5 * 16, "insn_count": 6}, (FINISH,), Fault.DRAM_RANGE, 5),
    "a LOAD from the edge on": (
        {"base_inp": EDGE - 64}, (load(UOP), load(INP, dram_base=64 // INP_BYTES), FINISH), Fault.DRAM_RANGE, 1),
    "a LOAD that ends behind the edge": (
        {"base_inp": EDGE - 64}, (load(INP, dram_base=64 // INP_BYTES - 1, x_size=2), FINISH), Fault.DRAM_RANGE, 0),
    "the last row of a LOAD": (
        {"base_acc": EDGE - 1024}, (load(ACC, y_size=3, x_stride=512 // ACC_BYTES), FINISH), Fault.DRAM_RANGE, 0),
    "a LOAD as far beyond as can be": (
        {"base_acc": EDGE - 64}, (load(ACC, dram_base=2**32 - 1, y_size=65535, x_stride=65535), FINISH), Fault.DRAM_RANGE, 0),
    "a STORE from the edge on": (
        {"base_out": EDGE - 64}, (store(), store(dram_base=64 // OUT_BYTES), FINISH), Fault.DRAM_RANGE, 1),
}


@pytest.mark.parametrize("case", AT_THE_EDGE)
@pytest.mark.parametrize("window_high", [EDGE, 2 * EDGE - 1])
def test_what_leaves_the_address_space_is_a_fault_and_wraps_nowhere(case, window_high):
    """Also with a window that reaches beyond the space. The memory has nothing at the edge, and answers so to who asks there."""
    given, words, fault, index = AT_THE_EDGE[case]
    settings = {"insn_addr": 0, "insn_count": len(words), "window_low": 0, "window_high": window_high} | given
    image = to_bytes(list(words)).ljust(4096, b"\xAA")
    dram = bytearray(image)
    ops = [op for name, value in settings.items() for op in write_register(name, value)]
    told = [op for name in ("status", "error", "error_insn") for op in read_register(name)]
    done = session(PARAMS, dram, [*ops, command("start"), until_idle(), *told], Surroundings(max_cycles=20_000))
    registers = done.registers()
    assert registers["status"] == mask_of("status", "error")
    assert (registers["error"] & mask_of("error", "fault"), registers["error_insn"]) == (fault, index)
    assert dram == image


def test_the_last_bytes_of_the_address_space_can_be_asked_for():
    """The memory's answer is an error, not ours."""
    words = (load(INP, dram_base=64 // INP_BYTES - 1), FINISH)
    settings = {"insn_count": 2, "window_high": EDGE, "base_inp": EDGE - 64}
    ops = [op for name, value in settings.items() for op in write_register(name, value)]
    told = [*read_register("error"), *read_register("error_insn")]
    done = session(PARAMS, bytearray(to_bytes(list(words)).ljust(64, b"\0")), [*ops, command("start"), until_idle(), *told],
                   Surroundings(max_cycles=20_000))
    assert done.registers() == {"error": Fault.BUS_READ | Stage.LOAD << 8, "error_insn": 0}


@pytest.mark.parametrize("writes_nothing", [False, True])
def test_a_write_error_names_its_store_whatever_else_is_under_way(writes_nothing):
    """Many bursts in flight, their answers one behind the other; between the STOREs some that write nothing."""
    stores = [store(dram_base=16 * n, x_size=1) for n in range(12)]
    words = [word for each in stores for word in ((each, store(x_size=0)) if writes_nothing else (each,))]
    for victim in range(0, 12):
        for stall in (0, 50, 85):
            error = 16 * victim * OUT_BYTES
            found = stopped_by((*words, FINISH), write_error=error, stall=stall, seed=victim, latency=60)
            assert found == (Fault.BUS_WRITE, victim * (1 + writes_nothing)), (victim, stall)


def test_a_deadlock_behind_a_full_instruction_queue_is_found():
    words = (load(INP, pop_next=1), *[load(INP)] * (COMMAND_QUEUE_DEPTH + 88), FINISH)
    assert stopped_by(words) == (Fault.DEADLOCK, 0)


@pytest.mark.parametrize("kind", [INP, ACC])
def test_a_read_error_that_waits_behind_pads_names_the_load_that_needs_the_data(kind):
    error = 512
    words = (load(kind, y_pad_1=15), load(kind, dram_base=error // MEMORIES[kind].bytes_in(TINY)), FINISH)
    assert stopped_by(words, read_error=error) == (Fault.BUS_READ, 1)


def test_a_reset_while_a_fault_waits_for_the_last_burst_forgets_the_fault():
    loads = 20
    code = to_bytes([load(INP, x_size=32)] * loads + [insn("load", memory_type=OUT), FINISH])
    begin = [*program_settings(0, loads + 2, dict.fromkeys(MemType, 0), (0, 4096)), command("start")]
    told = [*read_register("status"), *read_register("error"), *read_register("error_insn")]
    around = Surroundings(latency=3000, max_cycles=40_000)

    def values(ops: list[Op]) -> list[int]:
        done = session(CoreParams(cfg=TINY), bytearray(code.ljust(4096, b"\0")), [*begin, *ops, *told], around)
        return [op.value for op in done.answers if op.kind is Kind.READ]

    busy, error = mask_of("status", "busy"), mask_of("status", "error")
    fault = [Fault.UNKNOWN_MEMORY_TYPE | Stage.COMPUTE << 8, loads]
    draining = Op(kind=Kind.WAIT, value=4500)
    assert values([draining]) == [busy | error, *fault]
    assert values([until_idle()]) == [error, *fault]
    assert values([draining, command("reset"), until_idle()]) == [0, 0, 0]


def test_loads_that_wait_for_arithmetic_lose_no_beat():
    """More beats are asked for than a reader has room for."""
    data = bytes(n * 37 % 251 for n in range(1024))
    words = (
        LOAD_UOPS, steps(reset=1, iter_out=32, iter_in=32),
        *(load(ACC, x_size=30, dram_base=n) for n in range(6)), FINISH,  # 60 beats each: four bursts, the last one shorter
    )
    assert first_difference(run(words, data), execute(words, "plain", dram=data)) is None
