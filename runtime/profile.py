"""How long each layer of a model takes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.compiler.graph.compile import Layer
from vtakit.runtime.grid import Grid

if TYPE_CHECKING:
    from rich.table import Table


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
    """What the layers of a model cost; `str` of it is a table."""

    name: str
    layers: tuple[Timed, ...]

    @property
    def seconds(self) -> float:
        """Of all layers."""
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
        }

    @property
    def grid(self) -> Grid:
        """The table's text."""
        rows = []
        for t in self.layers:
            rate = f"{t.layer.macs / t.seconds / 1e9:.1f}" if t.layer.macs and t.seconds else ""
            moved = f"{t.layer.bytes / t.seconds / 1e9:.1f}" if t.seconds else ""
            macs = f"{t.layer.macs / 1e6:.1f}" if t.layer.macs else ""
            part = f"{100 * t.seconds / self.seconds:.1f}%" if self.seconds else ""
            rows.append((t.name, t.ops, f"{t.seconds * 1e3:.3f}", part, macs, rate, f"{t.layer.bytes / 1e6:.2f}", moved))
        columns = ("layer", "operators", "ms", "of all", "MMAC", "GMAC/s", "MB", "GB/s")
        return Grid(f"{self.name}: {self.seconds * 1e3:.3f} ms", columns, tuple(rows), labels=2)

    def table(self) -> "Table":
        """A table for the terminal."""
        return self.grid.table()

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=120, color_system=None)
        with console.capture() as captured:
            console.print(self.table())
        return captured.get()
