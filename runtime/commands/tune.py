"""Tune a model, or the tasks of a script: search decisions, measure candidates, and keep the records.

  vtakit tune INT8.onnx --target vta --config CFG --system S --trials 500 --records RECORDS.jsonl
  vtakit tune MODEL.onnx --target llvm --threads 2 --records RECORDS.jsonl
  vtakit tune SCRIPT.py --trials 200 --records RECORDS.jsonl
  vtakit compile INT8.onnx --target vta --config CFG --system S --tuned RECORDS.jsonl -o MODEL.vtak
  vtakit records RECORDS.jsonl

XGBoost learns from the measurements which candidates to measure next. On the accelerator a measurement is the exact number of
cycles, by the cycle model; the RTL runs the best candidate of each layer that is not too long (--confirm), and must take as many
cycles and leave the same bytes. On a processor it is the time, in processes of their own. In the end the whole network is
measured with the best candidates; a layer keeps its default where that is faster there. The same command goes on where an earlier
one was ended. A script's tasks are its global variables that are tasks, or lists of them (docs/tuning_expressions.md). With
--workers, machines that run `vtakit worker` measure. docs/tuning.md explains the searches.

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
from vtakit.runtime.commands._arguments import check_outputs, core_of, number
from vtakit.runtime.commands._models import add_model, decisions_of, model_files, refuse_other_files, target_of
from vtakit.runtime.commands._sizes import shapes_of
from vtakit.runtime.terminal import complain, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtakit.compiler.tune.model import Samples
    from vtakit.compiler.tune.task import Tuned
    from vtakit.runtime.tune.confirm import Confirmed
    from vtakit.runtime.tune.network import Network, Settled
    from vtakit.runtime.tune.outcome import Measurer
    from vtakit.runtime.tune.records import Records, Writer
    from vtakit.runtime.tune.session import Rules, Session, State

_UNITS = {"s": 1, "m": 60, "h": 3600}
TRIALS_A_TASK = 64
SCRIPT = ".py"
TARGET = "vta"  # of models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, "script (.py)", makes_code=False)
    parser.set_defaults(target=None)
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
    parser.add_argument("--threads", type=number, metavar="N", help="of a CPU that runs the model (1)")
    parser.add_argument("--workers", metavar="ADDRESS",
                        help="scheduler whose workers measure, such as tcp://host:8786; see `vtakit worker` (none)")
    parser.add_argument("--confirm", type=number, metavar="N",
                        help="on the accelerator, the RTL runs the best candidate of a layer if it takes at most so many cycles "
                        "(70000); 0 for none")
    parser.add_argument("--start-model", type=Path, metavar="FILE", help="cost model of an earlier session, to start from")
    parser.add_argument("--save-model", type=Path, metavar="FILE", help="cost model to write, for --start-model")
    parser.add_argument("--page", type=Path, metavar="PAGE.html", help="page to write, with the curve of each task")
    parser.add_argument("--json", type=Path, metavar="FILE", help="result to write, as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.compiler.tune.model import Samples, xgboost
    from vtakit.compiler.tune.search.registry import find_search, needs_model
    from vtakit.runtime.tune.records import Records

    refuse_other_files(args.model)
    outputs = [("--json", "the result", args.json), ("--save-model", "the cost model", args.save_model),
               ("--page", "the page", args.page)]
    reads = [("the script", args.model)] if args.model.suffix == SCRIPT else model_files(
        args.model, [path for _, _, path in outputs])
    check_outputs(*outputs, reads=[*reads, ("the records", args.records)])
    find_search(args.search)
    if needs_model(args.search):
        xgboost()
    if args.threads == 0:
        raise VtakitError("--threads 0: a model runs on at least one")
    seconds_of(args.time)
    start = None if args.start_model is None else Samples.load(args.start_model)
    records = Records.read(args.records, missing_ok=True)
    return (_tune_script if args.model.suffix == SCRIPT else _tune_model)(args, records, start)


def _tune_model(args: argparse.Namespace, records: "Records", start: "Samples | None") -> int:
    """Tune the tasks of a model, and measure the whole."""
    from vtakit.runtime.model import network
    from vtakit.runtime.tune.network import network_record
    from vtakit.runtime.tune.records import Writer
    from vtakit.runtime.tune.result import result_of

    args.target = args.target or TARGET
    target = target_of(args, None)
    if args.threads is not None and target.unit == "cycles":
        raise VtakitError(f"--threads {args.threads} goes with --target llvm: on --target {args.target} cycles are counted")
    found = network(args.model, target, shapes=shapes_of(args.shape), batch=args.batch, precision=args.precision,
                    decisions=decisions_of(args), threads=args.threads)
    if not found.tuned:
        raise VtakitError(f"{str(args.model)!r} has no layer that target {found.target.name!r} tunes: `vtakit compile` says why "
                          "its layers run where they do")
    target = found.target  # without threads where this machine has none
    if args.confirm is not None and target.unit != "cycles":
        raise VtakitError(f"--confirm is for the accelerator, whose candidates the RTL runs, and the target is {target.name!r}")
    measurer = target.measurer(args.threads) if args.workers is None else _workers(args.workers, args.threads or 1)
    with closing(measurer), closing(Writer(args.records)) as writer:
        found = _formed(found, measurer, records, writer)
        session = _session(args, found.tuned, measurer, target.unit, records, start, writer)
        better = _better(session)
        confirmed = _confirmed(session, better, args.confirm, records, writer)
        settled = _settled(found, {at: each for at, each in better.items() if at not in confirmed.wrong}, measurer)
        writer.add(network_record(found, settled, args.seed))
    _print(session.state)
    for at in confirmed.wrong:
        complain(f"the best candidate of {session.tasks[at].name!r} is not used, {confirmed.outcomes[at].error}")
    if f"{confirmed}":
        say(f"{confirmed}")
    before, after = (_cost(cost, target.unit) for cost in (settled.default, settled.cost))
    say(f"layers by themselves take {session.state.gain:.1%} less")
    say(f"whole network: {before} by default, {after} tuned ({settled.gain:.1%} less)")
    _write(args, session, result_of(target.name, found.tuned, session, settled, confirmed.outcomes))
    return 0


def _tune_script(args: argparse.Namespace, records: "Records", start: "Samples | None") -> int:
    """Tune the tasks of a script."""
    from vtakit.compiler.tune.task import Tuned
    from vtakit.runtime.tune.bench import CpuMeasurer
    from vtakit.runtime.tune.records import Writer
    from vtakit.runtime.tune.result import result_of
    from vtakit.runtime.tune.script import script_tasks

    given = [option for option, value in (
        ("--target", args.target), ("--cpu", args.cpu), ("--machine", args.machine), ("--shape", args.shape),
        ("--batch", args.batch is not None), ("--config", args.config), ("--system", args.system), ("--isa", args.isa),
        ("a smaller core", core_of(args)), ("--precision", args.precision != "float32"), ("--decisions", args.decisions),
        ("--threads", args.threads), ("--confirm", args.confirm)) if value]
    if given:
        raise VtakitError(f"{given[0]} goes with a model: the tasks of a script say themselves what they are for, as in "
                          "tune.expression(C, [A, B, C], target=…, threads=…)")
    tasks = script_tasks(args.model)
    threads = tasks[0].threads
    measurer = CpuMeasurer(threads=threads) if args.workers is None else _workers(args.workers, threads)
    tuned = [Tuned(task, (task.name,)) for task in tasks]
    with closing(measurer), closing(Writer(args.records)) as writer:
        session = _session(args, tuned, measurer, "s", records, start, writer)
    _print(session.state)
    for each in session.state.tasks:
        say(f"{one_line(each.name)}: {_cost(each.first, 's')} untuned, {_cost(each.best, 's')} tuned, "
            f"{counted(each.trials, 'trial')}")
    _write(args, session, result_of("llvm", tuned, session))
    return 0


def _workers(address: str, threads: int) -> "Measurer":
    from vtakit.runtime.tune.workers import WorkersMeasurer

    return WorkersMeasurer(address, threads=threads)


def _session(
    args: argparse.Namespace, tuned: "Sequence[Tuned]", measurer: "Measurer", unit: str, records: "Records",
    start: "Samples | None", writer: "Writer",
) -> "Session":
    """Search, and return the session."""
    from vtakit.runtime.tune.session import Session

    session = Session(
        [each.task for each in tuned], [len(each.layers) for each in tuned], measurer, _rules(args, len(tuned)), records=records,
        writer=writer, start=start, unit=unit)
    try:
        _run(session, args.model.name)
    except KeyboardInterrupt:
        complain(f"the trials that had ended are in {str(args.records)!r}: the same command goes on, --tuned takes what is there")
        raise
    return session


def _rules(args: argparse.Namespace, tasks: int) -> "Rules":
    from vtakit.runtime.tune.session import Rules

    seconds, trials = seconds_of(args.time), args.trials
    if trials is None and seconds is None:
        trials = TRIALS_A_TASK * tasks
    return Rules(trials=None if args.search == "exhaustive" else trials, seconds=seconds, patience=args.patience,
                 search=args.search, seed=args.seed)


def _write(args: argparse.Namespace, session: "Session", result: dict[str, Any]) -> None:
    """Write the files that were asked for."""
    if args.save_model is not None:
        session.samples.save(args.save_model)
    if args.json is not None:
        from vtakit.base.writing import write_bytes

        write_bytes(args.json, f"{json.dumps(result, indent=1)}\n".encode(), "the result")
    if args.page is not None:
        from vtakit.runtime.report.tuning_page import tuning_page

        tuning_page(args.model.name, result).save(args.page)


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


def _better(session: "Session") -> dict[int, dict[str, Any]]:
    """Return the best candidates that are not the default, by the number of their task."""
    from vtakit.compiler.tune.space import defaults
    from vtakit.compiler.tune.task import alike

    return {at: best[0] for at, best in enumerate(session.state.bests) if best is not None and (
        alike(session.tasks[at], best[0]) != alike(session.tasks[at], defaults(session.tasks[at])))}


def _confirmed(
    session: "Session", better: dict[int, dict[str, Any]], most_cycles: int | None, records: Any, writer: Any,
) -> "Confirmed":
    """Return what the RTL says of candidates."""
    from vtakit.runtime.terminal import progress
    from vtakit.runtime.tune.confirm import MOST_CYCLES, confirm

    with progress() as bar:
        task = bar.add_task("", total=None)
        return confirm(session.tasks, better, MOST_CYCLES if most_cycles is None else most_cycles, records=records, writer=writer,
                       tell=lambda text: bar.update(task, description=f"on the RTL: {one_line(text)}"))


def _formed(found: "Network", measurer: "Measurer", records: "Records", writer: "Writer") -> "Network":
    """Return the network with decisions of whole layers."""
    from vtakit.runtime.terminal import progress
    from vtakit.runtime.tune.forms import try_forms

    with progress() as bar:
        task = bar.add_task("", total=None)
        return try_forms(found, measurer, records, writer, lambda text: bar.update(task, description=f"measuring {text}"))


def _settled(found: "Network", better: dict[int, dict[str, Any]], measurer: "Measurer") -> "Settled":
    """Return the whole network's verdict on the best candidates."""
    from vtakit.runtime.terminal import progress
    from vtakit.runtime.tune.network import settle

    with progress() as bar:
        task = bar.add_task("", total=None)
        return settle(found, better, measurer, lambda text: bar.update(task, description=f"measuring {text}"))


def _print(state: "State") -> None:
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(state.failures.items()))
    reused = f", {state.reused} of them from the records" if state.reused else ""
    say(f"{counted(len(state.tasks), 'task')}, {counted(state.trials, 'trial')}{reused} in {state.seconds:.0f} s: {state.stopped}"
        + (f"; failed: {failures}" if failures else ""))
    for kind, reason in state.reasons.items():
        complain(f"first {kind}: {one_line(reason)[:200]}")


def _cost(cost: float | None, unit: str) -> str:
    from vtakit.runtime.tune.outcome import cost_text

    return cost_text(cost, unit) or "none"
