"""A report as a picture: each layer under the roofline, and what the compute stage's cycles were spent on."""

from matplotlib.figure import Figure

from vtakit.runtime.report.charts import draw, paint_roofline, paint_stalls, roofline_of
from vtakit.runtime.report.report import Report


def plot(report: Report, kind: str) -> bytes:
    """The picture's bytes; `kind` is "svg" or "png". Every layer has cycles. The same report gives the same bytes."""
    def paint(figure: Figure) -> None:
        roofline, stalls = figure.subplots(1, 2)
        paint_roofline(roofline, roofline_of(report))
        paint_stalls(stalls, report)
    return draw((12, max(4.5, 1.5 + 0.3 * len(report.layers))), kind, paint)
