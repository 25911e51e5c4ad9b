"""Layers as a table for people, JSON for programs, and a plot."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from vtakit.base.errors import VtakitError, needs
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.grid import UNKNOWN, Grid, count, number, share
from vtakit.runtime.report.layer import READS, WRITES, Layer
from vtakit.sim.trace import Trace

TEXT_WIDTH = 130  # of `str`
PLOTS = (".png", ".svg")
PAGE = ".html"
_OVERLAP = ("Layers overlap: a layer's cycles count from the last instruction of the layer before, and its first loads and steps "
            "run earlier. So a short layer can be above 100% of a peak, roof or bound; all layers together cannot.")
SUFFIXES = (PAGE, ".json", *PLOTS, ".txt")  # that `save` knows


@dataclass(frozen=True, slots=True)
class Report:
    """Some layers of one device, in order.

    device   its name
    trace    of the run that they are parts of, where the device makes one; a page shows what happened when
    """

    device: str
    layers: tuple[Layer, ...]
    trace: Trace | None = field(default=None, repr=False, compare=False)

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

    @property
    def grids(self) -> list[Grid]:
        """The tables: work and rates, bytes by memory, and what each stage's cycles were spent on, where that is known."""
        rows = [*self.layers, self.total] if len(self.layers) > 1 else list(self.layers)
        return [_work(rows), _bytes(rows), *([_stages(rows)] if all(layer.stages for layer in rows) else [])]

    def tables(self) -> RenderableType:
        """The tables, for a rich console."""
        first = self.layers[0]
        bus = "" if first.bus_bytes is None else f", {first.bus_bytes:g} bytes a cycle each way"
        head = Text(f"device {self.device}: at most {first.peak} MACs a cycle{bus}")
        return Group(head, *self.grids)

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
        """Write a file, whole or not at all: .txt the tables, .json everything, .svg or .png a plot, .html a page with all of it.

        Raises `VtakitError` for another ending, a file that cannot be written, a plot without cycles, or a plot or page without
        matplotlib and jinja2.
        """
        cycles = all(layer.cycles is not None and layer.bus_bytes is not None and layer.stages for layer in self.layers)
        suffix = check_savable(path, self.device, cycles=cycles)
        if suffix == PAGE:
            made = import_module("vtakit.runtime.report.accelerator_page").accelerator_page(Path(path).stem, self)
            data = str(made).encode()
        elif suffix in PLOTS:
            data = import_module("vtakit.runtime.report.plot").plot(self, suffix[1:])  # matplotlib, which is an extra
        else:
            data = (self.to_json() if suffix == ".json" else f"{self}\n").encode()
        write_bytes(path, data, "the report")


def check_savable(path: str | Path, device: str, *, cycles: bool) -> str:
    """The ending of a report's file, if `Report.save` can write it; `cycles` says whether the device has them.

    Raises `VtakitError` for another ending, for a plot without cycles, and for a plot or page without matplotlib and jinja2.
    """
    if not isinstance(path, str | PathLike):
        raise VtakitError(f"a report's file must be a path, not {path!r:.40}")
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise VtakitError(f"a report is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {str(path)!r}")
    if suffix in PLOTS and not cycles:
        raise VtakitError(f"a plot needs cycles, which device {device!r} does not have: use device 'cycle'")
    if suffix in (*PLOTS, PAGE):
        with needs("a page" if suffix == PAGE else "a plot", "plot"):
            import_module("matplotlib")
            import_module("jinja2")
    return suffix


def _work(rows: Sequence[Layer]) -> Grid:
    columns = (
        "layer", "cycles", "MACs", "of peak", "GEMM steps", "other steps", "MACs/byte", "roof", "side", "of roof", "bound by",
        "of bound",
    )
    shares = (share for layer in rows for share in (layer.share_of_peak, layer.share_of_roof, layer.share_of_bound))
    notes = (_OVERLAP,) if any(share is not None and share > 1 for share in shares) else ()
    return Grid("work", columns, tuple([
        (
            layer.name, count(layer.cycles), count(layer.macs), share(layer.share_of_peak), count(layer.gemm_steps),
            count(layer.reset_steps + layer.alu_steps), number(layer.intensity), number(layer.roof),
            layer.side or UNKNOWN, share(layer.share_of_roof), layer.bound_by or UNKNOWN, share(layer.share_of_bound),
        ) for layer in rows
    ]), notes=notes)


def _bytes(rows: Sequence[Layer]) -> Grid:
    columns = ("layer", *(f"{name} read" for name in READS), *(f"{name} written" for name in WRITES), "read bus", "write bus")
    found = []
    for layer in rows:
        beats = [
            None if beats is None or not layer.cycles else beats / layer.cycles for beats in (layer.read_beats, layer.write_beats)
        ]
        moved = [*(layer.read[name] for name in READS), *(layer.written[name] for name in WRITES)]
        found.append((layer.name, *map(count, moved), *map(share, beats)))
    return Grid("bytes of DRAM", columns, tuple(found))


def _stages(rows: Sequence[Layer]) -> Grid:
    columns = ("layer", "stage", "busy", "token from before", "token from after", "memory", "no instruction")
    return Grid("cycles of each stage", columns, tuple([
        ("" if at else layer.name, stage, *(
            share(causes[cause] / layer.cycles if layer.cycles else None) for cause in CYCLE_CAUSES
        )) for layer in rows for at, (stage, causes) in enumerate(layer.stages.items())
    ]), labels=2)
