"""Cycles of convolutions whose output channels leave lanes of the last block empty, with pixels of the result there and without.

The default configuration on the reference system, device "cycle", whose cycles are the RTL's. Each row is one convolution, whose
result the CPU reads, or two alike, of which the second reads the first's result on the accelerator. Outputs are compared with the
CPU's.

    python benchmarks/vta_few_channels.py             print the table
    python benchmarks/vta_few_channels.py --write     write it into docs/vta.md
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
from page_parts import write_between

from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.runtime.module import Module
from vtakit.runtime.target import Image
from vtakit.runtime.vta.target import Vta, image_of_parts

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))  # where the networks are
NETS, SUPPORT = import_module("integer_nets"), import_module("model_support")
PAGE = ROOT / "docs" / "vta.md"
BEGIN, END = "<!-- begin: benchmarks/vta_few_channels.py --write -->\n", "<!-- end -->\n"
PEAK = 256
# Height and width, input channels, output channels, kernel, stride.
CASES = (
    (56, 64, 1, 3, 1), (56, 64, 1, 5, 1), (224, 16, 1, 3, 1), (56, 64, 1, 1, 1), (56, 64, 3, 3, 1), (56, 64, 4, 3, 1),
    (56, 64, 4, 3, 2), (56, 64, 8, 3, 1), (28, 20, 20, 3, 1), (28, 36, 36, 3, 1), (28, 100, 100, 3, 1), (28, 64, 72, 3, 1),
    (14, 64, 20, 3, 1),
)
Case = tuple[int, int, int, int, int]


def network(case: Case, *, within: bool) -> Graph:
    """One convolution, or two of which the second reads what the first makes."""
    size, ins, outs, kernel, stride = case
    net = NETS.Integers("few")
    x = net.conv(net.input(1, ins, size, size), outs, kernel, stride, name="conv")
    made: Graph = net.finish(net.conv(x, outs, kernel, name="next") if within else x)
    return made


def compiled(graph: Graph, given: dict[str, dict[str, list[int]]] | None = None) -> tuple[Image, dict[str, list[int]]]:
    """The network for the accelerator, and how many pixels (down, across) are in a block of its layers."""
    target, decisions = Vta.make().ready(graph.name), ModelDecisions(given)
    parts = compile_parts(graph, CpuKernels(target.processor), target, decisions=decisions)
    return image_of_parts(parts, target), {layer: each.chosen for layer, each in decisions if each.name == "pixels"}


def cycles(graph: Graph, image: Image) -> tuple[int, int]:
    """Cycles and multiply-accumulates of a network whose outputs are the CPU's."""
    given = NETS.inputs_of(graph)
    with Module(image, "cycle") as module:
        made, counters = module.run(given), module.counters
        for name, array in SUPPORT.module_of(graph).run(given).items():
            assert np.array_equal(made[name], array), f"{graph.name}: {name} is not the CPU's"
        macs = sum(layer.macs for part in image.parts for layer in part.layers)
        return sum(each["cycles"] for each in counters), macs


def row(case: Case, *, within: bool) -> str:
    """One row of the table."""
    size, ins, outs, kernel, stride = case
    graph = network(case, within=within)
    image, chosen = compiled(graph)
    plain, _ = compiled(graph, {layer: {"pixels": [1, 1]} for layer in chosen})
    (before, macs), (after, _) = cycles(graph, plain), cycles(graph, image)
    ways = ", ".join(dict.fromkeys(f"{down} x {across}" for down, across in chosen.values())) or "1 x 1"
    what = f"{size}x{size}, {ins}->{outs}, {kernel}x{kernel}, stride {stride}"
    numbers = f"{before:,} | {after:,} | {before / after:.2f} | {macs / before / PEAK:.1%} | {macs / after / PEAK:.1%}"
    return f"| {what} | {'a convolution' if within else 'the CPU'} | {ways} | {numbers} |"


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/vta.md instead of printing it")
    args = parser.parse_args()
    head = ("convolution", "its result is read by", "pixels in a block", "cycles, one pixel", "cycles, packed", "faster by",
            "of peak before", "of peak")
    rows = [row(case, within=within) for case in CASES for within in (False, True) if not (within and case[4] > 1)]
    table = "\n".join([f"| {' | '.join(head)} |", f"|---|---|---|{'---:|' * (len(head) - 3)}", *rows]) + "\n"
    if not args.write:
        sys.stdout.write(table)
        return
    write_between(PAGE, BEGIN, table, END)


if __name__ == "__main__":
    main()
