"""What is done to a tile of accumulators before it is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import compute
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """``clip(((x + bias) * scale >> shift) + add, low, high)``; what is None is left out.

    bias, scale, shift : a number, or a tensor of accumulator type [out blocks, batch, block] with one for each channel
    shift rounds down, so half of the last bit belongs into the bias
    scale may also be activations, which are multiplied element by element
    add         : activations of the result's shape, a residual
    low, high   : bounds; the store keeps the low bits of what is left

    Raises VtaError for numbers that make no sense.
    """

    bias: Tensor | int | None = None
    scale: Tensor | int | None = None
    shift: Tensor | int | None = None
    add: Tensor | None = None
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shift, int) and not 0 <= self.shift < 32:
            raise VtaError(f"a shift by {self.shift} bits: give 0 to 31")
        if isinstance(self.scale, int) and not self.scale:
            raise VtaError("a scale of 0 makes every value 0: leave the operator out")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise VtaError(f"a clip from {self.low} to {self.high}: give the lower bound first")

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What it reads."""
        return tuple([t for t in (self.bias, self.scale, self.shift, self.add) if isinstance(t, Tensor)])

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """The tensors with a number for each channel."""
        return tuple([t for t in self.tensors if t.ndim == 3])

    @property
    def elements(self) -> tuple[Tensor, ...]:
        """The tensors with a number for each value."""
        return tuple([t for t in self.tensors if t.ndim != 3])

    @property
    def passes(self) -> int:
        """ALU passes over a tile."""
        return sum(part is not None for part in (self.bias, self.scale, self.shift, self.add, self.low, self.high))


PLAIN = Epilogue()


@dataclass(frozen=True, eq=False, kw_only=True)
class Tail:
    """The stages from accumulators to what is stored.

    sums   : acc type [images, groups, out blocks, rows, columns, batch, block]
    phases : (down, across) where the groups are phases: parts of one result that lie between each other
    """

    target: Target
    name: str
    epilogue: Epilogue
    sums: Tensor
    phases: tuple[int, int] | None = None
    widened: dict[Tensor, Tensor] = field(default_factory=dict)

    @property
    def _per_group(self) -> int:
        return shape_of(self.sums)[2]

    @cached_property
    def finished(self) -> Tensor:
        """The accumulators after the epilogue; `sums` where there is none."""
        if not self.epilogue.passes:
            return self.sums
        for tensor in self.epilogue.elements:
            self.widened[tensor] = widened(self.target, tensor, f"{self.name}_{tensor.name}")
        return made(self.sums.shape, self._value, f"{self.name}_finished")

    def _value(self, *at: Expr) -> Expr:
        n, g, o, y, x, b, k = at
        block = g * self._per_group + o if self.phases is None else o

        def read(of: Tensor | int) -> Any:
            if not isinstance(of, Tensor):
                return of
            if of.ndim == 3:
                return of[block, b, k]
            if self.phases is not None:
                return self.widened[of][n, block, y, g // self.phases[1], x, g % self.phases[1], b, k]
            return self.widened[of][n, block, y, x, b, k]
        e = self.epilogue
        value: Expr = self.sums(*at)
        if e.bias is not None:
            value = value + read(e.bias)
        if e.scale is not None:
            value = value * read(e.scale)
        if e.shift is not None:
            value = value >> read(e.shift)
        if e.add is not None:
            value = value + read(e.add)
        if e.low is not None:
            value = maximum(value, e.low)
        return minimum(value, e.high) if e.high is not None else value

    @cached_property
    def result(self) -> Tensor:
        """What is stored.

        With groups it is [images, groups, out blocks, …], which lies in memory as without them;
        with phases [images, out blocks, rows, phases down, columns, phases across, batch, block].
        """
        out, shape = self.target.dtype("out"), self.sums.shape
        if self.phases is not None:
            down, across = self.phases
            return made(
                (shape[0], shape[2], shape[3], down, shape[4], across, *shape[5:]),
                lambda n, o, y, py, x, px, b, k: self.finished[n, py * across + px, o, y, x, b, k].astype(out), self.name,
            )
        if int_value(shape[1]) != 1:
            return made(shape, lambda *at: self.finished(*at).astype(out), self.name)
        return made((shape[0], *shape[2:]), lambda n, *at: self.finished(n, 0, *at).astype(out), self.name)

    def tile(self, s: Schedule, sizes: Sequence[int]) -> tuple[Stage, IterVar, IterVar]:
        """Split the result into tiles of so many images, blocks, rows and columns, and place what is computed for each.

        Returns the result's stage, its loop over output blocks, and its innermost loop over tiles.
        """
        out = s[self.result]
        if self.phases is None:
            n, *g, o, y, x, b, k = axes(out)
        else:
            n, o, y, py, x, px, b, k = axes(out)
            g = [py, px]
        outer, inner = zip(*[out.split(axis, size) for axis, size in zip((n, o, y, x), sizes, strict=True)], strict=True)
        out.reorder(*g, outer[1], outer[0], *outer[2:], *inner, b, k)
        for tensor in dict.fromkeys((self.finished, self.sums, *self.widened.values())):
            s[tensor].set_scope("acc")
            s[tensor].compute_at(out, outer[3])
        for vector in self.epilogue.vectors:
            s[s.cache_read(vector, "acc", [self.finished])].compute_at(out, outer[1])
        return out, outer[1], outer[3]


def widened(target: Target, tensor: Tensor, name: str) -> Tensor:
    """Activations as accumulators. Raises VtaError where a configuration cannot load them."""
    if not target.config.has_acc8:
        raise VtaError(f"{tensor.name}: this configuration does not load activations to the accumulator, which takes 8-bit "
                       "inputs and 32-bit accumulators")
    acc = target.dtype("acc")
    return made(tensor.shape, lambda *at: tensor(*at).astype(acc), f"{name}_acc")


def made(shape: Sequence[Any], value: Callable[..., Expr], name: str) -> Tensor:
    """A compute with one output."""
    found = compute(tuple(shape), value, name=name)
    assert isinstance(found, Tensor)
    return found


def axes(stage: Stage) -> tuple[IterVar, ...]:
    """The axes of a stage's operation."""
    assert isinstance(stage.op, ComputeOp)
    return stage.op.axis


def shape_of(tensor: Tensor) -> list[int]:
    """A tensor's shape as numbers. Raises VtaError for a symbolic one."""
    found: list[Any] = [int_value(extent) for extent in tensor.shape]
    if None in found:
        raise VtaError(f"{tensor.name} has the shape {tensor.shape}: programs for the accelerator have constant shapes")
    return found
