"""Sums over windows by products, so that pools of any size run in any configuration; and pads with zeros."""

from dataclasses import dataclass
from functools import cached_property

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.vta.arguments import check_fill, check_pad, check_pairs
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.layer import check_activations, check_element
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import Moved2d, padded_window


@dataclass(frozen=True, eq=False, kw_only=True)
class SumPool2d(Moved2d):
    """The sum over a window; an average is one that the epilogue scales and shifts, over a whole image a global one.

    With a window of one pixel it is what its epilogue does, or a pad with zeros.

    kernel, stride : (down, across)
    pad            : pixels (above, below, left, right) of the value `fill`

    Raises VtaError for shapes that do not fit together.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0
    name: str = "sum_pool"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"sum pooling {self.name!r}"
        check_activations(self.target, what, self.data)
        check_pairs(what, kernel=self.kernel, stride=self.stride)
        check_pad(what, self.pad)
        check_fill(self.target, what, self.pad, self.fill)
        check_element(self.target, what, self.weights)
        if min(self.out_height, self.out_width) < 1:
            height, width = shape_of(self.data)[2:4]
            raise VtaError(f"{what}: the window of {self.kernel[0]} x {self.kernel[1]} pixels is larger than the padded image of "
                           f"{height + self.pad[0] + self.pad[1]} x {width + self.pad[2] + self.pad[3]} pixels")

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return (shape_of(self.data)[2] + self.pad[0] + self.pad[1] - self.kernel[0]) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return (shape_of(self.data)[3] + self.pad[2] + self.pad[3] - self.kernel[1]) // self.stride[1] + 1

    def window_pixels(self, rows: int, columns: int, chunk: tuple[int, int]) -> int:
        """Pixels of the input for a tile of so many rows and columns, and so many taps at once."""
        return ((rows - 1) * self.stride[0] + chunk[0]) * ((columns - 1) * self.stride[1] + chunk[1])

    @cached_property
    def lifted(self) -> Lifted:
        """The sums as accumulators."""
        images, blocks, _, _, batch, block = shape_of(self.data)
        rows, columns = self.out_height, self.out_width
        size = (rows - 1) * self.stride[0] + self.kernel[0], (columns - 1) * self.stride[1] + self.kernel[1]
        window = padded_window(self.data, (self.pad[0], self.pad[2]), size, self.name, self.fill)

        def read(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, dy: Expr, dx: Expr, k: Expr) -> Expr:
            found: Expr = window[n, o, y * self.stride[0] + dy, x * self.stride[1] + dx, b, k]
            return found
        return Lifted(target=self.target, shape=(images, 1, blocks, rows, columns, batch, block), window=window,
                      weights=self.weights, read=read, name=self.name, taps=self.kernel)
