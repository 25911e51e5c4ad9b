"""A board behind a link, without a core: memory, registers that show each access, and the ways to reach it."""

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from amaranth.sim import Simulator

from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_REGISTERS, HOST_ADDRESS_BITS
from vtakit.boards.link.link import Link
from vtakit.boards.link.model import BoardModel
from vtakit.boards.link.protocol import MOST_PAYLOAD, REPLY_BYTES, Deframer, Operation, Reply, Request
from vtakit.boards.link.uart import Uart
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams

MEMORY_BYTES = 1 << 16
PARAMS = CoreParams(cfg=NAMED["tiny"], address_bits=32)
ADDER, POPPED, REFUSED = 0x10, 0x14, 0x18  # registers: adds what is written; counts reads; answers with an error
CYCLE_S = 1e-8


class FakeBus:
    """Memory and registers, as a `Bus`; memory beyond `MEMORY_BYTES` answers with an error."""

    def __init__(self) -> None:
        self.memory = bytearray(MEMORY_BYTES)
        self.sum, self.pops = 0, 0
        self.board = {BOARD_REGISTERS["board_identity"]: BOARD_IDENTITY, BOARD_REGISTERS["memory_kib"]: MEMORY_BYTES >> 10,
                      BOARD_REGISTERS["selftest"]: 0b11110}

    def read_register(self, address: int) -> tuple[int, bool]:
        if address == ADDER:
            return self.sum, True
        if address == POPPED:
            self.pops += 1
            return self.pops, True
        return self.board.get(address, 0), address in self.board

    def write_register(self, address: int, value: int) -> bool:
        if address == ADDER:
            self.sum = (self.sum + value) % (1 << 32)
        return address == ADDER

    def read_memory(self, address: int, size: int) -> tuple[bytes, bool]:
        return bytes(self.memory[address : address + size]).ljust(size, b"\0"), address + size <= MEMORY_BYTES

    def write_memory(self, address: int, data: bytes) -> bool:
        if address + len(data) > MEMORY_BYTES:
            return False
        self.memory[address : address + len(data)] = data
        return True


def ask(operation: Operation, sequence: int, session: int = 1, **more: Any) -> bytes:
    """The bytes of a request."""
    return Request(session=session, sequence=sequence, operation=operation, **more).to_bytes()


def replies(data: bytes) -> list[Reply | None]:
    """The replies in bytes of a board."""
    return [Reply.parse(content) for content in Deframer(REPLY_BYTES + MOST_PAYLOAD).feed(data)]


def board_model(bus: FakeBus) -> BoardModel:
    """The board's end in Python."""
    return BoardModel(bus, register_bits=HOST_ADDRESS_BITS, memory_bits=PARAMS.address_bits)


class ModelLine:
    """A `Transport` to a `BoardModel` without any fault; its time passes while nothing comes."""

    def __init__(self, board: BoardModel) -> None:
        self._board, self._time, self._back = board, 0.0, bytearray()

    def send(self, data: bytes) -> None:
        self._back += self._board.feed(data)

    def receive(self, most: int, timeout_s: float) -> bytes:
        if not self._back:
            self._time += timeout_s
        taken, self._back = bytes(self._back[:most]), self._back[most:]
        return taken

    def pause(self, seconds: float) -> None:
        self._time += seconds

    def clock(self) -> float:
        return self._time

    def close(self) -> None:
        pass


@dataclass
class Stalls:
    """Share of the cycles, in percent, in which each side of the bus is not ready."""

    percent: int
    random: random.Random

    def __call__(self) -> bool:
        return self.percent > 0 and self.random.randrange(100) < self.percent


