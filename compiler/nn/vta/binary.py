"""Operators on the values of two tensors, of which either may be repeated along any dimension."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.layer import Layer, check_activations, check_element
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.nn.vta.moved import padded_window
from vtakit.compiler.nn.vta.tiles import Pair, Sizes, Tilings, tile_elements, tiles
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor

# Of a and b; that of a difference gets b's negative.
KINDS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": maximum, "min": minimum,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Binary2d(Layer):
    """``add``, ``sub``, ``mul``, ``max`` or ``min`` of two tensors, then an epilogue, in any configuration.

    a, b    : inp type [images, blocks, height, width, batch, block]; a dimension of 1 is repeated along the other's
    weights : wgt type [block, block], for a and for b: `packing.identity`, which may scale the values of either at no cost, or
              `packing.first_lane`, which repeats one channel
    zeros   : what is taken off the values of a and of b before, as the zero points of a product
    result  : out type [images, blocks, height, width, batch, block]

    Raises VtaError for shapes that do not fit together.
    """

    a: Tensor
    b: Tensor
    weights: tuple[Tensor, Tensor]
    kind: str = "add"
    zeros: Pair = (0, 0)
    name: str = "binary"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"operator {self.name!r}"
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise VtaError(f"{what}: the kind {self.kind!r} is none of {', '.join(KINDS)}")
        if not isinstance(self.weights, tuple) or len(self.weights) != 2:
            raise VtaError(f"{what}: weights are {self.weights!r:.40} and must be two tensors, for a and for b")
        for tensor in self.weights:
            check_element(self.target, what, tensor)
        for zero in self.zeros:
            whole(f"{what}: a zero point", zero)
        for tensor in (self.a, self.b):
            check_activations(self.target, what, tensor)
        for have, other in zip(shape_of(self.a)[:4], shape_of(self.b)[:4], strict=True):
            if have != other and 1 not in (have, other):
                raise VtaError(f"{what}: {self.a.name} has the shape {tuple(shape_of(self.a))} and {self.b.name} "
                               f"{tuple(shape_of(self.b))}: each dimension must be the other's, or 1")

    @property
    def _shape(self) -> list[int]:
        return [max(sizes) for sizes in zip(shape_of(self.a), shape_of(self.b), strict=True)]

    @cached_property
    def lifted(self) -> tuple[Lifted, Lifted]:
        """Both tensors as accumulators of their own shapes."""
        a = self._lifted(self.a, self.weights[0], f"{self.name}_a", negative=False)
        return a, self._lifted(self.b, self.weights[1], f"{self.name}_b", negative=self.kind == "sub")

    def _lifted(self, tensor: Tensor, weights: Tensor, name: str, *, negative: bool) -> Lifted:
        _, _, height, width, *_ = shape = tuple(shape_of(tensor))
        window = padded_window(tensor, (0, 0), (height, width), name)
        return Lifted(target=self.target, shape=shape, window=window, weights=weights, name=name, negative=negative,
                      read=lambda n, o, y, x, b, dy, dx, k: window[n, o, y, x, b, k])

    @cached_property
    def second(self) -> Tensor:
        """Return the values of b less its zero point."""
        lifted, zero = self.lifted[1].accumulators, self.zeros[1]
        return made(lifted.shape, lambda *at: lifted[at] - zero, f"{self.name}_less") if zero else lifted

    @cached_property
    def sums(self) -> Tensor:
        """The operator's values, not yet finished: [images, 1, blocks, height, width, batch, block]."""
        images, *rest = self._shape

        def value(n: Expr, g: Expr, *at: Expr) -> Expr:
            a, b = (
                tensor[*[0 if size == 1 else i for i, size in zip((n, *at), operand.shape, strict=True)]]
                for tensor, operand in zip((self.lifted[0].accumulators, self.second), self.lifted, strict=True)
            )
            found: Expr = KINDS[self.kind](a - self.zeros[0] if self.zeros[0] else a, b)
            return found
        return made((images, 1, *rest), value, f"{self.name}_values")

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""
        return self.a, self.b, *self.weights

    @cached_property
    def tilings(self) -> Tilings:
        """Return its tiles."""
        shape = self._shape[:4]
        return Tilings(target=self.target, name=self.tail.name, shape=shape, groups=[list(tiles(shape))], needs=self._needs,
                       loaded=self._loaded)

    def decide(self, stage: Chooser) -> tuple[Sizes, Pair]:
        """Return the tile, and the one tap."""
        return tile_elements(stage, self.tilings)

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them, with the largest tiles that fit. Raises VtaError if none fits.

        Decisions: those of `vtakit.compiler.nn.vta.tiles.decided`.
        """
        sizes, _ = self.decide(self.stage(s))
        out, _, inner, _ = self.tail.tile(s, sizes)
        for operand in self.lifted:
            operand.schedule(s, out, inner)
        if self.zeros[1]:
            s[self.second].set_scope("acc")
            s[self.second].compute_at(out, inner)

    def _parts(self, sizes: Sizes) -> tuple[int, int]:
        """Elements of either tensor for a tile."""
        a, b = (prod(min(size, whole) for size, whole in zip(sizes, operand.shape, strict=False)) for operand in self.lifted)
        return a, b

    def _loaded(self, chunk: Pair, sizes: Sizes) -> int:
        return sum(self._parts(sizes))

    def _needs(self, chunk: Pair, sizes: Sizes) -> dict[str, int]:
        parts = self._parts(sizes)
        lifted = sum(part * operand.stages for part, operand in zip(parts, self.lifted, strict=True))
        lifted += parts[1] * bool(self.zeros[1])
        values = prod(sizes) * (1 + len(self.epilogue.elements)) + sizes[1] * self.epilogue.channel_elements
        return {"acc": lifted + values, "inp": self._loaded(chunk, sizes), "wgt": 2}
