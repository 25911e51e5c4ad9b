"""The tuner against the truth: spaces of small layers on the accelerator, measured exhaustively by the cycle model.

20 layers x 3 configurations x 3 memory systems. Every candidate of a space is lowered once, its program made for each system, and
once for all where it is the same (`tuner_programs.py`), and run. Then each search tunes each space anew, with costs from the
table, and the trials are counted until it is within 1 % of the best.

A candidate whose products or bytes alone (`vtakit.compiler.tune.vta_floors`) take twice the best so far on every system is
excluded without a program, but for one in 20, which is run to confirm it; a run is ended after twice the best. Every measurement
is compared with its floor, and those one in 20 are also compiled for each system from the start.

    python benchmarks/tuner_truth.py --measure [--only TEXT]   add what is missing to the table (20 minutes of one core)
    python benchmarks/tuner_truth.py [--search NAME …]         trials of each search on the spaces that are measured
    python benchmarks/tuner_truth.py --transfer                the same with a model of half of the layers

Wanted: within 1 % of the best using 5 % of the space or 64 trials, whichever is more, in 58 of 60 runs of each configuration, a
run being a space with a seed; and at least 5 times as many trials until random search is, in as many runs. Both are compared
without the default as first candidate. A model of half of the layers, trained by as many trials as are allowed, should halve the
trials of the others. Exit status: 1 if it is not so.
"""

import argparse
import gc
import json
import math
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any
from zlib import crc32

import numpy as np
from tuner_layers import LAYERS
from tuner_programs import Programs

from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.tune.model import CostModel, Samples
from vtakit.compiler.tune.search.registry import make_search, needs_model
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Refused, alike
from vtakit.compiler.tune.vta import VtaTask, tasks_of
from vtakit.compiler.tune.vta_floors import floor_of
from vtakit.hw.system import System
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.tune.cycles import cycles_of, function_of, program_of
from vtakit.runtime.vta.target import Vta
from vtakit.sim.faults import DeviceError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))
NETS = import_module("integer_nets")
CONFIGS = ("blk32", "default", "compact")
SYSTEMS = {"reference": System(), "half": System(bandwidth=0.5, latency=100), "quarter": System(bandwidth=0.25, latency=60)}
WITHIN = 1.01  # of the best
RUNS = 58 / 60  # share of the runs that are to be within that
SLOW = 2  # times the best so far: a run is ended there, and its cost is that bound
CONFIRMED = 20  # one in so many candidates that their floors exclude is run all the same

def task_of(layer: str, config: str, system: System) -> VtaTask:
    """Return the task of a layer."""
    net = NETS.Integers("truth")
    graph = net.finish(LAYERS[layer](net))
    target = Vta.make(config=config, system=system)
    (found,) = tasks_of(run_passes(graph, passes_for_cpu(evaluator(target), integer=True)), target)
    assert isinstance(found.task, VtaTask)
    return found.task


def place(layer: str, config: str, folder: Path) -> Path:
    """Return the file of a layer's space on a configuration.

    Lines are [row, instructions or 0, error, cycles on each system, or -bound that they reach at least].
    """
    return folder / f"{config}-{layer.replace('/', '_')}.jsonl"


def measure(layer: str, config: str, folder: Path) -> int:
    """Add the candidates that are missing to a file; returns how many."""
    tasks = {name: task_of(layer, config, system) for name, system in SYSTEMS.items()}
    first, path = tasks["reference"], place(layer, config, folder)
    known: dict[int, list[Any]] = {}
    if path.exists():
        known = {int(entry[0]): entry for entry in map(json.loads, path.read_text().splitlines())}
    best = {name: min((entry[3][name] for entry in known.values() if not entry[2] and entry[3][name] > 0), default=0)
            for name in SYSTEMS}
    order = [int(at) for at in first.table.estimates.argsort(kind="stable") if int(at) not in known]
    if not order:
        return 0
    chosen = np.random.default_rng(crc32(path.name.encode())).random(len(first.table)) < 1 / CONFIRMED
    with path.open("a") as file:
        for at in order:
            entry = _measured(tasks, at, best, bool(chosen[at]))
            file.write(json.dumps(entry) + "\n")
            file.flush()
    return len(order)


