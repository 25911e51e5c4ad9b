"""The time of a layer."""

from dataclasses import dataclass

from vtakit.compiler.graph.compile import Layer


@dataclass(frozen=True, slots=True)
class Timed:
    """A layer and its time in seconds."""

    layer: Layer
    seconds: float

    @property
    def name(self) -> str:
        """Name of the layer's first node, and the number of its other nodes."""
        names = self.layer.names or ("copy",)
        return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"

    @property
    def ops(self) -> str:
        """Names of the layer's operators."""
        return " ".join(self.layer.ops) or "copy"
