"""The shell's parts in Amaranth's simulator: the arbiter under random traffic, the host's registers."""

import random
from collections import deque
from typing import Any

import pytest
from amaranth.sim import Simulator

from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_REGISTERS
from vtakit.boards.shell.arbiter import Arbiter
from vtakit.boards.shell.host_registers import HostRegisters
from vtakit.hw.params import CoreParams

PARAMS = CoreParams()
MANAGERS, OUTSTANDING, BURSTS, LIMIT = 3, 4, 20, 20_000
OKAY, SLVERR = 0, 2


async def pause(ctx: Any, pick: random.Random, stall: float) -> None:
    """Let some cycles pass."""
    while pick.random() < stall:
        await ctx.tick()


async def give(ctx: Any, stream: Any, payload: dict[str, int]) -> None:
    """Offer a payload until it is taken."""
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    while not (await ctx.tick().sample(stream.ready))[-1]:
        pass
    ctx.set(stream.valid, 0)


async def take(ctx: Any, stream: Any, pick: random.Random, stall: float) -> dict[str, int]:
    """Take a payload."""
    await pause(ctx, pick, stall)
    ctx.set(stream.ready, 1)
    fields = [name for name, _ in stream.payload.shape()]
    while True:
        *_, valid, values = await ctx.tick().sample(stream.valid, stream.payload)
        if valid:
            ctx.set(stream.ready, 0)
            return {name: int(values[name]) for name in fields}


def word_at(address: int) -> int:
    return address * 0x9E3779B97F4A7C15 & (1 << 64) - 1


@pytest.mark.parametrize("seed", range(3))
def test_each_manager_gets_its_own_answers(seed):
    """Three managers read and write at once; each address says whose it is. With stalls by seed, and without for seed 0."""
    stall = 0.2 * seed
    dut = Arbiter(PARAMS, MANAGERS, OUTSTANDING)
    memory: dict[int, int] = {}
    wanted: dict[int, int] = {}
    read_of, done = [0] * MANAGERS, []

    def reader(n: int) -> Any:
        port, bursts = getattr(dut, f"read{n}"), deque[tuple[int, int]]()

        async def ask(ctx: Any) -> None:
            pick = random.Random(f"{seed} ask {n}")
            for number in range(BURSTS):
                await pause(ctx, pick, stall)
                burst = (n << 20 | number * 128, pick.randint(0, 15))
                bursts.append(burst)
                await give(ctx, port.ar, {"addr": burst[0], "len": burst[1]})

        async def check(ctx: Any) -> None:
            pick = random.Random(f"{seed} check {n}")
            for _ in range(BURSTS):
                for beat in range(257):
                    got = await take(ctx, port.r, pick, stall)
                    address, last = bursts[0]
                    assert got["data"] == word_at(address + 8 * beat)
                    assert got["last"] == (beat == last)
                    if got["last"]:
                        break
                bursts.popleft()
                read_of[n] += 1
            done.append(f"read{n}")

        return ask, check

    def writer(n: int) -> Any:
        port = getattr(dut, f"write{n}")

        async def ask(ctx: Any) -> None:
            pick = random.Random(f"{seed} write {n}")
            for number in range(BURSTS):
                await pause(ctx, pick, stall)
                address, last = n << 20 | number * 128, pick.randint(0, 15)
                await give(ctx, port.aw, {"addr": address, "len": last})
                for beat in range(last + 1):
                    wanted[address + 8 * beat] = word_at(address + 8 * beat + 1)
                    await give(ctx, port.w, {"data": word_at(address + 8 * beat + 1), "strb": 255, "last": int(beat == last)})

        async def answers(ctx: Any) -> None:
            pick = random.Random(f"{seed} answers {n}")
            for _ in range(BURSTS):
                await take(ctx, port.b, pick, stall)
            done.append(f"write{n}")

        return ask, answers

    asked: deque[tuple[int, int]] = deque()
    answered: deque[int] = deque()

    async def reads(ctx: Any) -> None:
        pick = random.Random(f"{seed} memory reads")
        while True:
            got = await take(ctx, dut.read.ar, pick, stall)
            asked.append((got["addr"], got["len"]))

    async def data(ctx: Any) -> None:
        pick = random.Random(f"{seed} memory data")
        while True:
            if not asked:
                await ctx.tick()
                continue
            address, last = asked.popleft()
            for beat in range(last + 1):
                await pause(ctx, pick, stall)
                await give(ctx, dut.read.r, {"data": word_at(address + 8 * beat), "resp": 0, "last": int(beat == last)})

    async def writes(ctx: Any) -> None:
        pick = random.Random(f"{seed} memory writes")
        while True:
            at = await take(ctx, dut.write.aw, pick, stall)
            for beat in range(at["len"] + 1):
                got = await take(ctx, dut.write.w, pick, stall)
                memory[at["addr"] + 8 * beat] = got["data"]
                assert got["last"] == (beat == at["len"])
            answered.append(1)

    async def acknowledge(ctx: Any) -> None:
        while True:
            if not answered:
                await ctx.tick()
                continue
            answered.popleft()
            await give(ctx, dut.write.b, {"resp": 0})

    async def clock(ctx: Any) -> None:
        for _ in range(LIMIT):
            await ctx.tick()
            if len(done) == 2 * MANAGERS:
                return
        raise AssertionError(f"only {sorted(done)} ended within {LIMIT} cycles")

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for n in range(MANAGERS):
        for bench in (*reader(n), *writer(n)):
            simulator.add_testbench(bench, background=True)
    for bench in (reads, data, writes, acknowledge):
        simulator.add_testbench(bench, background=True)
    simulator.add_testbench(clock)
    simulator.run()
    assert read_of == [BURSTS] * MANAGERS
    assert memory == wanted


