"""Convolutions of bytes and of bfloat16: tiles of pixels by filters, whose sums are in registers, then what follows."""

from collections.abc import Callable
from functools import partial
from typing import Any

from vtakit.compiler.codegen.llvm.kernels.bit_kernels import bit_dot
from vtakit.compiler.codegen.llvm.kernels.channel_dots import has_dots, has_shared_sums
from vtakit.compiler.codegen.llvm.kernels.dot_kernels import KINDS, dot
from vtakit.compiler.codegen.llvm.kernels.held_tiles import SCOPE
from vtakit.compiler.codegen.llvm.kernels.tile_kernels import Group, has_tiles, product, store, takes
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin
from vtakit.compiler.nn.conv.bit_weights import Encoding
from vtakit.compiler.nn.cpu.flow import Flow, divisor, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

MOST_PIXELS = 64  # of a tile: its sums stay in L1
LEAST_COLUMNS, MOST_COLUMNS = 8, 32  # of a tile: two rows of tile registers
MOST_REPEATED = 8  # steps without a jump: more make code that the instruction cache does not hold
REPEATED = 4  # where one instruction is a step; of several LLVM would load those of the next step too early
SHARING_STEPS = 4  # in a call whose pixels share a sum of the weights
MOST_STEPS = 16  # of a product of tile registers, and their rows
MOST_RUNS = 3  # of pixels whose sums are in tile registers together
Choose = Callable[..., Any]


def pixels_of(height: int, width: int) -> tuple[int, int]:
    """Rows and columns of a tile, which divide those of the image: a part of a row, or several rows of a narrow image."""
    columns = max([count for count in range(1, min(width, MOST_COLUMNS) + 1) if not width % count])
    if columns < LEAST_COLUMNS:
        columns = width  # a prime number, or a small image
    if columns < width:
        return 1, columns
    fits = [rows for rows in range(1, height + 1) if not height % rows and rows * columns <= MOST_PIXELS]
    return max(fits, default=1), columns


def tiles(height: int, width: int) -> list[tuple[int, int]]:
    """Return the tiles of rows and columns that divide those of the image: parts of a row, or whole rows."""
    parts = [(1, columns) for columns in divisors(width) if columns < width]
    return [*parts, *[(rows, width) for rows in divisors(height) if rows == 1 or rows * width <= 2 * MOST_PIXELS]]


