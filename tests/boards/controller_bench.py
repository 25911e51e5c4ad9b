"""The SDRAM controller in Verilator beside a checking chip, under random traffic.

    python tests/boards/controller_bench.py [--requests 1000000] [--seed 0]  random requests of three patterns, a third each
    python tests/boards/controller_bench.py --bandwidth                      share of the peak, by pattern and of a core's traffic

Run as a command it needs vtakit to be importable.
"""

import argparse
import ctypes
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from vtakit.boards.memory.chips import Chip, find_chip
from vtakit.boards.memory.controller import SdramController
from vtakit.boards.memory.pins import ChipRegisters
from vtakit.boards.memory.signals import chip_pins
from vtakit.cache.libraries import load_library
from vtakit.hw.dram import Dram
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import INSN_BYTES, NAMED
from vtakit.hw.isa.insns import MEMORIES, Opcode
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME
from vtakit.sim.board.build import library
from vtakit.sim.board.library import CSdram, c_sdram
from vtakit.sim.workloads import Conv2d, conv2d_program

HARNESS = Path(__file__).with_name("controller_bench.cpp")
PINS = Path(__file__).with_name("recorded_pins.h")
BURSTS = np.dtype([("address", "<u8"), ("beats", "<u4"), ("writes", "<u4")])  # `struct replayed`
LONGEST_BYTES = 128  # of the core's bursts
SHAPES = {  # layers of ResNet-18
    "56x56, 64 -> 64, 3x3": Conv2d(height=56, width=56, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1),
    "28x28, 128 -> 256, 1x1, stride 2": Conv2d(
        height=28, width=28, in_channels=128, out_channels=256, kernel=1, stride=2, pad=0),
    "14x14, 256 -> 256, 3x3": Conv2d(height=14, width=14, in_channels=256, out_channels=256, kernel=3, stride=1, pad=1),
}
PATTERNS = ("uniform", "rows", "sequential", "streams", "replay")
POWER_UP_NS = 100_000


class Flat(wiring.Component):
    """The controller with a pin for each signal."""

    def __init__(self, params: CoreParams, dram: Dram, controller: Any) -> None:
        self._params, self._dram, self._controller = params, dram, controller
        members: dict[str, Any] = {"ready": Out(1)}
        for signature in (axi_read(params), axi_write(params)):
            for channel, member in signature.members.items():
                to, back = (In, Out) if member.flow is Out else (Out, In)
                members |= {f"{channel}_valid": to(1), f"{channel}_ready": back(1)}
                members |= {f"{channel}_{name}": to(f.width) for name, f in member.signature.members["payload"].shape}
        members |= {name: member.flow(member.shape, init=member.init) for name, member in chip_pins(dram).members.items()}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.controller = controller = self._controller
        m.d.comb += self.ready.eq(controller.ready)
        for port, signature in ((controller.read, axi_read(self._params)), (controller.write, axi_write(self._params))):
            for channel, member in signature.members.items():
                stream = getattr(port, channel)
                valid, ready = getattr(self, f"{channel}_valid"), getattr(self, f"{channel}_ready")
                names = [name for name, _ in member.signature.members["payload"].shape]
                fields = [(getattr(self, f"{channel}_{name}"), stream.payload[name]) for name in names]
                if member.flow is Out:
                    m.d.comb += [stream.valid.eq(valid), ready.eq(stream.ready), *(value.eq(pin) for pin, value in fields)]
                else:
                    m.d.comb += [valid.eq(stream.valid), stream.ready.eq(ready), *(pin.eq(value) for pin, value in fields)]
        m.submodules.pins = pins = ChipRegisters(self._dram)
        connect(m, controller.chip, pins.inside)
        for name, member in chip_pins(self._dram).members.items():
            mine, theirs = getattr(self, name), getattr(pins.chip, name)
            m.d.comb += mine.eq(theirs) if member.flow is Out else theirs.eq(mine)
        return m


