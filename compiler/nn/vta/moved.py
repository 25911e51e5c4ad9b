"""Operators that only move or add up values of one tensor: sums over windows, pads, nearest resizing, concatenation."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.lifted import WHOLE, Lifted
from vtakit.compiler.nn.vta.tiles import Pair, Sizes, Tilings, tile_elements, tiles
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Moved2d(Layer):
    """Base of the operators that move elements.

    data    : inp type [images, blocks, height, width, batch, block]
    weights : wgt type [block, block]: `packing.identity`, or what else is to be done to the channels of each block
    result  : out type [images, blocks, rows, columns, batch, block]
    """

    data: Tensor
    weights: Tensor

    @property
    @abstractmethod
    def lifted(self) -> Lifted:
        """The values as accumulators [images, 1, blocks, rows, columns, batch, block]."""

    @abstractmethod
    def window_pixels(self, rows: int, columns: int, chunk: tuple[int, int]) -> int:
        """Pixels of the input for a tile of so many rows and columns, and so many taps at once."""

    @property
    def sums(self) -> Tensor:
        """Return the accumulators with which the epilogue begins."""
        return self.lifted.accumulators

    @property
    def stages(self) -> int:
        """Accumulators of each value up to the epilogue."""
        return self.lifted.stages

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.data, self.weights

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them, with the largest tiles that fit.

        Decisions: those of `vtakit.compiler.nn.vta.tiles.decided`. Raises VtaError if not even one value, with one tap at a time,
        fits.
        """
        sizes, chunk = self.decide(self.stage(s))
        out, _, inner, _ = self.tail.tile(s, sizes)
        self.lifted.schedule(s, out, inner, chunk)

    @cached_property
    def tilings(self) -> Tilings:
        """Return its tiles; where no whole period of what is read alike fits, a part of one does."""
        shape, whole = shape_of(self.result)[:4], dict.fromkeys((self.lifted.together, WHOLE))
        return Tilings(target=self.target, name=self.tail.name, shape=shape, groups=[list(tiles(shape, part)) for part in whole],
                       needs=self._needs, loaded=self._loaded, taps=self.lifted.taps)

    def decide(self, stage: Chooser) -> tuple[Sizes, Pair]:
        """Return the tile, and how many taps are in the accumulator at once."""
        return tile_elements(stage, self.tilings)

    def _loaded(self, chunk: tuple[int, int], sizes: Sizes) -> int:
        return sizes[0] * sizes[1] * self.window_pixels(*sizes[2:], chunk)

    def _needs(self, chunk: tuple[int, int], sizes: Sizes) -> dict[str, int]:
        """Elements of a tile, as if no accumulator took the place of another."""
        own = self.stages + len(self.epilogue.elements)
        return {"acc": prod(sizes) * own + sizes[1] * self.epilogue.channel_elements,
                "inp": self._loaded(chunk, sizes) + prod(sizes) * self.lifted_residuals}


def padded_window(data: Tensor, pad: tuple[int, int], size: tuple[int, int], name: str, fill: int = 0) -> Tensor:
    """A tensor with pads (above, left) and below and right up to a size, as a stage."""
    images, blocks, height, width, batch, block = shape_of(data)

    def value(n: Expr, c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
        row, column = y - pad[0], x - pad[1]
        sides = ((pad[0], y >= pad[0]), (size[0] - pad[0] > height, row < height), (pad[1], x >= pad[1]),
                 (size[1] - pad[1] > width, column < width))
        inside = [condition for needed, condition in sides if needed]
        read = data[n, c, row, column, b, k]
        return if_then_else(all_of(*inside), read, const(fill, data.dtype)) if inside else read
    return made((images, blocks, *size, batch, block), value, f"{name}_window")
