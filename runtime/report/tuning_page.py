"""The page of a tuning session: what the network gained, the curve of each task, and the decisions that changed."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vtakit.runtime.grid import Grid, count, share
from vtakit.runtime.report.charts import inline
from vtakit.runtime.report.page import Page, Section, facts
from vtakit.runtime.tune.outcome import cost_text

_SIZE = (8.0, 4.5)  # inches
_WHOLE = "A task stands for all layers that are equal. The whole network was measured with the best decisions."
_COLOURS = 10  # of matplotlib's cycle


def tuning_page(title: str, result: Mapping[str, Any]) -> Page:
    """Return the page of a result, as `vtakit tune --json` writes it."""
    network, tasks, cost = result["network"], result["tasks"], partial(cost_text, unit=result["unit"])
    rows = [(
        each["name"], str(len(each["layers"])), str(each["trials"]), cost(each["default"]), cost(each["best"]), _saves(each),
        _on_rtl(each["on_rtl"]), _listed(each["decisions"]), _changed(each["changed"])) for each in tasks]
    notes = [f"{layer} keeps its default: it is faster in the network." for each in tasks for layer in each["kept_default"]]
    heads = "task", "layers", "trials", "default", "best", "saves", "on the RTL", "best decisions", "changed"
    grid = Grid("tasks", heads, tuple(rows), 1, tuple(notes))
    whole = (("saves", share(result["gain_of_layers"])),) if network is None else (
        ("by default", cost(network["default"])), ("tuned", cost(network["tuned"])), ("saves", share(network["gain"])))
    summary = facts(
        *whole,
        ("trials", count(result["trials"])), ("failed", str(sum(result["failures"].values()))),
        ("seconds", f"{result['seconds']:.0f}"), ("search", result["search"]), ("seed", str(result["seed"])))
    return Page(f"Tuning of {title}", summary, (
        Section("Curves", "Cost of the best candidate so far, by the cost of the default.",
                inline(_SIZE, "curves", lambda axes: _paint(axes, tasks))),
        Section("Tasks", "" if network is None else _WHOLE, grid=grid)))


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


def _saves(task: Mapping[str, Any]) -> str:
    return share(1 - task["best"] / task["default"]) if task["default"] and task["best"] else ""


def _on_rtl(found: float | str | None) -> str:
    """Return what the RTL made of the best candidate; "" where it did not run it."""
    return found if isinstance(found, str) else "" if found is None else f"{found:,.0f}"


def _listed(decisions: Mapping[str, Any] | None) -> str:
    return "" if decisions is None else ", ".join(f"{name} {_short(value)}" for name, value in decisions.items())


def _changed(changed: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name} {'none' if old is None else _short(old)} → {_short(new)}" for name, (old, new) in changed.items())


def _short(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)
