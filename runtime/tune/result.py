"""The result of a tuning session as JSON has it, for `vtakit tune --json` and its page."""

from collections.abc import Mapping, Sequence
from typing import Any

from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Tuned
from vtakit.runtime.tune.network import Settled
from vtakit.runtime.tune.outcome import Outcome
from vtakit.runtime.tune.session import Session

NOT_RUN: Mapping[int, Outcome] = {}


def result_of(
    target: str, tuned: Sequence[Tuned], session: Session, settled: Settled | None = None,
    on_rtl: Mapping[int, Outcome] = NOT_RUN,
) -> dict[str, Any]:
    """Return the result of a session.

    tuned   : its tasks, with the layers that they are
    settled : the whole network; None for the tasks of a script
    on_rtl  : what the RTL made of the best candidate, by the number of the task
    """
    state, kept = session.state, () if settled is None else settled.kept
    tasks = []
    for at, (each, progress) in enumerate(zip(tuned, state.tasks, strict=True)):
        best, usual = state.bests[at], defaults(each.task)
        tasks.append({
            "name": each.task.name, "layers": [*each.layers], "key": dict(each.task.key), "trials": progress.trials,
            "default": progress.first, "best": progress.best, "curve": progress.costs,
            "decisions": None if best is None else best[0],
            "changed": {} if best is None else {name: [usual.get(name), value] for name, value in best[0].items()
                                                if usual.get(name) != value},
            "on_rtl": None if at not in on_rtl else on_rtl[at].error or on_rtl[at].cost,
            "kept_default": [name for name in each.layers if name in kept]})
    return {
        "target": target, "unit": session.unit, "search": session.rules.search, "seed": session.rules.seed,
        "trials": state.trials, "reused": state.reused, "seconds": round(state.seconds, 3), "stopped": state.stopped,
        "failures": state.failures, "gain_of_layers": state.gain,
        "network": None if settled is None else {
            "default": settled.default, "tuned": settled.cost, "gain": settled.gain},
        "decisions": {} if settled is None else {layer: dict(values) for layer, values in settled.decisions.items()},
        "tasks": tasks}
