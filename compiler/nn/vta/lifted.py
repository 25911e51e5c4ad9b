"""Activations that become accumulators without ALU or wide loads: by products with one element of weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.vta.epilogue import axes, made
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te import reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

WHOLE = (1, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Lifted:
    """Values of a window as accumulators, each added up over taps: one GEMM step for each element and tap.

    It runs in every configuration, loads are the LOAD stage's, and an element may be read for several accumulators.

    shape   : of the accumulators, [..., rows, columns, batch, block]
    window  : inp type, loaded for each tile
    weights : wgt type [block, block], applied to every element: `packing.identity` keeps values as they are; or several of them
    element : from an index of the accumulators to that of their element of weights, where there are several
    read    : from an index of the accumulators without the last, a tap, and a lane, to a value of the window
    taps    : (down, across) over which values are added up
    negative : whether the values' negatives are wanted
    together : rows and columns that are read alike, turn by turn; loops over their parts are split from the others
    """

    target: Target
    shape: tuple[int, ...]
    window: Tensor
    weights: Tensor
    read: Callable[..., Expr]
    name: str
    taps: tuple[int, int] = WHOLE
    negative: bool = False
    together: tuple[int, int] = WHOLE
    element: Callable[..., tuple[Expr, ...]] | None = None

    @cached_property
    def products(self) -> Tensor:
        """Return the products of the GEMM core."""
        acc, (_, block) = self.target.dtype("acc"), self.target.element("inp")
        k = reduce_axis((0, block), "k")
        dy, dx = (reduce_axis((0, size), name) for size, name in zip(self.taps, ("dy", "dx"), strict=True))

        def value(*at: Expr) -> Expr:
            read, first = self.read(*at[:-1], dy, dx, k), () if self.element is None else self.element(*at)
            found: Expr = reduce.sum(read.astype(acc) * self.weights[*first, at[-1], k].astype(acc), axis=[dy, dx, k])
            return found
        return made(self.shape, value, f"{self.name}_products")

    @cached_property
    def accumulators(self) -> Tensor:
        """The products, or their negatives. Weights of one bit are 0 or -1, and their products negative at first."""
        if self.negative is (self.target.config.wgt_bits == 1):
            return self.products
        return made(self.shape, lambda *at: self.products(*at) * -1, f"{self.name}_lifted")

    @property
    def stages(self) -> int:
        """Accumulators of each value."""
        return 1 if self.accumulators is self.products else 2

    def schedule(self, s: Schedule, out: Stage, at: IterVar, chunk: tuple[int, int] | None = None) -> None:
        """Compute it for each tile of a stage; the window is loaded for so many taps at once, or for all."""
        for tensor in dict.fromkeys((self.products, self.accumulators)):
            s[tensor].set_scope("acc")
            s[tensor].compute_at(out, at)
        stage = s[self.products]
        assert isinstance(stage.op, ComputeOp)
        dy, dx, k = stage.op.reduce_axis
        *outer, y, x, b, j = axes(stage)
        (yo, yi), (xo, xi) = (stage.split(axis, size) for axis, size in zip((y, x), self.together, strict=True))
        (dyo, dyi), (dxo, dxi) = (stage.split(axis, size) for axis, size in zip((dy, dx), chunk or self.taps, strict=True))
        stage.reorder(dyo, dxo, dyi, dxi, *outer, yo, yi, xo, xi, b, j, k)
        stage.tensorize(b, self.target.gemm)
        s[self.window].set_scope("inp")
        s[self.window].compute_at(stage, dxo)
        s.cache_read(self.weights, "wgt", [self.products])
