"""Boxes of memory elements as LOAD and STORE instructions: two dimensions, with pads around."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import FORMATS, Opcode

_HIGHEST = {place.field.name: place.high for place in FORMATS[Opcode.LOAD].place(DEFAULT)}  # the same in any configuration
MOST_SIZE = _HIGHEST["x_size"]  # rows of an instruction, and elements of a row; a scratchpad may hold more
MOST_PADS = _HIGHEST["x_pad_0"]  # rows or elements that an instruction adds on one side
MOST_PITCH = _HIGHEST["x_stride"]  # elements from one row in DRAM to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """One dimension of a box of elements.

    extent        : of the box in the scratchpad, pads included
    sram, dram    : steps, in elements
    before, after : how much of the extent are pads, which DRAM does not have
    """

    extent: int
    sram: int
    dram: int
    before: int = 0
    after: int = 0

    @property
    def size(self) -> int:
        """Elements that DRAM has."""
        return self.extent - self.before - self.after

    @property
    def padded(self) -> bool:
        return bool(self.before or self.after)

    def followed_by(self, inner: "Dim") -> bool:
        """Return whether a step of this dimension starts where `inner` ends, in both memories."""
        plain = not self.padded and not inner.padded
        return plain and self.sram == inner.extent * inner.sram and self.dram == inner.extent * inner.dram


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The fields of a LOAD or STORE but its memory type; `sram_base` and `dram_base` in elements."""

    sram_base: int
    dram_base: int = 0
    y_size: int = 1
    x_size: int = 1
    x_stride: int = 0
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    @property
    def padded(self) -> bool:
        """Return whether it writes pads."""
        return bool(self.y_pad_0 or self.y_pad_1 or self.x_pad_0 or self.x_pad_1)

    @property
    def elements(self) -> int:
        """Scratchpad elements that it touches from `sram_base` on."""
        return (self.y_pad_0 + self.y_size + self.y_pad_1) * (self.x_pad_0 + self.x_size + self.x_pad_1)

    def behind(self, sram: int, dram: int) -> "Move":
        """Return the same move, `sram` and `dram` elements further on."""
        return Move(
            sram_base=sram + self.sram_base, dram_base=dram + self.dram_base if self.y_size else 0, y_size=self.y_size,
            x_size=self.x_size, x_stride=self.x_stride, y_pad_0=self.y_pad_0, y_pad_1=self.y_pad_1, x_pad_0=self.x_pad_0,
            x_pad_1=self.x_pad_1,
        )


def moves(dims: Sequence[Dim], sram: int, dram: int) -> Iterator[Move]:
    """The instructions that move a box between the element `sram` and the element `dram`, its first one that is no pad.

    A row is a run of elements that lie together in both memories; rows that follow each other in the scratchpad go into one
    instruction, and what remains is a loop around.
    """
    for move in _moves(tuple(dims)):
        yield move.behind(sram, dram)


@lru_cache(maxsize=1024)
def _moves(dims: tuple[Dim, ...]) -> tuple[Move, ...]:
    """The moves of a box that begins at element 0 of both memories: programs move few kinds of boxes, many times each."""
    return tuple([part for move in _box(dims) for part in _within_fields(move)])


def _within_fields(move: Move) -> Iterator[Move]:
    """The instructions of a move. One of too long a row has no other row, and one of too many rows has one element in each: a
    scratchpad holds one element more than the fields count.
    """
    if move.x_size > MOST_SIZE:
        first = replace(move, x_size=MOST_SIZE, x_pad_1=0)
        after = replace(move, x_size=move.x_size - MOST_SIZE, x_pad_0=0)
    elif move.y_size > MOST_SIZE:
        first = replace(move, y_size=MOST_SIZE, y_pad_1=0)
        after = replace(move, y_size=move.y_size - MOST_SIZE, y_pad_0=0)
    else:
        yield move
        return
    skipped = MOST_SIZE * (1 if move.x_size > MOST_SIZE else move.x_stride) if move.y_size else 0
    yield first
    yield replace(after, sram_base=move.sram_base + first.elements, dram_base=move.dram_base + skipped)


