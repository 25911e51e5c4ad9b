"""A report as a picture: each layer under the roofline, and what the compute stage's cycles were spent on."""

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.report.report import Report

_COLOURS = dict(zip(CYCLE_CAUSES, ("#2a7f62", "#d98e04", "#8c564b", "#c0392b", "#b8b8b8"), strict=True))
_LABELS = dict(zip(CYCLE_CAUSES, ("busy", "token from load", "token from store", "memory", "no instruction"), strict=True))
_STAGE = "compute"


def plot(report: Report, kind: str) -> bytes:
    """The picture's bytes; `kind` is "svg" or "png". Every layer has cycles. The same report gives the same bytes."""
    with matplotlib.rc_context({"svg.hashsalt": "vtakit", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(12, max(4.5, 1.5 + 0.3 * len(report.layers))), layout="constrained")
        roofline, stalls = figure.subplots(1, 2)
        _roofline(roofline, report)
        for axis in (roofline.xaxis, roofline.yaxis):
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        _stalls(stalls, report)
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {})
    return data.getvalue()


def _roofline(axes: Any, report: Report) -> None:
    first = report.layers[0]
    bus = first.bus_bytes or 1.0
    points = [
        (number, layer.intensity, layer.rate) for number, layer in enumerate(report.layers, 1) if layer.intensity and layer.rate
    ]
    knee = first.peak / bus
    left = min([knee, *(x for _, x, _ in points)]) / 2
    right = max([knee, *(x for _, x, _ in points)]) * 2
    axes.plot([left, knee, right], [left * bus, first.peak, first.peak], color="black", linewidth=1.2)
    for number, x, y in points:
        axes.plot([x], [y], "o", markersize=5, color="#1f5fa8")
        axes.annotate(str(number), (x, y), textcoords="offset points", xytext=(4, -10))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(
        ylim=(min([left * bus, *(y for _, _, y in points)]) / 2, first.peak * 2), xlabel="MACs a byte of the busier direction",
        ylabel="MACs a cycle", title=f"roofline: {first.peak} MACs, {bus:g} bytes each way a cycle",
    )
    axes.grid(visible=True, linewidth=0.3)


def _stalls(axes: Any, report: Report) -> None:
    names = [f"{number}  {layer.name}" for number, layer in enumerate(report.layers, 1)]
    starts = [0.0] * len(names)
    for cause in CYCLE_CAUSES:
        shares = [100 * layer.stages[_STAGE][cause] / (layer.cycles or 1) for layer in report.layers]
        axes.barh(names, shares, left=starts, color=_COLOURS[cause], label=_LABELS[cause])
        starts = [start + share for start, share in zip(starts, shares, strict=True)]
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel=f"percent of the {_STAGE} stage's cycles", title="where the cycles went")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=len(CYCLE_CAUSES), frameon=False, fontsize=8)
