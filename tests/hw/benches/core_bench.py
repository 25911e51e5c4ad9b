"""The whole core as a host sees it: registers over AXI4-Lite, programs in a memory behind AXI4, stalls on all ten channels."""

import random
from xml.etree import ElementTree

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from vtakit.hw.integration import RESET_CYCLES, svd
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, NAMED
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, AluOp, MemType, Stage
from vtakit.hw.isa.regs import (
    CYCLE_CAUSES,
    IDENTITY,
    REGISTER_BYTES,
    REGISTERS,
    AccessMode,
    mask_of,
    offset_of,
    offsets,
    pack_config,
)
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.bench.agents import Bench
from vtakit.sim.bench.host import OKAY, SLVERR, Host, connect_memory
from vtakit.sim.bench.memory import AxiMemory, Timing
from vtakit.sim.random_programs import RandomProgram, random_program

CONFIG, BUS_BITS = str(cocotb.plusargs["config"]), int(cocotb.plusargs["bus_bits"])
CFG, PARAMS = NAMED[CONFIG], CoreParams(cfg=NAMED[CONFIG], bus_bits=BUS_BITS)
CYCLES = 60_000  # the longest run of a program here has a tenth
GUARD = 4096  # bytes behind the program that must stay as they are
FINISH = encode(CFG, "finish")


async def started(dut, seed, timing=None, stall=0):
    timing = timing or Timing()
    bench = await Bench.start(dut, "", None, seed)
    memory = AxiMemory(bytearray(), PARAMS.bus_bytes, timing, bench.random)
    connect_memory(bench, PARAMS, memory)
    return bench, memory, Host(bench, stall)


