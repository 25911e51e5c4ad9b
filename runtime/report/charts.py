"""Charts of reports, by matplotlib: rooflines, stalls and timelines."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from vtakit.base.text import one_line
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.report.report import Report
from vtakit.sim.trace import Trace

COLOURS = dict(zip(CYCLE_CAUSES, ("#2a7f62", "#d98e04", "#8c564b", "#c0392b", "#b8b8b8"), strict=True))
LABELS = dict(zip(CYCLE_CAUSES, ("busy", "token from load", "token from store", "memory", "no instruction"), strict=True))
ANY = LABELS | {"wait_prev": "token from the stage before", "wait_next": "token from the stage after"}  # of whichever stage
STAGE = "compute"
_POINT = "#1f5fa8"
_COLUMNS = 300  # of a timeline: each is three points of a screen or more


class Roofline(NamedTuple):
    """A roofline: peak, bandwidth, and one point for each layer.

    peak   : operations in a unit of time
    feed   : bytes in that time
    points : (label, operations a byte, operations in that time)
    """

    title: str
    peak: float
    feed: float
    points: Sequence[tuple[str, float, float]]
    x: str
    y: str


def draw(size: tuple[float, float], kind: str, paint: Callable[[Figure], None]) -> bytes:
    """Return a picture as bytes, the same for the same data. `size`: width and height in inches; `kind`: "svg" or "png"."""
    look = matplotlib.rc_context({"svg.hashsalt": "vtakit", "svg.fonttype": "none", "font.size": 9, "text.parse_math": False})
    with look, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # of a name in another script; a browser has it
        figure = Figure(figsize=size, layout="constrained")
        paint(figure)
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {})
    return data.getvalue()


def inline(size: tuple[float, float], label: str, paint: Callable[[Any], None]) -> str:
    """Return a picture with one pair of axes as an <svg> element for a page; its ids begin with `label`."""
    text = draw(size, "svg", lambda figure: paint(figure.subplots())).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r' id="([^"]+)"', rf' id="{label}-\1"', text)
    text = re.sub(r'"#([^"]+)"', rf'"#{label}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{label}-\1)", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def roofline_of(report: Report) -> Roofline:
    """Return an accelerator's roofline in MACs a cycle; layers without MACs have no point."""
    first = report.layers[0]
    bus = first.bus_bytes or 1.0
    points = [
        (str(at), layer.intensity, layer.rate) for at, layer in enumerate(report.layers, 1) if layer.intensity and layer.rate
    ]
    return Roofline(
        f"roofline: {first.peak} MACs, {bus:g} bytes each way a cycle", first.peak, bus, points,
        "MACs a byte of the busier direction", "MACs a cycle",
    )


def paint_roofline(axes: Any, roof: Roofline) -> None:
    """Draw the bound of peak and bandwidth, and a point for each layer."""
    knee = roof.peak / roof.feed
    left = min([knee, *(x for _, x, _ in roof.points)]) / 2
    right = max([knee, *(x for _, x, _ in roof.points)]) * 2
    axes.plot([left, knee, right], [left * roof.feed, roof.peak, roof.peak], color="black", linewidth=1.2)
    for label, x, y in roof.points:
        axes.plot([x], [y], "o", markersize=5, color=_POINT)
        axes.annotate(one_line(label), (x, y), textcoords="offset points", xytext=(4, -10))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    low, high = min([left * roof.feed, *(y for *_, y in roof.points)]), max([roof.peak, *(y for *_, y in roof.points)])
    axes.set(ylim=(low / 2, high * 2), xlabel=roof.x, ylabel=roof.y, title=roof.title)
    axes.grid(visible=True, linewidth=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def paint_stalls(axes: Any, report: Report) -> None:
    """Draw a bar for each layer: the compute stage's cycles by cause, in percent."""
    names = [f"{at}  {one_line(layer.name)}" for at, layer in enumerate(report.layers, 1)]
    starts = [0.0] * len(names)
    for cause in CYCLE_CAUSES:
        shares = [100 * layer.stages[STAGE][cause] / (layer.cycles or 1) for layer in report.layers]
        axes.barh(range(len(names)), shares, left=starts, color=COLOURS[cause], label=LABELS[cause])
        starts = [start + share for start, share in zip(starts, shares, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel=f"percent of the {STAGE} stage's cycles", title="where the cycles went")
    axes.figure.legend(loc="outside lower center", ncols=len(CYCLE_CAUSES), frameon=False, fontsize=8)


def paint_timeline(axes: Any, trace: Trace, ends: Sequence[tuple[str, int]]) -> None:
    """Draw a lane for each stage: cycles by cause over time. `ends`: (layer, cycle at which it ends)."""
    columns = max(1, min(_COLUMNS, trace.cycles))
    edges = np.linspace(0, trace.cycles, columns + 1)
    for lane, stage in enumerate(Stage):
        floor = np.full(columns, float(len(Stage) - 1 - lane))
        for cause in CYCLE_CAUSES:
            spans = [(span.start, span.end) for span in trace.causes if span.stage is stage and span.name == cause]
            top = floor + 0.9 * _shares(spans, edges)
            axes.stairs(top, edges, baseline=floor, fill=True, color=COLOURS[cause], label=None if lane else ANY[cause])
            floor = top
    axes.set_yticks([len(Stage) - 1 - lane + 0.45 for lane in range(len(Stage))], [stage.name.lower() for stage in Stage])
    for _, end in ends[:-1]:
        axes.axvline(end, color="black", linewidth=0.4)
    axes.set(xlim=(0, max(1, trace.cycles)), ylim=(0, len(Stage)), xlabel="cycle", title="what each stage did")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.figure.legend(loc="outside lower center", ncols=len(CYCLE_CAUSES), frameon=False, fontsize=8)


def paint_sequence(axes: Any, steps: Sequence[tuple[str, float]], unit: str) -> None:
    """Draw steps (kind, duration) in order of time, coloured by kind."""
    kinds = list(dict.fromkeys(kind for kind, _ in steps))
    colours = matplotlib.colormaps["tab20"]
    starts = np.concatenate([[0.0], np.cumsum([duration for _, duration in steps])])
    for at, kind in enumerate(kinds):
        bars = [(start, duration) for (what, duration), start in zip(steps, starts, strict=False) if what == kind]
        axes.broken_barh(bars, (0, 1), facecolors=colours(at % 20), edgecolor="white", linewidth=0.3, label=one_line(kind))
    axes.set_yticks([])
    axes.set(xlim=(0, float(starts[-1]) or 1), ylim=(0, 1), xlabel=unit, title="what happened when")
    axes.figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def _shares(spans: Sequence[tuple[int, int]], edges: Any) -> Any:
    """Return the share of each column, from one edge to the next, that the disjoint spans cover."""
    if not spans:
        return np.zeros(len(edges) - 1)
    starts, ends = np.array(spans, np.float64).T
    known = np.stack([starts, ends], 1).reshape(-1)
    covered = np.cumsum(np.stack([np.zeros(len(starts)), ends - starts], 1))  # of cycles up to each start and end
    return np.diff(np.interp(edges, known, covered)) / np.diff(edges)
