"""fetch against a list: every instruction once, in order, to its stage, with its number; stops at the first wrong one."""

import random

import cocotb
from board import blocks, params

from vtakit.hw.isa.codec import decode, encode
from vtakit.hw.isa.config import INSN_BYTES
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, MemType, Opcode, Stage
from vtakit.hw.params import PAGE_BYTES
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import BurstMemory, Timing

MEMORY = 1 << 15


def program(cfg, pick, count):
    """(stage, word) of each instruction, FINISH last."""
    for _ in range(count - 1):
        stage = pick.choice(list(Stage))
        kind = {Stage.LOAD: pick.choice((MemType.INP, MemType.WGT)), Stage.COMPUTE: MemType.UOP, Stage.STORE: MemType.OUT}[stage]
        works = pick.randrange(2)
        fields = {"memory_type": kind, "x_size": works, "y_size": works}
        fields |= {"sram_base": pick.getrandbits(16), "dram_base": pick.getrandbits(32)}
        yield stage, encode(cfg, "store" if stage is Stage.STORE else "load", **fields)
    yield Stage.COMPUTE, encode(cfg, "finish")


def does_something(cfg, word):
    """Whether an instruction of `program` moves anything."""
    insn = decode(cfg, word)
    return insn.op is not Opcode.FINISH and insn["x_size"] > 0


async def started(dut, seed, timing, words, address):
    p = params()
    bench = await Bench.start(dut, "fetch", blocks()["fetch"], seed, address=address, count=len(words))
    dram = bytearray(bench.random.randbytes(MEMORY))
    dram[address : address + len(words) * INSN_BYTES] = b"".join(word.to_bytes(INSN_BYTES, "little") for word in words)
    memory = bench.add(BurstMemory(dram, p.bus_bytes, timing, bench.port("requests"), bench.port("returned"), bench.random))
    return bench, memory


async def start(bench):
    bench.pins.set("start", 1)
    await bench.step()
    bench.pins.set("start", 0)


@cocotb.test()
@cocotb.parametrize(stall=STALLS, slow=STALLS, count=[1, 2, 9, 300], latency=[1, 40])
async def sorts_instructions(dut, stall, slow, count, latency):
    p = params()
    seed = stall + slow + count + latency
    pick = random.Random(seed)
    given = list(program(p.cfg, pick, count))
    address = PAGE_BYTES - INSN_BYTES * pick.randint(0, 5)
    bench, memory = await started(dut, seed, Timing(latency=latency, stall=stall), [word for _, word in given], address)
    sinks = {stage: bench.sink(stage.name.lower(), slow) for stage in Stage}
    state = bench.watch("ended", "fault", "blocked")
    await start(bench)
    await bench.run(lambda: sum(len(s.items) for s in sinks.values()) == count, 100 * count + 400, f"{count} instructions")
    await bench.rest()
    for stage in Stage:
        want = [{"word": word, "index": index, "works": int(does_something(p.cfg, word))}
                for index, (mine, word) in enumerate(given) if mine is stage]
        assert sinks[stage].items == want, stage.name
    assert state.now == {"ended": 1, "fault": 0, "blocked": 0}
    first, last = address // p.bus_bytes, (address + count * INSN_BYTES - 1) // p.bus_bytes
    assert sum(beats for _, beats in memory.bursts) == last - first + 1


@cocotb.test()
async def runs_a_second_program_after_a_reset(dut):
    p = params()
    pick = random.Random(5)
    given = list(program(p.cfg, pick, 7))
    bench, _ = await started(dut, 5, Timing(), [word for _, word in given], 0x100)
    sinks = {stage: bench.sink(stage.name.lower()) for stage in Stage}
    for turn in (1, 2, 3):
        dut.rst.value = 1  # as the supervisor does before each program
        await bench.step()
        dut.rst.value = 0
        bench.pins.set("address", 0x100 if turn < 3 else 0x110)  # the third begins at the second instruction
        bench.pins.set("count", 7 if turn < 3 else 6)
        await start(bench)
        await bench.rest(60)
        assert sum(len(s.items) for s in sinks.values()) == {1: 7, 2: 14, 3: 20}[turn]
    assert sinks[Stage.COMPUTE].items[-1]["index"] == 5


