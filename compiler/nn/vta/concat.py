"""Concatenation of channels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import if_then_else
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_element
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.compiler.nn.vta.tail import Tail
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Concat2d(Layer):
    """The channels of several tensors, one tensor's after another's, with a scale for each if the epilogue has one.

    data    : inp type [images, blocks, height, width, batch, block], alike but in their blocks
    weights : wgt type, of `packing.concat_weights`: one element if each tensor but the last fills whole blocks; else
              [out blocks, blocks of all, 1, 1, block, block], which bring the channels together

    Raises VtaError for shapes that do not fit together.
    """

    data: tuple[Tensor, ...]
    weights: Tensor
    name: str = "concat"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"concatenation {self.name!r}"
        if not isinstance(self.data, Sequence):
            raise VtaError(f"{what}: data is {self.data!r:.40} and must be a tuple of tensors")
        if not self.data:
            raise VtaError(f"{what}: there is nothing to join: give at least one tensor")
        if not isinstance(self.weights, Tensor) or self.weights.ndim == 2:
            check_element(self.target, what, self.weights)
        first = shape_of(self.data[0])
        for tensor in self.data:
            check_activations(self.target, what, tensor)
            shape = shape_of(tensor)
            if shape[:1] + shape[2:] != first[:1] + first[2:]:
                raise VtaError(f"{what}: {tensor.name} has {shape[0]} images of {shape[2]} x {shape[3]} pixels, but "
                               f"{self.data[0].name} has {first[0]} of {first[2]} x {first[3]}")

    @cached_property
    def joined(self) -> Tensor:
        """The tensors' blocks one after another; every load reads its part of them."""
        return joined(self.data, f"{self.name}_joined")

    @cached_property
    def layer(self) -> SumPool2d | Conv2d:
        """Return the layer that the joined blocks go through."""
        kind = SumPool2d if self.weights.ndim == 2 else Conv2d
        return kind(target=self.target, data=self.joined, weights=self.weights, epilogue=self.epilogue, name=self.name)

    @property
    def sums(self) -> Tensor:
        """The joined channels as accumulators."""
        return self.layer.sums

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return *self.data, self.weights

    @cached_property
    def tail(self) -> Tail:
        """The stages after the sums, which are the layer's."""
        return self.layer.tail

    def decide(self, stage: Chooser) -> Any:
        """Return what the layer of the joined blocks decides."""
        return self.layer.decide(stage)

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them. Raises VtaError if not even the smallest tile fits."""
        self.layer.schedule(s)
        if len(self.data) > 1:
            s[self.joined].compute_inline()


def joined(tensors: Sequence[Tensor], name: str) -> Tensor:
    """Tensors [images, blocks, …] one after another by their blocks, to be computed inline in a window that is loaded."""
    if len(tensors) == 1:
        return tensors[0]
    starts = [sum(shape_of(t)[1] for t in tensors[:at]) for at in range(len(tensors) + 1)]

    def value(n: Expr, c: Expr, *rest: Expr) -> Expr:
        parts = [(c < end, t[n, c - start, *rest]) for t, start, end in zip(tensors, starts, starts[1:], strict=False)]
        found: Expr = parts.pop()[1]
        for before, read in reversed(parts):
            found = if_then_else(before, read, found)
        return found
    images, _, *others = shape_of(tensors[0])
    return made((images, starts[-1], *others), value, name)
