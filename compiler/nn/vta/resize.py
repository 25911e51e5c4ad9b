"""Nearest-neighbour resizing."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.layer import check_activations, check_element
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import Moved2d, padded_window


@dataclass(frozen=True, eq=False, kw_only=True)
class Resize2d(Moved2d):
    """The nearest value: row y of the result is row ``floor(y * height / rows)`` of the data, and columns alike.

    The data is loaded once and read by as many GEMM steps as the result has elements. Whole factors and their inverses
    become loops of instructions; ratios of which neither side is 1 take an instruction for each row or column of one period.

    rows, columns : of the result

    Raises VtaError for a result without pixels.
    """

    rows: int
    columns: int
    name: str = "resize"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_activations(self.target, f"resize {self.name!r}", self.data)
        whole(f"resize {self.name!r}: rows", self.rows, 1)
        whole(f"resize {self.name!r}: columns", self.columns, 1)
        check_element(self.target, f"resize {self.name!r}", self.weights)

    @property
    def _ratios(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(rows of the input, rows of the result) of one period, and columns."""
        (height, width), found = shape_of(self.data)[2:4], []
        for have, want in ((height, self.rows), (width, self.columns)):
            found.append((have // gcd(have, want), want // gcd(have, want)))
        return found[0], found[1]

    def window_pixels(self, rows: int, columns: int, chunk: tuple[int, int]) -> int:
        """Pixels of the input for a tile; one more each way where a tile begins within a period."""
        height, width = (
            min((size - 1) * have // want + 1 + (size % want > 0), whole)
            for size, (have, want), whole in zip((rows, columns), self._ratios, shape_of(self.data)[2:4], strict=True)
        )
        return height * width

    @cached_property
    def lifted(self) -> Lifted:
        """The result as accumulators."""
        images, blocks, height, width, batch, block = shape_of(self.data)
        window = padded_window(self.data, (0, 0), (height, width), self.name)
        (down, rows), (across, columns) = self._ratios

        def read(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, dy: Expr, dx: Expr, k: Expr) -> Expr:
            found: Expr = window[n, o, y * down // rows, x * across // columns, b, k]
            return found
        return Lifted(
            target=self.target, shape=(images, 1, blocks, self.rows, self.columns, batch, block), window=window,
            weights=self.weights, read=read, name=self.name, together=(rows, columns),
        )