def test_the_hosts_registers():
    """Page 0 is the core's, page 1 the board's; while the board tests itself, and for what cannot be, the answer is an error."""
    dut = HostRegisters()
    core: dict[int, int] = {0x10: 0x1234}

    async def serve_writes(ctx: Any) -> None:
        pick = random.Random(1)
        while True:
            at = await take(ctx, dut.core.aw, pick, 0.3)
            word = await take(ctx, dut.core.w, pick, 0.3)
            core[at["addr"]] = word["data"]
            await give(ctx, dut.core.b, {"resp": SLVERR if at["addr"] == 0x20 else OKAY})

    async def serve_reads(ctx: Any) -> None:
        pick = random.Random(2)
        while True:
            at = await take(ctx, dut.core.ar, pick, 0.3)
            await give(ctx, dut.core.r, {"data": core.get(at["addr"], 0), "resp": OKAY if at["addr"] in core else SLVERR})

    async def read(ctx: Any, address: int) -> tuple[int, int]:
        await give(ctx, dut.host.ar, {"addr": address})
        got = await take(ctx, dut.host.r, random.Random(address), 0.3)
        return got["data"], got["resp"]

    async def write(ctx: Any, address: int, value: int) -> int:
        ctx.set(dut.host.aw.payload, {"addr": address})
        ctx.set(dut.host.aw.valid, 1)
        await give(ctx, dut.host.w, {"data": value, "strb": 15})
        ctx.set(dut.host.aw.valid, 0)
        return (await take(ctx, dut.host.b, random.Random(value), 0.3))["resp"]

    async def host(ctx: Any) -> None:
        for n, name in enumerate(BOARD_REGISTERS):
            ctx.set(getattr(dut, name), BOARD_IDENTITY + n)
        for n, at in enumerate(BOARD_REGISTERS.values()):
            assert await read(ctx, at) == (BOARD_IDENTITY + n, OKAY)
        assert (await read(ctx, 0x1000 + 4 * len(BOARD_REGISTERS)))[1] == SLVERR
        assert await write(ctx, 0x1000, 5) == SLVERR
        assert await read(ctx, 0x10) == (0x1234, OKAY)
        assert (await read(ctx, 0x18))[1] == SLVERR
        assert await write(ctx, 0x10, 0xABCD) == OKAY
        assert await write(ctx, 0x20, 1) == SLVERR
        assert await read(ctx, 0x10) == (0xABCD, OKAY)
        ctx.set(dut.testing, 1)
        assert (await read(ctx, 0x10))[1] == SLVERR
        assert await write(ctx, 0x10, 1) == SLVERR
        assert await read(ctx, 0x1000) == (BOARD_IDENTITY, OKAY)
        ctx.set(dut.testing, 0)
        assert await read(ctx, 0x10) == (0xABCD, OKAY)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(serve_writes, background=True)
    simulator.add_testbench(serve_reads, background=True)
    simulator.add_testbench(host)
    simulator.run()
