"""Sizes that stay open until a model runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from vtakit.base.limits import MAX_DIM, check_name
from vtakit.compiler.frontend.errors import ModelError


@dataclass(frozen=True, slots=True, repr=False)
class Dim:
    """A size that a run decides: see `dim`."""

    name: str
    low: int = 0
    high: int = MAX_DIM
    ahead: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.high == MAX_DIM:
            return f"{self.name} ≥ {self.low}" if self.low else self.name
        return f"{self.name} from {self.low} to {self.high}"

    def __repr__(self) -> str:
        ends = (self.low,) if self.high == MAX_DIM else (self.low, self.high)
        words = [repr(self.name), *map(str, ends if any(ends) else ()), *([f"ahead={self.ahead}"] if self.ahead else [])]
        return f"vtakit.dim({', '.join(words)})"


def dim(name: str, low: int = 0, high: int | None = None, *, ahead: Iterable[int] = ()) -> Dim:
    """Return a size that stays open: a module is compiled for each size when a run first has it.

    ::

        module = vtakit.compile("bert.onnx", shapes={"ids": (1, vtakit.dim("n", 1, 512, ahead=(128,)))})

    name      : equal names are equal sizes, in one input and in several
    low, high : the sizes that runs may have, both ends among them; any if they are left out
    ahead     : sizes to compile at once; with several such names, for all their combinations

    Raises ModelError for what is no name, no range, or a size outside it.
    """
    if not isinstance(name, str) or not name:
        raise ModelError(f"vtakit.dim({name!r}): a size that stays open has a name, such as 'batch'")
    check_name(name, "the size")
    sizes = tuple(ahead) if isinstance(ahead, Iterable) else (ahead,)
    for size in (low, MAX_DIM if high is None else high, *sizes):
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 0:
            raise ModelError(f"vtakit.dim({name!r}, …): {size!r} is no size: give whole numbers from 0 up")
    found = Dim(name, int(low), MAX_DIM if high is None else int(high), tuple(dict.fromkeys(map(int, sizes))))
    if found.low > found.high:
        raise ModelError(f"vtakit.dim({name!r}, {low}, {high}): no size is from {low} to {high}")
    for size in found.ahead:
        if not found.low <= size <= found.high:
            raise ModelError(f"vtakit.dim({name!r}, …): ahead={size} is not from {found.low} to {found.high}")
    return found


def dims_of(shapes: object, batch: object) -> list[Dim]:
    """Return the sizes of `shapes` and the batch that are to stay open."""
    values = shapes.values() if isinstance(shapes, Mapping) else ()
    sizes = [size for shape in values if isinstance(shape, Sequence) for size in shape]
    return [size for size in (*sizes, batch) if isinstance(size, Dim)]


def check_closed(shapes: object, batch: object, what: str) -> None:
    """Raise ModelError if a size is to stay open; the message says that `what` needs one set of sizes."""
    for size in dims_of(shapes, batch)[:1]:
        raise ModelError(f"{size.name!r} is a size that stays open, and {what} for one set of sizes: give a number for it, with "
                         "shapes= or batch= (--shape, --batch)")


def described(given: Dim) -> list[Any]:
    """Return a size as plain data."""
    return [given.name, given.low, given.high, list(given.ahead)]


def parsed(given: Any) -> Dim:
    """Return the size that `described` described. Raises ModelError, ValueError or TypeError for other data."""
    name, low, high, ahead = given
    return dim(name, low, high, ahead=ahead)
