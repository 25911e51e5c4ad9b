"""Convolutions of few channels, as a network's first: taps of the kernel beside each other in one block of channels."""

from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.arguments import check_array, check_pad, check_pairs, whole
from vtakit.compiler.nn.vta.blocking import choose, even_sizes
from vtakit.compiler.nn.vta.cuts import Work
from vtakit.compiler.nn.vta.packing import Ints, blocks, pack_activations, pack_weights
from vtakit.compiler.nn.vta.pooling import Pooling

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A convolution whose kernel is cut into parts of `taps` (down, across), the values under a part being channels of one pixel.

    It is the `Conv2d` of `stride` and `dilation`, without pad, on `activations` with `weights`. With a block of 16, a kernel of
    7 x 7 on 3 channels is 49 steps a pixel and block of outputs; folded whole, 10, of which 9.2 are needed.

    kernel, strides : of the convolution (down, across)
    pad  : pixels (above, below, left, right) of the value `fill`

    Raises VtaError for numbers that make no sense.
    """

    kernel: Pair
    taps: Pair
    strides: Pair = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0

    def __post_init__(self) -> None:
        check_pairs("fold", kernel=self.kernel, taps=self.taps, strides=self.strides)
        check_pad("fold", self.pad)
        if any(not 1 <= part <= most for part, most in zip(self.taps, self.kernel, strict=True)):
            raise VtaError(f"fold: {self.taps} taps at once of a kernel of {self.kernel}: give from 1 to all of them")

    @property
    def parts(self) -> Pair:
        """The kernel of the convolution that is left: parts down and across."""
        return blocks(self.kernel[0], self.taps[0]), blocks(self.kernel[1], self.taps[1])

    @property
    def steps(self) -> Pair:
        """Pixels of the image from one folded pixel to the next: all that any part of any window begins at."""
        down, across = (
            stride if parts == 1 else gcd(stride, taps)
            for stride, parts, taps in zip(self.strides, self.parts, self.taps, strict=True)
        )
        return down, across

    @property
    def stride(self) -> Pair:
        """Return the stride of the folded convolution."""
        return self.strides[0] // self.steps[0], self.strides[1] // self.steps[1]

    @property
    def dilation(self) -> Pair:
        """Return the dilation of the folded convolution."""
        down, across = (
            1 if parts == 1 else taps // step for parts, taps, step in zip(self.parts, self.taps, self.steps, strict=True)
        )
        return down, across

    def size(self, height: int, width: int) -> Pair:
        """Rows and columns of the result for an image. Raises VtaError if the kernel is larger than the padded image."""
        rows, columns = height + self.pad[0] + self.pad[1], width + self.pad[2] + self.pad[3]
        if rows < self.kernel[0] or columns < self.kernel[1]:
            raise VtaError(f"the kernel of {self.kernel[0]} x {self.kernel[1]} taps is larger than the padded image of {rows} x "
                           f"{columns} pixels")
        return (rows - self.kernel[0]) // self.strides[0] + 1, (columns - self.kernel[1]) // self.strides[1] + 1

    def activations(self, target: Target, x: Ints) -> Ints:
        """[images, channels, height, width]  ->  the data of the convolution, in blocks."""
        check_array("activations", x, "images, channels, height, width")
        images, channels, height, width = x.shape
        (down, across), (step_y, step_x) = self.folded_size(height, width), self.steps
        ends = (down - 1) * step_y + self.taps[0], (across - 1) * step_x + self.taps[1]
        padded = np.full((images, channels, *ends), self.fill, x.dtype)
        part = padded[:, :, self.pad[0]:self.pad[0] + height, self.pad[2]:self.pad[2] + width]
        part[:] = x[:, :, :part.shape[2], :part.shape[3]]
        found = np.empty((images, *self.taps, channels, down, across), x.dtype)
        for y, z in np.ndindex(self.taps):
            found[:, y, z] = padded[:, :, y:y + (down - 1) * step_y + 1:step_y, z:z + (across - 1) * step_x + 1:step_x]
        return pack_activations(target, found.reshape(images, -1, down, across))

    def weights(self, target: Target, weights: Ints) -> Ints:
        """[out channels, channels, rows, columns]  ->  the weights of the convolution, in blocks."""
        check_array("weights", weights, "out channels, channels, rows, columns")
        outs, channels, *kernel = weights.shape
        if tuple(kernel) != self.kernel:
            raise VtaError(f"weights of {kernel[0]} x {kernel[1]} taps for a fold of a kernel of {self.kernel}")
        padded = np.zeros((outs, channels, self.parts[0] * self.taps[0], self.parts[1] * self.taps[1]), weights.dtype)
        padded[:, :, :kernel[0], :kernel[1]] = weights
        split = padded.reshape(outs, channels, self.parts[0], self.taps[0], self.parts[1], self.taps[1])
        return pack_weights(target, split.transpose(0, 3, 5, 1, 2, 4).reshape(outs, -1, *self.parts))[0]

    def work(self, target: Target, shape: tuple[int, int, int, int], outs: int, pooling: Pooling | None = None) -> Work:
        """Return the loops of the folded convolution, for an image [images, channels, height, width] and `outs` channels."""
        (batch, block), (rows, columns) = target.element("inp"), self.size(*shape[2:])
        if pooling is not None:
            rows, columns = pooling.size(rows, columns)
        return Work(
            images=blocks(shape[0], batch), out_blocks=blocks(outs, block), rows=rows, columns=columns,
            in_blocks=blocks(self.taps[0] * self.taps[1] * shape[1], block),
            kernel_rows=self.parts[0], kernel_columns=self.parts[1],
            row_step=1 if self.parts[0] == 1 else self.stride[0], column_step=self.stride[1],
            row_dilation=self.dilation[0], column_dilation=self.dilation[1], pooling=pooling,
        )

    def folded_size(self, height: int, width: int) -> Pair:
        """Rows and columns of the activations, for an image."""
        down, across = (
            ((size - 1) * stride + (parts - 1) * taps) // step + 1 for size, stride, parts, taps, step in zip(
                self.size(height, width), self.strides, self.parts, self.taps, self.steps, strict=True)
        )
        return down, across


def _steps(work: Work) -> int:
    """Products of elements that a convolution takes."""
    return prod((work.images, work.out_blocks, work.rows, work.columns, work.in_blocks, work.kernel_rows, work.kernel_columns))


def choose_fold(
    target: Target, shape: tuple[int, int, int, int], outs: int, *, kernel: Pair, stride: Pair = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0), fill: int = 0, pooling: Pooling | None = None,
) -> Fold:
    """The fold that should take least time, of an image [images, channels, height, width].

    Raises VtaError for numbers that make no sense, and if no part of any fits.
    """
    check_pairs("fold", kernel=kernel, strides=stride)
    if not isinstance(shape, tuple) or len(shape) != 4:
        raise VtaError(f"fold: the shape is {shape!r:.40} and must be (images, channels, height, width)")
    for size in shape:
        whole("fold: an extent of the shape", size, 1)
    whole("fold: the number of output channels", outs, 1)
    best: tuple[int, Fold] | None = None
    found = []
    for taps in product(even_sizes(kernel[0]), even_sizes(kernel[1])):
        fold = Fold(kernel=kernel, taps=taps, strides=stride, pad=pad, fill=fill)
        found.append((fold.work(target, shape, outs, pooling), fold))
    for work, fold in sorted(found, key=lambda pair: _steps(pair[0])):
        if best is None or _steps(work) < best[0]:  # no cut takes fewer cycles than there are steps
            cycles = choose(target, work).cycles
            best = (cycles, fold) if best is None or cycles < best[0] else best
    assert best is not None
    return best[1]
