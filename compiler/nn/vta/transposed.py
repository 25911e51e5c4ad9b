"""Transposed 2-D convolutions, as one plain convolution for each phase of the stride."""

from dataclasses import dataclass
from functools import cached_property

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.vta.arguments import check_fill, whole
from vtakit.compiler.nn.vta.blocking import tile_products
from vtakit.compiler.nn.vta.cuts import Cut, Work
from vtakit.compiler.nn.vta.digits import DigitSums, Higher, check_digits, digit_sums, shifts
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_weights
from vtakit.compiler.nn.vta.sums import schedule_products
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te import reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class TransposedConv2d(Layer):
    """A transposed convolution: value i of the input is added to values ``i * stride - pad + tap`` of the result.

    No zeros are multiplied: of each phase, a remainder of the result's index by the stride, only the taps that meet it are used.

    data    inp type  [images, groups * in blocks, height, width, batch, block]
    weights wgt type  [groups * out blocks, in blocks, stride, stride, taps, taps, block, block], as `pack_transposed_weights` and
                      `pack_grouped_transposed_weights` make them
    result  out type  [images, out blocks, rows / stride, stride, columns / stride, stride, batch, block]: in memory as
                      [images, out blocks, rows, columns, batch, block]; [images, groups, out blocks, …] where there are several

    pad     : (above, left), how much of the result is left out there
    fill    : the value around the data
    by_phase : whether the requantization has numbers for each phase, those of each in whole blocks of channels
    rows, columns : of the result, whole strides
    higher  : digits of weights of more bits than wgt type has, the most significant first; `weights` is the last one

    Raises VtaError for shapes that do not fit together.
    """

    data: Tensor
    weights: Tensor
    rows: int
    columns: int
    pad: tuple[int, int] = (0, 0)
    fill: int = 0
    by_phase: bool = False
    groups: int = 1
    higher: tuple[Higher, ...] = ()
    name: str = "deconv"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"transposed convolution {self.name!r}"
        check_activations(self.target, what, self.data)
        check_weights(self.target, what, self.weights, "out blocks, in blocks, stride, stride, taps, taps")
        check_digits(what, self.weights, self.higher)
        for name in ("rows", "columns"):
            whole(f"{what}: {name}", getattr(self, name), 1)
        if not isinstance(self.pad, tuple) or len(self.pad) != 2:
            raise VtaError(f"{what}: pad is {self.pad!r:.40} and must be (above, left), whole numbers of at least 0")
        for side in self.pad:
            whole(f"{what}: a side of the pad", side, 0)
        whole(f"{what}: groups", self.groups, 1)
        channels, *_ = shape_of(self.data)[1:]
        outs, ins, down, across, *_ = shape_of(self.weights)
        check_fill(self.target, what, (1, 1, 1, 1) if max(self._taps) > 1 else (0, 0, 0, 0), self.fill)
        if channels != self.groups * ins or outs % self.groups:
            raise VtaError(f"{what}: {channels} input and {outs} output blocks do not go with {self.groups} groups "
                           f"of {ins} input blocks")
        if self.rows % down or self.columns % across:
            raise VtaError(f"{what}: a result of {self.rows} x {self.columns} is no whole number of strides of {down} x "
                           f"{across}: make it larger and leave the rest away")

    @property
    def phases(self) -> tuple[int, int]:
        return shape_of(self.weights)[2], shape_of(self.weights)[3]

    @property
    def numbers_by_phase(self) -> bool:
        return self.by_phase

    @property
    def _taps(self) -> tuple[int, int]:
        return shape_of(self.weights)[4], shape_of(self.weights)[5]

    @cached_property
    def window(self) -> Tensor:
        """The input with what is around it, as all phases see it."""
        images, ins, height, width, batch, block = shape_of(self.data)
        (down, across), taps = self.phases, self._taps
        rows = self.rows // down + (down - 1 + self.pad[0]) // down + taps[0] - 1
        columns = self.columns // across + (across - 1 + self.pad[1]) // across + taps[1] - 1

        def value(n: Expr, c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
            row, column = y - (taps[0] - 1), x - (taps[1] - 1)
            inside = all_of(row >= 0, row < height, column >= 0, column < width)
            return if_then_else(inside, self.data[n, c, row, column, b, k], const(self.fill, self.data.dtype))
        return made((images, ins, rows, columns, batch, block), value, f"{self.name}_window")

    @cached_property
    def digit_sums(self) -> tuple[DigitSums, ...]:
        """The sums with each of the higher digits of the weights."""
        return digit_sums(self.name, self.higher, self._sums)

    @cached_property
    def sums(self) -> Tensor:
        """The accumulators: [images, groups * phases, out blocks, rows / stride, columns / stride, batch, block]."""
        return self._sums(self.weights, self.digit_sums[-1].shifted if self.higher else None, f"{self.name}_sums")

    def _sums(self, weights: Tensor, before: Tensor | None, name: str) -> Tensor:
        """The sums of products with one digit of the weights, after other sums if `before` is not None."""
        images, _, _, _, batch, block = shape_of(self.data)
        outs, ins = shape_of(self.weights)[:2]
        (down, across), acc, per_group = self.phases, self.target.dtype("acc"), outs // self.groups
        c, k = reduce_axis((0, ins), "c"), reduce_axis((0, block), "k")
        dy, dx = reduce_axis((0, self._taps[0]), "dy"), reduce_axis((0, self._taps[1]), "dx")

        def value(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
            first: Expr | int = 0
            init = None if before is None else before[n, g, o, y, x, b, j]
            if self.groups > 1:
                group, g = g // (down * across), g % (down * across)
                first, o = group * ins, group * per_group + o
            row, column = g // across + self.pad[0], g % across + self.pad[1]
            read = self.window[n, first + c, y + row // down + dy, x + column // across + dx, b, k]
            weight = weights[o, c, row % down, column % across, dy, dx, j, k]
            found: Expr = reduce.sum(read.astype(acc) * weight.astype(acc), axis=[c, dy, dx, k], init=init)
            return found
        shape = images, self.groups * down * across, per_group, self.rows // down, self.columns // across, batch, block
        return made(shape, value, name)

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.data, self.weights, *(digit.weights for digit in self.higher)

    @property
    def work(self) -> Work:
        """The loops of one phase, for the choice of a cut."""
        images, phases, outs, rows, columns, *_ = shape_of(self.sums)
        return Work(
            images=images, out_blocks=outs, rows=rows, columns=columns, in_blocks=shape_of(self.weights)[1],
            kernel_rows=self._taps[0], kernel_columns=self._taps[1], in_rows=shape_of(self.data)[2],
            in_columns=shape_of(self.data)[3], passes=self.tail.passes + shifts(self.higher), digits=1 + len(self.higher),
            tensors=len(self.epilogue.elements), lifted=self.lifted_residuals, vectors=self.epilogue.channel_elements,
            repeats=phases, store_loops=("images", "out_blocks", "rows"),
        )

    def decide(self, stage: Chooser) -> tuple[Cut, int]:
        """Return the cut of a phase, and the virtual threads."""
        return tile_products(stage, self.target, self.work)

    def schedule(self, s: Schedule, cut: Cut | None = None, threads: int | None = None) -> None:
        """Schedule its stages in a schedule that has them.

        cut     : by which; the one that should be fastest if None
        threads : virtual threads that share the tiles, each with memory of its own in all of the target's copies

        Decisions, if neither is given: those of `vtakit.compiler.nn.vta.blocking.decided`.
        """
        schedule_products(s, self, self.work, self.window, self.weights, cut, threads, before=self.digit_sums)
