"""Layers as a table for people, JSON for programs, and a plot."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from vtakit.hw.isa.errors import VtakitError, needs
from vtakit.hw.isa.file import write_bytes
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.report.layer import READS, WRITES, Layer

TEXT_WIDTH = 130  # of `str`
PLOTS = (".png", ".svg")
SUFFIXES = (".json", *PLOTS, ".txt")  # that `save` knows
LABEL_WIDTH = 24  # of a layer's name in a table; longer ones go on in the next line
_BETWEEN = 3  # from one column of a table to the next
_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Report:
    """Some layers of one device, in order.

    device   its name
    """

    device: str
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.layers, Sequence) or not all(isinstance(layer, Layer) for layer in self.layers):
            raise VtakitError(f"the layers of a report must be Layers, not {self.layers!r:.40}")
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers:
            raise VtakitError("a report needs at least one layer")
        if len({(layer.peak, layer.bus_bytes) for layer in self.layers}) > 1:
            raise VtakitError("the layers of a report must be of one device: their peaks or buses differ")

    @property
    def total(self) -> Layer:
        """All layers as one; what is not known of each is not known of all."""
        first, layers = self.layers[0], self.layers

        def added(values: Iterable[int | None]) -> int | None:
            known = list(values)
            return None if None in known else sum(filter(None, known))

        return Layer(
            name="all", peak=first.peak, bus_bytes=first.bus_bytes, insn_count=sum(x.insn_count for x in layers),
            macs=sum(x.macs for x in layers), gemm_steps=sum(x.gemm_steps for x in layers),
            reset_steps=sum(x.reset_steps for x in layers), alu_steps=sum(x.alu_steps for x in layers),
            read={name: sum(x.read[name] for x in layers) for name in READS},
            written={name: sum(x.written[name] for x in layers) for name in WRITES}, cycles=added(x.cycles for x in layers),
            stages={
                stage: {cause: sum(x.stages[stage][cause] for x in layers) for cause in CYCLE_CAUSES} for stage in first.stages
            } if all(x.stages for x in layers) else {},
            read_beats=added(x.read_beats for x in layers), write_beats=added(x.write_beats for x in layers),
        )

    def tables(self) -> RenderableType:
        """The tables, for a rich console: work and rates, bytes by memory, and what each stage's cycles were spent on."""
        rows = [*self.layers, self.total] if len(self.layers) > 1 else list(self.layers)
        first = self.layers[0]
        bus = "" if first.bus_bytes is None else f", {first.bus_bytes:g} bytes a cycle each way"
        parts: list[RenderableType] = [
            Text(f"device {self.device}: at most {first.peak} MACs a cycle{bus}"), _work(rows), _bytes(rows),
        ]
        if all(layer.stages for layer in rows):
            parts.append(_stages(rows))
        return Group(*parts)

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=TEXT_WIDTH, color_system=None).print(self.tables())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def to_json(self) -> str:
        """Everything as JSON; what the device does not tell is null."""
        first = self.layers[0]
        return json.dumps({
            "device": self.device, "peak_macs_a_cycle": first.peak, "bus_bytes_a_cycle": first.bus_bytes,
            "layers": [layer.as_json() for layer in self.layers], "total": self.total.as_json(),
        }, indent=2) + "\n"

    def save(self, path: str | Path) -> None:
        """Write a file, whole or not at all: .txt the tables, .json everything, .svg or .png a plot.

        Raises `VtakitError` for another ending, a file that cannot be written, or a plot without cycles or without matplotlib.
        """
        cycles = all(layer.cycles is not None and layer.bus_bytes is not None and layer.stages for layer in self.layers)
        suffix = check_savable(path, self.device, cycles=cycles)
        if suffix in PLOTS:
            data = import_module("vtakit.runtime.report.plot").plot(self, suffix[1:])  # matplotlib, which is an extra
        else:
            data = (self.to_json() if suffix == ".json" else f"{self}\n").encode()
        write_bytes(path, data, "the report")


