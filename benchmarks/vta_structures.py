"""Networks that are no classifiers, on the accelerator: launches, share of the MACs, exact cycles, what the CPU has and why.

U-Net, a detector, DeepLab v3, EDSR, ViT-tiny and temporal convolutions, at reduced size, of tests/compiler/structured_nets.py;
BERT-Mini of `vtakit.models`. Weights are random; `vtakit.quantize` makes int8 of them. Every output of the functional simulator
is compared with that of the compiled code of the CPU alone. Default configuration, reference system.

    python benchmarks/vta_structures.py [--only TEXT] [--device rtl]     print the table; run and compare on the RTL too
    python benchmarks/vta_structures.py --write                          write it into docs/networks.md, and what is exact into
                                                                         tests/data/vta_structures.json
"""

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from page_parts import write_between

import vtakit
from vtakit.runtime.module import Module
from vtakit.sim.confirmed import DEVICES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))  # where the networks are
NETS = import_module("structured_nets")
PAGE, GOLDEN = ROOT / "docs" / "networks.md", ROOT / "tests" / "data" / "vta_structures.json"
BEGIN, END = "<!-- begin: benchmarks/vta_structures.py --write -->\n", "<!-- end -->\n"
PEAK = 256  # multiply-accumulates a cycle
Made = tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]


def _structure(name: str) -> Callable[[], Made]:
    return lambda: (NETS.quantized(name), {"image": NETS.samples(name, 1, 5)})


def _bert() -> Made:
    samples = vtakit.models.inputs("bert_mini", 2)
    model = vtakit.quantize(vtakit.models.build("bert_mini"), samples, evaluation=samples).model
    return model, vtakit.models.inputs("bert_mini", 1, seed=5)


NETWORKS: dict[str, Callable[[], Made]] = {
    f"{each.title}, {'x'.join(map(str, each.shape[1:]))}": _structure(name) for name, each in NETS.NETWORKS.items()
} | {"BERT-Mini, 128 tokens": _bert}


def measure(name: str, device: str = "cycle") -> tuple[dict[str, Any], list[str]]:
    """Exact numbers of a network, and what of it is left to the CPU, by the reason."""
    model, given = NETWORKS[name]()
    module = vtakit.compile(model, "vta", batch=1, cache=False)
    want, found = vtakit.compile(model, batch=1, cache=False).run(given), module.run(given)
    wrong = sum(int((found[output] != array).sum()) for output, array in want.items())
    with Module(module.image, "cycle", data=False) as quick:
        quick.run(given)
        cycles = sum(counters["cycles"] for counters in quick.counters)
    if device == "rtl":
        with Module(module.image, "rtl") as hardware:
            made = hardware.run(given)
            took = sum(counters["cycles"] for counters in hardware.counters)
        assert took == cycles, f"{name}: the cycle model has {cycles} cycles, and the hardware {took}"
        assert all(np.array_equal(made[output], array) for output, array in want.items()), f"{name}: the hardware differs"
    placement = module.placement
    exact = {"launches": placement.launches, "layers": len(placement.accelerator), "macs": placement.macs,
             "share": round(placement.share_of_macs or 0, 4), "cycles": cycles, "differ": wrong}
    reasons: dict[str, dict[str, int]] = {}
    for each in placement.left:
        counts = reasons.setdefault(each.reason, {})
        counts[each.op] = counts.get(each.op, 0) + 1
    return exact, [f"{', '.join(f'{count} {op}' for op, count in counts.items())}: {why}" for why, counts in reasons.items()]


def main() -> int:
    """Parse the arguments, measure, print or write; return 1 if an output differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--device", choices=DEVICES, default="cycle", help="rtl: the RTL runs every network too")
    parser.add_argument("--write", action="store_true", help="write the page and the file of cycles instead of printing")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every network: leave out --only")
    head = ("network", "launches", "layers", "MACs", "of all", "cycles", "of peak", "outputs that differ")
    kept, lines = {}, [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for name in NETWORKS:
        if args.only in name:
            exact, left = measure(name, args.device)
            kept[name] = exact
            lines.append(line(name, exact))
            print(lines[-1], *left, sep="\n    ", file=sys.stderr, flush=True)
    table = "\n".join(lines) + "\n"
    if args.write:
        write_between(PAGE, BEGIN, table, END)
        GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    else:
        sys.stdout.write(table)
    return int(any(exact["differ"] for exact in kept.values()))


def line(name: str, exact: dict[str, Any]) -> str:
    """Return a network's row of the table."""
    peak = exact["macs"] / exact["cycles"] / PEAK
    numbers = (f"{exact['launches']} | {exact['layers']} | {exact['macs']:,} | {exact['share']:.1%} | {exact['cycles']:,} | "
               f"{peak:.1%} | {exact['differ']}")
    return f"| {name} | {numbers} |"


if __name__ == "__main__":
    sys.exit(main())
