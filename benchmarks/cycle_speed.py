"""Processor time of the cycle model for whole networks beside that of the RTL, and from a new process to a first result.

The networks of benchmarks/vta_networks.py, the default configuration on the reference system, or another one. Those of the
reference system are kept in tests/data/vta_networks.json: if there are others, the command ends with a sentence.

    python benchmarks/cycle_speed.py [--only TEXT] [--repeat N] [--system NAME]
    python benchmarks/cycle_speed.py --rtl         the RTL runs each network once, and must have the same cycles
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
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


def measure(name: str, repeat: int, system: str, *, rtl: bool) -> tuple[int, float, float | None]:
    """Return a network's cycles, the median of the seconds of processor time that the cycle model takes for them, and the RTL's.

    Raises VtakitError if the RTL has other cycles.
    """
    image = NETWORKS.SUPPORT.vta_image(NETWORKS.NETWORKS[name](), system=system)
    programs = [part.program for part in image.parts_of(VtaPart)]
    given = [{b.name: bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT} for program in programs]

    def once(device: str, **options: Any) -> tuple[int, float]:
        begin = time.process_time()
        results = [run(program, inputs, device=device, system=system, **options)
                   for program, inputs in zip(programs, given, strict=True)]
        return sum(result.counters["cycles"] for result in results), time.process_time() - begin

    runs = [once("cycle", data=False) for _ in range(repeat + 1)]  # machine code is loaded, or made, in the first
    cycles, seconds = runs[0][0], statistics.median(seconds for _, seconds in runs[1:])
    if not rtl:
        return cycles, seconds, None
    on_rtl, took = once("rtl")
    if on_rtl != cycles:
        raise VtakitError(f"{name}: the RTL takes {on_rtl} cycles, and the cycle model says {cycles}")
    return cycles, seconds, took


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--repeat", type=int, default=5, help="runs, of which the median counts (5)")
    parser.add_argument("--system", choices=SYSTEMS, default="reference", help="memory system (reference)")
    parser.add_argument("--rtl", action="store_true", help="run each network on the RTL too, and compare the cycles")
    args = parser.parse_args()
    kept = json.loads(NETWORKS.GOLDEN.read_text())
    print("| network | cycles | s | ns a cycle | RTL, s |\n|---|---:|---:|---:|---:|")
    for name in NETWORKS.NETWORKS:
        if args.only in name:
            try:
                cycles, seconds, rtl = measure(name, args.repeat, args.system, rtl=args.rtl)
            except VtakitError as error:
                sys.exit(str(error))
            if args.system == "reference" and cycles != kept[name]["cycles"]:
                sys.exit(f"{name}: the cycle model has {cycles} cycles, and {NETWORKS.GOLDEN} {kept[name]['cycles']}")
            print(f"| {name} | {cycles:,} | {seconds:.2f} | {seconds / cycles * 1e9:.0f} | "
                  f"{'not run' if rtl is None else f'{rtl:.1f}'} |", flush=True)
    starts = [float(subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True, text=True).stdout)
              for _ in range(args.repeat)]
    print(f"\nfrom a new process to a first result: {statistics.median(starts):.2f} s")


if __name__ == "__main__":
    main()
