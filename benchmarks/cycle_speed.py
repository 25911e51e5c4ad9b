"""Processor time of the cycle model for whole networks, and from a new process to a first result.

The networks of benchmarks/vta_networks.py, the default configuration on the reference system, or another one. Those of the
reference system are kept in tests/data/vta_networks.json: if there are others, the command ends with a sentence.

    python benchmarks/cycle_speed.py [--only TEXT] [--repeat N] [--system NAME]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from vtakit.hw.isa.program import BufferKind
from vtakit.hw.system import SYSTEMS
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim import run

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "compiler")]
NETWORKS = import_module("vta_networks")
FIRST = """
from resource import RUSAGE_SELF, getrusage
from vtakit.hw.isa.config import NAMED
from vtakit.sim import run_image
from vtakit.sim.random_programs import random_program
p = random_program(NAMED["default"], 0)
run_image(p.dram, p.insn_addr, p.insn_count, "default", "cycle", bases=p.bases, data=False)
used = getrusage(RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def measure(name: str, repeat: int, system: str) -> tuple[int, float]:
    """Return a network's cycles, and the median of the seconds of processor time that the cycle model takes for them."""
    image = NETWORKS.SUPPORT.vta_image(NETWORKS.NETWORKS[name](), system=system)
    programs = [part.program for part in image.parts_of(VtaPart)]
    given = [{b.name: bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT} for program in programs]
    cycles, seconds = 0, []
    for _ in range(repeat + 1):  # machine code is loaded, or made, in the first
        begin = time.process_time()
        results = [run(program, inputs, device="cycle", data=False, system=system)
                   for program, inputs in zip(programs, given, strict=True)]
        seconds.append(time.process_time() - begin)
        cycles = sum(result.counters["cycles"] for result in results)
    return cycles, statistics.median(seconds[1:])


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--repeat", type=int, default=5, help="runs, of which the median counts (5)")
    parser.add_argument("--system", choices=SYSTEMS, default="reference", help="memory system (reference)")
    args = parser.parse_args()
    kept = json.loads(NETWORKS.GOLDEN.read_text())
    print("| network | cycles | s | ns a cycle |\n|---|---:|---:|---:|")
    for name in NETWORKS.NETWORKS:
        if args.only in name:
            cycles, seconds = measure(name, args.repeat, args.system)
            if args.system == "reference" and cycles != kept[name]["cycles"]:
                sys.exit(f"{name}: the cycle model has {cycles} cycles, and {NETWORKS.GOLDEN} {kept[name]['cycles']}")
            print(f"| {name} | {cycles:,} | {seconds:.2f} | {seconds / cycles * 1e9:.0f} |", flush=True)
    starts = [float(subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True, text=True).stdout)
              for _ in range(args.repeat)]
    print(f"\nfrom a new process to a first result: {statistics.median(starts):.2f} s")


if __name__ == "__main__":
    main()