class RtlBoard:
    """The gateware in Amaranth's simulator beside a `FakeBus`, as a `Transport`: by its pins, or with a byte a few cycles.

    divisor    of the UARTs on both sides; 0: bytes without a UART
    stall      percent of cycles in which the bus waits
    """

    def __init__(self, bus: FakeBus, *, divisor: int = 0, stall: int = 0, seed: int = 1, **options: int) -> None:
        self.bus, self._divisor = bus, divisor
        self._stalls = Stalls(stall, random.Random(seed))
        self._to_board: deque[int] = deque()
        self._from_board: deque[int] = deque()
        self.bursts: list[tuple[str, int, int]] = []  # kind, address, beats
        self.dead = False  # the memory takes nothing
        self._link = Link(PARAMS, **options)
        self._rows: deque[int] = deque()
        from amaranth.hdl import Module

        m = Module()
        m.submodules.link = link = self._link
        if divisor:
            m.submodules.board = board = Uart(divisor)
            m.submodules.host = host = Uart(divisor)
            m.d.comb += [board.rx_pin.eq(host.tx_pin), host.rx_pin.eq(board.tx_pin)]
            m.d.comb += [link.rx.valid.eq(board.received.valid), link.rx.payload.eq(board.received.payload)]
            m.d.comb += [board.send.valid.eq(link.tx.valid), board.send.payload.eq(link.tx.payload)]
            m.d.comb += link.tx.ready.eq(board.send.ready)
            self._out, self._in = host.send, host.received
        else:
            self._out, self._in = link.rx, link.tx
        self._sim = Simulator(m)
        self._sim.add_clock(CYCLE_S)
        self._sim.add_testbench(self._line, background=True)
        for bench in (self._registers, self._reads, self._writes):
            self._sim.add_testbench(bench, background=True)
        self._cycles = 0

    def advance(self, cycles: int) -> None:
        self._cycles += cycles
        self._sim.run_until(self._cycles * CYCLE_S)

    # Transport

    def send(self, data: bytes) -> None:
        self._to_board.extend(data)

    def receive(self, most: int, timeout_s: float) -> bytes:
        end = self._cycles + timeout_s / CYCLE_S
        while not self._from_board and self._cycles < end:
            self.advance(20)
        return bytes([self._from_board.popleft() for _ in range(min(most, len(self._from_board)))])

    def pause(self, seconds: float) -> None:
        self.advance(max(1, round(seconds / CYCLE_S)))

    def clock(self) -> float:
        return self._cycles * CYCLE_S

    def close(self) -> None:
        pass

    # Processes of the simulation

    async def _line(self, ctx):
        out, back = self._out, self._in
        ctx.set(back.ready, 1) if not self._divisor else None
        while True:
            if self._to_board:
                ctx.set(out.payload, self._to_board[0])
            ctx.set(out.valid, bool(self._to_board))
            *_, taken, came, byte = await ctx.tick().sample(out.ready & out.valid, back.valid, back.payload)
            if taken:
                self._to_board.popleft()
            if came:
                self._from_board.append(byte)

    async def _registers(self, ctx):
        bus = self._link.registers
        while True:
            *_, aw, ar, at_w, at_r, value = await ctx.tick().sample(
                bus.aw.valid, bus.ar.valid, bus.aw.payload.addr, bus.ar.payload.addr, bus.w.payload.data)
            if aw:
                while self._stalls():
                    await ctx.tick()
                ctx.set(bus.aw.ready, 1)
                await ctx.tick()
                ctx.set(bus.aw.ready, 0)
                while self._stalls():
                    await ctx.tick()
                ctx.set(bus.w.ready, 1)
                await ctx.tick()
                ctx.set(bus.w.ready, 0)
                ctx.set(bus.b.payload.resp, 0 if self.bus.write_register(at_w, value) else 2)
                ctx.set(bus.b.valid, 1)
                await ctx.tick().until(bus.b.ready)
                ctx.set(bus.b.valid, 0)
            elif ar:
                while self._stalls():
                    await ctx.tick()
                ctx.set(bus.ar.ready, 1)
                await ctx.tick()
                ctx.set(bus.ar.ready, 0)
                found, good = self.bus.read_register(at_r)
                ctx.set(bus.r.payload.data, found)
                ctx.set(bus.r.payload.resp, 0 if good else 2)
                ctx.set(bus.r.valid, 1)
                await ctx.tick().until(bus.r.ready)
                ctx.set(bus.r.valid, 0)

    def _burst(self, kind: str, address: int, beats: int) -> None:
        size = PARAMS.bus_bytes
        assert address % size == 0
        assert beats <= PARAMS.burst_beats
        assert address // (size * PARAMS.burst_beats) == (address + beats * size - 1) // (size * PARAMS.burst_beats)
        self.bursts.append((kind, address, beats))

    async def _reads(self, ctx):
        ar, r = self._link.read.ar, self._link.read.r
        while True:
            *_, valid, address, length = await ctx.tick().sample(ar.valid, ar.payload.addr, ar.payload.len)
            if not valid or self.dead or self._stalls():
                continue
            self._burst("read", address, length + 1)
            ctx.set(ar.ready, 1)
            await ctx.tick()
            ctx.set(ar.ready, 0)
            for beat in range(length + 1):
                while self._stalls():
                    await ctx.tick()
                data, good = self.bus.read_memory(address + beat * PARAMS.bus_bytes, PARAMS.bus_bytes)
                ctx.set(r.payload.data, int.from_bytes(data, "little"))
                ctx.set(r.payload.resp, 0 if good else 2)
                ctx.set(r.payload.last, beat == length)
                ctx.set(r.valid, 1)
                *_, ready = await ctx.tick().sample(r.ready)
                assert ready, "the memory waits for the link"
                ctx.set(r.valid, 0)

    async def _writes(self, ctx):
        aw, w, b = self._link.write.aw, self._link.write.w, self._link.write.b
        while True:
            *_, valid, address, length = await ctx.tick().sample(aw.valid, aw.payload.addr, aw.payload.len)
            if not valid or self.dead or self._stalls():
                continue
            self._burst("write", address, length + 1)
            ctx.set(aw.ready, 1)
            await ctx.tick()
            ctx.set(aw.ready, 0)
            good = True
            for beat in range(length + 1):
                while self._stalls():
                    await ctx.tick()
                ctx.set(w.ready, 1)
                fields = w.payload.data, w.payload.strb, w.payload.last
                *_, offered, word, strobes, last = await ctx.tick().sample(w.valid, *fields)
                assert offered, "the memory waits for the link"
                assert last == (beat == length)
                ctx.set(w.ready, 0)
                for lane in range(PARAMS.bus_bytes):
                    if strobes >> lane & 1:
                        byte = bytes([word >> 8 * lane & 255])
                        good &= self.bus.write_memory(address + beat * PARAMS.bus_bytes + lane, byte)
            ctx.set(b.payload.resp, 0 if good else 2)
            ctx.set(b.valid, 1)
            await ctx.tick().until(b.ready)
            ctx.set(b.valid, 0)
