"""Named memory systems: what a stream and a first read take, and the cycles of ResNet-18, from the cycle model.

The default configuration; ResNet-18 at 224x224 in integers, weights at random, compiled for each system and for the reference
system.

    python benchmarks/memory_systems.py [--only NAME]    print the table
    python benchmarks/memory_systems.py --write          write it into docs/targets.md, and what is exact into
                                                         tests/data/memory_systems.json
    python benchmarks/memory_systems.py --confirm NAME   run ResNet-18 for one system on the RTL too, and compare
"""

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from page_parts import write_between

from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import MemType
from vtakit.hw.isa.program import BufferKind
from vtakit.hw.system import REFERENCE, SYSTEMS, System
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim import run, run_image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))
NETS, SUPPORT = import_module("integer_nets"), import_module("model_support")
PAGE, GOLDEN = ROOT / "docs" / "targets.md", ROOT / "tests" / "data" / "memory_systems.json"
BEGIN, END = "<!-- begin: benchmarks/memory_systems.py --write -->\n", "<!-- end: memory systems -->\n"
CORE_MHZ = {"ulx3s": 80, "pynq": 100, "ultra96": 200}  # the core's clock that a system assumes


def load_cycles(system: System, elements: int) -> int:
    """Return the cycles of a program that loads so many weights of 256 bytes, which lie one behind the other."""
    fields: dict[str, Any] = {"memory_type": MemType.WGT, "y_size": 1, "x_size": elements, "x_stride": elements}
    words = [encode(DEFAULT, "load", **fields), encode(DEFAULT, "finish")]
    image = to_bytes(words).ljust(1 << 19, b"\0")
    return run_image(image, 0, len(words), DEFAULT, "cycle", data=False, system=system).counters["cycles"]


def stream(system: System) -> float:
    """Return the bytes a cycle of a LOAD of weights, from the difference between a long and a short one."""
    short, long = 256, 1024
    return (long - short) * DEFAULT.wgt_bytes / (load_cycles(system, long) - load_cycles(system, short))


def resnet_cycles(programs: list[Any], system: System, device: str = "cycle") -> tuple[int, float]:
    """Return the cycles of ResNet-18's programs, and the seconds of processor time that the simulator takes."""
    options: dict[str, Any] = {"data": False} if device == "cycle" else {}
    total, seconds = 0, 0.0
    for program in programs:
        inputs = {b.name: bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT}
        begin = time.process_time()
        total += run(program, inputs, device=device, system=system, **options).counters["cycles"]
        seconds += time.process_time() - begin
    return total, seconds


def programs_for(system: System) -> list[Any]:
    """Compile ResNet-18 for a memory system."""
    graph = NETS.resnet18()
    image = SUPPORT.vta_image(graph, system=system)
    return [part.program for part in image.parts_of(VtaPart)]


def measure(name: str, usual: list[Any]) -> dict[str, Any]:
    """Return the figures of a system; `usual`: programs for the reference system."""
    system = SYSTEMS[name]
    made = usual if system == REFERENCE else programs_for(system)
    resnet_cycles(made[:1], system)  # machine code is loaded
    cycles, seconds = resnet_cycles(made, system)
    return {
        "stream": round(stream(system), 2), "made for it": cycles, "made for reference": resnet_cycles(usual, system)[0],
        "seconds": seconds,
    }


def row(name: str, figures: dict[str, Any]) -> str:
    """Return a line of the table."""
    system, clock = SYSTEMS[name], CORE_MHZ.get(name)
    cycles = figures["made for it"]
    time_ms = "" if clock is None else f"{cycles / clock / 1000:.1f}"
    rates = f"{system.peak_bytes_a_cycle:.3g} | {figures['stream']:.2f}"
    return (f"| `{name}` | {system.kind} | {'' if clock is None else clock} | {rates} | "
            f"{system.bytes_a_cycle:.2f} | {system.read_latency} | {cycles:,} | {figures['made for reference']:,} | {time_ms} |")


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", choices=SYSTEMS, help="only this system")
    parser.add_argument("--write", action="store_true", help="write the page and the file of cycles instead of printing")
    parser.add_argument("--confirm", metavar="NAME", choices=SYSTEMS, help="compare ResNet-18 for this system with the RTL")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every system: leave out --only")
    if args.confirm:
        system = SYSTEMS[args.confirm]
        made = programs_for(system)
        told, found = resnet_cycles(made, system)[0], resnet_cycles(made, system, "rtl")[0]
        print(f"{args.confirm}: {told:,} cycles by the cycle model, {found:,} by the RTL")
        sys.exit(told != found)
    usual = programs_for(REFERENCE)
    kept, rows = {}, []
    for name in SYSTEMS:
        if args.only in (None, name):
            figures = measure(name, usual)
            rows.append(row(name, figures))
            print(f"{rows[-1]} simulated in {figures.pop('seconds'):.2f} s", flush=True)
            kept[name] = figures
    if not args.write:
        return
    head = ("system", "kind", "core, MHz", "peak, bytes a cycle", "a long LOAD", "assumed by tiles", "read latency",
            "ResNet-18, cycles", "made for `reference`", "ms")
    table = "\n".join([f"| {' | '.join(head)} |", f"|---|---|{'---:|' * (len(head) - 2)}", *rows]) + "\n"
    write_between(PAGE, BEGIN, table, END)
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
