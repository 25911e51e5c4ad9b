"""Fragments: logical tiles whose elements lie in registers of a warp's 32 lanes, or of a warpgroup's 128.

A buffer whose scope names a fragment is cut into tiles along its last two dimensions. A tile's element at (row, column) lies in
one register of one lane: `Fragment.place` and `Fragment.owner` say which, and are each other's inverse. Both work on integers and
on expressions. The maps are those of the PTX ISA ("Warp-level matrix instructions", "Asynchronous warpgroup-level matrix
instructions"), with elements of one 32-bit register side by side.

    scope        tile                    held by        registers (32 bits) of a lane
    mma.a        16 rows x 32 bytes      32 lanes       4      a of mma.sync, rows are m, columns k
    mma.b        32 bytes x 8 columns    32 lanes       2      b of mma.sync, rows are k, columns n
    mma.bt       8 rows x 32 bytes       32 lanes       2      the same, rows are n, columns k
    mma.c        16 x 8 of 32 bits       32 lanes       4      sums of mma.sync
    wgmma.c      64 x 8 of 32 bits       128 lanes      4      sums of wgmma; n columns are n / 8 tiles
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.values import int_value

REGISTER_BYTES = 4
Pair = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A tile in registers.

    scope    : of the buffers that are made of such tiles
    rows, columns : of a tile
    lanes    : threads that hold one tile together, consecutive ones from a multiple of `lanes` on
    elements : of a tile in each lane
    packed   : elements of one 32-bit register
    place    : (lane, element) -> (row, column)
    owner    : (row, column) -> (lane, element)
    """

    scope: str
    rows: int
    columns: int
    lanes: int
    elements: int
    packed: int
    place: Callable[[Any, Any], Pair]
    owner: Callable[[Any, Any], Pair]


def _a(packed: int) -> Fragment:
    half = 4 * packed  # columns of one register's four lanes

    def place(lane: Any, element: Any) -> Pair:
        register = element // packed
        return lane // 4 + register % 2 * 8, lane % 4 * packed + element % packed + register // 2 * half

    def owner(row: Any, column: Any) -> Pair:
        register = row // 8 + column // half * 2
        return row % 8 * 4 + column % half // packed, register * packed + column % packed
    return Fragment("mma.a", 16, 2 * half, 32, 4 * packed, packed, place, owner)


def _b(packed: int, *, turned: bool) -> Fragment:
    half = 4 * packed

    def place(lane: Any, element: Any) -> Pair:
        k, n = lane % 4 * packed + element % packed + element // packed * half, lane // 4
        return (n, k) if turned else (k, n)

    def owner(row: Any, column: Any) -> Pair:
        n, k = (row, column) if turned else (column, row)
        return n * 4 + k % half // packed, k // half * packed + k % packed
    shape = (8, 2 * half) if turned else (2 * half, 8)
    return Fragment("mma.bt" if turned else "mma.b", *shape, 32, 2 * packed, packed, place, owner)


def _c(scope: str, warps: int) -> Fragment:
    def place(lane: Any, element: Any) -> Pair:
        row = lane % 32 // 4 + element // 2 * 8
        return (row + lane // 32 * 16 if warps > 1 else row), lane % 4 * 2 + element % 2

    def owner(row: Any, column: Any) -> Pair:
        lane = row % 8 * 4 + column // 2
        return (lane + row // 16 * 32 if warps > 1 else lane), row // 8 % 2 * 2 + column % 2
    return Fragment(scope, 16 * warps, 8, 32 * warps, 4, 1, place, owner)


# (scope, bits of an element) -> the fragment.
FRAGMENTS: dict[tuple[str, int], Fragment] = {
    **{("mma.a", bits): _a(32 // bits) for bits in (8, 16, 32)},
    **{("mma.b", bits): _b(32 // bits, turned=False) for bits in (8, 16, 32)},
    **{("mma.bt", bits): _b(32 // bits, turned=True) for bits in (8, 16, 32)},
    ("mma.c", 32): _c("mma.c", 1), ("wgmma.c", 32): _c("wgmma.c", 4),
}
SCOPES = tuple(dict.fromkeys(scope for scope, _ in FRAGMENTS))


def is_fragment(scope: str) -> bool:
    """Return whether buffers of a scope are fragments."""
    return scope in SCOPES


def lanes_of(scope: str) -> int:
    """Return how many threads hold a tile of a fragment's scope together."""
    return next(found.lanes for (name, _), found in FRAGMENTS.items() if name == scope)


def threads_of(scope: str) -> tuple[str, ...]:
    """Return the thread axes whose indices are lanes of a fragment's scope, together."""
    return ("threadIdx.x", "threadIdx.y") if lanes_of(scope) > 32 else ("threadIdx.x",)


def fragment_of(buffer: Buffer) -> Fragment | None:
    """Return the fragment of which a buffer is made; None if its scope or its type has none."""
    return FRAGMENTS.get((buffer.scope, buffer.dtype.bits)) if buffer.dtype.lanes == 1 else None


def grid_of(buffer: Buffer, fragment: Fragment) -> tuple[int, ...] | None:
    """Return the number of tiles of a buffer in each dimension; None if it does not consist of whole tiles."""
    sizes = [int_value(extent) for extent in buffer.shape]
    if len(sizes) < 2 or None in sizes or buffer.strides:
        return None
    *outer, rows, columns = [size for size in sizes if size is not None]
    if rows % fragment.rows or columns % fragment.columns:
        return None
    return *outer, rows // fragment.rows, columns // fragment.columns


def place_in(buffer: Buffer, fragment: Fragment, indices: tuple[Any, ...]) -> Pair:
    """Return the lane that holds a buffer's element, and which of the lane's elements of the buffer it is.

    Tiles follow each other in row-major order. `indices` are integers or expressions.
    """
    grid = grid_of(buffer, fragment)
    assert grid is not None, f"{buffer} consists of whole tiles"
    *outer, row, column = indices
    tile: Any = 0
    for index, extent in zip((*outer, row // fragment.rows, column // fragment.columns), grid, strict=True):
        tile = tile * extent + index
    lane, element = fragment.owner(row % fragment.rows, column % fragment.columns)
    return lane, tile * fragment.elements + element
