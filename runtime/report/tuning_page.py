"""The page of a tuning session: what the network gained, the curve of each task, and the decisions that changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from vtakit.runtime.grid import Grid, count, share
from vtakit.runtime.report.charts import inline
from vtakit.runtime.report.page import Page, Section, facts

_SIZE = (8.0, 4.5)  # inches
_COLOURS = 10  # of matplotlib's cycle


def tuning_page(title: str, result: Mapping[str, Any]) -> Page:
    """Return the page of a result, as `vtakit tune --json` writes it."""
    network, tasks = result["network"], result["tasks"]
    rows = [(
        each["name"], str(len(each["layers"])), str(each["trials"]), _cost(each["default"]), _cost(each["best"]), _saves(each),
        _changed(each["decisions"])) for each in tasks]
    notes = [f"{layer} keeps its default: it is faster in the network." for each in tasks for layer in each["kept_default"]]
    grid = Grid("tasks", ("task", "layers", "trials", "default", "best", "saves", "best decisions"), tuple(rows), 1, tuple(notes))
    summary = facts(
        ("by default", _cost(network["default"])), ("tuned", _cost(network["tuned"])), ("saves", share(network["gain"])),
        ("trials", count(result["trials"])), ("failed", str(sum(result["failures"].values()))),
        ("seconds", f"{result['seconds']:.0f}"), ("search", result["search"]), ("seed", str(result["seed"])))
    return Page(f"Tuning of {title}", summary, (
        Section("Curves", "Cost of the best candidate so far, by the cost of the default.",
                inline(_SIZE, "curves", lambda axes: _paint(axes, tasks))),
        Section("Tasks", "A task stands for all layers that are equal. The whole network was measured with the best decisions.",
                grid=grid)))


def _paint(axes: Any, tasks: Sequence[Mapping[str, Any]]) -> None:
    for at, each in enumerate(tasks):
        first = each["default"]
        points = [(n, cost / first) for n, cost in enumerate(each["curve"], 1) if cost is not None and first]
        if points:
            axes.step(*zip(*points, strict=True), where="post", label=each["name"], linestyle="-" if at < _COLOURS else "--")
    axes.set_xlabel("trials of the task")
    axes.set_ylabel("best, of the default")
    if tasks:
        axes.legend(fontsize=6, ncols=2)


def _cost(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _saves(task: Mapping[str, Any]) -> str:
    return share(1 - task["best"] / task["default"]) if task["default"] and task["best"] else ""


def _changed(decisions: Mapping[str, Any] | None) -> str:
    return "" if decisions is None else ", ".join(f"{name} {_short(value)}" for name, value in decisions.items())


def _short(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)
