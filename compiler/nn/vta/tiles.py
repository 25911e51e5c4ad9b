"""Tiling of operators without a reduction to split: the largest tiles that fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.blocking import even_sizes
from vtakit.compiler.schedule.decisions import Chooser, Plain

Sizes = tuple[int, int, int, int]  # images, blocks, rows, columns of a tile
PER_TILE = 16  # elements that could be loaded in the time that a tile takes beside its elements, measured


def tiles(shape: Sequence[int], whole: tuple[int, int] = (1, 1), *, cut_both: bool = False) -> Iterator[Sizes]:
    """Tiles of parts of a row, of whole rows, or of whole images, ascending.

    shape    : images, blocks, rows, columns of the result
    whole    : rows and columns that should not be cut; a tile less than the result's height or width has multiples of them
    cut_both : tiles of parts of some rows, too: where a tile also loads what lies around it, squares load least
    """
    images, blocks, height, width = shape
    rows, columns = (sorted({min(-(-n // step) * step, size) for n in even_sizes(size)})
                     for size, step in zip((height, width), whole, strict=True))
    areas = [*product(rows, columns)] if cut_both else [(rows[0], n) for n in columns] + [(n, width) for n in rows]
    for block, area in product(even_sizes(blocks), areas):
        yield 1, block, *area
    yield from ((n, blocks, height, width) for n in even_sizes(images))


Pair = tuple[int, int]
Needs = Callable[[Pair, Sizes], Mapping[str, int]]  # elements of each scratchpad for one copy of a tile, by the taps at once
Loaded = Callable[[Pair, Sizes], int]  # elements that are loaded for a tile


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilings:
    """The tiles of an operator, and how many taps of its window are in the accumulator at once.

    name   : of the operator, for errors
    shape  : of the result
    groups : tiles to choose from, and others for where none of those fits
    needs, loaded : of a tile with so many taps at once
    taps   : of the window
    """

    target: Target
    name: str
    shape: Sequence[int]
    groups: Sequence[Sequence[Sizes]]
    needs: Needs
    loaded: Loaded
    taps: Pair = (1, 1)
    _known: dict[tuple[Pair, int], list[list[Sizes]]] = field(default_factory=dict)
    _needed: dict[tuple[Pair, Sizes], Mapping[str, int]] = field(default_factory=dict)
    _best: dict[tuple[Pair, int], Sizes] = field(default_factory=dict)

    @cached_property
    def chunks(self) -> list[Pair]:
        """Taps (down, across) at once, from all of them to a single one."""
        down, across = self.taps
        every = [(n, across) for n in reversed(even_sizes(down))] + [(1, n) for n in reversed(even_sizes(across))]
        return [*dict.fromkeys(every)]

    @cached_property
    def able(self) -> list[Pair]:
        """The chunks with which a tile fits. Raises VtaError if not even the smallest tile fits, with one tap at a time."""
        found = [chunk for chunk in self.chunks if self.fitting(chunk, 1)]
        if not found:
            needs = self.needs(self.chunks[-1], self.groups[-1][0])
            scope, need = next((scope, n) for scope, n in needs.items() if n > self.target.depth(scope))
            raise VtaError(f"{self.name}: the {need} elements of its smallest tile do not fit the {self.target.depth(scope)} of "
                           f"the {scope} scratchpad; enlarge it")
        return found

    @property
    def first(self) -> Pair:
        """The chunk that is taken by default."""
        return self.able[0]

    def fitting(self, chunk: Pair, copies: int) -> list[list[Sizes]]:
        """Return the groups with the tiles that fit, without empty groups."""
        if (chunk, copies) not in self._known:
            found = [[tile for tile in group if self._fits(chunk, tile, copies)] for group in self.groups]
            self._known[chunk, copies] = [group for group in found if group]
        return self._known[chunk, copies]

    def copies(self, chunk: Pair) -> tuple[list[int], int]:
        """Return the numbers of copies for which a tile fits, and the largest with a tile of the group of a single copy."""
        counts = [count for count in range(1, self.target.copies + 1) if self.fitting(chunk, count)]
        first = self.fitting(chunk, 1)[0]
        return counts, max(count for count in counts if any(self._fits(chunk, tile, count) for tile in first))

    def best(self, chunk: Pair, copies: int) -> Sizes:
        """Return the tile whose loads, and the load and store of one tile, which nothing hides, should take least time."""
        if (chunk, copies) not in self._best:
            self._best[chunk, copies] = min(self.fitting(chunk, copies)[0], key=partial(self._cost, chunk))
        return self._best[chunk, copies]

    def _cost(self, chunk: Pair, sizes: Sizes) -> int:
        count, loaded = prod(-(-whole // size) for whole, size in zip(self.shape, sizes, strict=False)), self.loaded(chunk, sizes)
        return count * (loaded + PER_TILE) + loaded + prod(sizes)

    def _fits(self, chunk: Pair, tile: Sizes, copies: int) -> bool:
        if (chunk, tile) not in self._needed:
            self._needed[chunk, tile] = self.needs(chunk, tile)
        return all(count * copies <= self.target.depth(scope) for scope, count in self._needed[chunk, tile].items())


def tile_elements(stage: Chooser, tilings: Tilings) -> tuple[Sizes, Pair]:
    """Return the tile of an operator, and how many taps (down, across) of its window are in the accumulator at once.

    stage : of the result, which has the decisions: chunk, the taps at once: by default all of them, else some of the rows, else
            some of a row; copies, for how many of a tile there is room; tile, its images, blocks, rows and columns

    Raises VtaError if not even the smallest tile fits, with one tap at a time.
    """
    ask = partial(stage.choose, rule="tile_elements")
    able = tilings.able
    down, across = ask("chunk", able, tilings.first)
    chunk = down, across
    copies = ask("copies", *tilings.copies(chunk))
    every = dict.fromkeys(tile for group in tilings.fitting(chunk, copies) for tile in group)
    images, blocks, rows, columns = ask("tile", Plain(map(list, every)), tilings.best(chunk, copies))
    return (images, blocks, rows, columns), chunk