def zeroing():
    """Instructions that fill all scratchpads with zeros, as the simulators start: random programs read what nothing wrote."""
    for kind in (MemType.INP, MemType.WGT, MemType.UOP, MemType.ACC):
        depth = MEMORIES[kind].depth_in(CFG)
        across = min(depth, 16)
        for row in range(0, depth // across, 15):
            pads = {"y_pad_0": min(15, depth // across - row), "x_pad_0": across - 1, "x_size": 1}
            yield encode(CFG, "load", memory_type=kind, sram_base=row * across, **pads)
    yield FINISH


async def start(host, memory, program):
    """Zero the scratchpads, put a program into memory, with guard bytes behind it, and start it."""
    end = await run_words(host, memory, list(zeroing()))
    assert end["done"], end
    memory.dram[:] = program.dram + bytes([0xAA]) * (GUARD + -len(program.dram) % 64)
    await host.set_up(program.insn_addr, program.insn_count, program.bases, (0, len(program.dram)))
    assert await host.command("start") == OKAY


async def check(host, memory, program):
    """The program has ended, and DRAM is what the definition says, guard bytes included."""
    end = await host.until_idle(CYCLES)
    assert end == {"done": True, "error": False, "fault": 0, "stage": 0, "insn": 0}, end
    want = run_image(program.dram, program.insn_addr, program.insn_count, CFG, path="plain", bases=program.bases).dram
    size = len(want)
    wrong = [n for n in range(size) if memory.dram[n] != want[n]] if memory.dram[:size] != want else []
    assert not wrong, f"byte 0x{wrong[0]:x}: got 0x{memory.dram[wrong[0]]:02x}, want 0x{want[wrong[0]]:02x}; {len(wrong)} differ"
    assert set(memory.dram[size:]) == {0xAA}, "bytes behind the program were written"
    assert memory.idle


@cocotb.test()
@cocotb.parametrize(stall=[0, 50, 80], latency=[1, 40], seed=range(4))
async def random_programs_give_the_definitions_memory(dut, stall, latency, seed):
    timing = Timing(latency=latency, stall=stall, outstanding=1 + 5 * seed, wants=("any", "data", "both")[seed % 3])
    bench, memory, host = await started(dut, seed, timing, stall)
    program = random_program(CFG, 100 * stall + 10 * latency + seed, features=CoreParams(cfg=CFG).features)
    await start(host, memory, program)
    await check(host, memory, program)
    total = await host.read("cycles")
    for stage in Stage:
        causes = [await host.read(f"{stage.name.lower()}_{cause}") for cause in CYCLE_CAUSES]
        assert sum(causes) == total, f"every cycle of {stage.name} has one cause: {causes}, {total}"
    assert 0 < total < bench.cycle
    await host.command("clear_counters")
    assert await host.read("cycles") == 0


@cocotb.test()
@cocotb.parametrize(stall=[0, 50])
async def a_store_waits_where_two_operands_are_read(dut, stall):
    """ALU steps that read src in every cycle, and beside them a STORE of other elements through the same port."""
    _, memory, host = await started(dut, stall, Timing(stall=stall), stall)
    acc, out = (MEMORIES[kind] for kind in (MemType.ACC, MemType.OUT))
    half = acc.depth_in(CFG) // 2
    data = random.Random(stall).randbytes(2 * half * acc.bytes_in(CFG))
    code_at = len(data) + 2 * half * out.bytes_in(CFG)
    words = [
        encode(CFG, "load", memory_type=MemType.UOP, y_pad_0=1, x_size=1),
        encode(CFG, "load", memory_type=MemType.ACC, y_size=1, x_size=2 * half, x_stride=2 * half, push_next=1),
        encode(CFG, "alu", alu_opcode=AluOp.ADD, uop_end=1, iter_out=8, iter_in=half - 1, dst_in=1, src_in=1, src_out=1),
        encode(
            CFG, "store", memory_type=MemType.OUT, sram_base=half, dram_base=len(data) // out.bytes_in(CFG), y_size=1,
            x_size=half, x_stride=half, pop_prev=1, push_prev=1,
        ),
        encode(CFG, "alu", alu_opcode=AluOp.ADD, uop_end=1, iter_out=1, iter_in=1, pop_next=1),
        FINISH,
    ]
    dram = data + bytes(code_at - len(data)) + to_bytes(words)
    program = RandomProgram(config=CFG, dram=dram, insn_addr=code_at, insn_count=len(words), bases={})
    await start(host, memory, program)
    await check(host, memory, program)


@cocotb.test()
@cocotb.parametrize(stall=[0, 60])
async def registers_say_what_the_device_is(dut, stall):
    _, _, host = await started(dut, stall, stall=stall)
    assert await host.read("identity") == IDENTITY
    assert await host.read("version") == ISA_VERSION[0] << 16 | ISA_VERSION[1]
    assert await host.read("features") == CoreParams(cfg=CFG).features
    assert await host.read("config") == pack_config(CFG)
    assert await host.read("bus") == PARAMS.bus_bytes_log2 | PARAMS.outstanding << 8 | PARAMS.address_bits << 16
    assert [await host.read(name) for name in ("status", "error", "error_insn", "cycles")] == [0] * 4
    for register in ElementTree.fromstring(svd(PARAMS)).iter("register"):
        assert await host.read(register.findtext("name").lower()) == int(register.findtext("resetValue"), 0)
    last = max(at + r.words * REGISTER_BYTES for at, r in offsets())
    for at, register in offsets():
        if register.mode is AccessMode.READ_ONLY:
            assert await host.write_word(at, 0xFFFF_FFFF) == SLVERR, f"{register.name} can be written"
    for address in (last, last + 4, 0xFFC):
        assert await host.write_word(address, 1) == SLVERR
        assert await host.read_word(address) == (0, SLVERR)
    assert await host.read("identity") == IDENTITY


@cocotb.test()
@cocotb.parametrize(stall=[0, 60])
async def settings_keep_what_is_written_byte_by_byte(dut, stall):
    bench, _, host = await started(dut, stall, stall=stall)
    pick = bench.random
    bits = {"insn_count": 24, "window_high": PARAMS.address_bits + 1, "irq_enable": 1, "timeout": 32, "attributes": 11}
    model = {r.name: r.init for r in REGISTERS}
    writable = [r for r in REGISTERS if r.mode is AccessMode.READ_WRITE]
    for _ in range(60):
        register = pick.choice(writable)
        word, value, strobes = pick.randrange(register.words), pick.getrandbits(pick.choice((8, 9, 32))), pick.getrandbits(4)
        mask = sum(0xFF << 8 * n for n in range(4) if strobes >> n & 1) << 32 * word
        exists = not (value << 32 * word & mask) >> bits.get(register.name, PARAMS.address_bits)
        answer = await host.write_word(offset_of(register.name) + REGISTER_BYTES * word, value, strobes)
        assert answer == (OKAY if exists else SLVERR), f"{value:x} with strobes {strobes:04b} to word {word} of {register.name}"
        if exists:
            model[register.name] = model[register.name] & ~mask | value << 32 * word & mask
    for register in writable:
        assert await host.read(register.name) == model[register.name] & -register.align, register.name


@cocotb.test()
@cocotb.parametrize(stall=[0, 50])
async def a_start_while_busy_is_refused_and_changes_nothing(dut, stall):
    _, memory, host = await started(dut, stall, Timing(latency=60, stall=stall))
    program = random_program(CFG, 31)
    await start(host, memory, program)
    assert await host.read("status") == mask_of("status", "busy")
    assert await host.command("start") == SLVERR
    for name in ("insn_addr", "insn_count", "base_inp", "window_low"):
        assert set(await host.write(name, 0x40)) == {SLVERR}, f"{name} can be changed while a program runs"
    assert await host.read("status") == mask_of("status", "busy"), "the program ended before the test did"
    await check(host, memory, program)
    assert await host.read("insn_count") == program.insn_count


@cocotb.test()
@cocotb.parametrize(stall=[0, 70], after=[0, 1, 9, 80, 300, 777, 1500])
async def a_reset_in_mid_run_leaves_the_memory_port_in_order(dut, stall, after):
    """At any time; then a good program runs as on a fresh device."""
    bench, memory, host = await started(dut, stall + after, Timing(latency=25, stall=stall))
    program = random_program(CFG, 40 + after)
    await start(host, memory, program)
    await bench.rest(after)
    assert await host.command("reset") == OKAY
    end = await host.until_idle(CYCLES)
    assert end == {"done": False, "error": False, "fault": 0, "stage": 0, "insn": 0}, end
    await bench.rest(100)
    assert memory.idle, "bursts were left unfinished"
    asked = len(memory.read_bursts) + len(memory.write_bursts)
    await bench.rest(100)
    assert len(memory.read_bursts) + len(memory.write_bursts) == asked, "it still runs"
    other = random_program(CFG, 400 + after)
    await start(host, memory, other)
    await check(host, memory, other)


@cocotb.test()
@cocotb.parametrize(after=range(8))
async def what_is_offered_during_a_reset_waits_for_its_end(dut, after):
    """Also in its first cycle, which is the pin's second: a register comes first. Nothing of the memory's is taken either."""
    bench, memory, host = await started(dut, after, Timing(latency=20))
    program = random_program(CFG, 50)
    await start(host, memory, program)
    await bench.rest(10 * after)
    dut.rst.value = 1
    await bench.step()
    ready = ("s_axil_awready", "s_axil_wready", "s_axil_arready", "m_axi_rready", "m_axi_bready")
    access = [bench.dut.s_axil_awvalid, bench.dut.s_axil_wvalid, bench.dut.s_axil_arvalid]
    for pin in access:
        pin.value = 1
    for cycle in range(4):
        await ReadOnly()
        for name in ready[: 3 if cycle < 1 else 5]:
            assert not getattr(dut, name).value, f"{name} in cycle {cycle} of the reset"
        await FallingEdge(dut.clk)
    for pin in access:
        pin.value = 0
    dut.rst.value = 0
    assert await host.write("base_inp", 0x40) == [OKAY, OKAY]
    assert await host.read("base_inp") == 0x40


async def run_words(host, memory, words, *, bad=(), size=8192):
    """Run instructions that lie at byte 4096."""
    memory.dram[:] = (bytes(4096) + to_bytes(words)).ljust(size, b"\0")
    memory.bad = frozenset(bad)
    await host.set_up(4096, len(words), {}, (0, size))
    assert await host.command("start") == OKAY
    return await host.until_idle(CYCLES)


LOAD = encode(CFG, "load", memory_type=MemType.INP, x_size=4, y_size=1, dram_base=256)
ACC = encode(CFG, "load", memory_type=MemType.ACC, x_size=4, y_size=1, dram_base=32)
STORE = encode(CFG, "store", memory_type=MemType.OUT, x_size=4, y_size=1, dram_base=512)
WRONG = {  # words, byte addresses with error answers, the fault, its stage and instruction
    "a reserved bit": ([ACC, 7 | 1 << 127, FINISH], (), Fault.RESERVED_BITS, Stage.COMPUTE, 1),
    "a deadlock": ([encode(CFG, "load", memory_type=MemType.INP, pop_next=1), FINISH], (), Fault.DEADLOCK, Stage.COMPUTE, 0),
    "an empty program": ([], (), Fault.NO_FINISH, Stage.COMPUTE, 0),
    "no FINISH": ([LOAD, ACC], (), Fault.NO_FINISH, Stage.COMPUTE, 1),
    "a scratchpad left": ([encode(CFG, "load", memory_type=MemType.WGT, x_size=1, y_size=1, sram_base=CFG.wgt_depth), FINISH],
                          (), Fault.SRAM_RANGE, Stage.LOAD, 0),
    "a window left": ([encode(CFG, "store", memory_type=MemType.OUT, x_size=1, y_size=1, dram_base=1 << 20), FINISH],
                      (), Fault.DRAM_RANGE, Stage.STORE, 0),
    "a bad read of INP": ([ACC, LOAD, FINISH], (256 * CFG.inp_bytes // 64 * 64,), Fault.BUS_READ, Stage.LOAD, 1),
    "a bad read of ACC": ([LOAD, ACC, FINISH], (32 * CFG.acc_bytes,), Fault.BUS_READ, Stage.COMPUTE, 1),
    "a bad read of an instruction": ([LOAD] * 40 + [FINISH], (4096 + 16 * INSN_BYTES,), Fault.BUS_FETCH, Stage.COMPUTE, 16),
    "work in other stages": ([encode(CFG, "load", memory_type=MemType.WGT, x_size=1, y_size=1, sram_base=CFG.wgt_depth),
                              *[STORE, ACC] * 60, FINISH], (), Fault.SRAM_RANGE, Stage.LOAD, 0),
    "a bad write": ([LOAD, STORE, FINISH], (512 * CFG.out_bytes,), Fault.BUS_WRITE, Stage.STORE, 1),
}


@cocotb.test()
@cocotb.parametrize(case=list(WRONG), stall=[0, 50])
async def a_wrong_program_or_a_bus_error_is_named_and_forgotten_at_the_next_start(dut, case, stall):
    words, bad, fault, stage, insn = WRONG[case]
    bench, memory, host = await started(dut, stall, Timing(latency=10, stall=stall))
    end = await run_words(host, memory, words, bad=bad)
    if case == "a deadlock":
        end["stage"] = stage  # which of the stages that wait is the one to name is not defined
    assert end == {"done": False, "error": True, "fault": fault, "stage": stage, "insn": insn}, end
    assert memory.idle
    asked = len(memory.read_bursts) + len(memory.write_bursts)
    await bench.rest(200)
    assert len(memory.read_bursts) + len(memory.write_bursts) == asked, "the stopped program goes on"
    program = random_program(CFG, 77)
    memory.bad = frozenset()
    await start(host, memory, program)
    await check(host, memory, program)


@cocotb.test()
@cocotb.parametrize(victim=[0, 1, 2, 7, 9], writes_nothing=[False, True])
async def a_write_error_names_its_store_when_all_answers_come_at_once(dut, victim, writes_nothing):
    """One answer a cycle, as soon as all data are written; between the STOREs some that write nothing."""
    _, memory, host = await started(dut, victim, Timing(latency=1))
    stores, apart = 10, 64 // CFG.out_bytes
    words = [encode(CFG, "store", memory_type=MemType.OUT, x_size=1, y_size=1, dram_base=apart * n) for n in range(stores)]
    if writes_nothing:
        words.insert(stores // 2, encode(CFG, "store", memory_type=MemType.OUT))
    memory.answers = lambda: len(memory.write_bursts) == stores
    end = await run_words(host, memory, [*words, FINISH], bad=(64 * victim // PARAMS.bus_bytes * PARAMS.bus_bytes,))
    named = victim + (writes_nothing and victim >= stores // 2)
    assert end == {"done": False, "error": True, "fault": Fault.BUS_WRITE, "stage": Stage.STORE, "insn": named}, end


@cocotb.test()
async def nothing_lies_beyond_the_address_space_whatever_the_window_says(dut):
    _, memory, host = await started(dut, 1)
    edge = 1 << PARAMS.address_bits
    words = [encode(CFG, "load", memory_type=MemType.INP, dram_base=64 // CFG.inp_bytes - 1, x_size=2, y_size=1), FINISH]
    memory.dram[:] = to_bytes(words).ljust(4096, b"\0")
    await host.set_up(0, 2, {"inp": edge - 64}, (0, 2 * edge - 1))
    assert await host.command("start") == OKAY
    end = await host.until_idle(CYCLES)
    assert end == {"done": False, "error": True, "fault": Fault.DRAM_RANGE, "stage": Stage.LOAD, "insn": 0}, end
    assert all(address < 4096 for address, _ in memory.read_bursts)


@cocotb.test()
@cocotb.parametrize(silent=["reads", "writes"], after=[0, 40, 300])
async def a_memory_that_never_answers_is_told(dut, silent, after):
    """It stays busy, since an answer may come; until then no start is taken. With the answer it is in order again."""
    bench, memory, host = await started(dut, after, Timing(latency=10))
    assert await host.read("timeout") == 1 << 24
    limit = 200
    assert await host.write("timeout", limit) == [OKAY]
    assert await host.write("irq_enable", 1) == [OKAY]
    program = random_program(CFG, 90)
    await start(host, memory, program)
    assert await host.command("acknowledge") == OKAY
    await bench.rest(after)
    setattr(memory, {"reads": "gives", "writes": "answers"}[silent], lambda: False)
    begin = bench.cycle
    while not dut.irq.value:
        await bench.step()
        assert bench.cycle - begin < 20_000
    status = await host.read("status")
    if status & mask_of("status", "done"):  # nothing was left to ask for
        return
    assert status == mask_of("status", "busy") | mask_of("status", "error")
    assert await host.read("error") == Fault.BUS_TIMEOUT
    assert await host.command("start") == SLVERR
    assert await host.command("reset") == OKAY
    await bench.rest(3 * limit)
    assert await host.read("status") & mask_of("status", "busy")
    memory.gives = memory.answers = lambda: True
    await host.until_idle(5000)
    await start(host, memory, program)
    await check(host, memory, program)


@cocotb.test()
async def a_slow_memory_is_waited_for(dut):
    """The limit is one of cycles without any transfer; 0 is none."""
    for limit, latency in ((130, 120), (0, 900)):
        _, memory, host = await started(dut, limit, Timing(latency=latency, outstanding=1))
        assert await host.write("timeout", limit) == [OKAY]
        program = random_program(CFG, 5)
        await start(host, memory, program)
        await check(host, memory, program)


@cocotb.test()
async def the_interrupt_is_a_level_until_acknowledged(dut):
    bench, memory, host = await started(dut, 0)
    for enabled in (0, 1):
        assert await host.write("irq_enable", enabled) == [OKAY]
        for words in ([FINISH], []):  # one that ends well, one that is stopped
            await run_words(host, memory, words)
            assert await host.read("irq_pending") == 1
            await bench.rest(5)
            assert dut.irq.value == enabled
            assert await host.command("acknowledge") == OKAY
            await bench.rest(3)
            assert await host.read("irq_pending") == 0
            assert dut.irq.value == 0


@cocotb.test()
async def bursts_have_the_attributes_that_the_host_sets(dut):
    _, memory, host = await started(dut, 0)
    assert await host.read("attributes") == 0b0011
    seen = []
    for value in (0b0011, 0b1111 | 0b010 << 4 | 0b1001 << 7):
        assert await host.write("attributes", value) == [OKAY]
        for channel in ("ar", "aw"):
            cache, prot, qos = (int(getattr(dut, f"m_axi_{channel}{name}").value) for name in ("cache", "prot", "qos"))
            seen.append((cache, prot, qos))
    assert seen == [(3, 0, 0), (3, 0, 0), (15, 2, 9), (15, 2, 9)]
    assert await host.write("attributes", 1 << 11) == [SLVERR]
    assert (await run_words(host, memory, [LOAD, STORE, FINISH]))["done"]


@cocotb.test()
async def runs_with_the_axi_models_of_cocotbext(dut):
    """A memory and a host that are not ours, with back-pressure on every channel; or the wrapper, after a reset of a cycle."""
    wrapped = hasattr(dut, "aresetn")
    clock, reset = (dut.aclk, dut.aresetn) if wrapped else (dut.clk, dut.rst)
    Clock(clock, 2, "ns").start()
    program = random_program(CFG, 12)
    ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), clock, reset, reset_active_level=not wrapped, size=2**17)
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), clock, reset, reset_active_level=not wrapped)
    for number, channel in enumerate((ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel,
                                      ram.read_if.ar_channel, ram.read_if.r_channel)):
        pauses = random.Random(number)
        channel.set_pause_generator(iter(lambda pauses=pauses: pauses.randrange(4) == 0, None))
    reset.value = int(not wrapped)
    await ClockCycles(clock, 1 if wrapped else RESET_CYCLES)
    reset.value = int(wrapped)
    await ClockCycles(clock, 1 + RESET_CYCLES)

    async def run(image, insn_addr, insn_count, bases):
        ram.write(0, image)
        values = {"insn_addr": insn_addr, "insn_count": insn_count, "window_low": 0, "window_high": len(image), **bases}
        for name, value in values.items():
            words = next(r.words for r in REGISTERS if r.name == name)
            await host.write(offset_of(name), value.to_bytes(REGISTER_BYTES * words, "little"))
        await host.write_dword(offset_of("control"), mask_of("control", "start"))
        for _ in range(5000):
            status = await host.read_dword(offset_of("status"))
            if not status & mask_of("status", "busy"):
                return status
        raise AssertionError("the program has not ended")

    bases = {f"base_{kind.name.lower()}": program.bases[kind.name.lower()] for kind in MEMORIES}
    zeros = list(zeroing())
    ended = mask_of("status", "done")
    assert await run(to_bytes(zeros), 0, len(zeros), dict.fromkeys(bases, 0)) == ended
    assert await run(program.dram, program.insn_addr, program.insn_count, bases) == ended
    want = run_image(program.dram, program.insn_addr, program.insn_count, CFG, path="plain", bases=program.bases).dram
    assert ram.read(0, len(want)) == want
