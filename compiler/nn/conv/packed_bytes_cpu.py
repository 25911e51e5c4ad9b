"""Convolutions of bytes and of bfloat16: tiles of pixels by filters, each one call of a micro-kernel, then what follows."""

from functools import partial

from vtakit.compiler.codegen.llvm.kernels.window_kernels import window, word_window
from vtakit.compiler.nn.cpu.flow import Flow, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.machine import TASKS, Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

MOST_PIXELS = 64  # of a tile: its sums stay in the first-level cache
LEAST_COLUMNS, MOST_COLUMNS = 8, 32  # of a tile: two rows of tile registers


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


def schedule_windows(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_packed" or "conv_words" and what follows it; return the operations that are done with.

    The weights of a few filters, which lie together, meet all pixels before those of the next. A tile's sums go through the
    first-level cache to what follows, which takes vectors of as many channels.

    Decisions: tile, its rows and columns of pixels; parallel, whether threads share filters, or tiles as well.
    """
    choose = partial(s[anchor].choose, rule="schedule_windows")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, blocks, height, width, block = extents(anchor)
    filters = anchor.attrs["filters"]
    rows, columns = choose("tile", tiles(height, width), pixels_of(height, width))

    out = s[last]
    n, m, y, x, lane = out.op.root_iter_vars
    part, lane = out.split(lane, filters)
    down, y = out.split(y, rows)
    across, x = out.split(x, columns)
    out.reorder(n, m, part, down, across, y, x, lane)
    few = images * blocks * (block // filters) < TASKS
    tiled = choose("parallel", ["filters", "tiles"], "tiles" if few else "filters") == "tiles"
    outer = [n, m, part, down, across] if tiled else [n, m, part]
    place = outer[0]
    for axis in outer[1:]:
        place = out.fuse(place, axis)
    out.parallel(place)
    out.vectorize(lane)

    inner = s[sums]
    inner.compute_at(out, across if outer[-1] is part else place)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    first, second, y, x, k = made.axis
    inner.reorder(first, second, y, x, k, *made.reduce_axis)
    sizes = [extent(axis) for axis in made.reduce_axis]
    steps = anchor.attrs["strides"]
    if anchor.tag == "conv_packed":
        kind = str(next(loads(anchor)).tensor.dtype)
        record = window(kind, (rows, columns), filters, (sizes[0], sizes[1], sizes[2], sizes[3]), strides=steps,
                        dilations=anchor.attrs["dilations"])
    else:
        record = word_window((rows, columns), filters, (sizes[0], sizes[1]), strides=steps)
    inner.tensorize(y, record)
    return {anchor, *followers}
