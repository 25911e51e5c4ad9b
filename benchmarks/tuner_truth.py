"""The tuner against the truth: spaces of small layers on the accelerator, measured exhaustively by the cycle model.

20 layers x 3 configurations x 3 memory systems. Every candidate of a space is compiled and run; then each search tunes each space
anew, with costs from the table, and the trials are counted until it is within 1 % of the best.

    python benchmarks/tuner_truth.py --measure [--only TEXT]   add what is missing to the table (hours), a file for each space
    python benchmarks/tuner_truth.py [--search NAME …]         trials of each search on the spaces that are measured
    python benchmarks/tuner_truth.py --transfer                the same with a model of half of the layers

Wanted: within 1 % of the best using 5 % of the space or 64 trials, whichever is more, in 58 of 60 spaces of each configuration,
and at least 5 times as many trials for random search. Exit status: 1 if it is not so.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from vtakit.compiler.graph.ir import Value
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.tune.model import CostModel, Samples
from vtakit.compiler.tune.search.registry import make_search, needs_model
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Refused, alike
from vtakit.compiler.tune.vta import VtaTask, tasks_of
from vtakit.hw.system import System
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.tune.cycles import cycles_of, program_of
from vtakit.runtime.vta.target import Vta
from vtakit.sim.faults import DeviceError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))
NETS = import_module("integer_nets")
CONFIGS = ("blk32", "default", "compact")
SYSTEMS = {"reference": System(), "half": System(bandwidth=0.5, latency=100), "quarter": System(bandwidth=0.25, latency=60)}
WITHIN = 1.01  # of the best
BATCH = 8  # trials between two looks at the model
SLOW = 3  # times the best so far: a run is ended there, and its cost is that bound
Net = Any

# Layers as networks have them, small enough that every candidate can be run.
LAYERS: dict[str, Callable[[Net], Value]] = {
    "conv3x3 7x7 32-32": lambda n: n.conv(n.input(1, 32, 7, 7), 32),
    "conv3x3 11x11 32-32": lambda n: n.conv(n.input(1, 32, 11, 11), 32),
    "conv3x3 7x7 96-32": lambda n: n.conv(n.input(1, 96, 7, 7), 32),
    "conv3x3 5x5 64-96": lambda n: n.conv(n.input(1, 64, 5, 5), 96),
    "conv3x3/2 14x14 32-32": lambda n: n.conv(n.input(1, 32, 14, 14), 32, stride=2),
    "conv3x3 dilated 9x9 32-32": lambda n: n.conv(n.input(1, 32, 9, 9), 32, dilation=2),
    "conv5x5 7x7 32-32": lambda n: n.conv(n.input(1, 32, 7, 7), 32, 5),
    "conv1x1 14x14 64-32": lambda n: n.conv(n.input(1, 64, 14, 14), 32, 1),
    "conv1x1 7x7 128-64": lambda n: n.conv(n.input(1, 128, 7, 7), 64, 1),
    "conv1x1 13x13 32-96": lambda n: n.conv(n.input(1, 32, 13, 13), 96, 1),
    "conv1x1/2 14x14 64-64": lambda n: n.conv(n.input(1, 64, 14, 14), 64, 1, 2),
    "conv3x3+skip 7x7 32-32": lambda n: n.conv(n.input(1, 32, 7, 7), 32, skip=n.input(1, 32, 7, 7, name="y")),
    "conv1x1+skip 11x11 96-32": lambda n: n.conv(n.input(1, 96, 11, 11), 32, 1, skip=n.input(1, 32, 11, 11, name="y")),
    "conv3x3 wide 3x28 32-32": lambda n: n.conv(n.input(1, 32, 3, 28), 32),
    "deconv4x4/2 7x7 32-32": lambda n: n.deconv(n.input(1, 32, 7, 7), 32),
    "depthwise3x3 28x28 64": lambda n: n.conv(n.input(1, 64, 28, 28), 64, groups=64),
    "depthwise3x3/2 28x28 96": lambda n: n.conv(n.input(1, 96, 28, 28), 96, 3, 2, groups=96),
    "depthwise3x3 14x14 128": lambda n: n.conv(n.input(1, 128, 14, 14), 128, groups=128),
    "dense 512-512": lambda n: n.dense(n.input(1, 512), 512),
    "dense 768-256": lambda n: n.dense(n.input(1, 768), 256),
}


def task_of(layer: str, config: str, system: System) -> VtaTask:
    """Return the task of a layer."""
    net = NETS.Integers("truth")
    graph = net.finish(LAYERS[layer](net))
    target = Vta.make(config=config, system=system)
    (found,) = tasks_of(run_passes(graph, passes_for_cpu(evaluator(target), integer=True)), target)
    assert isinstance(found.task, VtaTask)
    return found.task


def place(layer: str, config: str, folder: Path) -> Path:
    """Return the file of a layer's space on a configuration: lines [row, insns, error, cycles on each system, or -bound]."""
    return folder / f"{config}-{layer.replace('/', '_')}.jsonl"


