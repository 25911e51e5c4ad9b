"""Convolutions of few output channels: pixels of the result beside each other in one block of channels."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.vta.arguments import check_array, check_pairs, whole
from vtakit.compiler.nn.vta.cuts import STAGE_CYCLES
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_weights
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import Moved2d, padded_window
from vtakit.compiler.nn.vta.packing import Ints, blocks

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """A convolution whose result has `count` pixels (down, across) of `channels` channels each in one block.

    It is the `Conv2d` of `weights`, `strides` and `pads`. A pixel of the data that several pixels of a block read is multiplied
    once: a kernel of 3 x 3 takes 36 steps for 4 x 4 pixels in place of 144. A kernel of one tap gains nothing.
    Lane ``(y * count[1] + x) * channels + c`` of a block is channel c of pixel (y, x).

    kernel, stride : of the convolution (down, across)
    pad            : its pixels (above, below, left, right)
    size           : height and width of its data

    Raises VtaError for numbers that make no sense.
    """

    count: Pair
    channels: int
    kernel: Pair
    stride: Pair
    pad: tuple[int, int, int, int]
    size: Pair

    def __post_init__(self) -> None:
        check_pairs("pixels", count=self.count, kernel=self.kernel, stride=self.stride, size=self.size)
        whole("pixels: channels", self.channels, 1)

    @property
    def lanes(self) -> int:
        """Lanes of a block that are used."""
        return prod(self.count) * self.channels

    @property
    def result(self) -> Pair:
        """Rows and columns of the convolution's result."""
        above, below, left, right = self.pad
        return ((self.size[0] + above + below - self.kernel[0]) // self.stride[0] + 1,
                (self.size[1] + left + right - self.kernel[1]) // self.stride[1] + 1)

    @property
    def packed(self) -> Pair:
        """Rows and columns of the packed result."""
        return blocks(self.result[0], self.count[0]), blocks(self.result[1], self.count[1])

    @property
    def window(self) -> Pair:
        """Rows and columns of the packed convolution's kernel."""
        return (self.kernel[0] + (self.count[0] - 1) * self.stride[0], self.kernel[1] + (self.count[1] - 1) * self.stride[1])

    @property
    def strides(self) -> Pair:
        """Return the stride of the packed convolution."""
        return self.stride[0] * self.count[0], self.stride[1] * self.count[1]

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Pads of the packed convolution: as many below and right as its last window needs."""
        below, right = (
            max(0, (places - 1) * step + reach - extent - before) for places, step, reach, extent, before in zip(
                self.packed, self.strides, self.window, self.size, (self.pad[0], self.pad[2]), strict=True))
        return self.pad[0], below, self.pad[2], right

    @property
    def steps(self) -> int:
        """Steps of an image and a block of input channels."""
        return prod(self.packed) * prod(self.window)

    def weights(self, weights: Ints) -> Ints:
        """[channels, in channels, rows, columns]  ->  [lanes, in channels, rows, columns] of the packed convolution."""
        check_array("weights", weights, "channels, in channels, rows, columns")
        outs, ins, rows, columns = weights.shape
        if (outs, rows, columns) != (self.channels, *self.kernel):
            raise VtaError(f"weights of {outs} channels and {rows} x {columns} taps for pixels of {self.channels} channels and a "
                           f"kernel of {self.kernel[0]} x {self.kernel[1]}")
        found = np.zeros((*self.count, outs, ins, *self.window), weights.dtype)
        for y, x in np.ndindex(self.count):
            top, left = y * self.stride[0], x * self.stride[1]
            found[y, x, :, :, top:top + rows, left:left + columns] = weights
        return found.reshape(-1, ins, *self.window)

    @property
    def order(self) -> Ints:
        """The channel of each lane."""
        return np.tile(np.arange(self.channels), prod(self.count))

    def selectors(self, target: Target) -> Ints:
        """The weights of `Spread2d`, one element for each pixel of a block: [down, across, block, block]."""
        found = np.zeros((prod(self.count), *target.element("wgt")), np.int64)
        for at, channel in np.ndindex(prod(self.count), self.channels):
            found[at, channel, at * self.channels + channel] = 1
        return found.reshape(*self.count, *target.element("wgt"))

    @classmethod
    def choices(
        cls, target: Target, channels: int, kernel: Pair, stride: Pair, pad: tuple[int, int, int, int], size: Pair,
    ) -> "Iterator[Pixels]":
        """Yield the ways to fill a block that take fewer steps than one pixel at a time does."""
        block = target.config.block
        plain = cls(count=(1, 1), channels=channels, kernel=kernel, stride=stride, pad=pad, size=size)
        for down in range(1, block // channels + 1):
            for across in range(1, block // channels // down + 1):
                found = cls(count=(down, across), channels=channels, kernel=kernel, stride=stride, pad=pad, size=size)
                if found.steps < plain.steps:
                    yield found


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread2d(Moved2d):
    """Pixels that lie beside each other in one block of channels, each in an element of its own: one product for each.

    data    inp type  [images, 1, height, width, batch, block]
    weights wgt type  [down, across, block, block]    `Pixels.selectors`
    result  out type  [images, 1, rows, columns, batch, block]

    rows, columns : of the result; what pixels lie beyond is left out

    Raises VtaError for shapes that do not fit together.
    """

    rows: int
    columns: int
    name: str = "spread"

    def __post_init__(self) -> None:
        Layer.__post_init__(self)
        what = f"spread {self.name!r}"
        check_activations(self.target, what, self.data)
        check_weights(self.target, what, self.weights, "down, across")
        for name in ("rows", "columns"):
            whole(f"{what}: {name}", getattr(self, name), 1)
        _, channels, height, width, *_ = shape_of(self.data)
        want = tuple(blocks(size, count) for size, count in zip((self.rows, self.columns), self._count, strict=True))
        if (channels, height, width) != (1, *want):
            raise VtaError(f"{what}: {self.rows} x {self.columns} pixels come of {want[0]} x {want[1]} in one block, not of "
                           f"{height} x {width} in {channels}")

    @property
    def _count(self) -> Pair:
        """Pixels of a block, down and across."""
        down, across = shape_of(self.weights)[:2]
        return down, across

    def window_pixels(self, rows: int, columns: int, chunk: Pair) -> int:
        """Pixels of the data for a tile; one more each way where a tile begins within one."""
        down, across = self._count
        return (blocks(rows, down) + (rows % down > 0)) * (blocks(columns, across) + (columns % across > 0))

    @cached_property
    def lifted(self) -> Lifted:
        """The result as accumulators."""
        images, _, height, width, batch, block = shape_of(self.data)
        window, (down, across) = padded_window(self.data, (0, 0), (height, width), self.name), self._count

        def read(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, dy: Expr, dx: Expr, k: Expr) -> Expr:
            found: Expr = window[n, o, y // down, x // across, b, k]
            return found
        return Lifted(
            target=self.target, shape=(images, 1, 1, self.rows, self.columns, batch, block), window=window, weights=self.weights,
            read=read, element=lambda *at: (at[3] % down, at[4] % across), name=self.name, together=(down, across),
        )

    @property
    def cycles(self) -> int:
        """The estimate: of a step or a store for each pixel, and of what begins and ends it."""
        images, _, rows, columns, *_ = shape_of(self.result)
        a_pixel = max(self.target.params.gemm_passes, self.target.config.out_bytes / self.target.system.bytes_a_cycle)
        return int(images * rows * columns * a_pixel) + 2 * (STAGE_CYCLES + self.target.system.read_latency)
