"""The host's side of the whole core: registers by name over AXI4-Lite with stalls, and the memory port's pins."""

from collections.abc import Mapping
from typing import Any

from vtakit.hw.isa.insns import MEMORIES
from vtakit.hw.isa.regs import REGISTER_BYTES, REGISTERS, mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.sim.bench.agents import Bench, Sink, Source
from vtakit.sim.bench.memory import AxiMemory
from vtakit.sim.bench.ports import ChannelPort, Pins

OKAY, SLVERR = 0, 2
ACCESS_CYCLES = 400  # an access that takes longer never ends


def connect_memory(bench: Bench, params: CoreParams, memory: AxiMemory) -> None:
    """Put a memory on the core's AXI4 pins; the pins that never change are checked in every burst."""
    def channel(name: str, fields: tuple[str, ...], constant: Mapping[str, int] | None = None) -> ChannelPort:
        return ChannelPort(Pins(bench.dut, f"m_axi_{name}"), fields, constant)

    same = {"id": 0, "burst": 1, "size": params.bus_bytes_log2, "lock": 0}
    memory.reads(channel("ar", ("addr", "len"), same), channel("r", ("data", "resp", "last")))
    memory.writes(channel("aw", ("addr", "len"), same), channel("w", ("data", "strb", "last")), channel("b", ("resp",)))
    bench.add(memory)


class Host:
    """Register accesses, one after the other, each channel stalling at random."""

    def __init__(self, bench: Bench, stall: int) -> None:
        def port(channel: str, fields: tuple[str, ...]) -> ChannelPort:
            return ChannelPort(Pins(bench.dut, f"s_axil_{channel}"), fields)

        numbers = bench.random
        self._bench = bench
        self._aw: Source = bench.add(Source(port("aw", ("addr",)), stall, numbers))
        self._w: Source = bench.add(Source(port("w", ("data", "strb")), stall, numbers))
        self._ar: Source = bench.add(Source(port("ar", ("addr",)), stall, numbers))
        self._b: Sink = bench.add(Sink("b", port("b", ("resp",)), stall, numbers))
        self._r: Sink = bench.add(Sink("r", port("r", ("data", "resp")), stall, numbers))

    async def write_word(self, address: int, value: int, strobes: int = 0b1111) -> int:
        """Write 32 bits; returns the response."""
        self._aw.queue.append({"addr": address})
        self._w.queue.append({"data": value, "strb": strobes})
        await self._bench.run(lambda: bool(self._b.items), ACCESS_CYCLES, f"an answer to the write at 0x{address:x}")
        return int(self._b.items.pop()["resp"])

    async def read_word(self, address: int) -> tuple[int, int]:
        """Read 32 bits; returns them and the response."""
        self._ar.queue.append({"addr": address})
        await self._bench.run(lambda: bool(self._r.items), ACCESS_CYCLES, f"an answer to the read at 0x{address:x}")
        item = self._r.items.pop()
        return int(item["data"]), int(item["resp"])

    async def write(self, name: str, value: int) -> list[int]:
        """Write all words of a register, low half first; returns the responses."""
        words = next(r.words for r in REGISTERS if r.name == name)
        at = offset_of(name)
        return [await self.write_word(at + REGISTER_BYTES * n, value >> 32 * n & 0xFFFF_FFFF) for n in range(words)]

    async def read(self, name: str) -> int:
        """Read all words of a register, low half first."""
        words, at, value = next(r.words for r in REGISTERS if r.name == name), offset_of(name), 0
        for n in range(words):
            word, response = await self.read_word(at + REGISTER_BYTES * n)
            assert response == OKAY, f"register {name} answers {response}"
            value |= word << 32 * n
        return value

    async def command(self, field: str) -> int:
        """Write a 1 to a field of `control`; returns the response."""
        return await self.write_word(offset_of("control"), mask_of("control", field))

    async def set_up(self, insn_addr: int, insn_count: int, bases: Mapping[str, int], window: tuple[int, int]) -> None:
        """Write all that a start needs; `bases` by memory type, in lower case."""
        values = {
            "insn_addr": insn_addr, "insn_count": insn_count, "window_low": window[0], "window_high": window[1],
            **{f"base_{kind.name.lower()}": bases.get(kind.name.lower(), 0) for kind in MEMORIES},
        }
        for name, value in values.items():
            responses = await self.write(name, value)
            assert responses == [OKAY] * len(responses), f"writing {name} answers {responses}"

    async def until_idle(self, limit: int) -> dict[str, Any]:
        """Wait until no program runs; returns the fields of `status`, and the error with its instruction."""
        begin = self._bench.cycle
        while True:
            status = await self.read("status")
            if not status & mask_of("status", "busy"):
                break
            assert self._bench.cycle - begin < limit, f"the program has not ended after {limit} cycles"
        error = await self.read("error")
        return {
            "done": bool(status & mask_of("status", "done")), "error": bool(status & mask_of("status", "error")),
            "fault": error & 0xFF, "stage": error >> 8 & 0xFF, "insn": await self.read("error_insn"),
        }
