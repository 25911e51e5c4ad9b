"""Whole networks in integers on the accelerator: launches, exact cycles, and what they take here.

The default configuration on the reference system: one 64-bit AXI4 port, 40 cycles of read latency. Weights are random; those of
networks of `vtakit.models` are what `vtakit.quantize` makes of them. Every output of the RTL and of the functional simulator is
compared with that of the compiled code of the CPU alone. The RTL runs the small network, or all of them.

    python benchmarks/vta_networks.py [--only TEXT]     print the table, with the cycles of the cycle model
    python benchmarks/vta_networks.py --device rtl      the same, with all networks on the RTL and the seconds that it takes
    python benchmarks/vta_networks.py --device rtl --write   write it into docs/networks.md, and what is exact into
                                                        tests/data/vta_networks.json
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
from page_parts import write_between

import vtakit
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.runtime.module import Module
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.confirmed import DEVICES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))  # where the networks and the ways to compile them are
NETS, SUPPORT = import_module("integer_nets"), import_module("model_support")
PAGE, GOLDEN = ROOT / "docs" / "networks.md", ROOT / "tests" / "data" / "vta_networks.json"
MOST_CYCLES = 200_000  # of a network that the RTL always runs
BEGIN, END = "<!-- begin: benchmarks/vta_networks.py --write -->\n", "<!-- end -->\n"


def quantized(name: str) -> Graph:
    """A network of `vtakit.models` in integers."""
    samples = vtakit.models.inputs(name, 2)
    return integer_form(import_model(vtakit.quantize(vtakit.models.build(name), samples, evaluation=samples).model))


NETWORKS: dict[str, Callable[[], Graph]] = {
    "ResNet-18, 224x224": NETS.resnet18,
    "MobileNet v1, 224x224": lambda: quantized("mobilenet_v1"),
    "MobileNet v2, 224x224": lambda: quantized("mobilenet_v2"),
    "DCGAN's generator, 64x64": lambda: quantized("dcgan"),
    "ResNet-18, 32x32, a quarter of the channels": lambda: NETS.resnet18(32, 16, 10),
}


def measure(name: str, device: str = "cycle") -> tuple[dict[str, int], dict[str, float]]:
    """Exact numbers of a network, and seconds of processor time that its steps take: of the RTL, if it runs there."""
    graph, seconds = NETWORKS[name](), {}
    given = NETS.inputs_of(graph)
    begin = time.process_time()
    image = SUPPORT.vta_image(graph)
    seconds["compile"] = time.process_time() - begin
    fast = Module(image, "fsim")
    fast.run(given)
    begin = time.process_time()
    made = fast.run(given)
    seconds["fsim"] = time.process_time() - begin
    with Module(image, "cycle", data=False) as quick:
        quick.run(given)
        cycles = sum(counters["cycles"] for counters in quick.counters)
    found = made
    if device == "rtl" or cycles <= MOST_CYCLES:
        with Module(image, "rtl") as hardware:
            begin = time.process_time()
            found = hardware.run(given)
            seconds["rtl"] = time.process_time() - begin
            took = sum(counters["cycles"] for counters in hardware.counters)
        assert took == cycles, f"{name}: the cycle model has {cycles} cycles, and the hardware {took}"
    for output, array in SUPPORT.module_of(graph).run(given).items():
        assert np.array_equal(made[output], array), f"{name}: the functional simulator's {output} is not the CPU's"
        assert np.array_equal(found[output], array), f"{name}: the hardware's {output} is not the CPU's"
    exact = {
        "launches": len(image.parts_of(VtaPart)), "layers": sum(len(part.layers) for part in image.parts_of(VtaPart)),
        "instructions": sum(len(part.program.insns) for part in image.parts_of(VtaPart)),
        "macs": sum(layer.macs for part in image.parts_of(VtaPart) for layer in part.layers),
        "cycles": cycles,
    }
    return exact, seconds


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--device", choices=DEVICES, default="cycle",
                        help=f"rtl: the RTL runs every network; cycle: those of at most {MOST_CYCLES:,} cycles")
    parser.add_argument("--write", action="store_true", help="write the page and the file of cycles instead of printing")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every network: leave out --only")
    if args.write and args.device != "rtl":
        parser.error("--write needs --device rtl: the table has the RTL's seconds")
    kept, rows = {}, []
    for name in NETWORKS:
        if args.only in name:
            exact, seconds = measure(name, args.device)
            kept[name] = exact
            peak = exact["macs"] / exact["cycles"] / 256
            numbers = f"{exact['launches']} | {exact['layers']} | {exact['macs']:,} | {exact['cycles']:,} | {peak:.1%}"
            rtl = f"{seconds['rtl']:.1f}" if "rtl" in seconds else "not run"
            rows.append(f"| {name} | {numbers} | {seconds['compile']:.1f} | {seconds['fsim']:.2f} | {rtl} |")
    head = ("network", "launches", "layers", "MACs", "cycles", "of peak", "compiled in, s", "fsim, s", "RTL, s")
    table = "\n".join([f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}", *rows]) + "\n"
    if not args.write:
        sys.stdout.write(table)
        return
    write_between(PAGE, BEGIN, table, END)
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
