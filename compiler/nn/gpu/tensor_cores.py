"""Products of matrices on tensor cores: by a warp with mma.sync, by a warpgroup with wgmma, operands copied some steps ahead."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

from vtakit.compiler.intrin.tensor_cores import KINDS, WARP, WARPGROUP_M, Kind, M, N, bind_lanes, load, mma, wgmma
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.layouts import SWIZZLES
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.nn.cpu.flow import Flow, divisors, extent, extents, is_injective
from vtakit.compiler.nn.gpu.grid import MOST_BLOCKS, bind_block, fused
from vtakit.compiler.nn.gpu.machine import GpuMachine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import thread_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation, Tensor

COPY_BYTES = 16  # of one copy
WARPS = 4  # of a warpgroup
MOST_BYTES = 227 << 10  # of a block's shared memory, on the devices that have most
TALL = 16  # tiles of a column of tiles whose blocks run together: they read the same columns from L2


class Operands(NamedTuple):
    """A product for tensor cores: ``c[…, i, j] = sum over r of a[…, i, r] * b[…, r, j]``, or ``b[…, j, r]`` if turned."""

    a: Tensor
    b: Tensor
    turned: bool
    kind: Kind


class Tile(NamedTuple):
    """How a block computes.

    rows, columns : of a block's tile         depth : steps of the reduction in shared memory at a time
    down, across  : warps, or warpgroups, of a block        stages : parts of the reduction in shared memory
    """

    rows: int
    columns: int
    depth: int
    down: int
    across: int
    stages: int

    def bytes(self, kind: Kind) -> int:
        return (self.rows + self.columns) * self.depth * kind.bits // 8 * self.stages


# In the order of preference; a tile is taken where it divides the matrices. Depths are of 16-bit operands.
TILES = (Tile(128, 128, 32, 2, 4, 4), Tile(128, 256, 32, 2, 4, 3), Tile(128, 64, 32, 2, 2, 4), Tile(64, 64, 32, 2, 2, 4),
         Tile(32, 32, 32, 2, 2, 4),
         Tile(32, 16, 32, 2, 1, 4))
GROUP_TILES = (Tile(128, 256, 64, 2, 1, 4), Tile(128, 128, 64, 2, 1, 4), Tile(128, 128, 64, 2, 1, 3),
               Tile(64, 256, 64, 1, 1, 4), Tile(64, 128, 64, 1, 1, 4),
               Tile(64, 64, 64, 1, 1, 4))


def operands_of(anchor: ComputeOp) -> Operands | None:
    """Return the operands of a product that tensor cores can make; None for any other operation."""
    body = anchor.body[0] if anchor.num_outputs == 1 and len(anchor.reduce_axis) == 1 and len(anchor.axis) >= 2 else None
    if not isinstance(body, ir.Reduce) or len(body.source) != 1 or body.init or not isinstance(body.combiner.result[0], ir.Add):
        return None
    term = body.source[0]
    if not isinstance(term, ir.Mul) or value_of(body.condition) != 1:
        return None
    sides = [_read(side) for side in (term.a, term.b)]
    if None in sides:
        return None
    *outer, i, j = [axis.var for axis in anchor.axis]
    r = anchor.reduce_axis[0].var
    for x, y in (sides, sides[::-1]):
        assert x is not None
        assert y is not None
        kind = KINDS.get(str(x.dtype))
        if kind is None or y.dtype is not x.dtype or str(term.dtype) != kind.c or x.tensor is y.tensor:
            continue
        rows = [_is(x, (*outer, i, r)), _is(y, (*outer, r, j)) or _is(y, (*outer, j, r))]
        if all(rows):
            return Operands(x.tensor, y.tensor, _is(y, (*outer, j, r)), kind)
    return None


def _read(e: Expr) -> ir.ProducerLoad | None:
    if isinstance(e, ir.Cast):
        e = e.value
    return e if isinstance(e, ir.ProducerLoad) else None


def _is(load_: ir.ProducerLoad, indices: Sequence[Var]) -> bool:
    return len(load_.indices) == len(indices) and all(a is b for a, b in zip(load_.indices, indices, strict=True))


def tiles_for(anchor: ComputeOp, found: Operands, *, warpgroups: bool, most_bytes: int = MOST_BYTES) -> list[Tile]:
    """Return the tiles by which a block can compute a product: those that divide its matrices and fit shared memory."""
    rows, columns, depth = *extents(anchor)[-2:], extent(anchor.reduce_axis[0])
    if not found.turned and found.kind.bits != 16:
        return []  # ldmatrix turns elements of 16 bits
    wide = [tile._replace(depth=tile.depth * 16 // found.kind.bits)
            for tile in (GROUP_TILES if warpgroups else TILES)]
    return [tile for tile in wide if not (rows % tile.rows or columns % tile.columns or depth % tile.depth)
            and tile.bytes(found.kind) <= most_bytes]


def schedule_tensor_cores(
    s: Schedule, flow: Flow, anchor: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine,
) -> set[Operation]:
    """Schedule a product on tensor cores with what follows it element by element; return what is done, nothing if they cannot.

    By wgmma, if the machine has it, where the second operand is turned, else by mma.sync. An operand that is computed in the same
    kernel is left to others.

    Decisions: tensor_cores, whether they are used, by default not for float32, of which they take 10 bits of fraction; tile, as
    `Tile`.
    """
    found = operands_of(anchor) if machine.tensor_cores else None
    if found is None or any(extents(op) != extents(anchor) for op in followers) or _computed(flow, anchor, found):
        return set()
    warpgroups = machine.tensor_cores > 1 and found.turned
    tiles = tiles_for(anchor, found, warpgroups=warpgroups, most_bytes=machine.shared_bytes_opt_in)
    if not tiles:
        return set()
    choose = partial(s[anchor].choose, rule=schedule_tensor_cores.__name__)
    if not choose("tensor_cores", [False, True], found.kind.a != "float32"):
        return set()
    tile = Tile(*choose("tile", [[*each] for each in tiles], [*tiles[0]]))
    run_product(s, anchor, followers, found, tile, warpgroup=warpgroups)
    return {anchor, *followers}


def _computed(flow: Flow, anchor: ComputeOp, found: Operands) -> bool:
    """Return whether an operand is computed element by element for the anchor alone: asynchronous copies compute nothing."""
    return any(is_injective(x.op) and not flow.is_output(x.op) and flow.readers[x.op] == [anchor] for x in (found.a, found.b))


def instructions_of(arch: str) -> int:
    """Return `GpuMachine.tensor_cores` for an architecture such as "sm_90a", by its name."""
    return 2 if arch == "sm_90a" else 1


def run_product(
    s: Schedule, anchor: ComputeOp, followers: Sequence[ComputeOp], found: Operands, tile: Tile, *, warpgroup: bool,
) -> None:
    """Compute a tile in each block: a part of it in each warp, or in each warpgroup."""
    for op in followers[:-1]:
        s[op].compute_inline()
    scope = "wgmma.c" if warpgroup else "mma.c"
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), scope)
    out, of_sums = s[followers[-1] if followers else anchor], s[sums]
    if followers:
        of_sums.set_scope(scope)
    across = s.cache_read(found.a, "shared", [sums]), s.cache_read(found.b, "shared", [sums])
    *outer, row, column = out.op.root_iter_vars
    block_y, row = out.split(row, tile.rows)
    block_x, column = out.split(column, tile.columns)
    warp_y, row = out.split(row, nparts=tile.down)
    warp_x, column = out.split(column, nparts=tile.across)
    out.reorder(*outer, block_y, block_x, warp_y, warp_x, row, column)
    _bind_blocks(out, outer, block_y, block_x, extents(anchor)[-2] // tile.rows)
    lanes = [thread_axis((0, WARP), "threadIdx.x")]
    if warpgroup:
        lanes.append(thread_axis((0, WARPS), "threadIdx.y"))
        ways = [(thread_axis((0, tile.down * tile.across), "threadIdx.z"), tile.down * tile.across)]
        place = out.fuse(warp_y, warp_x)
        out.bind(place, ways[0][0])
    else:
        ways = [(thread_axis((0, count), f"threadIdx.{way}"), count) for way, count in (("y", tile.down), ("z", tile.across))]
        out.bind(warp_y, ways[0][0])
        out.bind(warp_x, ways[1][0])
        place = warp_x
    registers, pair = bind_lanes(out, row, column, scope, lanes)
    for axis in registers:
        out.unroll(axis)
    out.vectorize(pair)
    of_sums.compute_at(out, place)
    step, inner = _multiply(of_sums, found, tile, warpgroup=warpgroup)
    threads = [(lanes[0], WARP), *([(lanes[1], WARPS)] if warpgroup else []), *ways]
    for shared, along in zip(across, (False, not found.turned), strict=True):
        _fetch(s[shared], of_sums, step, tile, found.kind, threads, across=along)
    if not warpgroup:
        for shared, of_b in zip(across, (False, True), strict=True):
            _to_fragments(s, shared, of_sums, inner, found, of_b=of_b)


def _bind_blocks(out: Stage, outer: Sequence[IterVar], block_y: IterVar, block_x: IterVar, tiles: int) -> None:
    """Bind tiles to blocks, those of up to `TALL` rows of tiles after each other, so that their blocks run together."""
    far, near = out.split(block_y, max([count for count in divisors(tiles) if count <= TALL]))
    out.reorder(far, block_x, near)
    bind_block(out, fused(out, [far, block_x, near]))
    if outer:
        bind_block(out, fused(out, outer), "y" if prod([extent(axis) for axis in outer]) <= MOST_BLOCKS else "z")


def _multiply(of_sums: Stage, found: Operands, tile: Tile, *, warpgroup: bool) -> tuple[IterVar, IterVar]:
    """Let an intrinsic make the sums; return the loops over steps in shared memory and over those of the intrinsic."""
    op = of_sums.op
    assert isinstance(op, ComputeOp)
    *_, i, j = op.axis
    height, width = (WARPGROUP_M, tile.columns // tile.across) if warpgroup else (M, N)
    step, inner = of_sums.split(op.reduce_axis[0], tile.depth)
    inner, term = of_sums.split(inner, found.kind.k)
    row, i = of_sums.split(i, height)
    column, j = of_sums.split(j, width)
    of_sums.reorder(step, inner, row, column, i, j, term)
    for axis in (inner, row, column):
        of_sums.unroll(axis)
    name = found.kind.a
    of_sums.tensorize(i, wgmma(name, width, turned_b=True) if warpgroup else mma(name, turned=found.turned))
    return step, inner


def _fetch(
    shared: Stage, of_sums: Stage, step: IterVar, tile: Tile, kind: Kind, threads: Sequence[tuple[IterVar, int]], *, across: bool,
) -> None:
    """Let all threads copy an operand's part, 16 bytes each at a time, some steps ahead.

    across : whether its rows lie along the columns of the sums, instead of along the reduction
    """
    shared.compute_at(of_sums, step)
    op = shared.op
    assert isinstance(op, ComputeOp)
    part = fused(shared, [*op.axis[-2:]])
    part, lanes = shared.split(part, COPY_BYTES * 8 // kind.bits)
    shared.vectorize(lanes)
    for thread, count in threads:
        part, one = shared.split(part, count)
        shared.bind(one, thread)
    shared.unroll(part)
    shared.double_buffer(tile.stages)
    shared.async_copy()
    row = (tile.columns if across else tile.depth) * kind.bits // 8
    fitting = [bytes_ for bytes_ in SWIZZLES if row % bytes_ == 0]
    if fitting:
        shared.swizzle(fitting[-1])


def _to_fragments(s: Schedule, shared: Tensor, of_sums: Stage, inner: IterVar, found: Operands, *, of_b: bool) -> None:
    """Copy a step's part of an operand to fragments."""
    k, name = found.kind.k, found.kind.a
    scope = ("mma.bt" if found.turned else "mma.b") if of_b else "mma.a"
    rows, columns = (k, 2 * N) if scope == "mma.b" else (2 * N, k)
    stage = s[s.cache_read(shared, scope, [of_sums.op.output(0)])]
    stage.compute_at(of_sums, inner)
    op = stage.op
    assert isinstance(op, ComputeOp)
    *_, i, j = op.axis
    row, i = stage.split(i, rows)
    column, j = stage.split(j, columns)
    stage.reorder(row, column, i, j)
    stage.unroll(row)
    stage.unroll(column)
    stage.tensorize(i, load(scope, name, rows, columns))