class _Settings(ctypes.Structure):
    _fields_ = [
        ("chip", CSdram), ("memory", ctypes.c_void_p), ("wanted", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in (
            "size", "seed", "pattern", "requests", "write_percent", "stall", "pause", "rests", "max_cycles")),
        ("trace", ctypes.c_void_p), ("record", ctypes.c_void_p), ("record_most", ctypes.c_uint64),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "cycles", "first_cycle", "read_beats", "write_beats", "activates", "reads", "writes", "refreshes")),
        ("error", ctypes.c_char * 320),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of a run, and what went wrong, if anything.

    first_cycle   in which the chip was ready
    share         part of the chip's peak that the port's beats took from then on
    """

    error: str
    cycles: int
    first_cycle: int
    read_beats: int
    write_beats: int
    activates: int
    refreshes: int
    share: float


class Bench:
    """A controller for `dram` at `mhz` beside `chip`, which `dram` may differ from."""

    def __init__(
        self, chip: Chip, mhz: float, *, dram: Dram | None = None, bus_bits: int = 64, optimize: str = "-O2",
    ) -> None:
        self.chip, self.mhz = chip, mhz
        self.params = CoreParams(bus_bits=bus_bits)
        self.dram = dram or chip.timing(mhz)
        power_up = chip.clocks(chip.power_up, mhz)
        controller = SdramController(self.params, self.dram, power_up_clocks=power_up)
        text = str(verilog.convert(Flat(self.params, self.dram, controller), name=TOP_NAME, emit_src=False))
        product = library(
            text, HARNESS, what="the SDRAM controller's bench", optimize=optimize, headers=(PINS,),
            defines={"BUS_BYTES": self.params.bus_bytes, "BURST_BEATS": self.params.burst_beats})
        self.functions = load_library(product.path, product.data)

    def run(
        self, pattern: str, requests: int, *, seed: int = 0, write_percent: int = 30, stall: int = 0, pause: int = 0,
        rests: int = 0, chip: Chip | None = None, record: Any = None,
    ) -> Outcome:
        """Serve so many random requests and compare.

        rests  : of 2,000 cycles, those that begin a rest of up to 3,000
        chip   : another one than the bench's
        record : array for the pins of the first edges, each a number as in recorded_pins.h
        """
        drawn = {"seed": seed, "pattern": PATTERNS.index(pattern), "requests": requests, "write_percent": write_percent,
                 "stall": stall, "pause": pause, "rests": rests}
        if record is not None:
            drawn |= {"record": record.ctypes.data, "record_most": len(record)}
        return self._run(_Settings(c_sdram(chip or self.chip, self.mhz), **drawn))

    def replay(self, bursts: Any) -> Outcome:
        """Serve the bursts of an array, as soon as the controller takes them and none before them overlaps."""
        return self._run(_Settings(
            c_sdram(self.chip, self.mhz), pattern=PATTERNS.index("replay"), requests=len(bursts), trace=bursts.ctypes.data))

    def _run(self, settings: _Settings) -> Outcome:
        size = self.dram.capacity_bytes
        memory, wanted = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        settings.memory, settings.wanted, settings.size = memory.ctypes.data, wanted.ctypes.data, size
        settings.max_cycles = 100_000 + 2_000 * settings.requests
        result = _Result()
        self.functions.bench_run(ctypes.byref(settings), ctypes.byref(result))
        took = max(1, result.cycles - result.first_cycle)
        moved = (result.read_beats + result.write_beats) * self.params.bus_bytes
        return Outcome(
            error=result.error.decode(), cycles=result.cycles, first_cycle=result.first_cycle, read_beats=result.read_beats,
            write_beats=result.write_beats,
            activates=result.activates, refreshes=result.refreshes, share=moved / (took * self.dram.peak_bytes_a_cycle))


def core_traffic(config: str, shape: Conv2d) -> Any:
    """Return the bursts of a convolution's program in its order, 64-bit bus: rows of LOADs and STOREs, and instructions."""
    cfg, params, bursts = NAMED[config], CoreParams(), []

    def move(address: int, size: int, writes: bool) -> None:
        at, end = address // params.bus_bytes * params.bus_bytes, address + size
        while at < end:  # as `BurstGenerator` cuts them
            last = min((at // LONGEST_BYTES + 1) * LONGEST_BYTES, -(-end // params.bus_bytes) * params.bus_bytes)
            bursts.append((at, (last - at) // params.bus_bytes, writes))
            at = last

    image = conv2d_program(cfg, shape).link()
    for n in range(image.insn_count):
        at = image.insn_addr + n * INSN_BYTES
        if at % LONGEST_BYTES == 0:
            move(at, LONGEST_BYTES, False)
        insn = decode(cfg, int.from_bytes(image.dram[at : at + INSN_BYTES], "little"))
        if insn.op in (Opcode.LOAD, Opcode.STORE):
            size = MEMORIES[insn["memory_type"]].bytes_in(cfg)
            for row in range(insn["y_size"] if insn["x_size"] else 0):
                move((insn["dram_base"] + row * insn["x_stride"]) * size, insn["x_size"] * size, insn.op is Opcode.STORE)
    return np.array(bursts, BURSTS)


@cache
def usual(bus_bits: int = 64, chip: str = "MT48LC16M16A2-75", mhz: float = 80) -> Bench:
    """The bench of a chip that nothing is planted in."""
    return Bench(find_chip(chip), mhz, bus_bits=bus_bits)


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bandwidth", action="store_true", help="measure streams instead")
    args = parser.parse_args()
    bench = usual()
    if args.bandwidth:
        for pattern, writes in (("sequential", 0), ("sequential", 100), ("streams", 30), ("rows", 30), ("uniform", 30)):
            found = bench.run(pattern, 20_000, write_percent=writes)
            print(f"{pattern}, {writes} % writes: {100 * found.share:.1f} % of the peak {found.error}")
        for config in ("default", "blk8"):
            for name, shape in SHAPES.items():
                found = bench.replay(core_traffic(config, shape))
                moved = found.read_beats + found.write_beats
                print(f"core {config}, {name}: {100 * found.share:.1f} % of the peak, "
                      f"{100 * found.write_beats / moved:.0f} % writes {found.error}", flush=True)
        return
    for pattern in ("uniform", "rows", "streams"):
        begin, requests = time.monotonic(), -(-args.requests // 3)
        found = bench.run(pattern, requests, seed=args.seed, stall=5, pause=10, rests=1)
        print(f"{pattern}: {requests:,} requests, seed {args.seed}, {found.cycles:,} clocks, {found.refreshes:,} refreshes, "
              f"{found.activates:,} ACTIVATEs, {time.monotonic() - begin:.0f} s: {found.error or 'no violation, no wrong byte'}",
              flush=True)
        if found.error:
            sys.exit(1)


if __name__ == "__main__":
    main()
