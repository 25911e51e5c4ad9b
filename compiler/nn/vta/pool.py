"""Pooling, and operators on each value: what needs no product, computed by the ALU."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, maximum
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.nn.vta.arguments import check_pad, check_pairs, check_sizes
from vtakit.compiler.nn.vta.epilogue import made, shape_of, widened
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_element
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import padded_window
from vtakit.compiler.nn.vta.tiles import Pair, Sizes, Tilings, tile_elements, tiles
from vtakit.compiler.schedule.decisions import DEFAULTS, Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.reduce import Reducer, comm_reducer
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool2d(Layer):
    """The greatest value or the sum over a window, then an epilogue; with a window of 1 x 1 an operator on each value.

    data    out type  [images, blocks, height, width, batch, block]
    result  out type  [images, blocks, rows, columns, batch, block]

    kind   : "max" or "sum"; an average is a sum that the epilogue scales and shifts
    kernel, stride : (down, across)
    pad    : pixels (above, below, left, right) that count for nothing
    weights : wgt type [block, block], `packing.identity`; needed, and used, only where a configuration cannot load activations
              to the accumulator, so that products bring them there

    Raises VtaError for shapes that do not fit together, and for such a configuration if there are no weights.
    """

    data: Tensor
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    kind: str = "max"
    weights: Tensor | None = None
    name: str = "pool"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"pooling {self.name!r}"
        check_activations(self.target, what, self.data)
        check_pairs(what, kernel=self.kernel, stride=self.stride)
        check_pad(what, self.pad)
        if self.weights is not None:
            check_element(self.target, what, self.weights)
        _, _, height, width, *_ = shape_of(self.data)
        if self.kind not in ("max", "sum"):
            raise VtaError(f"{what}: the kind {self.kind!r} is neither 'max' nor 'sum'")
        if min(self.out_height, self.out_width) < 1 or max(self.pad[:2]) >= self.kernel[0] or max(self.pad[2:]) >= self.kernel[1]:
            raise VtaError(f"{what}: the window of {self.kernel[0]} x {self.kernel[1]} pixels does not fit an image of "
                           f"{height} x {width} pixels with pads {self.pad}: each window must meet the image")

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return (shape_of(self.data)[2] + self.pad[0] + self.pad[1] - self.kernel[0]) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return (shape_of(self.data)[3] + self.pad[2] + self.pad[3] - self.kernel[1]) // self.stride[1] + 1

    @cached_property
    def lifted(self) -> Lifted | None:
        """The products that bring the input to the accumulator, where loads cannot."""
        if self.target.has(Feature.ACC_8BIT) or self.weights is None:
            return None
        images, blocks, _, _, batch, block = shape_of(self.data)
        rows, columns = ((count - 1) * step + size for count, step, size in zip(
            (self.out_height, self.out_width), self.stride, self.kernel, strict=True))
        window = padded_window(self.data, (self.pad[0], self.pad[2]), (rows, columns), self.name)
        return Lifted(
            target=self.target, shape=(images, blocks, rows, columns, batch, block), window=window, weights=self.weights,
            name=self.name, read=lambda n, c, y, x, b, dy, dx, k: window[n, c, y, x, b, k],
        )

    @cached_property
    def window(self) -> Tensor:
        """The input as accumulators; where products bring it there, with zeros around that nothing reads."""
        return widened(self.target, self.data, self.name) if self.lifted is None else self.lifted.accumulators

    @cached_property
    def sums(self) -> Tensor:
        """Return the pooled windows before the epilogue: [images, 1, blocks, rows, columns, batch, block]."""
        images, blocks, height, width, batch, block = shape_of(self.data)
        shape = images, 1, blocks, self.out_height, self.out_width, batch, block
        if self.kernel == (1, 1):
            return made(shape, lambda n, g, c, y, x, b, k: self.window[n, c, y * self.stride[0], x * self.stride[1], b, k],
                        f"{self.name}_sums")
        dy, dx = (reduce_axis((0, size), name) for size, name in zip(self.kernel, ("dy", "dx"), strict=True))

        def value(n: Expr, g: Expr, c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
            row, column = y * self.stride[0] + dy - self.pad[0], x * self.stride[1] + dx - self.pad[2]
            inside = all_of(row >= 0, row < height, column >= 0, column < width) if any(self.pad) else TRUE
            above, left = (self.pad[0], self.pad[2]) if self.lifted is not None else (0, 0)
            found: Expr = self._reducer()(self.window[n, c, row + above, column + left, b, k], axis=[dy, dx], where=inside)
            return found
        return made(shape, value, f"{self.name}_sums")

    def _reducer(self) -> Reducer:
        least = -(1 << self.target.config.out_bits - 1)
        if self.kind == "max":
            return comm_reducer(maximum, lambda kind: const(least, kind), name="max")
        return comm_reducer(lambda a, b: a + b, lambda kind: const(0, kind), name="sum")

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.data, *([] if self.lifted is None else [self.lifted.weights])

    @cached_property
    def tilings(self) -> Tilings:
        """Return its tiles."""
        shape = shape_of(self.result)[:4]
        return Tilings(target=self.target, name=self.tail.name, shape=shape, groups=[list(tiles(shape))], needs=self._needs,
                       loaded=self._window_size, taps=self.kernel)

    def decide(self, stage: Chooser) -> tuple[Sizes, Pair]:
        """Return the tile, and how many taps are in the accumulator at once."""
        return tile_elements(stage, self.tilings)

    def schedule(self, s: Schedule, sizes: Sizes | None = None, chunk: tuple[int, int] | None = None) -> None:
        """Schedule its stages in a schedule that has them, with the largest tiles that fit if no sizes are given.

        chunk : taps (down, across) of a window that are in the accumulator at once; all of them if none is given with sizes

        Decisions, if no sizes are given: those of `vtakit.compiler.nn.vta.tiles.decided`.

        Raises VtaError if not even one value, with one tap at a time, fits, and for sizes and chunks that make no sense.
        """
        what = f"pooling {self.name!r}"
        if sizes is not None:
            check_sizes(what, sizes)
        if chunk is not None:
            check_pairs(what, chunk=chunk)
        if sizes is None:
            sizes, chunk = self.decide(self.stage(s))
        out, _, inner, _ = self.tail.tile(s, sizes)
        sums, at = s[self.sums], inner
        assert isinstance(sums.op, ComputeOp)
        stage = out
        if sums.op.reduce_axis:
            parts = [sums.split(axis, size) for axis, size in zip(sums.op.reduce_axis, chunk or self.kernel, strict=True)]
            (dyo, dyi), (dxo, dxi) = parts
            sums.reorder(dyo, dxo, dyi, dxi, *sums.op.axis)
            if chunk not in (None, self.kernel):
                stage, at = sums, dxo
        if self.lifted is not None:
            self.lifted.schedule(s, stage, at)
        s[self.window].set_scope("acc")
        s[self.window].compute_at(stage, at)

    @property
    def cycles(self) -> int:
        """The estimate: of loads on the bus, or of steps and of a half for each element that is loaded beside them."""
        shape, (sizes, chunk) = shape_of(self.result)[:4], self.decide(DEFAULTS)
        count = prod(-(-whole // size) for whole, size in zip(shape, sizes, strict=True))
        parts = prod(-(-whole // part) for whole, part in zip(self.kernel, chunk, strict=True))
        loaded, steps = count * parts * self._window_size(chunk, sizes), prod(shape) * (prod(self.kernel) + 2)
        return max(int(loaded * self.target.config.inp_bytes / self.target.system.bytes_a_cycle), steps + loaded // 2)

    def _window_size(self, chunk: tuple[int, int], sizes: Sizes) -> int:
        images, blocks, rows, columns = sizes
        height, width = ((count - 1) * step + size for count, step, size in zip(
            (rows, columns), self.stride, chunk, strict=True))
        return images * blocks * height * width

    def _needs(self, chunk: tuple[int, int], sizes: Sizes) -> dict[str, int]:
        """Elements of a tile, as if no accumulator took the place of another."""
        values, window = prod(sizes), self._window_size(chunk, sizes)
        own = values * (1 + len(self.epilogue.elements)) + sizes[1] * self.epilogue.channel_elements
        if self.lifted is None:
            return {"acc": window + own}
        return {"acc": window * self.lifted.stages + own, "inp": window}
