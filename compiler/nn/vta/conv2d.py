"""2-D convolutions and matrix products."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from vtakit.compiler.codegen.vta.early import STEPS_BESIDE
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.vta.arguments import check_fill, check_pad, check_pairs, whole
from vtakit.compiler.nn.vta.blocking import choose, tile_products
from vtakit.compiler.nn.vta.cuts import Cut, Work
from vtakit.compiler.nn.vta.digits import DigitSums, Higher, check_digits, digit_sums, shifts
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_weights
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.compiler.nn.vta.sums import schedule_products
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te import reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2d(Layer):
    """A convolution in the accelerator's layout, as a tensor expression and a schedule for it.

    data    inp type  [images, groups * in blocks, height, width, batch, block]    images in blocks of batch
    weights wgt type  [groups * out blocks, in blocks, kernel rows, kernel columns, block of outputs, block of inputs]
    result  out type  [images, groups * out blocks, rows, columns, batch, block]; [images, groups, out blocks, …] where there
                      are several groups, which lies in memory as without them

    stride, dilation : (down, across)
    pad              : pixels (above, below, left, right) of the value `fill`
    pooling          : windows of accumulators of which the greatest are kept, before the epilogue
    higher           : digits of weights of more bits than wgt type has, the most significant first; `weights` is the last one
    inside           : leave out products with pads; each GEMM at an edge of the image becomes several instructions
    between          : store a tile's blocks between its last products and the next one's first, if it has several

    Raises VtaError for shapes that do not fit together.
    """

    data: Tensor
    weights: Tensor
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    pooling: Pooling | None = None
    higher: tuple[Higher, ...] = ()
    inside: bool = False
    between: bool = False
    name: str = "conv"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"convolution {self.name!r}"
        check_activations(self.target, what, self.data)
        check_pairs(what, stride=self.stride, dilation=self.dilation)
        check_pad(what, self.pad)
        check_fill(self.target, what, self.pad, self.fill)
        check_weights(self.target, what, self.weights, "out blocks, in blocks, rows, columns")
        check_digits(what, self.weights, self.higher)
        _, channels, height, width, *_ = shape_of(self.data)
        outs, ins, rows, columns, *_ = shape_of(self.weights)
        whole(f"{what}: groups", self.groups, 1)
        if channels != self.groups * ins or outs % self.groups:
            raise VtaError(f"{what}: {channels} input and {outs} output blocks do not go with {self.groups} groups "
                           f"of {ins} input blocks")
        if min(self.height, self.width) < 1:
            raise VtaError(f"{what}: the kernel of {rows} x {columns} taps is larger than the padded image of "
                           f"{height + self.pad[0] + self.pad[1]} x {width + self.pad[2] + self.pad[3]} pixels")
        if self.pooling is not None and min(self.out_height, self.out_width) < 1:
            raise VtaError(f"{what}: windows of {self.pooling.kernel[0]} x {self.pooling.kernel[1]} pixels with pads "
                           f"{self.pooling.pad} do not fit {self.height} x {self.width} pixels")

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return self.height if self.pooling is None else self.pooling.size(self.height, self.width)[0]

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return self.width if self.pooling is None else self.pooling.size(self.height, self.width)[1]

    @property
    def height(self) -> int:
        """Rows of the convolution."""
        reach = (shape_of(self.weights)[2] - 1) * self.dilation[0]
        return (shape_of(self.data)[2] + self.pad[0] + self.pad[1] - reach - 1) // self.stride[0] + 1

    @property
    def width(self) -> int:
        """Columns of the convolution."""
        reach = (shape_of(self.weights)[3] - 1) * self.dilation[1]
        return (shape_of(self.data)[3] + self.pad[2] + self.pad[3] - reach - 1) // self.stride[1] + 1

    @property
    def can_store_between(self) -> bool:
        """Return whether REQUANTs store several blocks of channels, and nothing comes between them and the products."""
        on_store = self.epilogue.requantize is not None and self.epilogue.requantize.on_store
        return on_store and self.pooling is None and shape_of(self.weights)[0] > 1

    @property
    def stores_between(self) -> bool:
        """Return whether REQUANTs go among the products of their tile and the next."""
        return self.between and self.can_store_between

    @property
    def has_zero_pads(self) -> bool:
        """Return whether pads of zeros lie around the image, so that products with them add nothing."""
        return self.fill == 0 and any(self.pad)

    @property
    def _row_step(self) -> int:
        """Rows of the window from one of the result to the next; of one row of taps only those are loaded that are used."""
        return 1 if shape_of(self.weights)[2] == 1 else self.stride[0]

    @cached_property
    def window(self) -> Tensor:
        """The input as the kernel sees it, with its pads around: [images, groups, in blocks, rows, columns, batch, block]."""
        images, _, height, width, batch, block = shape_of(self.data)
        ins, kernel_rows = shape_of(self.weights)[1:3]
        above, _, left, _ = self.pad
        skip = self.stride[0] // self._row_step
        rows = (self.height - 1) * self._row_step + (kernel_rows - 1) * self.dilation[0] + 1
        columns = (self.width - 1) * self.stride[1] + (shape_of(self.weights)[3] - 1) * self.dilation[1] + 1

        def value(n: Expr, g: Expr, c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
            row, column = y * skip - above, x - left
            inside = []
            if above:
                inside.append(y * skip >= above)
            if (rows - 1) * skip - above >= height:
                inside.append(row < height)
            if left:
                inside.append(x >= left)
            if columns - 1 - left >= width:
                inside.append(column < width)
            read = self.data[n, g * ins + c, row, column, b, k]
            return if_then_else(all_of(*inside), read, const(self.fill, self.data.dtype)) if inside else read
        return made((images, self.groups, ins, rows, columns, batch, block), value, f"{self.name}_window")

    @property
    def blocks_first(self) -> bool:
        """Return whether accumulators lie block by block: REQUANT stores one block, and images may be as small as a vector."""
        return self.epilogue.requantize is not None and self.epilogue.requantize.on_store and shape_of(self.data)[0] > 1

    @property
    def begun(self) -> bool:
        """Return whether the sums begin with the residual: the epilogue adds it first, and a tile's products hide its load."""
        e, steps = self.epilogue, prod(shape_of(self.weights)[1:4])
        alone = e.add is not None and self.pooling is None and all(part is None for part in (e.bias, e.scale, e.shift))
        return alone and not self.higher and steps >= STEPS_BESIDE

    @cached_property
    def digit_sums(self) -> tuple[DigitSums, ...]:
        """The sums with each of the higher digits of the weights."""
        return digit_sums(self.name, self.higher, self._products)

    @cached_property
    def products(self) -> Tensor:
        """The convolution, after the residual if the sums begin with it.

        [images, groups, out blocks, rows, columns, batch, block], or with `blocks_first` images third.
        """
        name = f"{self.name}_sums" if self.pooling is None else f"{self.name}_products"
        return self._products(self.weights, self.digit_sums[-1].shifted if self.higher else None, name)

    def _products(self, weights: Tensor, before: Tensor | None, name: str) -> Tensor:
        """The sums of products with one digit of the weights, after other sums if `before` is not None."""
        images, _, _, _, batch, block = shape_of(self.data)
        outs, ins, kernel_rows, kernel_columns = shape_of(self.weights)[:4]
        per_group, acc = outs // self.groups, self.target.dtype("acc")
        c, k = reduce_axis((0, ins), "c"), reduce_axis((0, block), "k")
        dy, dx = reduce_axis((0, kernel_rows), "dy"), reduce_axis((0, kernel_columns), "dx")
        down, across = self.dilation

        def value(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Any:
            first = None if before is None else before[n, g, o, y, x, b, j]
            if self.blocks_first:
                n, o = o, n
            read = self.window[n, g, c, y * self._row_step + dy * down, x * self.stride[1] + dx * across, b, k]
            weight = weights[g * per_group + o, c, dy, dx, j, k]
            if self.begun and self.residual is not None:
                first = self.residual.scaled[n, g * per_group + o, y, x, b, j]
            return reduce.sum(read.astype(acc) * weight.astype(acc), axis=[c, dy, dx, k], init=first)
        first, third = (per_group, images) if self.blocks_first else (images, per_group)
        return made((first, self.groups, third, self.height, self.width, batch, block), value, name)

    @cached_property
    def sums(self) -> Tensor:
        """The accumulators that the epilogue begins with: `products`, or the greatest of each window of them."""
        if self.pooling is None:
            return self.products
        (down, across), (above, _, left, _), (rows, columns) = self.pooling.stride, self.pooling.pad, self.pooling.kernel
        height, width, inner = self.height, self.width, rows * columns > 1
        *outer, _, _, batch, block = shape_of(self.products)
        if not inner:
            return made((*outer, self.out_height, self.out_width, batch, block), lambda n, g, o, y, x, b, j: self.products[
                n, g, o, y * down, x * across, b, j], f"{self.name}_sums")
        tap = reduce_axis((0, rows * columns - 1), "tap")
        center = above * columns + left  # the pixel at the window's place, which always is one of the image
        at = tap + if_then_else(tap >= center, 1, 0)

        def value(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Any:
            row, column = y * down + at // columns - above, x * across + at % columns - left
            inside = all_of(row >= 0, row < height, column >= 0, column < width)
            first = self.products[n, g, o, y * down, x * across, b, j]
            return reduce.max(self.products[n, g, o, row, column, b, j], axis=tap, where=inside, init=first)
        return made((*outer, self.out_height, self.out_width, batch, block), value, f"{self.name}_sums")

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.data, self.weights, *(digit.weights for digit in self.higher)

    @property
    def work(self) -> Work:
        """Return the loop extents that the tiling search needs."""
        outs, ins, kernel_rows, kernel_columns = shape_of(self.weights)[:4]
        return Work(
            images=shape_of(self.data)[0], out_blocks=outs // self.groups, rows=self.out_height, columns=self.out_width,
            in_blocks=ins, kernel_rows=kernel_rows, kernel_columns=kernel_columns,
            in_rows=shape_of(self.data)[2] * self._row_step // self.stride[0], in_columns=shape_of(self.data)[3],
            row_step=self._row_step,
            column_step=self.stride[1], row_dilation=self.dilation[0], column_dilation=self.dilation[1],
            passes=self.tail.passes + shifts(self.higher), digits=1 + len(self.higher),
            tensors=len(self.epilogue.elements), begun=self.begun,
            lifted=self.lifted_residuals, vectors=self.epilogue.channel_elements,
            repeats=self.groups, store_loops=self._store_loops, pooling=self.pooling, stored=self._stored,
            left_out=self._left_out, between=self.stores_between,
        )

    @property
    def _left_out(self) -> float:
        """Return the share of products with pads, if they are left out; 0 where windows of products overlap."""
        if not self.inside or not self.has_zero_pads or self.pooling is not None:
            return 0.0
        sizes, taps = shape_of(self.data)[2:4], shape_of(self.weights)[2:4]
        inside = [sum(0 <= at * step + tap * dilation - pad < size for at in range(count) for tap in range(some)) / (count * some)
                  for count, some, step, dilation, pad, size in zip(
                      (self.height, self.width), taps, self.stride, self.dilation, self.pad[::2], sizes, strict=True)]
        return float(1 - inside[0] * inside[1])

    @property
    def _stored(self) -> bool:
        """Return true if REQUANT can pool: no ALU pass comes between maxima and store, and the windows fit its fields."""
        e = self.epilogue
        return self.pooling is not None and not e.passes and e.requantize is not None and e.requantize.on_store and (
            self.pooling.fits_store(self.target, self.height, self.width))

    @property
    def cycles(self) -> int:
        """The estimate. Raises VtaError if no part of it fits."""
        return choose(self.target, self.work).cycles

    @property
    def _store_loops(self) -> tuple[str, ...]:
        if self.blocks_first:
            return ("out_blocks",)
        by_block = self.epilogue.requantize is not None and self.epilogue.requantize.on_store
        return ("images", "out_blocks") if by_block or self.out_height * self.out_width > 1 else ()

    def decide(self, stage: Chooser) -> tuple[Cut, int]:
        """Return the cut, and the virtual threads."""
        return tile_products(stage, self.target, self.work)

    def schedule(self, s: Schedule, cut: Cut | None = None, threads: int | None = None) -> None:
        """Schedule its stages in a schedule that has them.

        cut     : by which; the one that should be fastest if None
        threads : virtual threads that share the tiles, each with memory of its own in all of the target's copies

        Decisions, if neither is given: those of `vtakit.compiler.nn.vta.blocking.tile_products`.
        """
        schedule_products(s, self, self.work, self.window, self.weights, cut, threads, self.products, self.digit_sums,
                          inside=self.inside)
