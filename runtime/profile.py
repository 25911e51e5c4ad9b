"""How long each layer of a model takes."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.compiler.graph.compile import Layer
from vtakit.runtime.grid import Grid
from vtakit.runtime.report.report import TEXT_WIDTH, Report

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class Timed:
    """A layer and its time in seconds."""

    layer: Layer
    seconds: float

    @property
    def name(self) -> str:
        """The nodes of the model that it does, the first and how many more."""
        names = self.layer.names or ("copy",)
        return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"

    @property
    def ops(self) -> str:
        """Its operators."""
        return " ".join(self.layer.ops) or "copy"


@dataclass(frozen=True, slots=True)
class Profile:
    """What the layers of a model cost; `str` of it is a table.

    layers   : those on the CPU
    launches : of each program of an accelerator, in order, what its layers cost there
    said     : what is computed otherwise than as the model says; "" if nothing is
    """

    name: str
    layers: tuple[Timed, ...]
    launches: tuple[Report, ...] = ()
    said: str = ""

    @property
    def seconds(self) -> float:
        """Of all layers on the CPU."""
        return sum(timed.seconds for timed in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name, "seconds": self.seconds,
            "layers": [
                {
                    "name": t.name, "nodes": list(t.layer.names), "ops": list(t.layer.ops), "kernel": t.layer.kernel,
                    "seconds": t.seconds, "macs": t.layer.macs, "bytes": t.layer.bytes,
                } for t in self.layers
            ],
            **({"launches": [json.loads(report.to_json()) for report in self.launches]} if self.launches else {}),
        }

    def tables(self) -> "Group":
        """The table of the CPU's layers, then those of each launch, for the terminal."""
        from rich.console import Group
        from rich.text import Text

        first = [Text(self.said)] if self.said else []
        return Group(*first, self.grid, *[report.tables() for report in self.launches])

    @property
    def grid(self) -> Grid:
        """The table of the layers on the CPU."""
        rows = []
        for t in self.layers:
            rate = f"{t.layer.macs / t.seconds / 1e9:.1f}" if t.layer.macs and t.seconds else ""
            moved = f"{t.layer.bytes / t.seconds / 1e9:.1f}" if t.seconds else ""
            macs = f"{t.layer.macs / 1e6:.1f}" if t.layer.macs else ""
            part = f"{100 * t.seconds / self.seconds:.1f}%" if self.seconds else ""
            rows.append((t.name, t.ops, f"{t.seconds * 1e3:.3f}", part, macs, rate, f"{t.layer.bytes / 1e6:.2f}", moved))
        columns = ("layer", "operators", "ms", "of all", "MMAC", "GMAC/s", "MB", "GB/s")
        return Grid(f"{self.name}: {self.seconds * 1e3:.3f} ms", columns, tuple(rows), labels=2)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=TEXT_WIDTH if self.launches else 120, color_system=None)
        with console.capture() as captured:
            console.print(self.tables())
        return captured.get()
