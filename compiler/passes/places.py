"""Elements of memory that calls of lanes and asynchronous copies touch."""

from dataclasses import dataclass, replace

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Call, Expr, Load, StringImm
from vtakit.compiler.ir.layouts import CHUNK
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.warp_calls import parsed


@dataclass(frozen=True, slots=True)
class Place:
    """`count` neighbouring elements of a flat buffer from an index on; None if it is not known how many."""

    buffer: Buffer
    index: Expr
    count: int | None
    writes: bool


def places_of(e: Call) -> list[Place] | None:
    """Return what a declared call touches for one thread; None for a call whose addresses alone say it.

    Registers, which only their thread sees, are left out.
    """
    match e.name:
        case "async_copy":
            count = int_value(e.args[2])
            return [_place(e.args[0], count, writes=True), _place(e.args[1], count, writes=False)]
        case "async_wait":  # what arrives may be read only after it
            pairs = zip(e.args[1::2], e.args[2::2], strict=True)
            return [_place(address, int_value(count), writes=True) for address, count in pairs]
        case "wgmma_wait":  # what was read up to it
            pairs = zip(e.args[1::2], e.args[2::2], strict=True)
            return [_place(address, int_value(count), writes=False) for address, count in pairs]
        case "ldmatrix":
            found = _place(e.args[1], None, writes=False)
            return [replace(found, count=CHUNK // found.buffer.dtype.bytes)]
        case "wgmma":
            shape, _, a, b, *rest = e.args[:8]
            assert isinstance(shape, StringImm)
            m, n, k = parsed(shape.value)
            lda, ldb, turned_a, turned_b = [int_value(arg) for arg in rest]
            sides = ((a, lda, (k, m) if turned_a else (m, k)), (b, ldb, (n, k) if turned_b else (k, n)))
            return [_place(address, None if ld is None else (rows - 1) * ld + columns, writes=False)
                    for address, ld, (rows, columns) in sides]
        case "mma_sync" | "async_commit" | "wgmma_fence" | "wgmma_commit":
            return []
    return None


def _place(address: Expr, count: int | None, *, writes: bool) -> Place:
    assert isinstance(address, Call)
    load = address.args[0]
    assert isinstance(load, Load)
    return Place(load.buffer, load.indices[0], count, writes)
