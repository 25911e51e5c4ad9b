"""How operators that need no chosen reduction are cut into tiles: the largest that fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.blocking import even_sizes

Sizes = tuple[int, int, int, int]  # images, blocks, rows, columns of a tile
PER_TILE = 16  # elements that could be loaded in the time that a tile takes beside its elements, measured


def tiles(shape: Sequence[int], whole: tuple[int, int] = (1, 1)) -> Iterator[Sizes]:
    """Tiles of parts of a row, of whole rows, or of whole images, ascending.

    shape : images, blocks, rows, columns of the result
    whole : rows and columns that should not be cut; a tile that is not the result's whole height or width has multiples of them
    """
    images, blocks, height, width = shape
    rows, columns = (sorted({min(-(-n // step) * step, size) for n in even_sizes(size)})
                     for size, step in zip((height, width), whole, strict=True))
    areas = [(rows[0], n) for n in columns] + [(n, width) for n in rows]
    for block, area in product(even_sizes(blocks), areas):
        yield 1, block, *area
    yield from ((n, blocks, height, width) for n in even_sizes(images))


def largest(
    target: Target, name: str, shape: Sequence[int], candidates: Sequence[Sizes], needs: Callable[[Sizes], Mapping[str, int]],
    loaded: Callable[[Sizes], int],
) -> Sizes:
    """The tile that fits, in as many copies as the target has or as can be, and should take least time.

    That is the time of loads, and of one tile's load and store, which nothing hides.

    needs  : elements of each scratchpad for one copy of a tile
    loaded : elements that are loaded for a tile

    Raises VtaError if not even the smallest tile fits.
    """
    def cost(sizes: Sizes) -> int:
        count = prod(-(-whole // size) for whole, size in zip(shape, sizes, strict=False))
        return count * (loaded(sizes) + PER_TILE) + loaded(sizes) + prod(sizes)
    for copies in range(target.copies, 0, -1):
        fitting = [c for c in candidates if all(n * copies <= target.depth(scope) for scope, n in needs(c).items())]
        if fitting:
            return min(fitting, key=cost)
    scope, need = next((scope, n) for scope, n in needs(candidates[0]).items() if n > target.depth(scope))
    raise VtaError(f"{name}: the {need} elements of its smallest tile do not fit the {target.depth(scope)} of the {scope} "
                   "scratchpad; enlarge it")


def in_parts(
    target: Target, name: str, shape: Sequence[int], taps: tuple[int, int], candidates: Sequence[Sequence[Sizes]],
    needs: Callable[[tuple[int, int], Sizes], Mapping[str, int]], loaded: Callable[[tuple[int, int], Sizes], int],
) -> tuple[Sizes, tuple[int, int]]:
    """The tile, and how many taps (down, across) of a window at once: all of them, else some of its rows, else some of a row.

    candidates : tiles to choose from, and others for where none of those fits

    Raises VtaError if not even the smallest tile fits, with one tap at a time.
    """
    chunks = [(n, taps[1]) for n in reversed(even_sizes(taps[0]))] + [(1, n) for n in reversed(even_sizes(taps[1]))]
    for chunk, some in product(chunks, candidates):
        try:
            return largest(target, name, shape, some, partial(needs, chunk), partial(loaded, chunk)), chunk
        except VtaError:
            if chunk == chunks[-1] and some is candidates[-1]:
                raise
    raise AssertionError("there is always a chunk")