def _measured(tasks: dict[str, VtaTask], at: int, best: dict[str, int], confirm: bool) -> list[Any]:
    """Return the line of a candidate, and lower the best cycles of systems; `confirm` it even where its floors exclude it."""
    given = tasks["reference"].table.candidate(at)
    floors = {name: floor_of(task, given) for name, task in tasks.items()}
    slow = {name: best[name] > 0 and floors[name] > SLOW * best[name] for name in tasks}
    if all(slow.values()) and not confirm:
        return [at, 0, "", {name: -floor for name, floor in floors.items()}]
    insns, cycles = 0, dict[str, int]()
    try:
        programs = Programs(function_of(tasks["reference"], given), {name: task.target for name, task in tasks.items()})
        for name, task in sorted(tasks.items(), key=lambda each: each[1].target.system.bytes_a_cycle):
            if slow[name] and not confirm:
                cycles[name] = -floors[name]
                continue
            program = programs.of(name)
            insns = len(program.insns)
            most = max(SLOW * best[name], floors[name]) if best[name] else None
            try:
                cycles[name] = cycles_of(program, task.target, most)
                best[name] = min(best[name] or cycles[name], cycles[name])
            except DeviceError:
                assert most
                cycles[name] = -most
            assert abs(cycles[name]) >= floors[name], f"{task.name}: {given} takes {cycles[name]} cycles, below {floors[name]}"
            if confirm:
                assert task.table.candidate(at) == given
                assert program_of(task, given, 60, check=False).insns == program.insns, f"{task.name}: {given} differs on {name}"
    except Refused as error:
        return [at, insns, str(error), {}]
    return [at, insns, "", cycles]


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

    def trained(self, search: str, seed: int, start: Samples | None) -> Samples:
        """Return what a model has learned from all trials that are allowed."""
        model, count = CostModel(seed, start=start), 0
        made = make_search(search, self.task, seed, model, default=False)
        while count < self.allowed and (batch := made.propose(made.BATCH)):
            made.tell(batch, [self.costs[alike(self.task, each)] for each in batch])
            count += len(batch)
        return model.samples

    def needed(self, search: str, seed: int, start: Samples | None = None, *, default: bool = False) -> int:
        """Return the trials of a search until it is within 1 % of the best.

        start   : of the model

        default : whether the default is the first candidate
        """
        model = CostModel(seed, start=start) if needs_model(search) else None
        made, count = make_search(search, self.task, seed, model, default=default), 0
        while batch := made.propose(made.BATCH):
            costs = [self.costs[alike(self.task, each)] for each in batch]
            made.tell(batch, costs)
            for cost in costs:
                count += 1
                if cost is not None and cost <= WITHIN * self.best:
                    return count
        return count


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
    """Print the trials of each search on the spaces of a configuration; returns whether the tuner is as wanted.

    The tuner's own are with the default as its first candidate, as `vtakit tune` has it; those that are compared are without, of
    all searches.
    """
    tuner, fine, most = searches[0], 0, 0
    runs: dict[str, list[int]] = {name: [] for name in searches}
    table: dict[str, list[float]] = {name: [] for name in searches}
    for space in found:
        own = [space.needed(tuner, seed, default=True) for seed in range(seeds)]
        trials = {name: [space.needed(name, seed) for seed in range(seeds)] for name in searches}
        for name in searches:
            table[name].append(median(trials[name]))
            runs[name] += trials[name]
        fine, most = fine + sum(count <= space.allowed for count in own), max(most, *own)
        print(f"{space.name}: {len(space.costs)} candidates, best {space.best:,.0f}, default {space.default:.3f} of it; {tuner} "
              f"from the default {own}; without it " + ", ".join(f"{name} {trials[name]}" for name in searches), flush=True)
    refused = sum(cost is None for space in found for cost in space.costs.values())
    enough = {name: sorted(counts)[math.ceil(RUNS * len(counts)) - 1] for name, counts in runs.items()}
    hard = [at for at, space in enumerate(found) if space.default > WITHIN]
    candidates = sum(len(space.costs) for space in found)
    print(f"{config}: {len(found)} spaces of {candidates:,} candidates, {refused} refused; from the default, {tuner} is within "
          f"1 % in time in {fine} of {seeds * len(found)} runs, after {most} trials at most; the default is not in {len(hard)}")
    print(f"  trials without the default until {RUNS:.0%} of the runs are within 1 %: " + ", ".join(
        f"{name} {count} ({count / enough[tuner]:.1f} times)" for name, count in enough.items()))
    for name, which in (("all", range(len(found))), ("those", hard)):
        counts = {search: sum(table[search][at] for at in which) for search in searches}
        print(f"  trials without the default, medians of the seeds, summed over {name}: " + ", ".join(
            f"{search} {count:.0f} ({count / max(1, counts[tuner]):.1f} times)" for search, count in counts.items()))
    return fine >= RUNS * seeds * len(found) and enough.get("random", math.inf) >= 5 * enough[tuner]


def transfer(found: list[Space], tuner: str, seeds: int) -> bool:
    """Print the trials on the second half of the layers, alone and with a model of the first; returns whether half are enough."""
    names = [*LAYERS]
    first = [space for space in found if names.index(space.name.split(" ", 2)[2]) % 2 == 0]
    second = [space for space in found if space not in first]
    alone, started = [], []
    for seed in range(seeds):
        start: Samples | None = None
        for space in first:
            start = space.trained(tuner, seed, start)
        alone.append([space.needed(tuner, seed) for space in second])
        started.append([space.needed(tuner, seed, start) for space in second])
    before, after = ([median(counts) for counts in zip(*trials, strict=True)] for trials in (alone, started))
    each = ", ".join(f"{space.name} {one:g}, {two:g}" for space, one, two in zip(second, before, after, strict=True))
    print(f"transfer: {len(second)} spaces of the other layers take {sum(before):.0f} trials alone, {sum(after):.0f} with a "
          f"model of the first {len(first)}, medians of {seeds} seeds; each: {each}")
    return bool(2 * sum(after) <= sum(before))


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
    if args.measure:
        gc.set_threshold(100_000, 50, 100)  # the collector would take a fifth of the time
        sizes = {(config, layer): len(task_of(layer, config, SYSTEMS["reference"]).table)
                 for layer in LAYERS for config in CONFIGS if args.only in f"{config} {layer}"}
        for config, layer in sorted(sizes, key=lambda each: (sum(sizes.get((config, each[1]), 0) for config in CONFIGS), each)):
            begin = time.process_time()
            count, seconds = measure(layer, config, args.folder), time.process_time() - begin
            print(f"{config} {layer}: {count} of {sizes[config, layer]} in {seconds:.0f} s of a core", flush=True)
        return 0
    for config in CONFIGS:
        if found := spaces(args.folder, config, args.only):
            tuner, seeds = args.search[0], args.seeds
            fine &= transfer(found, tuner, seeds) if args.transfer else compare(config, found, args.search, seeds)
    return not fine


if __name__ == "__main__":
    sys.exit(main())
