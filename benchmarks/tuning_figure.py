"""The figures of `tuning.py` as a picture and as tables of docs/tuning.md."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from page_parts import write_between

from vtakit.runtime.report.charts import draw

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "tuning.md", ROOT / "docs"
BEGIN, END = "<!-- begin: python benchmarks/tuning.py --write -->\n", "<!-- end -->\n"
COLOURS = {"auto": "#1f5fa8", "genetic": "#d98e04", "random": "#8c564b"}
PEER = "peer"  # of curves: one point of the fastest other runtime
WITHIN = 1.01  # of the best
COLUMNS = 4  # of panels
Curve = Sequence[float | None]
Results = Mapping[str, Any]


def write(results: Mapping[str, tuple[str, Results]], searches: Mapping[str, str]) -> None:
    """Draw a picture of each target that has results, and write the tables.

    results  : title and kept results, by target
    searches : names for people, by search
    """
    parts = []
    for target, (title, found) in results.items():
        found = {**found, "layers": dict(sorted(found["layers"].items(), key=lambda each: int(each[0][1:])))}
        if found["layers"]:
            (PICTURES / f"tuning_{target}.svg").write_bytes(picture(title, found, searches))
            parts.append(f"{found['date']}, `{found['command']}`: {title}.\n\n"
                         f"![Best cost by trials: {title}](tuning_{target}.svg)\n\n{table(found, searches)}")
    write_between(PAGE, BEGIN, "\n" + "\n".join(parts) + "\n", END)


def table(found: Results, searches: Mapping[str, str]) -> str:
    """Return the layers: the default by the best, and the trials of each search until it is within 1 % of the best."""
    peers = any(PEER in curves for curves in found["layers"].values())
    lines = [f"| layer | best, {found['unit']} | default | " + ("other runtime | " if peers else "")
             + " | ".join(f"{name}, trials" for name in searches.values()) + " |",
             "|---|---:|---:|" + "---:|" * (len(searches) + peers)]
    for name, curves in found["layers"].items():
        best, trials = least(curves), found["trials"]
        cells = [_trials(median(reached(each, WITHIN * best) for each in curves[search]), trials) for search in searches]
        if peers:
            cells.insert(0, f"{curves[PEER][0][0] / best:.3f}" if PEER in curves else "")
        lines.append(f"| {name} | {_cost(best)} | {default_of(curves) / best:.3f} | {' | '.join(cells)} |")
    means = []
    for search in searches:
        ends = [median((each[-1] or math.inf) / least(curves) for each in curves[search]) for curves in found["layers"].values()]
        mean = geometric_mean(ends)
        means.append(f"{mean:.4f}" if math.isfinite(mean) else "of some layers only failures")
    if peers:
        there = [curves[PEER][0][0] / least(curves) for curves in found["layers"].values() if PEER in curves]
        means.insert(0, f"{geometric_mean(there):.3f}")
    default = geometric_mean([default_of(curves) / least(curves) for curves in found["layers"].values()])
    lines.append(f"| geometric mean after {found['trials']} trials, by the best | | {default:.3f} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def picture(title: str, found: Results, searches: Mapping[str, str], kind: str = "svg") -> bytes:
    """Return a picture with a panel for each layer."""
    def paint(figure: Any) -> None:
        figure.patch.set_facecolor("#ffffff")
        count = len(found["layers"])
        panels = figure.subplots(-(-count // COLUMNS), min(count, COLUMNS), squeeze=False).ravel()
        for axes in panels[len(found["layers"]):]:
            axes.set_axis_off()
        for axes, (name, curves) in zip(panels, found["layers"].items(), strict=False):
            best, trials = least(curves), range(1, found["trials"] + 1)
            default = default_of(curves) / best
            axes.axhline(default, color="#666666", linestyle=":", label="default")
            if PEER in curves:
                axes.axhline(curves[PEER][0][0] / best, color="#2e7d32", linestyle="--", label="best other runtime")
            for search, label in searches.items():
                rows = [[math.nan if cost is None else cost / best for cost in _whole(each, found["trials"])]
                        for each in curves[search]]
                columns = [*zip(*rows, strict=True)]
                axes.plot(trials, [median(column) for column in columns], color=COLOURS[search], label=label)
                axes.fill_between(trials, [min(column) for column in columns], [max(column) for column in columns],
                                  color=COLOURS[search], alpha=0.2, linewidth=0)
            axes.set_xscale("log", base=2)
            ticks = [1, 4, 16, 64] if found["trials"] >= 64 else [1, 2, 4, 8, 16]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.set_ylim(0.98, max(1.6, default + 0.1))
            axes.set_title(name, fontsize=9)
            axes.set_xlabel("trials", fontsize=8)
            axes.spines[["top", "right"]].set_visible(False)
        figure.supylabel(f"best {found['unit']}, by the least", fontsize=8)
        figure.suptitle(title, fontsize=8)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    return draw((9, 1.2 + 1.7 * -(-len(found["layers"]) // COLUMNS)), kind, paint)


def least(curves: Mapping[str, Sequence[Curve]]) -> float:
    """Return the least cost of a layer that any search found."""
    return min(cost for name, each in curves.items() if name != PEER for curve in each for cost in curve[-1:] if cost is not None)


def default_of(curves: Mapping[str, Sequence[Curve]]) -> float:
    """Return the cost of the default."""
    (cost,) = curves["default"][0]
    return math.inf if cost is None else cost


def reached(curve: Curve, wanted: float) -> float:
    """Return the trials after which a curve is at a cost; infinite if it never is."""
    return next((at for at, cost in enumerate(curve, 1) if cost is not None and cost <= wanted), math.inf)


def _whole(curve: Curve, trials: int) -> list[float | None]:
    """Return a curve that goes on to so many trials, where its space had fewer candidates."""
    return [*curve, *[curve[-1]] * (trials - len(curve))]


def _trials(count: float, most: int) -> str:
    return f"more than {most}" if math.isinf(count) else f"{count:g}"


def _cost(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 1000 else f"{cost:.3g}"
