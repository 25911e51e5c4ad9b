"""Depthwise convolutions by windows: several taps of each channel in a step."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.codegen.vta.windows import MOST_STEP
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.vta.arguments import check_array, check_fill, check_pad, check_pairs
from vtakit.compiler.nn.vta.digits import DigitSums, Higher, check_digits, digit_sums, place_digits
from vtakit.compiler.nn.vta.epilogue import axes, made, shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_weights
from vtakit.compiler.nn.vta.moved import padded_window
from vtakit.compiler.nn.vta.packing import Ints, blocks
from vtakit.compiler.nn.vta.strips import Strips, WindowWork, window_size
from vtakit.compiler.nn.vta.tiles import Sizes, tile_elements
from vtakit.compiler.schedule.decisions import DEFAULTS, Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te import reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A kernel cut into parts that the device's window holds, all of one size; taps beyond the kernel are zeros.

    count : parts down and across
    size  : rows and columns of one
    """

    count: Pair
    size: Pair

    @classmethod
    def of(cls, target: Target, kernel: Pair) -> "Parts":
        """Return the fewest parts of a kernel, as even as they can be; of one tap two, by which an intrinsic is told apart."""
        down, across = (blocks(taps, most) for taps, most in zip(kernel, target.config.window, strict=True))
        return cls(count=(down, across), size=(blocks(kernel[0], down), max(2, blocks(kernel[1], across))))

    def weights(self, target: Target, kernels: Ints) -> Ints:
        """[channels, rows, columns]  ->  the weights of `Depthwise2d`, [blocks, parts, block, block]."""
        check_array("weights of a depthwise convolution", kernels, "channels, rows, columns")
        block, (height, width) = target.config.block, target.config.window
        (down, across), (rows, columns) = self.count, self.size
        channels = blocks(len(kernels), block)
        full = np.zeros((channels * block, down * rows, across * columns), kernels.dtype)
        full[:len(kernels), :kernels.shape[1], :kernels.shape[2]] = kernels
        taps = np.zeros((channels, down, across, block, height, width), kernels.dtype)
        split = full.reshape(channels, block, down, rows, across, columns).transpose(0, 2, 4, 1, 3, 5)
        taps[..., height - rows:, width - columns:] = split
        found = np.zeros((channels, down * across, block, block), kernels.dtype)
        found[..., :height * width] = taps.reshape(channels, down * across, block, height * width)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Depthwise2d(Layer):
    """A convolution of each channel by itself, then an epilogue.

    data    inp type  [images, blocks, height, width, batch, block]
    weights wgt type  [blocks, parts, block of channels, block of taps]    made by `Parts.weights`
    result  out type  [images, blocks, rows, columns, batch, block]

    kernel, stride : (down, across)
    pad            : pixels (above, below, left, right) of the value `fill`
    higher         : digits of weights of more bits than wgt type has, the most significant first; `weights` is the last one

    Raises VtaError for shapes that do not fit together, and on a device without DWCONV.
    """

    data: Tensor
    weights: Tensor
    kernel: Pair
    stride: Pair = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0
    higher: tuple[Higher, ...] = ()
    name: str = "depthwise"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"depthwise convolution {self.name!r}"
        check_activations(self.target, what, self.data)
        check_pairs(what, kernel=self.kernel, stride=self.stride)
        check_pad(what, self.pad)
        check_fill(self.target, what, self.pad, self.fill)
        check_weights(self.target, what, self.weights, "blocks, parts")
        check_digits(what, self.weights, self.higher)
        if not self.target.has(Feature.DWCONV):
            raise VtaError(f"{what}: this device has no DWCONV: use a Conv2d of as many groups as blocks")
        if max(self.stride) > MOST_STEP:
            raise VtaError(f"{what}: a stride of {self.stride}; windows move by at most {MOST_STEP}")
        have, want = shape_of(self.weights)[:2], [shape_of(self.data)[1], prod(self.parts.count)]
        if have != want:
            raise VtaError(f"{what}: the weights are of {have[0]} blocks and {have[1]} parts, and it has {want[0]} and {want[1]}")
        if min(self.out_height, self.out_width) < 1:
            raise VtaError(f"{what}: the kernel of {self.kernel[0]} x {self.kernel[1]} taps is larger than the padded image")

    @cached_property
    def parts(self) -> Parts:
        """The kernel as the device's windows hold it."""
        return Parts.of(self.target, self.kernel)

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return (shape_of(self.data)[2] + self.pad[0] + self.pad[1] - self.kernel[0]) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return (shape_of(self.data)[3] + self.pad[2] + self.pad[3] - self.kernel[1]) // self.stride[1] + 1

    @cached_property
    def window(self) -> Tensor:
        """The input with its pads around, as far as windows reach."""
        size = window_size((self.out_height, self.out_width), self.stride, self.parts.count, self.parts.size)
        return padded_window(self.data, (self.pad[0], self.pad[2]), size, self.name, self.fill)

    @cached_property
    def digit_sums(self) -> tuple[DigitSums, ...]:
        """The sums with each of the higher digits of the weights."""
        return digit_sums(self.name, self.higher, self._sums)

    @cached_property
    def sums(self) -> Tensor:
        """The sums of products: [images, 1, blocks, rows, columns, batch, block]."""
        return self._sums(self.weights, self.digit_sums[-1].shifted if self.higher else None, f"{self.name}_sums")

    def _sums(self, weights: Tensor, before: Tensor | None, name: str) -> Tensor:
        """The sums of products with one digit of the weights, after other sums if `before` is not None."""
        images, channels, _, _, batch, block = shape_of(self.data)
        (down, across), (rows, columns), acc = self.parts.count, self.parts.size, self.target.dtype("acc")
        height, width = self.target.config.window
        p, q, r, c = (reduce_axis((0, extent), name) for extent, name in zip((down, across, rows, columns), "pqrc", strict=True))

        def value(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Any:
            read = self.window[n, o, y * self.stride[0] + p * rows + r, x * self.stride[1] + q * columns + c, b, j]
            weight = weights[o, p * across + q, j, (height - rows + r) * width + width - columns + c]
            first = None if before is None else before[n, g, o, y, x, b, j]
            return reduce.sum(read.astype(acc) * weight.astype(acc), axis=[p, q, r, c], init=first)
        return made((images, 1, channels, self.out_height, self.out_width, batch, block), value, name)

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.data, self.weights, *(digit.weights for digit in self.higher)

    @property
    def work(self) -> WindowWork:
        """Return the loops and sizes that its tiles depend on."""
        images, channels, *size = shape_of(self.data)[:4]
        return WindowWork(
            target=self.target, shape=(images, channels, self.out_height, self.out_width), size=tuple(size),
            count=self.parts.count, taps=self.parts.size, stride=self.stride, pad=self.pad, digits=1 + len(self.higher),
            passes=self.tail.passes,
            tensors=len(self.epilogue.elements), vectors=self.epilogue.channel_elements, lifted=self.lifted_residuals)

    @cached_property
    def tilings(self) -> Strips:
        """Return its tiles, and the strips of rows in which they may be computed."""
        return Strips.of(self.tail.name, self.work)

    def decide(self, stage: Chooser) -> tuple[Sizes, Pair]:
        """Return the tile, and the rows of a strip as a pair with 1; (1, 1) if a tile is computed at once."""
        return tile_elements(stage, self.tilings)

    @property
    def cycles(self) -> int:
        """The estimate: of loads on the bus, or of steps. Raises VtaError if no part of it fits."""
        sizes, (strip, _) = self.decide(DEFAULTS)
        return int(self.work.cycles(strip if strip > 1 else sizes[2], sizes))

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them, with the largest tiles that fit. Raises VtaError if none fits.

        Decisions: those of `vtakit.compiler.nn.vta.tiles.decided`.
        """
        sizes, (strip, _) = self.decide(self.stage(s))
        out, around, tile, inner = self.tail.tile(s, sizes, strip=strip if strip > 1 else None)
        place_digits(s, self.digit_sums, out, inner)
        s[self.window].set_scope("inp")
        s[self.window].compute_at(out, tile)
        for made_of, weights in (*((digit.sums, digit.weights) for digit in self.digit_sums), (self.sums, self.weights)):
            sums = s[made_of]
            assert isinstance(sums.op, ComputeOp)
            p, q, r, c = sums.op.reduce_axis
            *outer, b, j = sums.op.axis
            sums.reorder(p, q, *outer, b, j, r, c)
            sums.tensorize(b, self.target.dwconv(*self.parts.size))
            loaded = s[s.cache_read(weights, "wgt", [made_of])]
            loaded.whole(axes(loaded)[-1])  # an element has more taps than are read
            loaded.compute_at(out, around)
