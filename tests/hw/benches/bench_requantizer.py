"""requantizer against the definition: random parameters, values with gaps between, extremes at every shift."""

import cocotb
import numpy as np
from board import PARTS, PARTS_LANES, blocks

from vtakit.hw.isa.codec import encode_requant
from vtakit.hw.timing import REQUANT_LATENCY
from vtakit.hw.values import pack, unpack
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.plain import requantized
from vtakit.sim.random_parameters import random_parameters

LANES = PARTS.batch * PARTS.block


def number(values, bits):
    return int.from_bytes(pack(values, bits).tobytes(), "little")


class State:
    """The block with the parameters that it holds, and what must come out."""

    def __init__(self, bench):
        self.bench, self.pins = bench, bench.pins
        self.words = np.zeros((3, PARTS.batch, PARTS.block), np.int64)
        self.wanted, self.found = [], []
        bench.watch("result_valid", "result_tag", "results", see=self._see)

    def _see(self, now):
        if now["result_valid"]:
            self.found.append((self.bench.cycle, now["result_tag"], now["results"]))

    async def load(self, words):
        """Give every lane its parameters: int64 [3, batch, block]."""
        while self.pins.get("stays"):
            await self.bench.step()
        await self.bench.step()
        self.words = words
        for n in range(3):
            self.pins.set("loads", 1)
            self.pins.set("word", n)
            self.pins.set("element", number(words[n], 32))
            await self.bench.step()
        self.pins.set("loads", 0)
        self.pins.set("element", self.bench.random.getrandbits(32 * LANES))

    async def give(self, values, part, tag):
        """One part of an element."""
        element = np.zeros(LANES, np.int64)
        mine = slice(part * PARTS_LANES, (part + 1) * PARTS_LANES)
        element[mine] = values
        results = requantized(PARTS, element.reshape(1, PARTS.batch, PARTS.block), self.words).reshape(-1)[mine]
        for name, value in {"valid": 1, "values": number(values, 32), "part": part, "tag": tag}.items():
            self.pins.set(name, value)
        self.wanted.append((self.bench.cycle + REQUANT_LATENCY, tag, number(results, PARTS.out_bits)))
        await self.bench.step()
        self.pins.set("valid", 0)

    async def check(self):
        await self.bench.rest(REQUANT_LATENCY + 2)
        assert not self.pins.get("stays")
        late = self.found[0][0] - self.wanted[0][0]  # how the bench counts cycles; the same for all
        assert late in (-1, 0, 1)
        for at, (got, want) in enumerate(zip(self.found, self.wanted, strict=False)):
            assert (got[0] - late, *got[1:]) == want, f"part {at}: got {got[1:]}, want {want[1:]}"
        assert len(self.found) == len(self.wanted)


@cocotb.test()
@cocotb.parametrize(gaps=STALLS, seed=[0, 1, 2])
async def gives_the_definitions_results(dut, gaps, seed):
    bench = await Bench.start(dut, "requantizer", blocks()["requantizer"], 100 * gaps + seed)
    state, pick = State(bench), bench.random
    numbers = np.random.default_rng(seed)
    for turn in range(12):
        raw = np.frombuffer(random_parameters(PARTS, 1, 100 * seed + turn), np.uint8)
        await state.load(unpack(raw, 32).reshape(3, PARTS.batch, PARTS.block))
        for _ in range(25):
            while pick.randrange(100) < gaps:
                await bench.step()
            wide = numbers.integers(-(2**31), 2**31, PARTS_LANES)
            values = pick.choice((wide, wide >> 18, np.full(PARTS_LANES, 2**31 - 1), np.full(PARTS_LANES, -(2**31))))
            await state.give(values, pick.randrange(LANES // PARTS_LANES), pick.randrange(8))
    await state.check()


@cocotb.test()
@cocotb.parametrize(multiplier=[1, 3, 32768, 65535], bias=[0, -(2**31), 2**31 - 1])
async def every_shift_of_extremes(dut, multiplier, bias):
    bench = await Bench.start(dut, "requantizer", blocks()["requantizer"], multiplier)
    state = State(bench)
    extremes = [-(2**31), -(2**31) + 1, -257, -129, -128, -2, -1, 0, 1, 2, 127, 128, 255, 511, 2**31 - 2, 2**31 - 1]
    for shift in range(64):
        words = encode_requant(PARTS, bias=bias, multiplier=multiplier, shift=shift, zero_point=shift - 32, low=-128, high=127)
        signed = np.array(words, np.uint32).astype(np.int32).astype(np.int64)
        await state.load(np.repeat(signed, LANES).reshape(3, PARTS.batch, PARTS.block))
        for at in range(0, len(extremes), PARTS_LANES):
            await state.give(np.array(extremes[at : at + PARTS_LANES]), 0, 0)
    await state.check()
