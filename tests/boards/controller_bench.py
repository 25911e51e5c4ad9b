"""The SDRAM controller in Verilator beside a checking chip, under random traffic.

    python tests/boards/controller_bench.py [--requests 1000000] [--seed 0]   random requests of each pattern
    python tests/boards/controller_bench.py --bandwidth                       share of the peak, by pattern

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
from amaranth.lib.wiring import In, Out

from vtakit.boards.memory.chips import Chip, find_chip
from vtakit.boards.memory.controller import SdramController
from vtakit.boards.memory.signals import chip_pins
from vtakit.cache.libraries import load_library
from vtakit.hw.dram import Dram
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME
from vtakit.sim.board.build import library
from vtakit.sim.board.library import CSdram, c_sdram

HARNESS = Path(__file__).with_name("controller_bench.cpp")
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
                fields = [(getattr(self, f"{channel}_{n}"), stream.payload[n]) for n, _ in member.signature.members["payload"].shape]
                if member.flow is Out:
                    m.d.comb += [stream.valid.eq(valid), ready.eq(stream.ready), *(value.eq(pin) for pin, value in fields)]
                else:
                    m.d.comb += [valid.eq(stream.valid), stream.ready.eq(ready), *(pin.eq(value) for pin, value in fields)]
        for name, member in chip_pins(self._dram).members.items():
            mine, theirs = getattr(self, name), getattr(controller.chip, name)
            m.d.comb += mine.eq(theirs) if member.flow is Out else theirs.eq(mine)
        return m


class _Settings(ctypes.Structure):
    _fields_ = [
        ("chip", CSdram), ("memory", ctypes.c_void_p), ("wanted", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("size", "seed", "pattern", "requests", "write_percent", "stall", "pause", "max_cycles")),
        ("trace", ctypes.c_void_p), ("trace_length", ctypes.c_uint64),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "cycles", "first_cycle", "read_beats", "write_beats", "activates", "reads", "writes", "refreshes")),
        ("error", ctypes.c_char * 320),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of a run, and what went wrong, if anything; `share` is the part of the chip's peak that the port's beats took."""

    error: str
    cycles: int
    read_beats: int
    write_beats: int
    activates: int
    refreshes: int
    share: float


class Bench:
    """A controller for `dram` at `mhz` beside `chip`; `planted` is another controller in its place."""

    def __init__(self, chip: Chip, mhz: float, *, dram: Dram | None = None, bus_bits: int = 64, planted: Any = None) -> None:
        self.chip, self.mhz = chip, mhz
        self.params = CoreParams(bus_bits=bus_bits)
        self.dram = dram or chip.timing(mhz)
        power_up = chip.clocks(chip.power_up, mhz)
        make = planted or SdramController
        controller = make(self.params, self.dram, power_up_clocks=power_up)
        text = str(verilog.convert(Flat(self.params, self.dram, controller), name=TOP_NAME, emit_src=False))
        product = library(
            text, HARNESS, what="the SDRAM controller's bench",
            defines={"BUS_BYTES": self.params.bus_bytes, "BURST_BEATS": self.params.burst_beats})
        self.functions = load_library(product.path, product.data)

    def run(
        self, pattern: str, requests: int, *, seed: int = 0, write_percent: int = 30, stall: int = 0, pause: int = 0,
        trace: Any = None,
    ) -> Outcome:
        """Serve so many requests and compare."""
        size = self.dram.capacity_bytes
        memory, wanted = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        settings = _Settings(
            c_sdram(self.chip, self.mhz), memory.ctypes.data, wanted.ctypes.data, size, seed, PATTERNS.index(pattern), requests,
            write_percent, stall, pause, 100_000 + 2_000 * requests, 0 if trace is None else trace.ctypes.data,
            0 if trace is None else len(trace))
        result = _Result()
        self.functions.bench_run(ctypes.byref(settings), ctypes.byref(result))
        took = max(1, result.cycles - result.first_cycle)
        moved = (result.read_beats + result.write_beats) * self.params.bus_bytes
        return Outcome(
            error=result.error.decode(), cycles=result.cycles, read_beats=result.read_beats, write_beats=result.write_beats,
            activates=result.activates, refreshes=result.refreshes, share=moved / (took * self.dram.peak_bytes_a_cycle))


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
        for pattern, writes in (("sequential", 0), ("sequential", 100), ("sequential", 30), ("streams", 0)):
            found = bench.run(pattern, 20_000, write_percent=writes)
            print(f"{pattern}, {writes} % writes: {100 * found.share:.1f} % of the peak {found.error}")
        return
    for pattern in ("uniform", "rows", "streams"):
        begin = time.monotonic()
        found = bench.run(pattern, args.requests, seed=args.seed, stall=5, pause=10)
        print(f"{pattern}: {args.requests:,} requests, seed {args.seed}, {found.cycles:,} clocks, {found.refreshes:,} refreshes, "
              f"{found.activates:,} ACTIVATEs, {time.monotonic() - begin:.0f} s: {found.error or 'no violation, no wrong byte'}", flush=True)
        if found.error:
            sys.exit(1)


if __name__ == "__main__":
    main()
