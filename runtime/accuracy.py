"""Accuracy of a quantized model against the float model, value by value."""

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rich.table import Table

Array = npt.NDArray[Any]

_MOST_DECIBELS = 200.0
_LEAST_POWER = 1e-300  # of a signal that is zero


@dataclass(slots=True)
class Compared:
    """A value of both models.

    name     : in the model          op : what makes it
    signal   : the sum of its squares in the float model     noise : that of the differences
    scale    : of int8, 0 where it stays in floating point
    """

    name: str
    op: str
    scale: float
    signal: float = 0.0
    noise: float = 0.0

    def add(self, real: Array, quantized: Array) -> None:
        """Compare the arrays of a further run."""
        wide = real.astype(np.float64)
        finite = np.isfinite(wide)
        self.signal += float(np.sum(wide**2, where=finite))
        apart = ~((wide == quantized) | (np.isnan(wide) & np.isnan(quantized)))  # an infinity less itself is nan
        noise = float(np.sum(np.subtract(wide, quantized, out=np.zeros_like(wide), where=apart) ** 2))
        self.noise += math.inf if math.isnan(noise) else noise

    @property
    def decibels(self) -> float:
        """Signal-to-noise ratio in dB: 200 without a difference, -200 if only one model has NaN or infinity."""
        if not self.noise:
            return _MOST_DECIBELS
        if math.isinf(self.noise):
            return -_MOST_DECIBELS
        found = 10 * (math.log10(max(self.signal, _LEAST_POWER)) - math.log10(self.noise))
        return max(-_MOST_DECIBELS, min(_MOST_DECIBELS, found))


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with weights.

    op      : its operator          weights : how many
    bits    : of one weight
    lost_db : the signal-to-noise ratio of the network's outputs where this layer's weights alone have few bits, in dB; None
              where that was not asked for
    """

    name: str
    op: str
    weights: int
    bits: int
    lost_db: float | None = None


@dataclass(slots=True)
class Accuracy:
    """Error that quantization adds; `str` of it is a table.

    values  : in the order of the model
    outputs : the names of those among them that the model gives
    agree   : of each output that names a class, for how many of the samples both models name the same
    left    : the nodes that stay in floating point
    layers  : those with weights, in order
    reasons : why each of `left` stays in floating point
    """

    name: str
    values: list[Compared]
    outputs: list[str]
    samples: int = 0
    agree: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def weight_bytes(self) -> int:
        """Size in bytes of all weights, packed."""
        return sum(layer.weights * layer.bits for layer in self.layers) // 8

    def worst(self, count: int = 10) -> list[Compared]:
        """Return the values with the lowest signal-to-noise ratio, worst first."""
        return sorted(self.values, key=lambda value: value.decibels)[:count]

    @property
    def agreement(self) -> dict[str, float]:
        """Share of the samples for which both models name the same class, by output."""
        return {name: count / self.samples for name, count in self.agree.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "name": self.name, "samples": self.samples, "agreement": self.agreement,
            "float_nodes": self.left, "reasons": self.reasons,
            "worst": [value.name for value in self.worst()],
            "layers": [asdict(layer) for layer in self.layers], "weight_bytes": self.weight_bytes,
            "values": [{"name": v.name, "op": v.op, "scale": v.scale, "decibels": v.decibels} for v in self.values],
        }

    def table(self, count: int = 10) -> "Table":
        """Return a table of the outputs and the values with the largest error, for a terminal."""
        from rich.markup import escape
        from rich.table import Table

        from vtakit.base.text import counted, one_line

        def plain(name: str) -> str:
            return escape(one_line(name))

        title = f"{plain(self.name)}: float against int8, {counted(self.samples, 'sample')}"
        found = Table("value", "operator", box=None, pad_edge=False, title=title)
        for head in ("scale", "signal to noise, dB", "same class, %"):
            found.add_column(head, justify="right")
        given = [value for value in self.values if value.name in self.outputs]
        for value in [*given, *[each for each in self.worst(count) if each not in given]]:
            same = f"{100 * self.agreement[value.name]:.1f}" if value.name in self.agree else ""
            scale = f"{value.scale:.3g}" if value.scale else "float"
            found.add_row(plain(value.name), plain(value.op), scale, f"{value.decibels:.1f}", same)
        return found

    def left_lines(self) -> list[str]:
        """Return a line for each reason why nodes stay in floating point, with their names."""
        from vtakit.base.text import counted, one_line

        grouped: dict[str, list[str]] = {}
        for name, why in self.reasons.items():
            grouped.setdefault(why, []).append(one_line(name))
        return [f"{counted(len(names), 'node stays', 'nodes stay')} in floating point, since {why}: {', '.join(names)}"
                for why, names in grouped.items()]

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=120, color_system=None)
        with console.capture() as captured:
            console.print(self.table())
            for line in self.left_lines():
                console.print(line, markup=False, highlight=False)
        return captured.get()
