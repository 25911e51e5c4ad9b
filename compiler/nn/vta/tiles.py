"""Tiling of operators without a reduction to split: the largest tiles that fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.blocking import even_sizes
from vtakit.compiler.schedule.stage import Stage

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


def tile_elements(
    stage: Stage, target: Target, shape: Sequence[int], groups: Sequence[Sequence[Sizes]], needs: Needs, loaded: Loaded,
    taps: Pair = (1, 1),
) -> tuple[Sizes, Pair]:
    """Return the tile of an operator, and how many taps (down, across) of its window are in the accumulator at once.

    stage  : of the result, which has the decisions: chunk, the taps at once: by default all of them, else some of the rows, else
             some of a row; copies, for how many of a tile there is room; tile, its images, blocks, rows and columns: by default
             the one whose loads, and the load and store of one tile, which nothing hides, should take least time
    shape  : of the result
    groups : tiles to choose from, and others for where none of those fits
    taps   : of the window

    Raises VtaError if not even the smallest tile fits, with one tap at a time.
    """
    def cost(chunk: Pair, sizes: Sizes) -> int:
        count = prod(-(-whole // size) for whole, size in zip(shape, sizes, strict=False))
        return count * (loaded(chunk, sizes) + PER_TILE) + loaded(chunk, sizes) + prod(sizes)

    def fitting(chunk: Pair, copies: int) -> list[list[Sizes]]:
        """Return the groups with the tiles that fit, without empty groups."""
        found = [[tile for tile in group if _fits(target, needs(chunk, tile), copies)] for group in groups]
        return [group for group in found if group]
    ask = partial(stage.choose, rule="tile_elements")
    every = [(n, taps[1]) for n in reversed(even_sizes(taps[0]))] + [(1, n) for n in reversed(even_sizes(taps[1]))]
    chunks = [chunk for chunk in dict.fromkeys(every) if fitting(chunk, 1)]
    if not chunks:
        scope, need = next((scope, n) for scope, n in needs(every[-1], groups[-1][0]).items() if n > target.depth(scope))
        raise VtaError(f"{stage.op.name}: the {need} elements of its smallest tile do not fit the {target.depth(scope)} of the "
                       f"{scope} scratchpad; enlarge it")
    down, across = ask("chunk", chunks, chunks[0]) if len(every) > 1 else chunks[0]
    chunk = down, across
    first = fitting(chunk, 1)[0]
    counts = [count for count in range(1, target.copies + 1) if fitting(chunk, count)]
    default = max(count for count in counts if any(_fits(target, needs(chunk, tile), count) for tile in first))
    found = fitting(chunk, ask("copies", counts, default))
    images, blocks, rows, columns = ask(
        "tile", [*dict.fromkeys(tile for group in found for tile in group)], min(found[0], key=partial(cost, chunk)))
    return (images, blocks, rows, columns), chunk


def _fits(target: Target, needs: Mapping[str, int], copies: int) -> bool:
    return all(count * copies <= target.depth(scope) for scope, count in needs.items())
