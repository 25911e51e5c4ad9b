"""Nodes of a graph that are one operator of the accelerator."""

from collections.abc import Callable
from dataclasses import dataclass

from vtakit.compiler.graph.ir import Node, Value
from vtakit.compiler.graph.vta.filling import Filling
from vtakit.compiler.graph.vta.made import Made, Maker
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.te.tensor import Tensor

Build = Callable[[Maker, list[Tensor], Fold | None], Made]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Nodes that are one operator of the accelerator.

    nodes  : in order; nothing else reads what is inside
    data   : the activations that it reads, int8, in the operator's order
    output : what it makes, int8
    packed : the same as it lies in the device's memory, or all of its channels but those of `rest`
    macs   : its multiplications, none of them for padding
    bytes  : of what it reads and writes
    fold   : how the data of a convolution of few channels may be laid out, if the CPU makes it
    filling : how the last block of a convolution's output channels may be filled with pixels
    rest   : the last channels of the output, if they lie apart, for the CPU
    count  : pixels in one block of `rest`, or of `packed` if there is none, down and across
    alone  : the same operator as one that makes its result in one piece
    """

    nodes: tuple[Node, ...]
    data: tuple[Value, ...]
    output: Value
    packed: Value
    build: Build
    macs: int = 0
    bytes: int = 0
    fold: Fold | None = None
    filling: Filling | None = None
    rest: Value | None = None
    count: tuple[int, int] = (1, 1)
    alone: "Unit | None" = None

    @property
    def name(self) -> str:
        """Return the name of the first node that has one, else its operator."""
        return next((node.name for node in self.nodes if node.name), self.nodes[0].op)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its nodes that have one."""
        return tuple([node.name for node in self.nodes if node.name])

    @property
    def stored(self) -> tuple[Value, ...]:
        """Return what the CPU reads, as it lies in the device's memory."""
        return (self.packed,) if self.rest is None else (self.packed, self.rest)

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple([node.op for node in self.nodes])
