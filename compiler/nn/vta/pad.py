"""Pads with any value."""

from dataclasses import dataclass
from functools import cached_property

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.vta.arguments import check_pad, whole
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import check_activations, check_element
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import Moved2d, padded_window
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.reduce import comm_reducer
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad2d(Moved2d):
    """The data with `value` around, as a quantized network's zero point; zeros are the LOAD's and take no arithmetic.

    pad : pixels (above, below, left, right)

    Raises VtaError for a pad below 0, or a value that is not of the data's type.
    """

    pad: tuple[int, int, int, int]
    value: int = 0
    name: str = "pad"

    def __post_init__(self) -> None:
        super().__post_init__()
        what, half = f"pad {self.name!r}", 1 << self.target.config.out_bits - 1
        check_activations(self.target, what, self.data)
        check_pad(what, self.pad)
        check_element(self.target, what, self.weights)
        whole(f"{what}: the value", self.value)
        if not -half <= self.value < half:
            raise VtaError(f"{what}: the value {self.value} is no {self.target.dtype('out')}, which are {-half} to {half - 1}")

    def window_pixels(self, rows: int, columns: int, chunk: tuple[int, int]) -> int:
        """Pixels of the input, pads included, for a tile of so many rows and columns."""
        return rows * columns

    @cached_property
    def lifted(self) -> Lifted:
        """The data with zeros around as accumulators."""
        images, blocks, height, width, batch, block = shape_of(self.data)
        size = height + self.pad[0] + self.pad[1], width + self.pad[2] + self.pad[3]
        window = padded_window(self.data, (self.pad[0], self.pad[2]), size, self.name)
        return Lifted(
            target=self.target, shape=(images, 1, blocks, *size, batch, block), window=window, weights=self.weights,
            read=lambda n, g, o, y, x, b, dy, dx, k: window[n, o, y, x, b, k], name=self.name,
        )

    @cached_property
    def _biased(self) -> Tensor:
        """The data less the value, so that it can be added to the value."""
        return made(self.lifted.shape, lambda *at: self.lifted.accumulators(*at) - self.value, f"{self.name}_biased")

    @cached_property
    def sums(self) -> Tensor:
        """The padded data: a sum that begins at the value, to which the data is added where it is."""
        if not self.value:
            return self.lifted.accumulators
        once, (_, _, height, width, *_) = reduce_axis((0, 1), "once"), shape_of(self.data)
        added = comm_reducer(lambda a, b: a + b, lambda kind: const(self.value, kind), name="padded")

        def value(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
            inside = all_of(y >= self.pad[0], y < self.pad[0] + height, x >= self.pad[2], x < self.pad[2] + width)
            found: Expr = added(self._biased[n, g, o, y, x, b, k], axis=[once], where=inside)
            return found
        return made(self.lifted.shape, value, f"{self.name}_filled")

    @property
    def stages(self) -> int:
        """Accumulators of each value up to the epilogue."""
        return self.lifted.stages + 2 * bool(self.value)

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them, with the largest tiles that fit. Raises VtaError if none fits.

        Decisions: those of `vtakit.compiler.nn.vta.tiles.decided`.
        """
        sizes, chunk = self.decide(self.stage(s))
        out, _, inner, _ = self.tail.tile(s, sizes)
        self.lifted.schedule(s, out, inner, chunk)
        if self.value:
            s[self._biased].set_scope("acc")
            s[self._biased].compute_at(out, inner)
            filled = s[self.sums]
            assert isinstance(filled.op, ComputeOp)
            filled.reorder(*filled.op.reduce_axis, *filled.op.axis)  # so that the whole tile is filled before
