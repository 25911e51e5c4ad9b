"""Multi-level tiles: blocks of tiles, and tiles whose elements or sums are in registers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.cpu.flow import Reads, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import pieces
from vtakit.compiler.schedule.relations import INLINED
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation, Tensor
from vtakit.compiler.tune.sketch_reads import STILL, STRIDED, moves, vector_axes
from vtakit.compiler.tune.sketch_sizes import Shape, best_tile, blocks, heights, room, shape_of, widths

LONGEST = 96  # multiply-adds of vectors that are written out
WORTH = 16  # rows of the result that pay for a copy of an operand whose elements along the vectors are apart
SHORT = 8  # steps of a loop of the reduction that may be written out as a whole


@dataclass(frozen=True, eq=False)
class Around:
    """The loops around the tiles of a stage, outermost first."""

    schedule: Schedule
    stage: Stage
    loops: tuple[IterVar, ...]

    def put(self, op: Operation, depth: int) -> None:
        """Compute an operation within so many of the loops, by vectors along its last axis."""
        inner = self.schedule[op]
        inner.compute_at(self.stage, self.loops[min(depth, len(self.loops)) - 1])
        assert isinstance(inner.op, ComputeOp)
        inner.vectorize(inner.op.axis[-1])


def compute_in_tiles(
    s: Schedule, anchor: ComputeOp, followers: Sequence[ComputeOp], machine: Machine, reads: Reads, threads: int,
) -> Around:
    """Compute a reduction, or another operation, in tiles that registers hold, and what follows it with each tile.

    Decisions: vector, the axis of vectors; tile.AXIS, elements of a tile; block.AXIS, tiles of a block; inner, the axis whose
    tiles follow each other; copy.OPERAND, loops around a copy of what a tile reads, 0 for none; parallel, loops that threads
    share. Of a reduction also: last, its innermost loop; whole, its innermost loops that are written out; steps, of the next one.
    """
    last = followers[-1] if followers else anchor
    summed = bool(anchor.reduce_axis)
    sums: Tensor | None = None
    if summed:
        sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    out = s[last]
    choose = partial(out.choose, rule=compute_in_tiles.__name__)
    axes = [*out.op.root_iter_vars]
    sizes, names = extents(last), [out.axis_labels[axis] for axis in axes]
    lanes = machine.lanes(anchor.body[0].dtype)
    there = [at for at, size in enumerate(sizes) if size > 1] or [len(sizes) - 1]
    across = vector_axes(anchor, reads, lanes)
    vector: int = choose("vector", across, across[0]) if len(across) > 1 else across[0]
    rest = [at for at in there if at != vector]
    tile = _tile(shape_of(anchor, vector, machine, anchor.body[0].dtype, reads), rest, names, choose)
    inner: int = choose("inner", there, rest[-1] if summed and rest else there[-1])
    loops, parts = _blocks(out, axes, there, tile, vector, inner, choose)
    fixed = [axes[at] for at in range(len(axes)) if at not in there]
    others = [parts[at] for at in there if at != vector and tile[at] > 1]
    out.reorder(*fixed, *loops, *others, parts[vector])
    if threads > 1:
        _share(out, loops, sizes, tile, there, choose)
    for axis in others:
        out.unroll(axis)
    out.vectorize(parts[vector])
    around = Around(s, out, tuple(loops))
    if sums is not None:
        _sum(s[sums], out, loops[-1], vector, tile, lanes, choose)
        _copies(s, anchor, sums, around, vector, choose)
    return around


def _tile(shape: Shape, rest: list[int], names: Sequence[str], choose: partial[int]) -> dict[int, int]:
    """Decide the elements of a tile along each axis, one axis after another; each prefers what the estimate does then."""
    vector, width = shape.vector, shape.sizes[shape.vector]
    found = {vector: choose(f"tile.{names[vector]}", widths(width, shape.lanes), best_tile(shape, (), (vector, *rest))[vector])}
    rows = room(shape.machine, found[vector], shape.lanes)
    for number, at in enumerate(rest):
        some = heights(shape.sizes[at], rows)
        best = best_tile(shape, tuple(found.items()), tuple(rest[number:]))[at]
        found[at] = choose(f"tile.{names[at]}", some, best if best in some else some[0]) if len(some) > 1 else some[0]
        rows //= found[at]
    return found


def _blocks(
    out: Stage, axes: list[IterVar], there: list[int], tile: dict[int, int], vector: int, inner: int, choose: partial[int],
) -> tuple[list[IterVar], dict[int, IterVar]]:
    """Split the axes into blocks, tiles and elements; return the loops over blocks and tiles, and those over elements by axis."""
    far, near, elements = [], [], {}
    for at in there:
        axis, count = axes[at], tile[at]
        label = out.axis_labels[axis]
        tiles = -(-extent(axis) // count)
        if count > 1 or at == vector:
            axis, elements[at] = out.split(axis, count)
        size = choose(f"block.{label}", blocks(tiles), 1) if tiles > 1 else 1
        if size > 1:
            outer, axis = out.split(axis, size)
            far.append((at, outer))
        near.append((at, axis))
    near.sort(key=lambda item: item[0] == inner)
    return [axis for _, axis in (*far, *near)], elements


def _share(
    out: Stage, loops: list[IterVar], sizes: Sequence[int], tile: dict[int, int], there: list[int], choose: partial[int],
) -> None:
    """Let threads share the outermost loops, and put what they share in the place of these."""
    even = all(not sizes[at] % tile[at] for at in there)
    most = 2 if even and len(loops) > 2 else 1
    count: int = choose("parallel", [*range(most + 1)], 1)
    if count == 2:
        loops[:2] = [out.fuse(*loops[:2])]
    if count:
        out.parallel(loops[0])


def _sum(
    stage: Stage, out: Stage, place: IterVar, vector: int, tile: dict[int, int], lanes: int, choose: partial[int],
) -> None:
    """Sum a tile within the loops over tiles."""
    made = stage.op
    assert isinstance(made, ComputeOp)
    stage.compute_at(out, place)
    stage.set_scope("local")
    terms = [*made.reduce_axis]
    lengths = [int_value(axis.dom.extent) if axis.dom is not None else None for axis in terms]
    if len(terms) > 1:
        end: int = choose("last", [*range(len(terms))], len(terms) - 1)
        terms.append(terms.pop(end))
        lengths.append(lengths.pop(end))
    vectors = max(pieces(tile[vector], lanes), 1) * prod([size for at, size in tile.items() if at != vector])
    copies = max(LONGEST // vectors, 1)
    wholes, product = [0], 1
    for length in reversed(lengths):
        product *= length or SHORT + 1
        if length is None or length > SHORT or product > copies:
            break
        wholes.append(wholes[-1] + 1)
    whole: int = choose("whole", wholes, 0) if len(wholes) > 1 else 0
    written = terms[len(terms) - whole:]
    left, length = terms[:len(terms) - whole], (lengths[:len(lengths) - whole] or [None])[-1]
    copies //= prod([length or 1 for length in lengths[len(lengths) - whole:]])
    steps = [size for size in (1, 2, 4, 8) if length is not None and not length % size and size <= copies] or [1]
    step: int = choose("steps", steps, 1) if len(steps) > 1 else 1
    if step > 1:
        left[-1], one = stage.split(left[-1], step)
        written = [one, *written]
    rows = [axis for at, axis in enumerate(made.axis) if at != vector]
    stage.reorder(*left, *written, *rows, made.axis[vector])
    for axis in written:
        stage.unroll(axis)
    for at, axis in enumerate(made.axis):
        if at == vector:
            stage.vectorize(axis)
        elif tile.get(at, 1) > 1:
            stage.unroll(axis)


def _copies(
    s: Schedule, anchor: ComputeOp, sums: Tensor, around: Around, vector: int, choose: partial[int],
) -> None:
    """Copy what tiles read along their vectors, the elements of a vector side by side, where the decision says."""
    axis = anchor.axis[vector]
    by_tensor: dict[Tensor, list[tuple[int, tuple[int, ...]]]] = {}
    for load in loads(anchor):
        places = tuple([at for at, index in enumerate(load.indices) if index is axis.var])
        by_tensor.setdefault(load.tensor, []).append((moves(load, axis), places))
    rows = prod([size for at, size in enumerate(extents(anchor)) if at != vector])
    for tensor, ways in by_tensor.items():
        way, places = ways[0]
        if len(set(ways)) > 1 or way == STILL or len(places) != 1 or len(around.loops) < 2 or s[tensor].attach is INLINED:
            continue
        pays = way == STRIDED and rows >= WORTH
        depth: int = choose(f"copy.{tensor.name}", [*range(len(around.loops))], 1 if pays else 0)
        if not depth:
            continue
        copy = s.cache_read(tensor, "global", [sums])
        if places[0] != tensor.ndim - 1:
            stage = s[copy]
            roots = [*stage.op.root_iter_vars]
            stage.reorder(*[root for at, root in enumerate(roots) if at != places[0]], roots[places[0]])
            panel = s.cache_write(copy, "global")
            stage.compute_inline()
            copy = panel
        s[copy].compute_at(around.stage, around.loops[depth - 1])
        s[copy].vectorize(s[copy].op.root_iter_vars[-1])
