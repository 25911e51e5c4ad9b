"""Products of matrices and convolutions as such: tiles of a block in shared memory, of a thread in registers."""

from collections.abc import Sequence
from functools import partial
from math import prod

from vtakit.compiler.ir.expr import ProducerLoad
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.nn.cpu.flow import Flow, divisors, extent, extents, is_injective, loads
from vtakit.compiler.nn.gpu.grid import MOST_BLOCKS, bind_block, bind_thread, fused
from vtakit.compiler.nn.gpu.machine import GpuMachine
from vtakit.compiler.nn.gpu.reductions import reduce_by_thread
from vtakit.compiler.nn.gpu.tiles import BLOCK_SIDES, VECTOR, Product, Tile, best_parts, best_tile, depths, product_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import thread_axis
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

TAGS = "matmul", "conv"
MOST_PARTS = 16  # of the sums of a product
WRITTEN = 64  # multiply-adds of a thread that are written out


def is_tiled(anchor: ComputeOp) -> bool:
    """Return whether a reduction is a product of two matrices with enough rows and columns for tiles."""
    if anchor.tag not in TAGS or anchor.num_outputs != 1 or len(anchor.axis) < 2 or not all(map(extent, anchor.reduce_axis)):
        return False
    sources = [load.tensor for load in loads(anchor)]
    rows, columns = extents(anchor)[-2] // groups_of(anchor), extents(anchor)[-1]
    if len(sources) != 2 or sources[0] is sources[1] or min(rows, columns) < BLOCK_SIDES[0] // 2:
        return False
    return groups_of(anchor) == 1 or not rows % BLOCK_SIDES[0]


def groups_of(anchor: ComputeOp) -> int:
    """Return the number of groups of a convolution, whose rows read different columns; else 1."""
    found: int = anchor.attrs.get("groups", 1)
    return found


def operands(flow: Flow, anchor: ComputeOp) -> set[Operation]:
    """Return the operations that make an operand in shared memory: element by element, for the anchor alone."""
    return {load.tensor.op for load in loads(anchor) if is_injective(load.tensor.op) and not flow.is_output(load.tensor.op)
            and flow.readers[load.tensor.op] == [anchor]}


