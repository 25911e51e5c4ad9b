"""Windows of a convolution's accumulators of which the greatest are kept."""

from dataclasses import dataclass

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.hw.isa.insns import Feature

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """The greatest of each window of accumulators, before the epilogue: the result's pixels are windows.

    kernel, stride : (down, across)
    pad            : pixels (above, below, left, right) that count for nothing

    Raises VtaError for pads with which the pixel at a window's place, which is compared first, may lie outside.
    """

    kernel: Pair
    stride: Pair
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        above, below, left, right = self.pad
        if min(self.pad) < 0 or above + below >= self.kernel[0] or left + right >= self.kernel[1]:
            raise VtaError(f"pads {self.pad} of a window of {self.kernel[0]} x {self.kernel[1]}: make both sides together less")

    def size(self, height: int, width: int) -> Pair:
        """Return rows and columns of the result for an image."""
        above, below, left, right = self.pad
        return (height + above + below - self.kernel[0]) // self.stride[0] + 1, (
            width + left + right - self.kernel[1]) // self.stride[1] + 1

    def fits_store(self, target: Target, height: int, width: int) -> bool:
        """Return true if REQUANT can pool an image: square windows, pads above and left of at most 1, none elsewhere."""
        (rows, columns), (down, across) = self.size(height, width), self.stride
        inside = [(count - 1) * step + self.kernel[0] - pad <= size for count, step, pad, size in (
            (rows, down, self.pad[0], height), (columns, across, self.pad[2], width))]
        return target.has(Feature.POOL) and all(inside) and self.kernel[0] == self.kernel[1] in (2, 3, 4) and (
            down == across in (1, 2)) and max(self.pad[0], self.pad[2]) <= 1

    @property
    def steps(self) -> int:
        """Return the ALU's steps for each window, one a pixel; zeros, to which the first is added, come beside products."""
        return self.kernel[0] * self.kernel[1]
