"""What is done to a tile of accumulators before it is stored."""

from collections.abc import Callable
from dataclasses import dataclass

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """``clip(((x + bias) * scale >> shift) + add, low, high)``; what is None is left out.

    bias, scale : int32 [out blocks, batch, block], a number for each channel
    shift       : bits, or a tensor like `bias`; rounds down, so half of the last bit belongs into the bias
    add         : activations of the result's shape, a residual
    low, high   : bounds; the store keeps the low bits of what is left
    """

    bias: Tensor | None = None
    scale: Tensor | int | None = None
    shift: Tensor | int | None = None
    add: Tensor | None = None
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shift, int) and not 0 <= self.shift < 32:
            raise VtaError(f"a shift by {self.shift} bits: give 0 to 31")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise VtaError(f"a clip from {self.low} to {self.high}: give the lower bound first")

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """The tensors with a number for each channel."""
        return tuple([t for t in (self.bias, self.scale, self.shift) if isinstance(t, Tensor)])

    @property
    def passes(self) -> int:
        """ALU passes over a tile."""
        return sum(part is not None for part in (self.bias, self.scale, self.shift, self.add, self.low, self.high))

    def value(self, x: Expr, channel: Callable[[Tensor], Expr], element: Callable[[Tensor], Expr]) -> Expr:
        """The expression of an accumulator; `channel` and `element` read a tensor's value that belongs to it."""
        def read(of: Tensor | int) -> Expr | int:
            return channel(of) if isinstance(of, Tensor) else of
        if self.bias is not None:
            x = x + channel(self.bias)
        if self.scale is not None:
            x = x * read(self.scale)
        if self.shift is not None:
            x = x >> read(self.shift)
        if self.add is not None:
            x = x + element(self.add)
        if self.low is not None:
            x = maximum(x, self.low)
        if self.high is not None:
            x = minimum(x, self.high)
        return x
