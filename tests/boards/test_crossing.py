"""The crossing between two clocks: any order of their edges, any stalls; each channel gives what it got, in order, once."""

import random
from collections import deque
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module, Signal, Value
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from vtakit.boards.shell.crossing import DEPTH, MEMORY, AxiCrossing
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams

PARAMS = CoreParams()
RATIOS = ((50, 50), (30, 70), (70, 30), (95, 10), (10, 95), (100, 100))  # percent of the steps in which each clock rises
STEPS = 4000
RESET_EDGES = 6


class Channel:
    """A stream from one domain to the other, with what went in and came out."""

    def __init__(self, name: str, source: Any, sink: Any, into: str, out: str) -> None:
        self.name, self.source, self.sink, self.into, self.out = name, source, sink, into, out
        self.bits = len(Value.cast(source.payload))
        self.inside: deque[int] = deque()
        self.offer: int | None = None
        self.through = self.most = 0


def channels(dut: AxiCrossing) -> list[Channel]:
    found = []
    for kind, near, far in ((axi_read(PARAMS), dut.read, dut.far_read), (axi_write(PARAMS), dut.write, dut.far_write)):
        for name, member in kind.members.items():
            ends = (getattr(near, name), getattr(far, name), "sync", MEMORY)
            found.append(Channel(name, *ends) if member.flow is Out else Channel(name, ends[1], ends[0], MEMORY, "sync"))
    return found


@pytest.mark.parametrize("stall", [0, 40])
@pytest.mark.parametrize(("sync", "memory"), RATIOS)
def test_every_channel_gives_what_it_got(sync, memory, stall):
    pick = random.Random(f"{sync} {memory} {stall}")
    m = Module()
    m.submodules.dut = dut = AxiCrossing(PARAMS)
    chance, clocks, resets = {"sync": sync, MEMORY: memory}, {}, {}
    for name in chance:
        domain = ClockDomain(name)
        m.domains += domain
        clocks[name], resets[name] = Signal(name=f"{name}_clock"), Signal(name=f"{name}_reset", init=1)
        m.d.comb += [domain.clk.eq(clocks[name]), domain.rst.eq(resets[name])]
    ways = channels(dut)

    async def edges(ctx: Any, rising: list[str]) -> None:
        """Let clocks rise, both at once if both do, or one a moment after the other."""
        groups = [rising] if pick.random() < 0.5 else [[name] for name in pick.sample(rising, len(rising))]
        for group in groups:
            for name in group:
                ctx.set(clocks[name], 1)
            await ctx.delay(1e-9)
            for name in group:
                ctx.set(clocks[name], 0)
            await ctx.delay(1e-9)

    async def traffic(ctx: Any) -> None:
        for _ in range(RESET_EDGES):
            await edges(ctx, list(clocks))
        for reset in resets.values():
            ctx.set(reset, 0)
        for step in range(STEPS):
            if step == STEPS // 2:  # everything is full once
                chance_of_room = 0
            elif step == 0 or step == STEPS // 2 + 100 * 100 // min(sync, memory):
                chance_of_room = 100 - stall
            rising = [name for name in chance if pick.random() * 100 < chance[name]]
            moved: dict[str, list[Channel]] = {"in": [], "out": []}
            for way in ways:
                if way.into in rising and way.offer is not None and ctx.get(way.source.ready):
                    moved["in"].append(way)
                if way.out in rising and ctx.get(way.sink.valid) and ctx.get(way.sink.ready):
                    got = ctx.get(Value.cast(way.sink.payload))
                    assert way.inside, f"{way.name}: {got:x} came out in step {step}, and nothing was inside"
                    assert got == way.inside[0], f"{way.name}, step {step}: {got:x} came out, and {way.inside[0]:x} was next"
                    moved["out"].append(way)
            if rising:
                await edges(ctx, rising)
            for way in moved["out"]:
                way.inside.popleft()
                way.through += 1
            for way in moved["in"]:
                way.inside.append(way.offer)
                way.most = max(way.most, len(way.inside))
                way.offer = None
            for way in ways:  # what stands stays until it is taken
                if way.into in rising and way.offer is None and pick.random() * 100 >= stall:
                    way.offer = pick.getrandbits(way.bits)
                    ctx.set(Value.cast(way.source.payload), way.offer)
                if way.into in rising:
                    ctx.set(way.source.valid, way.offer is not None)
                if way.out in rising:
                    ctx.set(way.sink.ready, pick.random() * 100 < chance_of_room)

    simulator = Simulator(m)
    simulator.add_testbench(traffic)
    simulator.run()
    for way in ways:
        assert way.most >= DEPTH, f"{way.name} held {way.most}"
        assert way.through > STEPS * min(sync, memory) / 100 * (100 - stall) / 100 / 4, f"{way.name}: {way.through} came through"


def test_a_stream_goes_at_the_full_rate_of_the_slower_clock():
    """No channel is the bottleneck: a place is free again before the queue is full."""
    for sync, memory in ((10.0, 7.5), (10.0, 10.0), (10.0, 20.0)):
        m = Module()
        m.submodules.dut = dut = AxiCrossing(PARAMS)
        for name in ("sync", MEMORY):
            m.domains += ClockDomain(name)
        m.d.comb += [dut.read.r.ready.eq(1), dut.far_read.r.valid.eq(1)]
        beats = 0

        async def count(ctx: Any, dut: AxiCrossing = dut) -> None:
            nonlocal beats
            await ctx.tick().repeat(40)
            for _ in range(400):
                *_, valid = await ctx.tick().sample(dut.read.r.valid)
                beats += valid

        simulator = Simulator(m)
        simulator.add_clock(sync * 1e-9, domain="sync")
        simulator.add_clock(memory * 1e-9, phase=0.3 * memory * 1e-9, domain=MEMORY)
        simulator.add_testbench(count)
        simulator.run()
        assert beats >= 400 * min(1, sync / memory) - 2