def _box(dims: Sequence[Dim]) -> Iterator[Move]:
    rest = [dim for dim in dims if dim.extent != 1 or dim.padded]
    x = _take(rest, lambda d: d.sram == 1 and (d.dram == 1 or not d.size)) or Dim(extent=1, sram=1, dram=1)
    x = _lengthened(x, rest)
    y = _take(rest, lambda d: d.sram == x.extent and 0 <= d.dram <= MOST_PITCH) or Dim(extent=1, sram=x.extent, dram=0)
    y = _lengthened(y, rest)
    for indices in product(*[range(dim.extent) for dim in rest]):
        at = sum(i * dim.sram for i, dim in zip(indices, rest, strict=True))
        if all(dim.before <= i < dim.extent - dim.after for i, dim in zip(indices, rest, strict=True)):
            yield from _rows(y, x, at, sum((i - dim.before) * dim.dram for i, dim in zip(indices, rest, strict=True)))
        else:
            yield _pads(at, y.extent * x.extent)


def _take(dims: list[Dim], fits: Callable[[Dim], bool]) -> Dim | None:
    """The first dimension that fits, taken out of the list."""
    for at, dim in enumerate(dims):
        if fits(dim):
            return dims.pop(at)
    return None


def _lengthened(dim: Dim, others: list[Dim]) -> Dim:
    """The dimension with those that go on where it ends, which are taken out of the list."""
    outer = _take(others, lambda other: other.followed_by(dim))
    return dim if outer is None else _lengthened(replace(dim, extent=dim.extent * outer.extent), others)


def _rows(y: Dim, x: Dim, sram: int, dram: int) -> Iterator[Move]:
    """Rows that follow each other in the scratchpad."""
    if not x.size or not y.size:
        yield _pads(sram, y.extent * x.extent)
        return
    if max(x.before, x.after) > MOST_PADS and (y.extent > 1 or y.padded):
        for row in range(y.extent):
            at = sram + row * x.extent
            if y.before <= row < y.extent - y.after:
                yield from _rows(Dim(extent=1, sram=x.extent, dram=0), x, at, dram + (row - y.before) * y.dram)
            else:
                yield _pads(at, x.extent)
        return
    first = sram
    if y.before > MOST_PADS or x.before > MOST_PADS:
        above = y.before * x.extent + (x.before if x.before > MOST_PADS else 0)
        yield _pads(sram, above)
        first, y, x = sram + above, replace(y, extent=y.extent - y.before, before=0), _without(x, before=True)
    late = y.after > MOST_PADS or x.after > MOST_PADS
    body_x = _without(x, before=False) if x.after > MOST_PADS else x
    body_y = replace(y, extent=y.extent - y.after, after=0) if y.after > MOST_PADS else y
    yield Move(
        sram_base=first, dram_base=dram, y_size=body_y.size, x_size=body_x.size, x_stride=y.dram if body_y.size > 1 else 0,
        y_pad_0=body_y.before, y_pad_1=body_y.after, x_pad_0=body_x.before, x_pad_1=body_x.after,
    )
    if late:
        done = body_y.extent * body_x.extent
        yield _pads(first + done, y.extent * x.extent - done)


def _without(x: Dim, *, before: bool) -> Dim:
    """A row without the pads on one side, if they are too many for an instruction."""
    if before:
        return replace(x, extent=x.extent - x.before, before=0) if x.before > MOST_PADS else x
    return replace(x, extent=x.extent - x.after, after=0)


def _pads(sram: int, count: int) -> Move:
    return Move(sram_base=sram, y_size=0, x_size=count, y_pad_0=1)


@lru_cache(maxsize=4096)
def in_elements(
    extents: tuple[int, ...], steps: tuple[tuple[int, ...], ...], lanes: int
) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Loops over values as loops over memory elements of `lanes` values each: number of the loop, extent, steps in elements.

    steps : of each operand, for each loop; those within an element must be the same for all operands

    Raises UnfitError if an operand's values do not fill whole elements in their order.
    """
    left = {at: [extent, *(operand[at] for operand in steps)] for at, extent in enumerate(extents) if extent != 1}
    reach = 1
    while reach < lanes:
        at = next((at for at, dim in left.items() if dim[1] == reach and all(step == reach for step in dim[2:])), None)
        most = lanes // reach
        if at is None or (left[at][0] % most if left[at][0] > most else most % left[at][0]):
            raise UnfitError(f"it does not touch whole elements of {lanes} values in their order: reorder the stage so that the "
                             "loops over an element's values are its innermost ones")
        if left[at][0] <= most:
            reach *= left.pop(at)[0]
        else:
            left[at] = [left[at][0] // most, *(step * most for step in left[at][1:])]
            reach = lanes
    if any(step % lanes for dim in left.values() for step in dim[1:]):
        raise UnfitError(f"its steps are no multiples of an element of {lanes} values")
    return tuple((at, dim[0], tuple(step // lanes for step in dim[1:])) for at, dim in left.items())
