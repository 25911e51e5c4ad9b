"""Programs on the core as synthesis leaves it, against the definition and the cycle model.

    python tests/boards/netlist_programs.py [--config tiny] [--programs 200] [--seed 0]

Random programs, and those of the original where the configuration has some (tests/data/golden), with a good and a bad memory:
bytes as the definition gives them, cycles as the cycle model. Synthesis takes minutes for `tiny` and `blk8`.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "sim"))

from test_golden import CONFIGS, programs

from vtakit.boards.synth.netlist import netlist
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.random_programs import random_program
from vtakit.sim.rtl import simulate
from vtakit.sim.rtl.library import Library
from vtakit.sim.rtl.netlist import netlist_library

MEMORIES = ({}, {"stall": 40, "seed": 3, "latency": 25, "outstanding": 3})
Case = tuple[str, bytes, int, int, dict[str, int]]


def random_cases(params: CoreParams, seed: int, count: int) -> Iterator[Case]:
    """Yield random programs that may use all that the core has: name, memory, place and number of instructions, bases."""
    for number in range(seed, seed + count):
        program = random_program(params.cfg, number, features=params.features)
        yield f"random program {number}", program.dram, program.insn_addr, program.insn_count, program.bases


def golden_cases(config: str) -> Iterator[Case]:
    """Yield the original's programs."""
    for golden in programs(config) if config in CONFIGS else ():
        yield f"golden program {golden.number}", golden.dram, golden.insn_addr, golden.insn_count, {}


def compare(params: CoreParams, core: Mapping[str, Any], library: Library, cases: Iterator[Case]) -> tuple[int, int]:
    """Run programs on a netlist's model. Returns how many, and the cycles that they took in all.

    core    fields of `params` that are not the default

    Raises AssertionError where bytes or cycles differ.
    """
    count = cycles = 0
    with patch("vtakit.sim.rtl.host.library", lambda params, wave="": library):
        for name, dram, insn_addr, insn_count, bases in cases:
            want = run_image(dram, insn_addr, insn_count, params.cfg, bases=bases).dram
            for memory in MEMORIES:
                around = {"bases": bases, "bus_bits": params.bus_bits, "core": core, "max_cycles": 5_000_000, **memory}
                found = simulate(params.cfg, bytearray(dram), insn_addr, insn_count, **around)
                assert found.dram == want, f"{name}, memory {memory}: the netlist leaves other bytes"
                model = run_image(dram, insn_addr, insn_count, params.cfg, "cycle", data=False, **around).counters["cycles"]
                took = found.counters["cycles"]
                assert took == model, f"{name}, memory {memory}: {took} cycles, and {model} in the model"
                cycles += took
            count += 1
    return count, cycles


def main() -> None:
    """Parse the arguments, synthesise, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", choices=sorted(NAMED), default="tiny")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    params = CoreParams(cfg=NAMED[args.config])
    begin = time.monotonic()
    library = netlist_library(params, netlist(params))
    print(f"{args.config}: netlist synthesised and its model built in {time.monotonic() - begin:.0f} s", flush=True)
    for kind, cases in (("random", random_cases(params, args.seed, args.programs)), ("golden", golden_cases(args.config))):
        begin = time.monotonic()
        count, cycles = compare(params, {}, library, cases)
        seconds = time.monotonic() - begin
        print(f"{count} {kind} programs, twice each, {cycles:,} cycles: all bytes and cycles equal, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
