"""AXI4-Lite as a manager may use it and the simulated host does not: address and data of a write come cycles apart."""

import pytest
from amaranth.sim import Simulator

from vtakit.hw.isa.regs import REGISTERS, AccessMode, offset_of
from vtakit.hw.registers import OKAY, Registers

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
    assert values == dict.fromkeys(SETTINGS, 0) | {NAMES[0]: 320, NAMES[1]: 384}
    assert answers == [OKAY, OKAY]
