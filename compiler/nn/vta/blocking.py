"""How a convolution is cut into parts that fit the scratchpads, by an estimate of its cycles.

A *tile* is a part of the result that stays in the accumulator until it is stored. A *chunk* is a part of a tile's reduction,
whose inputs and weights are loaded together. Every scratchpad holds `copies` of what belongs to a tile or chunk, so that
one is loaded or stored while another is computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from math import prod

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.hw.isa.config import INSN_BYTES

# The reference system: one 64-bit port, one beat a cycle, 40 cycles of latency. A cut is right for any other.
BUS_BYTES = 8
_REMEMBERED = 256  # cuts of layers; networks have many alike
START_CYCLES = 64  # from a token that lets a LOAD start until its first element is in the scratchpad


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The loops of a convolution, channels and images in blocks, and what else a tile needs.

    images, out_blocks, rows, columns : of the result
    in_blocks, kernel_rows, kernel_columns : of the reduction
    row_step, column_step : of the input, for one of the result; row_dilation, column_dilation : for one tap
    passes  : over a tile's accumulators, beside the products
    tensors : that are loaded to the accumulator beside the result, one element each; vectors : one for each output block
    """

    images: int
    out_blocks: int
    rows: int
    columns: int
    in_blocks: int
    kernel_rows: int
    kernel_columns: int
    row_step: int = 1
    column_step: int = 1
    row_dilation: int = 1
    column_dilation: int = 1
    passes: int = 1
    tensors: int = 0
    vectors: int = 0
    repeats: int = 1  # groups or phases, each a convolution of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The sizes of a tile and of a chunk.

    keep : whether the weights of a tile's whole reduction are loaded once for all tiles of its output blocks
    cycles : the estimate; not part of the cut
    """

    images: int
    out_blocks: int
    rows: int
    columns: int
    in_blocks: int
    kernel_rows: int
    kernel_columns: int
    keep: bool
    cycles: int = field(default=0, compare=False)

    @property
    def area(self) -> int:
        """Accumulators of one output block."""
        return self.images * self.rows * self.columns

    @property
    def run(self) -> int:
        """Weight elements of one output block in a chunk."""
        return self.in_blocks * self.kernel_rows * self.kernel_columns

    def pixels(self, work: Work) -> tuple[int, int]:
        """Rows and columns of the input for one chunk of a tile."""
        return (
            (self.rows - 1) * work.row_step + (self.kernel_rows - 1) * work.row_dilation + 1,
            (self.columns - 1) * work.column_step + (self.kernel_columns - 1) * work.column_dilation + 1,
        )

    def inputs(self, work: Work) -> int:
        """Input elements of a chunk."""
        return self.images * self.in_blocks * prod(self.pixels(work))


def even_sizes(whole: int) -> list[int]:
    """The sizes of the largest of one, two, three … nearly equal parts of a loop, ascending."""
    return sorted({-(-whole // parts) for parts in range(1, whole + 1)})


@lru_cache(maxsize=_REMEMBERED)
def choose(target: Target, work: Work) -> Cut:
    """The cut that fits and should take least time, with the target's copies or, where none fits, fewer.

    Raises VtaError if not even one copy of the smallest part fits, naming the scratchpad that is too small.
    """
    for copies in range(target.copies, 0, -1):
        fewer, best = replace(target, copies=copies), None
        for cut in _cuts(work):
            if _overflow(fewer, work, cut) is None:
                timed = replace(cut, cycles=_cycles(fewer, work, cut))
                best = timed if best is None or timed.cycles < best.cycles else best
        if best is not None:
            return best
    least = Cut(images=1, out_blocks=1, rows=1, columns=1, in_blocks=1, kernel_rows=1, kernel_columns=1, keep=False)
    raise VtaError(f"no part of the operator fits: {_overflow(replace(target, copies=1), work, least)}; enlarge it")


def _cuts(work: Work) -> Iterator[Cut]:
    """Tiles of whole rows, of parts of a row, or of whole images; chunks of whole kernels or parts of one."""
    areas = [(1, 1, n) for n in even_sizes(work.columns)] + [(1, n, work.columns) for n in even_sizes(work.rows)]
    areas += [(n, work.rows, work.columns) for n in even_sizes(work.images)]
    kernel = work.kernel_rows, work.kernel_columns
    runs = [(1, 1, n) for n in even_sizes(kernel[1])] + [(1, n, kernel[1]) for n in even_sizes(kernel[0])]
    runs += [(n, *kernel) for n in even_sizes(work.in_blocks)]
    for blocks, area, run, keep in product(even_sizes(work.out_blocks), dict.fromkeys(areas), dict.fromkeys(runs), (False, True)):
        yield Cut(
            images=area[0], out_blocks=blocks, rows=area[1], columns=area[2], in_blocks=run[0], kernel_rows=run[1],
            kernel_columns=run[2], keep=keep,
        )


def _weights(work: Work, cut: Cut) -> int:
    """Weight elements that are in the scratchpad for one tile or chunk."""
    whole = work.in_blocks * work.kernel_rows * work.kernel_columns
    return cut.out_blocks * (whole if cut.keep else cut.run)


def _overflow(target: Target, work: Work, cut: Cut) -> str | None:
    """Which scratchpad a cut overflows; None if it fits."""
    needs = {
        "acc": cut.out_blocks * (cut.area * (1 + work.tensors) + work.vectors), "inp": cut.inputs(work),
        "wgt": _weights(work, cut),
    }
    for scope, need in needs.items():
        if need * target.copies > target.depth(scope):
            return f"{need} elements are more than the {target.depth(scope)} of the {scope} scratchpad"
    return None


def _cycles(target: Target, work: Work, cut: Cut) -> int:
    """The estimate: of a chunk the longer of steps and loads, of a tile its passes, and what nothing hides."""
    cfg = target.config
    tiles = prod(-(-getattr(work, name) // getattr(cut, name)) for name in ("images", "out_blocks", "rows", "columns"))
    chunks = prod(-(-getattr(work, name) // getattr(cut, name)) for name in ("in_blocks", "kernel_rows", "kernel_columns"))
    outputs = cut.out_blocks * cut.area
    weights = cut.out_blocks * cut.run * cfg.wgt_bytes // BUS_BYTES
    rows = cut.images * cut.in_blocks
    data = cut.inputs(work) * cfg.inp_bytes // BUS_BYTES + rows * (2 + INSN_BYTES // BUS_BYTES) + 4 * INSN_BYTES // BUS_BYTES
    loads = data + START_CYCLES + (0 if cut.keep else weights)
    steps = outputs * cut.run
    per_tile = chunks * (max(steps, loads) + loads // 32) + work.passes * outputs
    stored = outputs * cfg.out_bytes // BUS_BYTES
    kernels = min(cut.out_blocks * cut.run, steps) * target.copies**2 * cfg.uop_bytes // BUS_BYTES
    total: int = tiles * per_tile
    if cut.keep:  # weights are loaded before a group's tiles, ahead of the products by so many chunks only
        groups, whole = -(-work.out_blocks // cut.out_blocks), chunks * weights
        late = max(0, whole - target.copies * max(steps, loads))
        total = max(total + groups * late, groups * whole + tiles * chunks * loads)
        weights = whole
    return work.repeats * total + weights + data + stored + kernels
