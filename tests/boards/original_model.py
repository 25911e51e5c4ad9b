"""The original's registers, as its HLS and Chisel designs have them, in front of our functional simulator.

Time passes with each access. A program runs at once when its FINISH is met; what its blocks show before takes a random time.
"""

import random
from pathlib import Path

from vtakit.hw.isa.config import VTAConfig
from vtakit.sim import run_image

START, DONE, IDLE, RESTART = 1, 2, 4, 0x80


class Core:
    """The accelerator behind the registers: memory is a file that lies at an address."""

    def __init__(self, config: VTAConfig, memory: Path, start: int) -> None:
        self.config, self.memory, self.start = config, memory, start
        self.runs = 0

    def run(self, insn_addr: int, insn_count: int) -> None:
        """Run a program of physical addresses."""
        self.runs += 1
        dram = bytes(self.start) + self.memory.read_bytes()
        left = run_image(dram, insn_addr, insn_count, self.config, published=True).dram
        assert left[: self.start] == dram[: self.start]
        with self.memory.open("r+b") as file:
            file.write(left[self.start :])


class HlsModel:
    """Four blocks. `done` keeps its last value until compute's first instruction of a program, which may be late.

    hangs   no program ends
    """

    def __init__(self, core: Core, seed: int = 0, *, hangs: bool = False) -> None:
        self.core, self.hangs, self._draw = core, hangs, random.Random(seed)
        self.now = 0
        self.words = {0x2018: 0, 0x201C: 0}
        self.control = dict.fromkeys((0, 0x1000, 0x2000, 0x3000), IDLE)
        self.events: list[tuple[int, str]] = []
        self.closed = False

    def read(self, address: int) -> int:
        self._pass()
        if address in self.control:
            value = self.control[address]
            self.control[address] &= ~DONE  # cleared by a read
            return value
        value = self.words[address]
        if address == 0x201C:
            self.words[address] = 0  # likewise
        return value

    def write(self, address: int, value: int) -> None:
        self._pass()
        assert 0 <= value < 1 << 32
        if address not in self.control:
            assert address in (0x10, 0x18, 0x1010, 0x1018, 0x2010, 0x2020, 0x2028, 0x3010), hex(address)
            self.words[address] = value
        elif address:
            self.control[address] = self.control[address] & ~RESTART | value & RESTART
        elif value & START:
            assert self.control[0] & IDLE, "fetch is started while it runs"
            self.control[0] &= ~(IDLE | DONE)
            fetched, first = (self.now + self._draw.randint(1, 30) for _ in range(2))
            self.events = [(fetched, "fetched"), (first, "first"), (max(fetched, first) + self._draw.randint(1, 30), "finish")]

    def close(self) -> None:
        self.closed = True

    def _pass(self) -> None:
        self.now += 1
        moving = all(value & RESTART for block, value in self.control.items() if block)
        for event in sorted(self.events):
            at, what = event
            if at > self.now or (what != "fetched" and (not moving or self.hangs)):
                continue
            self.events.remove(event)
            if what == "fetched":
                self.control[0] |= DONE | IDLE
            else:
                if what == "finish":
                    bases = (0x1010, 0x1018, 0x2020, 0x2028, 0x3010)
                    assert all(self.words[base] == 0 for base in bases)
                    self.core.run(self.words[0x18], self.words[0x10])
                self.words[0x2018], self.words[0x201C] = int(what == "finish"), 1


class VcrModel:
    """One page: control, cycles, number of instructions, six addresses of `words` words each."""

    def __init__(self, core: Core, words: int, seed: int = 0) -> None:
        self.core, self._words, self._draw = core, words, random.Random(seed)
        self.registers = [0] * (3 + 6 * words + 1)
        self.left = 0
        self.cycles = 0

    def read(self, address: int) -> int:
        self._pass()
        return self.registers[address // 4]

    def write(self, address: int, value: int) -> None:
        self._pass()
        assert 0 <= value < 1 << 32
        self.registers[address // 4] = value
        if address == 0 and value & 1:
            self.left = self.cycles = self._draw.randint(1, 50)

    def close(self) -> None:
        pass

    def _pass(self) -> None:
        if self.registers[0] & 1:
            self.left -= 1
            if self.left <= 0:
                first = sum(self.registers[3 + n] << 32 * n for n in range(self._words))
                assert not any(self.registers[3 + self._words : 3 + 6 * self._words])
                self.core.run(first, self.registers[2])
                self.registers[:2] = 2, self.cycles
