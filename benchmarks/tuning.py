"""The paper's tuning figure: the best of so many trials, by search, for the layers C2 to C12 of ResNet-18.

Each search tunes each layer alone, with several seeds. The picture has the best cost so far by the number of trials, by the least
that any search found: the median of the seeds, in a band from the best to the worst. The default is measured apart: no search
gets it as its first trial, as `vtakit tune` gives it. On a processor, so is the fastest of the other runtimes that are there, on
one thread and in turn with the default, whose data lie in blocks already, as inside a network.

    python benchmarks/tuning.py --target vta|llvm [--only C5] [--trials N] [--seeds N]    tune what the results lack, and print
    python benchmarks/tuning.py --write    draw docs/tuning_TARGET.svg and write the tables of docs/tuning.md, from the results

Results are kept in benchmarks/tuning_results, a file for each target.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import cpu_convolutions
import cpu_peers
import numpy as np
import numpy.typing as npt
from cpu_convolutions import LAYERS, Layer
from tuning_figure import PEER, WITHIN, Curve, default_of, least, reached, write

from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune.kernel import KernelTask
from vtakit.compiler.tune.loops import LoopTask
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Candidate, Task, alike
from vtakit.compiler.tune.vta import tasks_of
from vtakit.hw.system import System
from vtakit.runtime.build import build
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu
from vtakit.runtime.source import Options
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.cycles import Cycles
from vtakit.runtime.tune.outcome import Cost, Measurer, Outcome
from vtakit.runtime.tune.session import Rules, Session
from vtakit.runtime.vta.target import Vta

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compiler"))
RESULTS = ROOT / "benchmarks" / "tuning_results"
SEARCHES = {"auto": "XGBoost", "genetic": "genetic", "random": "random"}  # by the name of `vtakit tune --search`
CHOSEN = {each.name: each for each in LAYERS if each.name in {f"C{at}" for at in range(2, 13)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How layers are tuned on a target.

    title    : of the target, for the picture
    unit     : of costs: "cycles" or "s"
    task     : the task of a layer
    measurer : makes what measures candidates; it is closed after each search, or layer if times are taken
    exact    : whether a candidate has one cost, so that it need be measured once for all searches and seeds
    peer     : what the fastest other runtime takes for a layer, by what the task's default takes; None without any
    """

    title: str
    unit: str
    task: Callable[[Layer], Task]
    measurer: Callable[[], Measurer]
    exact: bool
    peer: Callable[[Layer, Task], float | None] = lambda layer, task: None


def _on_processor(layer: Layer) -> LoopTask:
    """Return the task of a layer's convolution, with its bias and relu, on this machine, in the form that a network takes."""
    target = Cpu.host()
    evaluate = evaluator(target)
    graph = import_model(cpu_convolutions.model_of(layer, _random(layer)), evaluate=evaluate)
    found = target.tasks(graph, Options(), evaluate)
    return next(each.task for each in found if isinstance(each.task, KernelTask) and any(
        node.op.startswith("conv") for node in each.task.group.nodes))


def _random(layer: Layer) -> list[npt.NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) / np.float32(4) for shape in layer.shapes]


def _fastest_peer(layer: Layer, task: Task, turns: int = 15) -> float | None:
    """Return the time of the faster of onnxruntime and OpenVINO by that of the task's default: the median of turns."""
    peers = [peer for peer in cpu_peers.PEERS if peer.is_there]
    if not peers:
        return None
    assert isinstance(task, LoopTask)
    made, arrays, rng = task.program(Decisions()), _random(layer), np.random.default_rng(1)
    given = [cpu_convolutions.aligned([int_value(extent) or 0 for extent in tensor.shape]) for tensor in made.args]
    for array in given[:-1]:
        array[...] = rng.standard_normal(array.shape, np.float32) / 4
    x, out = cpu_convolutions.aligned(layer.shapes[0]), cpu_convolutions.aligned((1, layer.filters, layer.out, layer.out))
    x[...] = arrays[0]
    model = cpu_convolutions.model_of(layer, arrays)
    ours, *theirs = build(made.schedule, made.args, task.target).bound(*given), *[peer.bound(model, x, out) for peer in peers]
    times = {run: max(1, int(4e-3 / cpu_convolutions.seconds(run))) for run in (ours, *theirs)}
    ratios = []
    for _ in range(turns):
        mine, *others = [cpu_convolutions.seconds(run, times[run]) for run in (ours, *theirs)]
        ratios.append(min(others) / mine)
    return median(ratios)


def _on_accelerator(layer: Layer) -> Task:
    """Return the task of a layer in integers on the accelerator."""
    target = Vta.make(config="default", system=System(bandwidth=0.25, latency=60))
    net = import_module("integer_nets").Integers(layer.name)
    data = net.input(1, layer.channels, layer.size, layer.size)
    graph = net.finish(net.conv(data, layer.filters, layer.kernel, layer.stride))
    (found,) = tasks_of(run_passes(graph, passes_for_cpu(evaluator(target), integer=True)), target)
    return found.task


