"""Epilogue of a tile of accumulators: the operations between the sums and the store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.compiler.nn.vta.packing import Ints
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import compute
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """``clip(((x + bias) * scale >> shift) + add * add_scale, low, high)``, then `requantize`; what is None is left out.

    bias, scale, shift, add_scale : a number, or a tensor of accumulator type [out blocks, batch, block] with one for each channel
    shift rounds down, so half of the last bit belongs into the bias
    scale may also be activations, which are multiplied element by element
    add         : activations of the result's shape, a residual
    identity    : wgt type [block, block], `packing.identity`; only where a configuration cannot load activations to the
                  accumulator, so that products bring the residual there
    low, high   : bounds; the store keeps the low bits of what is left, or what `requantize` makes of it

    Each step wraps at the accumulator's width. Raises VtaError for numbers that make no sense.
    """

    bias: Tensor | int | None = None
    scale: Tensor | int | None = None
    shift: Tensor | int | None = None
    add: Tensor | None = None
    add_scale: Tensor | int | None = None
    identity: Tensor | None = None
    low: int | None = None
    high: int | None = None
    requantize: Requantize | None = None

    def __post_init__(self) -> None:
        for name in ("bias", "scale", "shift", "add_scale", "low", "high"):
            given, other = getattr(self, name), "" if name in ("low", "high") else " or a tensor"
            if given is not None and not (other and isinstance(given, Tensor)):
                object.__setattr__(self, name, whole(f"the epilogue's {name}", given, other=other))
        if self.add is not None and not isinstance(self.add, Tensor):
            raise VtaError(f"the epilogue's add is {self.add!r:.40} and must be a tensor")
        if self.requantize is not None and not isinstance(self.requantize, Requantize):
            raise VtaError(f"the epilogue's requantize is {self.requantize!r:.40} and must be a Requantize")
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
        """Return the tensors that the epilogue reads."""
        own = self.bias, self.scale, self.shift, self.add, self.add_scale, self.identity
        parameters = (self.requantize.parameters,) if self.requantize is not None else ()
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
        return len(self.vectors) + (self.requantize.elements if self.requantize is not None else 0)

    @property
    def passes(self) -> int:
        """ALU passes over a tile."""
        own = self.bias, self.scale, self.shift, self.add, self.add_scale, self.low, self.high
        return sum(part is not None for part in own) + (self.requantize.passes if self.requantize is not None else 0)

    @property
    def multiplications(self) -> int:
        """ALU passes that multiply."""
        own = self.scale is not None, self.add_scale is not None, self.requantize is not None and not self.requantize.on_store
        return sum(own)

    def reference(self, target: Target, x: Ints, given: Mapping[Tensor, Ints]) -> Ints:
        """Return the result for accumulators [images, out blocks, rows, columns, batch, block]: the definition, in NumPy.

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
        if self.requantize is not None:
            split, channels = x.transpose(0, 1, 5, 2, 3, 4), self.requantize.channels
            flat = split.reshape(len(x), -1, *x.shape[2:5])
            done = self.requantize.filled(flat)
            done[:, :channels] = self.requantize.reference(flat[:, :channels])
            x = done.reshape(split.shape).transpose(0, 1, 3, 4, 5, 2)
        return _wrapped(x, out)


PLAIN = Epilogue()


def widened(target: Target, tensor: Tensor, name: str) -> Tensor:
    """Activations as accumulators. Raises VtaError where a configuration cannot load them."""
    if not target.has(Feature.ACC_8BIT):
        raise VtaError(f"{tensor.name}: this configuration does not load activations to the accumulator, which takes 8-bit "
                       "inputs and 32-bit accumulators")
    acc = target.dtype("acc")
    return made(tensor.shape, lambda *at: tensor(*at).astype(acc), f"{name}_acc")


def times(target: Target, value: Expr, by: Any) -> Expr:
    """Return a value times a number; where the ALU has no MUL and the number is a power of two, it is shifted."""
    if isinstance(by, int) and by > 0 and by & (by - 1) == 0 and not target.has(Feature.ALU_MUL):
        return value << (by.bit_length() - 1) if by > 1 else value
    made: Expr = value * by
    return made


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
    """A tensor's shape as numbers. Raises VtaError for a symbolic one, and for what is no tensor."""
    if not isinstance(tensor, Tensor):
        raise VtaError(f"{tensor!r:.40} is no tensor: give a placeholder of vtakit.te, or an operator's result")
    found: list[Any] = [int_value(extent) for extent in tensor.shape]
    if None in found:
        raise VtaError(f"{tensor.name} has the shape {tensor.shape}: programs for the accelerator have constant shapes")
    return found
