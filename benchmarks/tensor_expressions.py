"""Times of tensor expressions that no operator knows: plain loops, the untuned sketch, the tuned one, and a hand-made schedule.

  python benchmarks/tensor_expressions.py --trials 96
  python benchmarks/tensor_expressions.py min_plus contraction --json RESULT.json

The expressions are those of tests/expressions.py. The versions of one are timed in turn, on one thread of this machine; results
are checked against plain loops.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from vtakit import te, tune
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.te.tensor import Tensor
from vtakit.compiler.tune.flops import count_flops
from vtakit.compiler.tune.loops import LoopTask, Program
from vtakit.compiler.tune.model import CostModel
from vtakit.compiler.tune.search.registry import make_search, needs_model
from vtakit.runtime.tune.bench import CpuMeasurer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
EXPRESSIONS: dict[str, Callable[..., list[Tensor]]] = import_module("expressions").EXPRESSIONS
BATCH = 16  # trials between two looks at the model


def tile(s: te.Schedule, out: Tensor, sums: Tensor, rows: Mapping[int, int], width: int, *, packed: Tensor | None = None) -> None:
    """Sum tiles in registers: `rows` by axis and `width` along the last one.

    packed : a matrix whose rows are the columns; it is copied, turned, for each column of tiles
    """
    axes = [*s[out].op.root_iter_vars]
    pairs = {at: s[out].split(axes[at], count) for at, count in rows.items()}
    column, lane = s[out].split(axes[-1], width)
    lead = [pairs[at][0] if at in pairs else axis for at, axis in enumerate(axes[:-1])]
    s[out].reorder(column, *lead, *[inner for _, inner in pairs.values()], lane) if packed is not None else s[out].reorder(
        *lead, column, *[inner for _, inner in pairs.values()], lane)
    for _, inner in pairs.values():
        s[out].unroll(inner)
    s[out].vectorize(lane)
    s[sums].compute_at(s[out], lead[-1] if packed is not None else column)
    s[sums].set_scope("local")
    stage = s[sums]
    assert isinstance(stage.op, te.ComputeOp)
    data, terms = stage.op.axis, stage.op.reduce_axis
    stage.reorder(*terms, *data)
    for at in rows:
        stage.unroll(data[at])
    stage.vectorize(data[-1])
    if packed is not None:
        copy = s.cache_read(packed, "global", [sums])
        s[copy].reorder(*reversed(s[copy].op.root_iter_vars))
        panel = s.cache_write(copy, "global")
        s[copy].compute_inline()
        s[panel].compute_at(s[out], column)
        s[panel].vectorize(s[panel].op.root_iter_vars[-1])


def by_hand(name: str, args: Sequence[Tensor]) -> te.Schedule | None:
    """Return the schedule that a person would write, of those expressions for which there is one."""
    out = args[-1]
    assert isinstance(out.op, te.ComputeOp)
    s = te.create_schedule(out.op)
    if name == "stencil_3d":
        _, inner = s[out].split(out.op.axis[-1], 32)
        s[out].vectorize(inner)
    elif name == "pairwise_distance":
        (sums,) = out.op.input_tensors
        tile(s, out, sums, {0: 12}, 32, packed=args[1])
    elif name in ("min_plus", "triangular_product"):
        tile(s, out, s.cache_write(out, "local"), {out.ndim - 2: 8}, 32)
    elif name == "box_3d":
        tile(s, out, s.cache_write(out, "local"), {0: 4, 1: 4}, 16)
    elif name == "contraction":
        tile(s, out, s.cache_write(out, "local"), {0: 4, 1: 3}, 32)
    elif name == "dilation":
        tile(s, out, s.cache_write(out, "local"), {0: 8}, 32)
    elif name == "cost_volume":
        tile(s, out, s.cache_write(out, "local"), {1: 9}, 48)
    else:
        return None
    return s


class Versions(LoopTask):
    """Schedules of one expression, to be timed in turn."""

    def __init__(self, name: str, makers: Mapping[str, Callable[[], Program]]) -> None:
        super().__init__(name)
        self.makers = makers

    def program(self, decisions: Decisions) -> Program:
        """Return one of the schedules."""
        return self.makers[decisions.choose("version", [*self.makers], next(iter(self.makers)), "versions")]()

    @property
    def rule(self) -> str:
        """Nothing is kept of it."""
        return "versions"


def tuned(task: tune.ExpressionTask, measurer: CpuMeasurer, trials: int, search: str, seed: int) -> tuple[dict[str, Any], int]:
    """Return the best candidate of a search, and the number of failures."""
    way, failures, left = make_search(search, task, seed, CostModel(seed) if needs_model(search) else None), 0, trials
    while left > 0 and (batch := way.propose(min(BATCH, left))):
        outcomes = dict(measurer.measure(task, batch))
        failures += sum(outcome.cost is None for outcome in outcomes.values())
        way.tell(batch, [outcomes[at].cost for at in range(len(batch))])
        left -= len(batch)
    assert way.best is not None, f"{task.name}: no candidate could be measured"
    return way.best[0], failures


def versions(name: str, measurer: CpuMeasurer, trials: int, search: str, seed: int) -> dict[str, Any]:
    """Return the times of an expression's versions in milliseconds, and what led to them."""
    args = EXPRESSIONS[name]()
    task = tune.expression(args[-1], args, name=name)
    begun = time.monotonic()
    best, failures = tuned(task, measurer, trials, search, seed)
    spent = time.monotonic() - begun
    makers: dict[str, Callable[[], Program]] = {
        "plain": lambda: Program(te.create_schedule(args[-1].op), tuple(args)),
        "sketch": lambda: task.program(Decisions()), "tuned": lambda: task.program(Decisions(best)),
    }
    if by_hand(name, args) is not None:
        makers["hand"] = lambda: Program(_known(by_hand(name, args)), tuple(args))
    order = ["plain", *[each for each in makers if each != "plain"] * 3]
    outcomes = dict(measurer.measure(Versions(f"versions of {name}", makers), [{"version": each} for each in order]))
    times: dict[str, float] = {}
    for at, version in enumerate(order):
        outcome = outcomes[at]
        assert outcome.cost is not None, f"{name}, {version}: {outcome.error}"
        times[version] = min(times.get(version, outcome.cost), outcome.cost)
    return {"name": name, "ms": {version: cost * 1e3 for version, cost in times.items()}, "operations": count_flops(args[-1]),
            "trials": trials, "failures": failures, "seconds": round(spent, 1), "decisions": best}