def measure(layer: str, config: str, folder: Path) -> int:
    """Add the candidates that are missing to a file; returns how many."""
    task = task_of(layer, config, SYSTEMS["reference"])
    path, table = place(layer, config, folder), task.table
    known: dict[int, list[Any]] = {}
    if path.exists():
        lines = path.read_text().splitlines()
        known = {int(entry[0]): entry for entry in map(json.loads, lines)}
    best = {name: min((entry[3][name] for entry in known.values() if not entry[2] and entry[3][name] > 0), default=0)
            for name in SYSTEMS}
    order = [int(at) for at in table.estimates.argsort(kind="stable") if int(at) not in known]
    with path.open("a") as file:
        for at in order:
            entry: list[Any] = [at, 0, "", {}]
            try:
                program = program_of(task, table.candidate(at), 60, check=False)
                entry[1] = len(program.insns)
                for name, system in SYSTEMS.items():
                    most = SLOW * best[name] or None
                    try:
                        cycles = cycles_of(program, system, most)
                        best[name] = min(best[name] or cycles, cycles)
                    except DeviceError:
                        assert most
                        cycles = -most
                    entry[3][name] = cycles
            except Refused as error:
                entry[2] = str(error)
            file.write(json.dumps(entry) + "\n")
            file.flush()
    return len(order)


def known(layer: str, config: str, folder: Path) -> dict[int, list[Any]] | None:
    """Return a measured space by row; None if candidates are missing."""
    path = place(layer, config, folder)
    if not path.exists():
        return None
    rows = {int(entry[0]): entry for entry in map(json.loads, path.read_text().splitlines())}
    return rows if len(rows) >= len(task_of(layer, config, SYSTEMS["reference"]).table) else None


