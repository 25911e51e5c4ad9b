"""What is done to a tile of accumulators before it is stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.requant import requantised
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import int_value, wrap
from vtakit.compiler.nn.vta.packing import Ints
from vtakit.compiler.nn.vta.requantise import Requantise
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import compute
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import REQUANT_WORDS, Feature


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """``clip(((x + bias) * scale >> shift) + add * add_scale, low, high)``, then `requantise`; what is None is left out.

    bias, scale, shift, add_scale : a number, or a tensor of accumulator type [out blocks, batch, block] with one for each channel
    shift rounds down, so half of the last bit belongs into the bias
    scale may also be activations, which are multiplied element by element
    add         : activations of the result's shape, a residual
    low, high   : bounds; the store keeps the low bits of what is left, or what `requantise` makes of it

    Each step wraps at the accumulator's width. Raises VtaError for numbers that make no sense.
    """

    bias: Tensor | int | None = None
    scale: Tensor | int | None = None
    shift: Tensor | int | None = None
    add: Tensor | None = None
    add_scale: Tensor | int | None = None
    low: int | None = None
    high: int | None = None
    requantise: Requantise | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shift, int) and not 0 <= self.shift < 32:
            raise VtaError(f"a shift by {self.shift} bits: give 0 to 31")
        if isinstance(self.scale, int) and not self.scale:
            raise VtaError("a scale of 0 makes every value 0: leave the operator out")
        if self.add is None and self.add_scale is not None:
            raise VtaError("add_scale is given and add is not: there is nothing to scale")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise VtaError(f"a clip from {self.low} to {self.high}: give the lower bound first")

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What it reads."""
        own = self.bias, self.scale, self.shift, self.add, self.add_scale
        parameters = (self.requantise.parameters,) if self.requantise is not None else ()
        return tuple([t for t in (*own, *parameters) if isinstance(t, Tensor)])

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """The tensors with a number for each channel."""
        return tuple([t for t in self.tensors if t.ndim == 3])

    @property
    def elements(self) -> tuple[Tensor, ...]:
        """The tensors with a number for each value."""
        return tuple([t for t in self.tensors if t.ndim > 4])

    @property
    def channel_elements(self) -> int:
        """Accumulators beside the values that each output block needs."""
        return len(self.vectors) + (REQUANT_WORDS if self.requantise is not None else 0)

    @property
    def passes(self) -> int:
        """ALU passes over a tile."""
        own = self.bias, self.scale, self.shift, self.add, self.add_scale, self.low, self.high
        return sum(part is not None for part in own) + (self.requantise.passes if self.requantise is not None else 0)

    def reference(self, target: Target, x: Ints, given: Mapping[Tensor, Ints]) -> Ints:
        """What it makes of accumulators [images, out blocks, rows, columns, batch, block]: the definition, in NumPy.

        given : the values of its tensors; those with a number for each value are of the same shape
        """
        acc, out = target.config.acc_bits, target.config.out_bits

        def value(of: Tensor | int) -> Any:
            if not isinstance(of, Tensor):
                return of
            found = given[of].astype(np.int64)
            return found[None, :, None, None] if of.ndim == 3 else found
        x = _wrapped(x.astype(np.int64), acc)
        if self.bias is not None:
            x = _wrapped(x + value(self.bias), acc)
        if self.scale is not None:
            x = _wrapped(x * value(self.scale), acc)
        if self.shift is not None:
            x = x >> value(self.shift)
        if self.add is not None:
            added = value(self.add)
            x = _wrapped(x + (added if self.add_scale is None else _wrapped(added * value(self.add_scale), acc)), acc)
        x = x if self.low is None else np.maximum(x, self.low)
        x = x if self.high is None else np.minimum(x, self.high)
        if self.requantise is not None:
            split, channels = x.transpose(0, 1, 5, 2, 3, 4), self.requantise.channels
            flat = split.reshape(len(x), -1, *x.shape[2:5])
            done = np.full_like(flat, self.requantise.filler)
            done[:, :channels] = self.requantise.reference(flat[:, :channels])
            x = done.reshape(split.shape).transpose(0, 1, 3, 4, 5, 2)
        return _wrapped(x, out)


PLAIN = Epilogue()