def _known(found: te.Schedule | None) -> te.Schedule:
    assert found is not None
    return found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPRESSIONS)} (all)")
    parser.add_argument("--trials", type=int, default=96, help="of each expression (96)")
    parser.add_argument("--search", default="evolution", help="as of `vtakit tune --search` (evolution)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file to write")
    args = parser.parse_args()
    found = []
    print(f"{'':20}{'plain':>9}{'sketch':>9}{'tuned':>9}{'hand':>9}  ms   gain  to hand  GFLOP/s")
    with CpuMeasurer(seed=args.seed) as measurer:
        for name in args.names or EXPRESSIONS:
            one = versions(name, measurer, args.trials, args.search, args.seed)
            ms = one["ms"]
            hand, ratio = f"{'':9}", f"{'':9}"
            if "hand" in ms:
                hand, ratio = f"{ms['hand']:9.3f}", f"{ms['tuned'] / ms['hand']:9.2f}"
            before = "".join([f"{ms[version]:9.3f}" for version in ("plain", "sketch", "tuned")])
            print(f"{name:20}{before}{hand}    {ms['plain'] / ms['tuned']:6.1f}{ratio}"
                  f"{one['operations'] / ms['tuned'] / 1e6:9.0f}   {one['seconds']} s", flush=True)
            found.append(one)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
