"""AXI4-Lite as a manager may use it and the simulated host does not: a write's address and data cycles apart, reads
without a gap, or anything in a reset."""

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from vtakit.hw.control.registers import OKAY, SLVERR, Registers
from vtakit.hw.isa.regs import REGISTERS, AccessMode, offset_of

SETTINGS = {r.name: 32 for r in REGISTERS if r.mode is AccessMode.READ_WRITE}
NAMES = ("insn_count", "base_inp")  # written one after the other


async def offer(context, stream, payload: dict[str, int], after: int) -> None:
    """Offer a transfer after some cycles, until it is taken; beside it the channel shows what is not meant."""
    for name in payload:
        context.set(stream.payload[name], 0)
    await context.tick().repeat(after)
    for name, value in payload.items():
        context.set(stream.payload[name], value)
    context.set(stream.valid, 1)
    await context.tick().until(stream.ready)
    context.set(stream.valid, 0)
    for name in payload:
        context.set(stream.payload[name], 0)


@pytest.mark.parametrize(("address_after", "data_after"), [(1, 1), (1, 7), (7, 1), (3, 2)])
def test_a_write_takes_its_own_address_and_data(address_after, data_after):
    registers, answers = Registers(SETTINGS), []

    async def addresses(context):
        for name in NAMES:
            await offer(context, registers.axil.aw, {"addr": offset_of(name)}, address_after)

    async def data(context):
        for n in range(len(NAMES)):
            await offer(context, registers.axil.w, {"data": 64 * (n + 5), "strb": 15}, data_after)

    async def responses(context):
        context.set(registers.axil.b.ready, 1)
        for _ in range(40):
            _, _, valid, resp = await context.tick().sample(registers.axil.b.valid, registers.axil.b.payload.resp)
            if valid:
                answers.append(resp)

    simulator = Simulator(registers)
    simulator.add_clock(1e-6)
    for bench in (addresses, data, responses):
        simulator.add_testbench(bench)
    values = {}

    async def at_the_end(context):
        await context.tick().repeat(41)
        values.update({name: context.get(getattr(registers, name)) for name in SETTINGS})

    simulator.add_testbench(at_the_end)
    simulator.run_until(60e-6)
    first = {register.name: register.init for register in REGISTERS}
    assert values == {name: first[name] for name in SETTINGS} | {NAMES[0]: 320, NAMES[1]: 384}
    assert answers == [OKAY, OKAY]


@pytest.mark.parametrize("patience", [0, 1, 4])
def test_reads_that_follow_each_other_are_answered_in_order(patience):
    """Addresses are offered without a gap; the manager takes an answer after some cycles."""
    registers, answers = Registers(SETTINGS), []
    values = {"version": 3, "features": 5, "error_insn": 7, "bus": 11}
    axil = registers.axil

    async def addresses(context):
        for name, value in values.items():
            context.set(getattr(registers, name), value)
        for name in values:
            context.set(axil.ar.payload.addr, offset_of(name))
            context.set(axil.ar.valid, 1)
            await context.tick().until(axil.ar.ready)
        context.set(axil.ar.valid, 0)

    async def answered(context):
        for _ in range(20 * len(values)):
            context.set(axil.r.ready, 0)
            for _ in range(patience):
                await context.tick()
            context.set(axil.r.ready, 1)
            _, _, valid, payload = await context.tick().sample(axil.r.valid, axil.r.payload)
            if valid:
                answers.append((payload.resp, payload.data))

    simulator = Simulator(registers)
    simulator.add_clock(1e-6)
    simulator.add_testbench(addresses, background=True)
    simulator.add_testbench(answered)
    simulator.run()
    assert answers == [(OKAY, value) for value in values.values()]


@pytest.mark.parametrize("cycles", [1, 2, 5])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_nothing_is_taken_in_a_reset_and_what_is_offered_then_is_answered_after_it(before, cycles):
    """Offered from its first cycle on: that is the one in which registers still hold what they held."""
    m, domain = Module(), ClockDomain("sync")
    m.domains.sync = domain
    m.submodules.registers = registers = Registers(SETTINGS)
    axil = registers.axil

    async def host(context):
        context.set(axil.b.ready, 1)
        context.set(axil.w.payload, {"data": 0, "strb": 15})
        for stream in (axil.aw, axil.w)[: before % 3]:  # a write that the reset cuts off, at either half or before its answer
            context.set(stream.valid, 1)
        await context.tick().repeat(1 + before // 3)
        context.set(domain.rst, 1)
        context.set(axil.aw.payload.addr, offset_of("base_inp"))
        context.set(axil.w.payload, {"data": 0x140, "strb": 15})
        context.set(axil.aw.valid, 1)
        context.set(axil.w.valid, 1)
        context.set(axil.ar.valid, 1)
        for _ in range(cycles):
            assert not any(context.get(stream.ready) for stream in (axil.aw, axil.w, axil.ar))
            await context.tick()
        context.set(domain.rst, 0)
        assert context.get(axil.aw.ready)
        await context.tick()
        for stream in (axil.aw, axil.w, axil.ar):
            context.set(stream.valid, 0)
        answers = []
        for _ in range(10):
            _, _, valid, resp = await context.tick().sample(axil.b.valid, axil.b.payload.resp)
            if valid:
                answers.append(resp)
        assert answers == [OKAY]
        assert context.get(registers.base_inp) == 0x140

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(host)
    simulator.run()


@pytest.mark.parametrize("width", [32, 33, 40, 41, 63, 64])
def test_a_bit_that_does_not_exist_is_refused(width):
    registers = Registers(SETTINGS | {"base_inp": width})
    axil, exists = registers.axil, (1 << width) - 64

    async def host(context):
        context.set(axil.b.ready, 1)

        async def write(word, data, strobes):
            context.set(axil.aw.payload.addr, offset_of("base_inp") + 4 * word)
            context.set(axil.w.payload, {"data": data, "strb": strobes})
            for stream in (axil.aw, axil.w):
                context.set(stream.valid, 1)
            await context.tick()
            for stream in (axil.aw, axil.w):
                context.set(stream.valid, 0)
            await context.tick().until(axil.b.valid)
            return context.get(axil.b.payload.resp)

        for bit in range(6, 64):
            data, value = 1 << bit % 32, context.get(registers.base_inp)
            word = bit // 32
            assert await write(word, data, 0) == OKAY, "bytes that are not written may be anything"
            assert context.get(registers.base_inp) == value
            answer = await write(word, data, 1 << bit % 32 // 8)
            assert answer == (OKAY if exists >> bit & 1 else SLVERR), bit
            if answer == SLVERR:
                assert context.get(registers.base_inp) == value
            else:
                assert context.get(registers.base_inp) >> bit & 1

    simulator = Simulator(registers)
    simulator.add_clock(1e-6)
    simulator.add_testbench(host)
    simulator.run()