@dataclass(frozen=True, eq=False, kw_only=True)
class Tail:
    """The stages from accumulators to what is stored.

    sums   : acc type [images, groups, out blocks, rows, columns, batch, block]
    phases : (down, across) where the groups are phases: parts of one result that lie between each other
    blocks_first : sums is [out blocks, groups, images, …], so that one REQUANT stores all images of a block
    """

    target: Target
    name: str
    epilogue: Epilogue
    sums: Tensor
    phases: tuple[int, int] | None = None
    blocks_first: bool = False
    widened: dict[Tensor, Tensor] = field(default_factory=dict)

    def _order(self, at: Sequence[Any]) -> tuple[Any, ...]:
        """Dimensions of `sums` as those of its plain order, or the other way round."""
        return (at[2], at[1], at[0], *at[3:]) if self.blocks_first else tuple(at)

    def _block(self, at: Sequence[Expr]) -> Expr:
        """The block of output channels of an accumulator."""
        per_group = self._order(shape_of(self.sums))[2]
        return at[1] * per_group + at[2] if self.phases is None else at[2]

    @property
    def _on_store(self) -> bool:
        """Whether REQUANT stores the result."""
        return self.epilogue.requantise is not None and self.epilogue.requantise.on_store

    @property
    def passes(self) -> int:
        """Steps for each accumulator beside the products: the ALU's, and a reset where products cannot overwrite."""
        return self.epilogue.passes + (not self.target.has(Feature.OVERWRITE))

    @cached_property
    def finished(self) -> Tensor:
        """The accumulators after the epilogue's ALU passes; `sums` where there are none."""
        if not self.epilogue.passes:
            return self.sums
        for tensor in self.epilogue.elements:
            self.widened[tensor] = widened(self.target, tensor, f"{self.name}_{tensor.name}")
        return made(self.sums.shape, self._value, f"{self.name}_finished")

    @cached_property
    def added(self) -> Tensor | None:
        """The residual as accumulators, scaled."""
        e = self.epilogue
        if e.add is None:
            return None
        plain = self.widened[e.add]
        if e.add_scale is None:
            return plain
        by: Any = e.add_scale
        return made(plain.shape, lambda n, o, *at: plain(n, o, *at) * (by[o, at[-2], at[-1]] if isinstance(by, Tensor) else by),
                    f"{self.name}_{e.add.name}_scaled")

    def _value(self, *at: Expr) -> Expr:
        plain = n, g, _, y, x, b, k = self._order(at)
        block = self._block(plain)

        def element(of: Any) -> Any:
            if self.phases is not None:
                return of[n, block, y, g // self.phases[1], x, g % self.phases[1], b, k]
            return of[n, block, y, x, b, k]

        def read(of: Tensor | int) -> Any:
            if not isinstance(of, Tensor):
                return of
            return of[block, b, k] if of.ndim == 3 else element(self.widened[of])
        e = self.epilogue
        value: Expr = self.sums(*at)
        if e.bias is not None:
            value = value + read(e.bias)
        if e.scale is not None:
            value = value * read(e.scale)
        if e.shift is not None:
            value = value >> read(e.shift)
        if self.added is not None:
            value = value + element(self.added)
        if e.low is not None:
            value = maximum(value, e.low)
        if e.high is not None:
            value = minimum(value, e.high)
        if e.requantise is None or e.requantise.on_store:
            return value
        by, plus, shift = (e.requantise.parameters[block, word, b, k] for word in range(REQUANT_WORDS))
        low, high = e.requantise.clip
        return minimum(maximum(value * by + plus >> shift, low), high)

    def _stored(self, *at: Expr) -> Expr:
        """What is stored of an accumulator."""
        value: Expr = self.finished(*self._order(at))
        requantise = self.epilogue.requantise
        if requantise is not None and requantise.on_store:
            words = [requantise.parameters[self._block(at), word, at[-2], at[-1]] for word in range(REQUANT_WORDS)]
            value = requantised(self.target.config, value, words)
        return value.astype(self.target.dtype("out"))

    @cached_property
    def result(self) -> Tensor:
        """What is stored.

        With groups it is [images, groups, out blocks, …], which lies in memory as without them;
        with phases [images, out blocks, rows, phases down, columns, phases across, batch, block].
        """
        shape = self._order(self.sums.shape)
        if self.phases is not None:
            down, across = self.phases
            return made(
                (shape[0], shape[2], shape[3], down, shape[4], across, *shape[5:]),
                lambda n, o, y, py, x, px, b, k: self._stored(n, py * across + px, o, y, x, b, k), self.name,
            )
        if int_value(shape[1]) != 1:
            return made(shape, self._stored, self.name)
        return made((shape[0], *shape[2:]), lambda n, *at: self._stored(n, wrap(0), *at), self.name)

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
        e, added = self.epilogue, (self.added,) if self.added is not None else ()
        for tensor in dict.fromkeys((self.finished, self.sums, *self.widened.values(), *added)):
            s[tensor].set_scope("acc")
            s[tensor].compute_at(out, outer[3])
        readers = {vector: self.added if vector is e.add_scale else self.finished for vector in e.vectors}
        if e.requantise is not None:
            readers[e.requantise.parameters] = self.result if self._on_store else self.finished
        for tensor, reader in readers.items():
            s[s.cache_read(tensor, "acc", [reader])].compute_at(out, outer[1])
        if self._on_store:
            out.tensorize(b, self.target.requant)
        return out, outer[1], outer[3]


def widened(target: Target, tensor: Tensor, name: str) -> Tensor:
    """Activations as accumulators. Raises VtaError where a configuration cannot load them."""
    if not target.has(Feature.ACC_8BIT):
        raise VtaError(f"{tensor.name}: this configuration does not load activations to the accumulator, which takes 8-bit "
                       "inputs and 32-bit accumulators")
    acc = target.dtype("acc")
    return made(tensor.shape, lambda *at: tensor(*at).astype(acc), f"{name}_acc")


def made(shape: Sequence[Any], value: Callable[..., Expr], name: str) -> Tensor:
    """A compute with one output."""
    found = compute(tuple(shape), value, name=name)
    assert isinstance(found, Tensor)
    return found


def _wrapped(x: Ints, bits: int) -> Ints:
    """The low bits of each value, signed."""
    return (x + (1 << bits - 1) & (1 << bits) - 1) - (1 << bits - 1)


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
