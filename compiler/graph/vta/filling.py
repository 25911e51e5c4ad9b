"""Convolutions whose last block of output channels has lanes to spare: how pixels of the result can fill them."""

from dataclasses import dataclass

import numpy as np

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.graph.vta.made import Made, Maker, Numbers, largest_sum
from vtakit.compiler.graph.vta.products import Shape
from vtakit.compiler.nn.moves.packed import Image
from vtakit.compiler.nn.vta.concat import joined
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.packing import pack_weights
from vtakit.compiler.nn.vta.pixels import Pixels, Spread2d
from vtakit.compiler.te.tensor import Tensor

MOST_CHOICES = 3  # that are estimated: those of fewest steps
PART = "packed"  # of an operator: the convolution whose result has several pixels in a block
PACKED, REST = "__packed", "__rest"  # what the names of operators end with that a convolution has besides its own


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Filling:
    """Ways to fill the last block of a convolution.

    weights, shape, numbers : of the convolution and its requantization
    image   : of its data
    choices : the pixels of a block
    """

    weights: Array
    shape: Shape
    numbers: Numbers
    image: Image
    choices: tuple[Pixels, ...]

    @classmethod
    def of(cls, target: Target, weights: Array, shape: Shape, numbers: Numbers, image: Image) -> "Filling | None":
        """Return the filling of a convolution without residual, or None if packed pixels take no fewer steps."""
        outs, _, rows, columns = shape.four(weights).shape
        rest = outs % target.config.block
        if not rest or shape.groups > 1 or max(shape.dilation) > 1:
            return None
        choices = Pixels.choices(target, rest, (rows, columns), shape.stride, shape.pad, (image[2], image[3]))
        best = sorted(choices, key=lambda pixels: pixels.steps)[:MOST_CHOICES]
        return cls(weights=weights, shape=shape, numbers=numbers, image=image, choices=tuple(best)) if best else None

    @property
    def whole(self) -> bool:
        """Return true if all output channels are in one block."""
        return len(self.weights) == self.choices[0].channels

    def plain(self, m: Maker, data: Tensor) -> Conv2d:
        """The convolution with one pixel in a block."""
        return self._conv(m, data, np.arange(len(self.weights)), None)

    def _conv(self, m: Maker, data: Tensor, channels: Array, pixels: Pixels | None) -> Conv2d:
        given = self.shape.four(self.weights)[channels]
        epilogue = m.epilogue(self.numbers.ordered(channels if pixels is None else channels[pixels.order]),
                              largest_sum(given, (1, 2, 3)))
        last, higher = m.digits(pack_weights(m.target, given if pixels is None else pixels.weights(given))[0])
        stride, pad = (self.shape.stride, self.shape.pad) if pixels is None else (pixels.strides, pixels.pads)
        return Conv2d(target=m.target, name=m.name, data=data, weights=last, higher=higher, stride=stride, pad=pad,
                      fill=self.shape.fill, epilogue=epilogue, inside=m.inside, between=m.between)

    def made(self, m: Maker, data: Tensor, pixels: Pixels, *, spread: bool) -> Made:
        """The convolution with packed pixels, which are spread to elements of their own unless only the CPU reads them."""
        outs = len(self.weights)
        first, (rows, columns) = outs - pixels.channels, pixels.result
        within = Maker(m.target, f"{m.name}{PACKED}", m.constants, m.inside, m.between) if spread or first else m
        packed = self._conv(within, data, np.arange(first, outs), pixels)
        main = self._conv(m, data, np.arange(first), None) if first else None
        if not spread:
            return Made(main or packed, (main or packed).result, m.constants, (), {PART: packed} if first else {})
        rest = Maker(m.target, f"{m.name}{REST}", m.constants, m.inside, m.between) if first else m
        apart = Spread2d(target=m.target, name=rest.name, data=packed.result, rows=rows, columns=columns,
                         weights=rest.constant(pixels.selectors(m.target), "wgt", "selectors"))
        if main is None:
            return Made(apart, apart.result, m.constants, (), {PART: packed})
        value = joined((main.result, apart.result), f"{m.name}__joined")
        return Made(main, value, m.constants, (), {PART: packed, "rest": apart})
