"""Tune a model: search the decisions of its layers, measure candidates, and keep the records.

  vtakit tune INT8.onnx --target vta --config CFG --system S --trials 500 --records RECORDS.jsonl
  vtakit compile INT8.onnx --target vta --config CFG --system S --tuned RECORDS.jsonl -o MODEL.vtak
  vtakit records RECORDS.jsonl

XGBoost learns from the measurements which candidates to measure next. On the accelerator a measurement is the exact number of
cycles, by the cycle model. In the end the whole network is measured with the best candidates; a layer keeps its default where
that is faster there. The same command goes on where an earlier one was ended. docs/tuning.md explains the searches.

It needs: pip install 'vtakit[tune]'
"""

import argparse
import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import check_outputs, number
from vtakit.runtime.commands._models import add_model, decisions_of, model_files, refuse_other_files, shapes_of, target_of
from vtakit.runtime.terminal import complain, say

if TYPE_CHECKING:
    from vtakit.runtime.tune.network import Network, Settled
    from vtakit.runtime.tune.session import Session, State

_UNITS = {"s": 1, "m": 60, "h": 3600}
TRIALS_A_TASK = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, makes_code=False)
    parser.set_defaults(target="vta")
    parser.add_argument("--records", type=Path, required=True, metavar="RECORDS.jsonl",
                        help="file that every trial is added to, and that earlier trials are taken from")
    parser.add_argument("--trials", type=number, metavar="N", help=f"trials of all tasks together ({TRIALS_A_TASK} for each)")
    parser.add_argument("--time", metavar="TIME", help="time limit, such as 90s, 10m or 2h (none)")
    parser.add_argument("--patience", type=number, metavar="N", help="leave a task after so many trials without a gain (never)")
    parser.add_argument("--search", default="auto", metavar="NAME",
                        help="auto (default): ranking, or evolution for spaces without end; annealing, genetic, random, grid, "
                        "exhaustive")
    parser.add_argument("--seed", type=number, default=0, metavar="N",
                        help="the same seed tries the same candidates in the same order (0)")
    parser.add_argument("--start-model", type=Path, metavar="FILE", help="cost model of an earlier session, to start from")
    parser.add_argument("--save-model", type=Path, metavar="FILE", help="cost model to write, for --start-model")
    parser.add_argument("--page", type=Path, metavar="PAGE.html", help="page to write, with the curve of each task")
    parser.add_argument("--json", type=Path, metavar="FILE", help="result to write, as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.compiler.tune.model import Samples, xgboost
    from vtakit.compiler.tune.search.registry import find_search, needs_model
    from vtakit.runtime.model import network
    from vtakit.runtime.tune.records import Records, Writer
    from vtakit.runtime.tune.session import Rules, Session

    refuse_other_files(args.model)
    outputs = [("--json", "the result", args.json), ("--save-model", "the cost model", args.save_model),
               ("--page", "the page", args.page)]
    check_outputs(*outputs, reads=[*model_files(args.model, [path for _, _, path in outputs]), ("the records", args.records)])
    find_search(args.search)
    if needs_model(args.search):
        xgboost()
    seconds = seconds_of(args.time)
    start = None if args.start_model is None else Samples.load(args.start_model)
    records = Records.read(args.records, missing_ok=True)
    found = network(args.model, target_of(args, None), shapes=shapes_of(args.shape), batch=args.batch, precision=args.precision,
                    decisions=decisions_of(args))
    if not found.tuned:
        raise VtakitError(f"{str(args.model)!r} has no layer that target {found.target.name!r} tunes: `vtakit compile` says why "
                          "its layers run where they do")
    trials = args.trials
    if trials is None and seconds is None and args.search != "exhaustive":
        trials = TRIALS_A_TASK * len(found.tuned)
    rules = Rules(trials=None if args.search == "exhaustive" else trials, seconds=seconds, patience=args.patience,
                  search=args.search, seed=args.seed)
    with closing(Writer(args.records)) as writer, closing(found.target.measurer()) as measurer:
        session = Session(
            [each.task for each in found.tuned], [len(each.layers) for each in found.tuned], measurer, rules, records=records,
            writer=writer, start=start, unit=found.target.unit)
        state = _run(session, args.model.name)
        settled = _settled(found, session, args.model.name)
        from vtakit.runtime.tune.network import network_record

        writer.add(network_record(found, settled, args.seed))
    _print(state, settled, found.target.unit)
    result = result_of(found, session, settled)
    if args.save_model is not None:
        session.samples.save(args.save_model)
    if args.json is not None:
        from vtakit.base.writing import write_bytes

        write_bytes(args.json, f"{json.dumps(result, indent=1)}\n".encode(), "the result")
    if args.page is not None:
        from vtakit.runtime.report.tuning_page import tuning_page

        tuning_page(args.model.name, result).save(args.page)
    return 0


def seconds_of(text: str | None) -> float | None:
    """Return seconds that are written as 90s, 10m or 2h. Raises VtakitError for anything else."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    if match is None or not int(match[1]):
        raise VtakitError(f"--time {text[:40]!r} is no time: give seconds, minutes or hours, such as 90s, 10m or 2h")
    return float(int(match[1]) * _UNITS[match[2] or "s"])


def _run(session: "Session", name: str) -> "State":
    """Tune with a line of progress; Ctrl-C ends the search, and what was found is kept."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    from vtakit.runtime.terminal import progress

    with progress(BarColumn(), TextColumn("{task.fields[state]}", markup=False), TimeElapsedColumn()) as bar:
        task = bar.add_task(f"tuning {one_line(name)}", total=session.rules.trials, state="")

        def look(state: "State") -> None:
            rate = state.trials / state.seconds if state.seconds > 0 else 0.0
            bar.update(task, completed=state.trials, state=f"{state.trials} trials, {rate:.1f}/s, saves {state.gain:.1%}")
        return session.run(look)


def _settled(found: "Network", session: "Session", name: str) -> "Settled":
    """Return the whole network's verdict on the best candidates."""
    from vtakit.compiler.tune.space import defaults
    from vtakit.compiler.tune.task import alike
    from vtakit.runtime.terminal import progress
    from vtakit.runtime.tune.network import settle

    better = {at: best[0] for at, best in enumerate(session.state.bests) if best is not None and (
        alike(session.tasks[at], best[0]) != alike(session.tasks[at], defaults(session.tasks[at])))}
    with progress() as bar:
        task = bar.add_task("", total=None)
        return settle(found, better, lambda text: bar.update(task, description=f"measuring {text}"))


def _print(state: "State", settled: "Settled", unit: str) -> None:
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(state.failures.items()))
    reused = f", {state.reused} of them from the records" if state.reused else ""
    say(f"{counted(len(state.tasks), 'task')}, {counted(state.trials, 'trial')}{reused} in {state.seconds:.0f} s: {state.stopped}"
        + (f"; failed: {failures}" if failures else ""))
    for kind, reason in state.reasons.items():
        complain(f"first {kind}: {one_line(reason)[:200]}")
    before, after = (_cost(cost, unit) for cost in (settled.default, settled.cost))
    say(f"layers by themselves take {state.gain:.1%} less")
    say(f"whole network: {before} by default, {after} tuned ({settled.gain:.1%} less)")


def result_of(found: "Network", session: "Session", settled: "Settled") -> dict[str, Any]:
    """Return the result as JSON has it."""
    state = session.state
    tasks = []
    for at, (each, progress_) in enumerate(zip(found.tuned, state.tasks, strict=True)):
        best = state.bests[at]
        tasks.append({
            "name": each.task.name, "layers": [*each.layers], "key": dict(each.task.key), "trials": progress_.trials,
            "default": progress_.first, "best": progress_.best, "curve": progress_.costs,
            "decisions": None if best is None else best[0],
            "kept_default": [name for name in each.layers if name in settled.kept]})
    return {
        "target": found.target.name, "unit": found.target.unit, "search": session.rules.search, "seed": session.rules.seed,
        "trials": state.trials,
        "reused": state.reused, "seconds": round(state.seconds, 3), "stopped": state.stopped, "failures": state.failures,
        "gain_of_layers": state.gain, "network": {"default": settled.default, "tuned": settled.cost, "gain": settled.gain},
        "decisions": {layer: dict(values) for layer, values in settled.decisions.items()}, "tasks": tasks}


def _cost(cost: float, unit: str) -> str:
    return f"{cost:,.0f} {unit}" if unit == "cycles" else f"{1e3 * cost:.4g} ms"