def schedule_product(
    s: Schedule, flow: Flow, anchor: ComputeOp, followers: Sequence[ComputeOp], own: set[Operation], machine: GpuMachine,
) -> set[Operation]:
    """Schedule a product and what follows it element by element; return what is done.

    own : the operations that make an operand in shared memory

    Decisions: parts, into which the sums are cut, each a block's; tile, rows and columns of a block's tile and of a thread's;
    depth, steps of the reduction in shared memory; double_buffer, whether the next ones are fetched while these are in use.
    """
    choose = partial(s[anchor].choose, rule=schedule_product.__name__)
    groups, sizes = groups_of(anchor), extents(anchor)
    terms = prod(map(extent, anchor.reduce_axis))
    product = Product(prod(sizes[:-2]) * groups, sizes[-2] // groups, sizes[-1], terms,
                      max(load.dtype.bytes for load in loads(anchor)), groups > 1, _line(flow, anchor))
    cuts = [count for count in divisors(extent(anchor.reduce_axis[0])) if count <= MOST_PARTS]
    parts = choose("parts", cuts, best_parts(machine, product, cuts))
    done: set[Operation] = {anchor, *followers, *own}
    behind, op = followers, anchor
    if parts > 1:
        for each in followers[:-1]:
            s[each].compute_inline()
        far, _ = s[anchor].split(anchor.reduce_axis[0], nparts=parts)
        made = s.rfactor(anchor.output(0), far, 0).op
        assert isinstance(made, ComputeOp)
        reduce_by_thread(s, _compute(s[anchor]), followers, machine)
        behind, op = (), made
        product = product._replace(matrices=product.matrices * parts, depth=terms // parts)
    tiles = product_tiles(machine, product)
    tile = Tile(*choose("tile", [[*each] for each in tiles], [*best_tile(machine, product)]))
    buffers = 2 if choose("double_buffer", [False, True], True) else 1
    options = depths(machine, product, tile, buffers)
    _tiled(s, op, behind, machine, tile, groups=groups, depth=choose("depth", options, max(
        [each for each in options if each <= 2 * VECTOR], default=options[0])), double=buffers > 1, own=own)
    return done


def _line(flow: Flow, anchor: ComputeOp) -> int:
    """Return the last extent of the image that a convolution's columns are; 1 for a product of matrices."""
    readers = flow.readers[anchor]
    return extents(readers[0])[-1] if anchor.tag == "conv" and len(readers) == 1 and isinstance(readers[0], ComputeOp) else 1


def _compute(stage: Stage) -> ComputeOp:
    assert isinstance(stage.op, ComputeOp)
    return stage.op


def _tiled(
    s: Schedule, anchor: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, tile: Tile, *, groups: int, depth: int,
    double: bool, own: set[Operation],
) -> None:
    """Compute a tile in each block."""
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    last = followers[-1] if followers else anchor
    out, local = s[last], s[sums]
    lead, (rows, columns) = extents(anchor)[:-2], extents(anchor)[-2:]
    axes = [*out.op.root_iter_vars]
    outer, row, column = axes[:len(lead)], axes[len(lead)], fused(out, axes[len(lead) + 1:])
    if groups > 1:
        group, row = out.split(row, rows // groups)
        outer = [*outer, group]
    (threads_x, threads_y) = tile.threads
    block_y, row = out.split(row, tile.rows)
    block_x, column = out.split(column, tile.columns)
    thread_y, row = out.split(row, nparts=threads_y)
    apart = max(tile.thread_columns // VECTOR, 1)
    virtual, column = out.split(column, nparts=apart)
    thread_x, column = out.split(column, nparts=threads_x)
    out.reorder(*outer, block_y, block_x, virtual, thread_y, thread_x, row, column)
    thread = out.fuse(thread_y, thread_x)  # one number for a block's threads, by which they also fetch
    _bind_grid(out, outer, block_y, block_x, -(-(rows // groups) // tile.rows), prod(lead) * groups)
    if apart > 1:
        out.bind(virtual, thread_axis("vthread"))
    bind_thread(out, thread, threads_x * threads_y)
    out.unroll(row)
    width = tile.thread_columns // apart
    widest = max(e.dtype.bytes for op in (anchor, *followers) for e in (*op.body, *loads(op)))
    if width > 1 and not columns % width and width * widest <= machine.vector_bytes:
        out.vectorize(column)
    else:
        out.unroll(column)
    local.compute_at(out, thread)
    local.set_scope("local")
    at, inner = _steps(local, depth)
    written = tile.thread_rows * width
    for axis, size in reversed(inner):
        written *= size
        if written <= WRITTEN:
            local.unroll(axis)
    local.unroll(_compute(local).axis[-2])
    local.unroll(_compute(local).axis[-1])
    for load in [*loads(_compute(local))]:
        if load.tensor.op in own:
            shared = s[load.tensor.op]
            shared.set_scope("shared")
        else:
            shared = s[s.cache_read(load.tensor, "shared", [sums])]
        shared.compute_at(local, at)
        _fetch(shared, _compute(local), load, _box(_compute(local), load, tile, inner), tile, machine)
        if double:
            shared.double_buffer()


def _bind_grid(out: Stage, outer: Sequence[IterVar], block_y: IterVar, block_x: IterVar, down: int, count: int) -> None:
    """Bind the loops over tiles to blocks; along x all together if there are too many for y or z."""
    if max(down, count) > MOST_BLOCKS:
        bind_block(out, fused(out, [*outer, block_y, block_x]))
        return
    bind_block(out, block_x)
    bind_block(out, block_y, "y")
    if outer:
        bind_block(out, fused(out, outer), "z")


def _steps(local: Stage, depth: int) -> tuple[IterVar, list[tuple[IterVar, int]]]:
    """Split the reduction into steps of `depth` or what comes near, and return the loop over them and those in one, with lengths.

    The last axes are whole as far as they fit, so that each operand's part is a box.
    """
    op = _compute(local)
    outer: list[IterVar] = []
    inner: list[tuple[IterVar, int]] = []
    for axis in reversed(op.reduce_axis):
        size = max([part for part in divisors(extent(axis)) if part <= depth], default=1)
        if extent(axis) > depth and size * 2 < depth:  # a prime, say: the last step is guarded
            size = depth
        far, near = local.split(axis, size)
        outer.insert(0, far)
        inner.insert(0, (near, size))
        depth = max(depth // size, 1)
    local.reorder(*outer, *[axis for axis, _ in inner], *op.axis)
    at = fused(local, outer)
    return at, inner


def _box(op: ComputeOp, load: ProducerLoad, tile: Tile, inner: Sequence[tuple[IterVar, int]]) -> list[int]:
    """Return the extents of the part of an operand that a step of a block reads, of each dimension."""
    sizes = {op.axis[-2].var: tile.rows, op.axis[-1].var: tile.columns}
    sizes |= {axis.var: size for axis, (_, size) in zip(op.reduce_axis, inner, strict=True)}
    return [max([size for var, size in sizes.items() if var in free_vars(index) and var is index], default=1)
            for index in load.indices]


def _fetch(shared: Stage, anchor: ComputeOp, load: ProducerLoad, box: Sequence[int], tile: Tile, machine: GpuMachine) -> None:
    """Let all threads copy an operand's part, neighbours in memory by neighbouring threads, and by vectors where they fit."""
    threads = prod(tile.threads)
    last = int_value(load.tensor.shape[-1]) or 1
    width = machine.vector_bytes // load.dtype.bytes
    along = [at for at, index in enumerate(load.indices) if any(index is axis.var for axis in anchor.axis[-2:])]
    apart = bool(along) and along[0] < len(load.indices) - 1  # terms are neighbours: threads of a warp read lines of them
    if apart:
        shared.storage_align(shared.op.root_iter_vars[along[0]], 2, 1)  # an odd distance, so that each line is in another bank
    fits = not apart and not box[-1] % width and not last % width and is_copy(shared.op)
    run = fused(shared, [*shared.op.root_iter_vars])
    run, vector = shared.split(run, width if fits else 1)
    _, thread = shared.split(run, threads)
    bind_thread(shared, thread, threads)
    if fits:
        shared.vectorize(vector)


def is_copy(op: Operation) -> bool:
    """Return whether an operation copies elements of one tensor in their order."""
    return isinstance(op, ComputeOp) and isinstance(op.body[0], ProducerLoad) and all(
        index is axis.var for index, axis in zip(op.body[0].indices, op.axis, strict=False))