@dataclass(frozen=True, slots=True)
class Space:
    """A measured space of one memory system, with the cost of each candidate by `alike`; None where it is refused."""

    name: str
    task: VtaTask
    costs: dict[str, float | None]

    @property
    def best(self) -> float:
        return min(cost for cost in self.costs.values() if cost is not None)

    @property
    def default(self) -> float:
        """The cost of the default, by the best."""
        cost = self.costs[alike(self.task, defaults(self.task))]
        return math.inf if cost is None else cost / self.best

    @property
    def allowed(self) -> int:
        return max(64, len(self.costs) // 20)

    def needed(self, search: str, seed: int, start: Samples | None = None) -> tuple[int, Samples]:
        """Return the trials of a search until it is within 1 % of the best, and what its model has learned."""
        model = CostModel(seed, start=start) if needs_model(search) else None
        made, count = make_search(search, self.task, seed, model), 0
        while batch := made.propose(BATCH):
            costs = [self.costs[alike(self.task, each)] for each in batch]
            made.tell(batch, costs)
            for cost in costs:
                count += 1
                if cost is not None and cost <= WITHIN * self.best:
                    return count, Samples() if model is None else model.samples
        return count, Samples() if model is None else model.samples


def spaces(folder: Path, config: str, only: str) -> list[Space]:
    """Return the spaces of a configuration that are measured."""
    found = []
    for layer in LAYERS:
        rows = known(layer, config, folder) if only in f"{config} {layer}" else None
        for system in SYSTEMS if rows is not None else ():
            assert rows is not None
            task = task_of(layer, config, SYSTEMS[system])
            costs = {alike(task, task.table.candidate(at)): None if entry[2] else float(abs(entry[3][system]))
                     for at, entry in rows.items()}
            found.append(Space(f"{config} {system} {layer}", task, costs))
    return found


def compare(config: str, found: list[Space], searches: list[str], seeds: int) -> bool:
    """Print the trials of each search on the spaces of a configuration; returns whether the tuner is as wanted."""
    tuner, fine = searches[0], 0
    table: dict[str, list[float]] = {name: [] for name in searches}
    for space in found:
        trials = {name: [space.needed(name, seed)[0] for seed in range(seeds)] for name in searches}
        for name in searches:
            table[name].append(median(trials[name]))
        fine += max(trials[tuner]) <= space.allowed
        print(f"{space.name}: {len(space.costs)} candidates, best {space.best:,.0f}, default {space.default:.3f} of it; "
              + ", ".join(f"{name} {trials[name]}" for name in searches), flush=True)
    refused = sum(cost is None for space in found for cost in space.costs.values())
    hard = [at for at, space in enumerate(found) if space.default > WITHIN]
    ratio = {name: sum(table[name][at] for at in hard) / max(1, sum(table[tuner][at] for at in hard)) for name in searches}
    candidates = sum(len(space.costs) for space in found)
    print(f"{config}: {len(found)} spaces of {candidates:,} candidates, {refused} refused; {tuner} is within "
          f"1 % in time in {fine}; the default is not in {len(hard)}, for which the trials are "
          + ", ".join(f"{name} {sum(table[name][at] for at in hard):.0f} ({ratio[name]:.1f} times)" for name in searches))
    return fine >= len(found) * 58 / 60 and ratio.get("random", math.inf) >= 5


def transfer(found: list[Space], tuner: str) -> bool:
    """Print the trials on the second half of the layers, alone and with a model of the first; returns whether half are enough."""
    names = [*LAYERS]
    first = [space for space in found if names.index(space.name.split(" ", 2)[2]) % 2 == 0]
    second = [space for space in found if space not in first and space.default > WITHIN]
    start: Samples | None = None
    for space in first:
        _, start = space.needed(tuner, 0, start)
    alone, started = ([space.needed(tuner, 0, each)[0] for space in second] for each in (None, start))
    print(f"transfer: {len(second)} spaces of the other layers take {sum(alone)} trials alone, {sum(started)} with a model of "
          f"the first {len(first)}; each: {alone}, {started}")
    return 2 * sum(started) <= sum(alone)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="add what is missing")
    parser.add_argument("--only", default="", metavar="TEXT", help="configurations and layers with this in their names")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "tuner_truth", help="where the measured spaces are")
    parser.add_argument("--search", nargs="+", default=["ranking", "evolution", "genetic", "random"], metavar="NAME",
                        help="searches to compare; the first is the tuner")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--transfer", action="store_true", help="train on half of the layers, and tune the others")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    fine = True
    for config in CONFIGS:
        sizes = {layer: len(task_of(layer, config, SYSTEMS["reference"]).table) for layer in LAYERS} if args.measure else {}
        for layer in sorted(sizes, key=lambda layer: sizes[layer]):
            if args.only in f"{config} {layer}":
                begin = time.perf_counter()
                count = measure(layer, config, args.folder)
                print(f"{config} {layer}: {count} in {time.perf_counter() - begin:.0f} s", flush=True)
        found = [] if args.measure else spaces(args.folder, config, args.only)
        if found:
            fine &= transfer(found, args.search[0]) if args.transfer else compare(config, found, args.search, args.seeds)
    return not fine


if __name__ == "__main__":
    sys.exit(main())