def check_savable(path: str | Path, device: str, *, cycles: bool) -> str:
    """The ending of a report's file, if `Report.save` can write it; `cycles` says whether the device has them.

    Raises `VtakitError` for another ending, and for a plot without cycles or without matplotlib.
    """
    if not isinstance(path, str | PathLike):
        raise VtakitError(f"a report's file must be a path, not {path!r:.40}")
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise VtakitError(f"a report is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {str(path)!r}")
    if suffix in PLOTS:
        if not cycles:
            raise VtakitError(f"a plot needs cycles, which device {device!r} does not have: use device 'rtl'")
        with needs("a plot", "plot"):
            import_module("matplotlib")
    return suffix


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A table that is cut into several, each with the labels, where it is wider than the console: no number is ever broken.

    labels : how many of the columns say what a row is
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        numbers = [max(len(row[at]) for row in self.rows) for at in range(len(self.columns))]
        least = [max(number, *map(len, column.split())) for number, column in zip(numbers, self.columns, strict=True)]
        least[0] = min(least[0], LABEL_WIDTH)
        wanted = [max(number, len(column)) for number, column in zip(numbers, self.columns, strict=True)]
        labels, most = [*range(self.labels)], options.max_width + 1
        pages = [labels.copy()]
        for at in range(self.labels, len(self.columns)):
            if len(pages[-1]) > self.labels and sum(least[i] + _BETWEEN for i in [*pages[-1], at]) > most:
                pages.append(labels.copy())
            pages[-1].append(at)
        for number, page in enumerate(pages):
            title = f"{self.title}, continued" if number else self.title
            table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
            left = most - sum(least[at] + _BETWEEN for at in page)
            for at in page:
                more = max(0, min(wanted[at] - least[at], left))
                left -= more
                table.add_column(self.columns[at], justify="left" if at < self.labels else "right", overflow="fold",
                                 width=least[at] + more)
            for row in self.rows:
                table.add_row(*[Text(row[at]) for at in page])
            yield table


def _work(rows: Sequence[Layer]) -> _Sheet:
    return _Sheet("work", (
        "layer", "cycles", "MACs", "of peak", "GEMM steps", "other steps", "MACs/byte", "roof", "side", "of roof", "bound by",
        "of bound",
    ), [(
        layer.name, _count(layer.cycles), _count(layer.macs), _share(layer.share_of_peak), _count(layer.gemm_steps),
        _count(layer.reset_steps + layer.alu_steps), _number(layer.intensity), _number(layer.roof), layer.side or _UNKNOWN,
        _share(layer.share_of_roof), layer.bound_by or _UNKNOWN, _share(layer.share_of_bound),
    ) for layer in rows])


def _bytes(rows: Sequence[Layer]) -> _Sheet:
    columns = "layer", *(f"{name} read" for name in READS), *(f"{name} written" for name in WRITES), "read bus", "write bus"
    found = []
    for layer in rows:
        beats = [
            None if count is None or not layer.cycles else count / layer.cycles for count in (layer.read_beats, layer.write_beats)
        ]
        moved = [*(layer.read[name] for name in READS), *(layer.written[name] for name in WRITES)]
        found.append((layer.name, *map(_count, moved), *map(_share, beats)))
    return _Sheet("bytes of DRAM", columns, found)


def _stages(rows: Sequence[Layer]) -> _Sheet:
    found = [
        ("" if number else layer.name, stage,
         *(_share(causes[cause] / layer.cycles if layer.cycles else None) for cause in CYCLE_CAUSES))
        for layer in rows for number, (stage, causes) in enumerate(layer.stages.items())
    ]
    return _Sheet("cycles of each stage", (
        "layer", "stage", "busy", "token from before", "token from after", "memory", "no instruction",
    ), found, labels=2)


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.{2 if value < 10 else 1}f}"
