"""Calls that all lanes of a warp, or of a warpgroup, make together; calls of asynchronous copies.

Before fragments become registers a call names logical tiles, each by the address of its first element and the elements from one
row to the next, and runs once for all lanes:

    fill_tile(d, rows, columns, ldd, value)                      d[i, j] = value
    load_tile(d, s, rows, columns, ldd, lds)                     d[i, j] = s[i, j]
    mma_tile(shape, d, a, b, ldd, lda, ldb, turned)              d[i, j] += sum over k of a[i, k] * b[k, j]
    wgmma_tile(shape, d, a, b, ldd, lda, ldb, turned_a, turned_b)   the same; a and b in shared memory

`shape` is as in "m16n8k16". `turned`: rows of b are n instead of k; `turned_a`: rows of a are k. Then a call names registers,
each lane its own, and for shared memory the row that the lane is to give (PTX ISA, "ldmatrix"):

    ldmatrix(turned, s, d0 [, d1 [, d2, d3]])                    one 8 x 16 byte matrix for each d
    mma_sync(shape, d, a, b)
    wgmma(shape, d, a, b, lda, ldb, turned_a, turned_b [, swizzle_a, swizzle_b])   as wgmma_tile, d in registers

Products of a warpgroup go on while its threads do: d may be read, and a and b be written again, only after a wait.

    wgmma_fence()                           d is ready for the products that follow
    wgmma_commit()                          products since the last commit become the newest group
    wgmma_wait(n, a, count…)                all but the n newest groups are done, those that read `count` elements at a, too

float32 operands are rounded towards zero to the 10 fraction bits that tf32 has, as the hardware does.

    async_copy(d, s, count [, condition])   count elements of 4, 8 or 16 bytes together; zeros where the condition does not hold
    async_commit()                          the thread's copies since the last commit become its newest group
    async_wait(n, d, count…)                all but the n newest groups of the thread are there, those to `count` elements at d
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtakit.compiler.ir.fragments import FRAGMENTS, REGISTER_BYTES, Fragment
from vtakit.compiler.ir.layouts import swizzled_place

Array = "np.ndarray[Any, Any]"
TF32_MASK = 0xFFFFE000  # of a float32's bits
COPY_BYTES = (4, 8, 16)  # of one asynchronous copy


@dataclass(frozen=True, slots=True)
class WarpCall:
    """A call that several threads make together.

    lanes : how many, or 0 where the fragment of the first address decides
    whole : whether `run` takes one lane's arguments, which are all lanes'; else it takes a list of arguments, a lane each
    run   : meaning; addresses are indexed as arrays are
    """

    name: str
    lanes: int
    whole: bool
    run: Callable[..., None]


def parsed(shape: str) -> tuple[int, int, int]:
    """Return (m, n, k) of a shape such as "m16n8k16"."""
    m, rest = shape.removeprefix("m").split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _taken(p: Any, rows: int, columns: int, stride: int) -> Any:
    return np.array([[_number(p[i * stride + j]) for j in range(columns)] for i in range(rows)], p.kind)


def _number(value: Any) -> Any:
    """Return a number as it is; what is none says so itself when it becomes a float."""
    return value if isinstance(value, int | float | np.generic) else float(value)


def _put(p: Any, values: Any, stride: int) -> None:
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            p[i * stride + j] = value


def _fill_tile(d: Any, rows: int, columns: int, ldd: int, value: Any) -> None:
    _put(d, np.full((rows, columns), value, d.kind), ldd)


def _load_tile(d: Any, s: Any, rows: int, columns: int, ldd: int, lds: int) -> None:
    for i in range(rows):
        for j in range(columns):
            d[i * ldd + j] = s[i * lds + j]


def product(d: Any, a: Any, b: Any) -> Any:
    """Return ``d + a @ b`` of arrays in d's type, operands of float32 cut to tf32."""
    kind = d.dtype
    if kind.kind == "i":
        return (d.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(kind)  # wraps
    a, b = (_cut(x) if x.dtype == np.float32 else x for x in (a, b))
    return (d + a.astype(np.float32) @ b.astype(np.float32)).astype(kind)


def _cut(x: Any) -> Any:
    return (x.view(np.uint32) & np.uint32(TF32_MASK)).view(np.float32)


def _mma_tile(shape: str, d: Any, a: Any, b: Any, ldd: int, lda: int, ldb: int, turned: int) -> None:
    _multiply(shape, d, a, b, (ldd, lda, ldb), (0, turned))


def _wgmma_tile(shape: str, d: Any, a: Any, b: Any, ldd: int, lda: int, ldb: int, turned_a: int, turned_b: int) -> None:
    _multiply(shape, d, a, b, (ldd, lda, ldb), (turned_a, turned_b))


def _multiply(shape: str, d: Any, a: Any, b: Any, strides: Sequence[int], turned: Sequence[int]) -> None:
    m, n, k = parsed(shape)
    left = _taken(a, k, m, strides[1]).T if turned[0] else _taken(a, m, k, strides[1])
    right = _taken(b, n, k, strides[2]).T if turned[1] else _taken(b, k, n, strides[2])
    _put(d, product(_taken(d, m, n, strides[0]), left, right), strides[0])


# In registers: `lanes` is a list of each lane's arguments.

def _gathered(pointers: Sequence[Any], fragment: Fragment, columns: int = 0) -> Any:
    """Return the tile, or the tiles beside each other, that lanes hold."""
    tiles = (columns or fragment.columns) // fragment.columns
    found = np.zeros((fragment.rows, tiles * fragment.columns), pointers[0].kind)
    for lane, p in enumerate(pointers):
        for at in range(tiles * fragment.elements):
            row, column = fragment.place(lane, at % fragment.elements)
            found[row, at // fragment.elements * fragment.columns + column] = _number(p[at])
    return found


def _scattered(pointers: Sequence[Any], fragment: Fragment, values: Any) -> None:
    tiles = values.shape[1] // fragment.columns
    for lane, p in enumerate(pointers):
        for at in range(tiles * fragment.elements):
            row, column = fragment.place(lane, at % fragment.elements)
            p[at] = values[row, at // fragment.elements * fragment.columns + column]


def _mma_sync(lanes: Sequence[Sequence[Any]]) -> None:
    d, a, b = ([lane[at] for lane in lanes] for at in (1, 2, 3))
    bits = 8 * a[0].kind.itemsize
    left, right = (_gathered(p, FRAGMENTS[scope, bits]) for p, scope in ((a, "mma.a"), (b, "mma.b")))
    sums = FRAGMENTS["mma.c", 32]
    _scattered(d, sums, product(_gathered(d, sums), left, right))


def _ldmatrix(lanes: Sequence[Sequence[Any]]) -> None:
    """Lane 8 q + r gives row r of matrix q; lane l gets a register's elements: of row l // 4, or of column l // 4 if turned."""
    turned, count = lanes[0][0], len(lanes[0]) - 2
    packed = REGISTER_BYTES // lanes[0][1].kind.itemsize
    for q in range(count):
        rows = [[lanes[8 * q + r][1][i] for i in range(4 * packed)] for r in range(8)]
        for lane, args in enumerate(lanes):
            for i in range(packed):
                at = lane % 4 * packed + i
                args[2 + q][i] = rows[at][lane // 4] if turned else rows[lane // 4][at]


def wgmma_operands(lanes: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Return a and b of a warpgroup's product as shared memory has them now."""
    shape, _, a, b, lda, ldb, turned_a, turned_b, *layouts = lanes[0]
    m, n, k = parsed(shape)
    of_a, of_b = layouts or (0, 0)
    left = _described(a, k, m, lda, of_a).T if turned_a else _described(a, m, k, lda, of_a)
    return left, _described(b, n, k, ldb, of_b).T if turned_b else _described(b, k, n, ldb, of_b)


def _wgmma(lanes: Sequence[Sequence[Any]]) -> None:
    d, sums = [lane[1] for lane in lanes], FRAGMENTS["wgmma.c", 32]
    _scattered(d, sums, product(_gathered(d, sums, parsed(lanes[0][0])[1]), *wgmma_operands(lanes)))


def _described(p: Any, rows: int, columns: int, stride: int, swizzle: int) -> Any:
    """Return a tile of shared memory as the hardware finds it: it swizzles the place of each element."""
    if not swizzle:
        return _taken(p, rows, columns, stride)
    each = p.kind.itemsize
    return np.array([[_number(p[swizzled_place(p.at + i * stride + j, swizzle, each) - p.at]) for j in range(columns)]
                     for i in range(rows)], p.kind)


def sums_of_lane(shape: str) -> int:
    """Return how many sums of a wgmma each lane holds."""
    return parsed(shape)[1] // FRAGMENTS["wgmma.c", 32].columns * FRAGMENTS["wgmma.c", 32].elements


def _nothing(lanes: Sequence[Sequence[Any]]) -> None:
    """Order of products, which `vtakit.compiler.lower.interpreter.warps` keeps."""


WARP_CALLS = {call.name: call for call in (
    WarpCall("fill_tile", 0, True, _fill_tile), WarpCall("load_tile", 0, True, _load_tile),
    WarpCall("mma_tile", 32, True, _mma_tile), WarpCall("wgmma_tile", 128, True, _wgmma_tile),
    WarpCall("ldmatrix", 32, False, _ldmatrix), WarpCall("mma_sync", 32, False, _mma_sync),
    WarpCall("wgmma", 128, False, _wgmma), WarpCall("wgmma_commit", 128, False, _nothing),
    WarpCall("wgmma_wait", 128, False, _nothing), WarpCall("wgmma_fence", 128, False, _nothing),
)}
PRODUCT_CALLS = ("wgmma", "wgmma_commit", "wgmma_wait")
TILE_CALLS = tuple(name for name, call in WARP_CALLS.items() if call.whole)