@cocotb.test()
@cocotb.parametrize(slow=STALLS)
async def stops_at_the_first_wrong_instruction(dut, slow):
    p = params()
    pick = random.Random(slow)
    given = list(program(p.cfg, pick, 20))
    words = [word for _, word in given]
    words[11] = 7 | 1 << 127  # a reserved bit
    bench, _ = await started(dut, slow, Timing(stall=slow), words, 0x200)
    sinks = {stage: bench.sink(stage.name.lower(), slow) for stage in Stage}
    state = bench.watch("ended", "fault", "fault_index")
    await start(bench)
    await bench.run(lambda: bool(state.now["fault"]), 3000, "a fault")
    await bench.rest(100)
    assert state.now == {"ended": 0, "fault": int(Fault.RESERVED_BITS), "fault_index": 11}
    assert sum(len(s.items) for s in sinks.values()) == 11


@cocotb.test()
async def an_empty_program_is_a_fault(dut):
    bench, memory = await started(dut, 1, Timing(), [], 0x200)
    state = bench.watch("fault", "fault_index")
    await bench.rest(30)
    assert state.now == {"fault": 0, "fault_index": 0}, "before its start"
    await start(bench)
    await bench.rest(3)
    assert state.now == {"fault": int(Fault.NO_FINISH), "fault_index": 0}
    assert not memory.bursts


@cocotb.test()
@cocotb.parametrize(inside=[1, 2, 3, 40])
async def a_program_that_leaves_the_address_space_is_a_fault_of_the_first_instruction_beyond(dut, inside):
    p = params()
    words = [encode(p.cfg, "load", memory_type=MemType.INP)] * inside + [encode(p.cfg, "finish")]
    bench, memory = await started(dut, 1, Timing(), words, 0)
    bench.pins.set("address", (1 << p.address_bits) - inside * INSN_BYTES)
    sinks = {stage: bench.sink(stage.name.lower()) for stage in Stage}
    state = bench.watch("fault", "fault_index")
    await bench.rest(3)
    await start(bench)
    await bench.rest(100)
    assert state.now == {"fault": int(Fault.DRAM_RANGE), "fault_index": inside}
    assert not memory.bursts
    assert not any(sink.items for sink in sinks.values())


@cocotb.test()
@cocotb.parametrize(slow=STALLS)
async def an_instruction_that_cannot_be_read_stops_it(dut, slow):
    p = params()
    pick = random.Random(slow)
    given = list(program(p.cfg, pick, 40))
    bench, memory = await started(dut, slow, Timing(stall=slow), [word for _, word in given], 0)
    bad = 16 * 13 // p.bus_bytes * p.bus_bytes  # the beat with the first bytes of instruction 13, or with all of it
    memory.bad = frozenset([bad])
    sinks = {stage: bench.sink(stage.name.lower(), slow) for stage in Stage}
    state = bench.watch("fault", "fault_index")
    await start(bench)
    await bench.run(lambda: bool(state.now["fault"]), 3000, "a fault")
    await bench.rest(100)
    assert state.now == {"fault": int(Fault.BUS_FETCH), "fault_index": bad // INSN_BYTES}
    assert sum(len(s.items) for s in sinks.values()) == bad // INSN_BYTES


@cocotb.test()
async def a_full_queue_blocks_and_loses_nothing(dut):
    """One stage takes nothing: as many of its instructions as promised are fetched, and those of others before them."""
    p = params()
    load = encode(p.cfg, "load", memory_type=MemType.INP)
    count = COMMAND_QUEUE_DEPTH + 40
    words = [load] * (count - 1) + [encode(p.cfg, "finish")]
    bench, _ = await started(dut, 1, Timing(), words, 0)
    sink = bench.sink("load")
    sink.open = lambda: False
    compute = bench.sink("compute")
    state = bench.watch("blocked", "ended")
    await start(bench)
    await bench.rest(4 * count)
    assert state.now == {"blocked": 1, "ended": 0}
    assert not compute.items
    sink.open = lambda: True
    await bench.run(lambda: bool(state.now["ended"]), 3 * count, "the end")
    await bench.rest(COMMAND_QUEUE_DEPTH + 20)
    assert [item["index"] for item in sink.items] == list(range(count - 1))
    assert [item["index"] for item in compute.items] == [count - 1]