def schedule_packed(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine, target: Target) -> set[Operation]:
    """Schedule an anchor tagged "conv_packed" or "conv_words" and what follows it; return the operations that are done with.

    A tile's sums go through L1 to what follows, which takes vectors of as many channels. Decisions:

    tile      : rows and columns of pixels of a tile
    order     : "filters": the weights of a few filters, which lie together, meet all tiles before those of the next do;
                "tiles": a tile meets all filters before the next one does
    parallel  : whether threads share the outer loops only, or the inner ones too: then the other one's name
    form      : what makes the sums, where the processor has tile registers: these or "vectors"
    registers : sums that are in registers over the whole reduction: of vectors, pixels and vectors of filters; of tile registers,
                runs, their pixels, and filters
    steps     : steps of the reduction in one call
    repeat    : calls that follow each other without a jump, of vectors
    """
    choose = partial(s[anchor].choose, rule="schedule_packed")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    result = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, blocks, height, width, block = extents(anchor)
    filters = anchor.attrs["filters"]
    rows, columns = choose("tile", tiles(height, width), pixels_of(height, width))

    out = s[last]
    n, m, y, x, lane = out.op.root_iter_vars
    part, lane = out.split(lane, filters)
    down, y = out.split(y, rows)
    across, x = out.split(x, columns)
    order = choose("order", ["filters", "tiles"], "filters")
    outer, inner = [n, m, part], [down, across]
    count, other = images * blocks * (block // filters), "tiles"
    if order == "tiles":
        outer, inner = [n, down, across], [m, part]
        count, other = images * (height // rows) * (width // columns), "filters"
    out.reorder(*outer, *inner, y, x, lane)
    both = choose("parallel", [order, other], other if count < machine.tasks else order) != order
    if both:
        outer += inner
    fused = outer[0]
    for axis in outer[1:]:
        fused = out.fuse(fused, axis)
    out.parallel(fused)
    out.vectorize(lane)

    p = (_BitProduct if anchor.tag == "conv_bits" else _Product)(anchor, rows, columns, filters, target)
    groups = p.groups()
    form = choose("form", ["tiles", "vectors"], "tiles" if p.suits(groups, machine) else "vectors") if groups else "vectors"
    sums = s.cache_write(result, SCOPE if form == "tiles" else "local")
    copy = s[result]
    copy.set_scope("local")
    copy.compute_at(out, fused if both else inner[-1])
    if form == "tiles":
        _by_tiles(copy, s[sums], p, min(groups, key=partial(p.cycles, machine=machine)), groups, choose)
    else:
        _by_vectors(copy, s[sums], p, machine, choose)
    return {anchor, *followers}


class _Product:
    """A tile of pixels and the filters whose weights lie together: register tiles are parts of it.

    kind   : type of data     steps : dot products of a pixel in a row of the kernel, which lie side by side
    within : how many of the reduction's axes are within a step, innermost
    """

    within = 0

    def __init__(self, anchor: ComputeOp, rows: int, columns: int, filters: int, target: Target) -> None:
        self.anchor, self.target = anchor, target
        self.rows, self.columns, self.filters = rows, columns, filters
        self.kind = str(next(loads(anchor)).tensor.dtype)
        self.steps = extent(anchor.reduce_axis[-1 - self.within]) // self.together

    @property
    def together(self) -> int:
        """Return the elements of data in a step."""
        return KINDS[self.kind].together

    @property
    def scratch(self) -> tuple[int, int]:
        """Return the registers that a call needs for a vector of weights, and for a pixel's scalar.

        Both halves of a pair of bfloat16 become float32 where no instruction multiplies pairs. Halves of bytes are not counted:
        smaller tiles, which leave room for them, were no faster (AVX2 and AVX-512 without VNNI on a Zen 5, November 2026).
        """
        if has_shared_sums(self.target, self.kind):
            return SHARING_STEPS + 1, 2
        return (2, 2) if self.kind == "bfloat16" and not has_dots(self.target, self.kind) else (1, 1)

    def tile(self, machine: Machine, pixels: int, vectors: int) -> tuple[int, int]:
        """Return the register tile by default, of so many pixels by vectors of filters."""
        return pixel_tile(machine, pixels, vectors, *self.scratch)

    @property
    def usual_steps(self) -> int:
        """Return the steps of one call by default."""
        return divisor(self.steps, SHARING_STEPS if has_shared_sums(self.target, self.kind) else 1)

    @property
    def repeats(self) -> bool:
        """Return whether calls follow each other without a jump by default."""
        return has_dots(self.target, self.kind)

    def intrinsic(self, filters: int, steps: int) -> TensorIntrin:
        """Return what makes the sums of some filters for one pixel."""
        return dot(self.kind, filters, steps)

    def groups(self) -> list[Group]:
        """Return the groups of sums that tile registers hold, with all steps that one product takes; none if there are none."""
        if not has_tiles(self.target, self.kind):
            return []
        steps = max([count for count in divisors(self.steps) if count <= MOST_STEPS])
        found = [Group(runs, pixels, filters, steps) for runs in range(1, min(self.rows, MOST_RUNS) + 1)
                 for pixels in divisors(self.columns) for filters in divisors(self.filters)]
        return [group for group in found if takes(group)]

    def suits(self, groups: list[Group], machine: Machine) -> bool:
        """Return whether the best group takes no longer than vectors: few pixels in a row leave most tile rows empty."""
        dots = self.rows * self.columns * self.filters * groups[0].steps
        lanes = machine.lanes(self.anchor.body[0].dtype)
        return min([self.cycles(group, machine) for group in groups]) <= dots / (lanes * machine.fmas_per_cycle)

    def cycles(self, group: Group, machine: Machine) -> float:
        """Estimate the cycles of one step of all sums: products, or loads of operands from L2."""
        runs, parts, across = group.runs, -(-group.pixels // MOST_STEPS), -(-group.filters // MOST_STEPS)
        count = -(-self.rows // runs) * (self.columns // group.pixels) * (self.filters // group.filters)
        loads = (runs * parts + across) * machine.tile_load_cycles
        return count * max(runs * parts * across * machine.tile_product_cycles, loads)


class _BitProduct(_Product):
    """The same of planes of bits. A step is a word of channels, in all planes of the data and all digits of the weights."""

    within = 2
    together = 1

    @property
    def scratch(self) -> tuple[int, int]:
        """Return one register for each word of a digit, one for the data, and one for the bits that are counted."""
        encoding = Encoding(self.anchor.attrs["encoding"], self.anchor.attrs["digits"])
        return encoding.words, 2

    def tile(self, machine: Machine, pixels: int, vectors: int) -> tuple[int, int]:
        """Return one vector of filters by pixels whose sums leave 3 of 8 registers: what counts bits waits for no loads.

        More vectors or pixels were up to a fifth slower with several planes (AVX2 and AVX-512 on a Zen 5, November 2026).
        """
        return pixel_tile(machine, pixels, 1, self.scratch[0], 1 + 3 * machine.vector_registers // 8)

    @property
    def usual_steps(self) -> int:
        """Return as many steps of one call as code may repeat: counts of equal weight are shifted once a call."""
        return divisor(self.steps, MOST_REPEATED)

    @property
    def repeats(self) -> bool:
        """Return that calls are not repeated."""
        return False

    def groups(self) -> list[Group]:
        """Return no groups: tile registers do not count bits."""
        return []

    def intrinsic(self, filters: int, steps: int) -> TensorIntrin:
        """Return what makes the sums of some filters for one pixel."""
        attrs = self.anchor.attrs
        return bit_dot(attrs["encoding"], attrs["planes"], attrs["digits"], filters, steps)


def _by_tiles(copy: Stage, sums: Stage, p: _Product, best: Group, groups: list[Group], choose: Choose) -> None:
    """Schedule sums in tile registers, and their copy to memory."""
    runs, pixels, filters = choose("registers", [group[:3] for group in groups], best[:3])
    steps = choose("steps", [count for count in divisors(p.steps) if count <= MOST_STEPS], best.steps)
    group = Group(runs, pixels, filters, steps)
    first, second, y, x, k = copy.op.root_iter_vars
    far, k = copy.split(k, filters)
    down, y = copy.split(y, runs)
    across, x = copy.split(x, pixels)
    copy.reorder(first, second, far, down, across, y, x, k)
    copy.unroll(y)
    copy.tensorize(x, store(KINDS[p.kind].c, group))
    sums.compute_at(copy, across)
    op = sums.op
    assert isinstance(op, ComputeOp)
    first, second, y, x, k = op.axis
    *window, channel = op.reduce_axis
    step, channel = sums.split(channel, steps * p.together)
    sums.reorder(first, second, *window, step, y, x, k, channel)
    sums.unroll(y)
    sums.tensorize(x, product(p.kind, group, p.anchor.attrs["strides"][1]))


def _by_vectors(copy: Stage, sums: Stage, p: _Product, machine: Machine, choose: Choose) -> None:
    """Schedule sums in vector registers, and their copy to memory."""
    lanes = min(machine.lanes(p.anchor.body[0].dtype), p.filters)
    sizes = p.columns, p.filters // lanes
    pixels, vectors = choose("registers", pixel_tiles(machine, *sizes, *p.scratch), p.tile(machine, *sizes))
    first, second, y, x, k = copy.op.root_iter_vars
    far, k = copy.split(k, vectors * lanes)
    vector, k = copy.split(k, lanes)
    across, x = copy.split(x, pixels)
    copy.reorder(first, second, far, y, across, x, vector, k)
    copy.unroll(x)
    copy.unroll(vector)
    copy.vectorize(k)
    sums.compute_at(copy, across)
    op = sums.op
    assert isinstance(op, ComputeOp)
    first, second, y, x, k = op.axis
    at = len(op.reduce_axis) - 1 - p.within
    *window, channel = op.reduce_axis[:at + 1]
    steps = choose("steps", [count for count in divisors(p.steps) if count <= MOST_REPEATED], p.usual_steps)
    calls = p.steps // steps
    repeated = choose("repeat", [count for count in divisors(calls) if count * steps <= MOST_REPEATED],
                      divisor(calls, min(REPEATED, MOST_REPEATED // steps)) if p.repeats else 1)
    step, channel = sums.split(channel, steps * p.together)
    step, repeat = sums.split(step, repeated)
    vector, k = sums.split(k, lanes)
    sums.reorder(first, second, y, *window, step, repeat, x, vector, k, channel, *op.reduce_axis[at + 1:])
    for axis in (repeat, x, vector):
        sums.unroll(axis)
    sums.tensorize(k, p.intrinsic(lanes, steps))
