"""The page of a program on the accelerator."""

from itertools import accumulate

from vtakit.runtime.grid import Grid, count, named, share
from vtakit.runtime.report.charts import inline, paint_roofline, paint_stalls, paint_timeline, roofline_of
from vtakit.runtime.report.page import Page, Section, facts, numbered
from vtakit.runtime.report.report import Report

_WIDE = 11.0  # inches


def accelerator_page(title: str, report: Report, ids: str = "") -> Page:
    """Layers, and where the device has cycles, roofline and stalls; with a trace of the run, what each stage did when.

    ids : what the names of its pictures' elements begin with, which sets them apart from others on one page
    """
    layers, trace = report.layers, report.trace
    timed = all(layer.cycles is not None and layer.bus_bytes is not None and layer.stages for layer in layers)
    sections = [Section(
        "Layers", "MACs/byte counts the busier direction of the bus; the roof is what bus and array allow at that; a layer is "
        "bound by what takes the most cycles at least: steps, reads or writes.", grid=numbered(_work(report), layers),
    )]
    if timed:
        sections += [
            Section("Roofline", "Each layer by its number.", inline((8, 4.5), f"{ids}roofline", lambda axes: paint_roofline(
                axes, roofline_of(report)))),
            Section(
                "Stalls", "", inline((_WIDE, 2 + 0.28 * len(layers)), f"{ids}stalls", lambda axes: paint_stalls(axes, report)),
                named(report.grids, "cycles of each stage"),
            ),
        ]
    if trace is not None:
        ends = list(zip([x.name for x in layers], accumulate(layer.cycles or 0 for layer in layers), strict=True))
        sections.append(Section(
            "Timeline", "Lines part the layers. `vtakit sim --trace` writes every instruction for ui.perfetto.dev.",
            inline((_WIDE, 3), f"{ids}timeline", lambda axes: paint_timeline(axes, trace, ends)),
        ))
    sections.append(Section("Traffic", grid=numbered(named(report.grids, "bytes of DRAM"), layers)))
    return Page(title, device_facts(report), tuple(sections))


def device_facts(report: Report) -> tuple[tuple[str, str], ...]:
    """Return the facts at the top of the page: the device, and the totals of all layers there."""
    total, bus = report.total, report.layers[0].bus_bytes
    return facts(
        ("device", report.device), ("cycles", None if total.cycles is None else count(total.cycles)), ("MACs", count(total.macs)),
        ("of peak", None if total.share_of_peak is None else share(total.share_of_peak)),
        ("peak", f"{total.peak} MACs a cycle"), ("bus", None if bus is None else f"{bus:g} bytes a cycle each way"),
        ("read", f"{total.read_bytes:,} bytes"), ("written", f"{total.written_bytes:,} bytes"),
        ("instructions", count(total.insn_count)),
    )


def _work(report: Report) -> Grid:
    """The table of work, with each layer's share of all cycles after its cycles."""
    grid, total = named(report.grids, "work"), report.total.cycles
    if not total:
        return grid
    cycles = [*(layer.cycles for layer in report.layers), *([total] if len(report.layers) > 1 else [])]
    rows = [
        (*row[:2], share((spent or 0) / total), *row[2:]) for row, spent in zip(grid.rows, cycles, strict=True)
    ]
    return Grid(grid.title, (*grid.columns[:2], "of all", *grid.columns[2:]), tuple(rows), grid.labels, grid.notes)