WAYS = {
    "vta": Way(title="accelerator, default configuration, a quarter of the bus's bandwidth, latency 60", unit="cycles",
               task=_on_accelerator, measurer=lambda: Cycles(workers=1), exact=True),
    "llvm": Way(title="one thread of a processor, float32", unit="s", task=_on_processor, measurer=CpuMeasurer, exact=False,
                peer=_fastest_peer),
}


@dataclass(slots=True)
class Remembered:
    """A `Measurer` that asks another one for each candidate once, but for failures: what is too slow depends on the search."""

    inner: Measurer
    known: dict[str, Outcome]

    def measure(self, task: Task, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and the outcome of each candidate."""
        texts = [alike(task, each) for each in candidates]
        fresh = [at for at, text in enumerate(texts) if text not in self.known]
        for number, outcome in self.inner.measure(task, [candidates[at] for at in fresh]):
            if not outcome.error:
                self.known[texts[fresh[number]]] = outcome
            yield fresh[number], outcome
        for at, text in enumerate(texts):
            if at not in fresh:
                yield at, self.known[text]

    def costs(self, images: Sequence[Any]) -> list[Cost]:
        """Ask the other one."""
        return self.inner.costs(images)

    def close(self) -> None:
        """Close the other one."""
        self.inner.close()


def tuned(way: Way, layer: Layer, trials: int, seeds: int, have: dict[str, list[Curve]]) -> None:
    """Add the curves of a layer that are missing: a list of each search, in the order of the seeds; one point of the default."""
    with ExitStack() as stack:
        # Times are taken in turn with the best of all searches, so that what the machine does between two of them changes none.
        shared = None if way.exact else stack.enter_context(closing(way.measurer()))
        _tune(way, layer, trials, seeds, have, shared)


def _tune(
    way: Way, layer: Layer, trials: int, seeds: int, have: dict[str, list[Curve]], shared: Measurer | None,
) -> None:
    task, known = way.task(layer), dict[str, Outcome]()

    @contextmanager
    def measuring() -> Iterator[Measurer]:
        """Yield a measurer that knows no best yet, which would end slower candidates; costs that are exact are kept."""
        if shared is not None:
            yield shared
            return
        with closing(way.measurer()) as inner:
            yield Remembered(inner, known)
    if "default" not in have:
        with measuring() as measurer:
            ((_, outcome),) = measurer.measure(task, [defaults(task)])
            have["default"] = [[outcome.cost]]
        if outcome.cost is not None and (ratio := way.peer(layer, task)) is not None:
            have[PEER] = [[outcome.cost * ratio]]
    for seed in range(seeds):
        for search in SEARCHES:
            curves = have.setdefault(search, [])
            if len(curves) > seed:
                continue
            begin = time.perf_counter()
            with measuring() as measurer:
                rules = Rules(trials=trials, search=search, seed=seed, default=False)
                curves.append([*Session([task], [1], measurer, rules).run().tasks[0].costs])
            best = curves[-1][-1]
            found = "nothing that did not fail" if best is None else f"{best:,.6g} {way.unit}"
            print(f"{layer.name} {SEARCHES[search]}, seed {seed}: {found} in {time.perf_counter() - begin:.0f} s", flush=True)


def read(target: str) -> dict[str, Any]:
    """Return the kept results of a target."""
    path = RESULTS / f"{target}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"layers": {}}
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=[*WAYS], default="vta")
    parser.add_argument("--only", default="", metavar="NAME", help="one layer")
    parser.add_argument("--trials", type=int, default=64, metavar="N", help="of each search on each layer")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--write", action="store_true", help="draw the picture, and write the table")
    args = parser.parse_args()
    if args.write:
        write({name: (way.title, read(name)) for name, way in WAYS.items()}, SEARCHES)
        return 0
    results = read(args.target)
    way, trials = WAYS[args.target], results.get("trials", args.trials)
    if trials != args.trials:
        parser.error(f"the kept results are of {trials} trials: give --trials {trials}, or remove them")
    results |= {"trials": trials, "unit": way.unit, "date": f"{date.today()}",
                "command": f"python benchmarks/tuning.py --target {args.target} --trials {trials} --seeds {args.seeds}"}
    RESULTS.mkdir(exist_ok=True)
    for name, layer in CHOSEN.items():
        if args.only in ("", name):
            curves = results["layers"].setdefault(name, {})
            tuned(way, layer, trials, args.seeds, curves)
            (RESULTS / f"{args.target}.json").write_text(json.dumps(results) + "\n")
            best = least(curves)
            counts = ", ".join(f"{label} {median(reached(each, WITHIN * best) for each in curves[search]):g}"
                               for search, label in SEARCHES.items())
            print(f"{name}: best {best:,.6g}, default {default_of(curves) / best:.3f} of it; trials until within 1 % of that, "
                  f"medians of the seeds: {counts}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
