"""How a convolution is cut into parts that fit the scratchpads, by an estimate of its cycles.

A *tile* is a part of the result that stays in the accumulator until it is stored. A *chunk* is a part of a tile's reduction,
whose inputs and weights are loaded together. Every scratchpad holds `copies` of what belongs to a tile or chunk, so that
one is loaded or stored while another is computed.
"""

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.hw.isa.config import INSN_BYTES

# The reference system: one 64-bit port, one beat a cycle, 40 cycles of latency. A cut is right for any other.
BUS_BYTES = 8
_REMEMBERED = 256  # cuts of layers; networks have many alike
INSN_BEATS = INSN_BYTES // BUS_BYTES  # the fetch of an instruction
GAP_BEATS = 2  # between the data of one LOAD and the next
OTHER_INSNS = 4  # of a chunk, beside the LOADs of its inputs
FELT = 32  # one cycle in so many of a chunk's loads is felt beside its steps, measured
START_CYCLES = 64  # from a token that lets a LOAD start until its first element is in the scratchpad
STORE_CYCLES = 13  # of a REQUANT beside its data, measured
ACC_CYCLES = 4  # of a LOAD to the accumulator for each element, beside products that write there in nearly every cycle, measured
# A program of more instructions takes the slowest of the cuts of SLACK with fewest: it would take long to make, and much memory.
MANY_INSNS = 10_000
SLACK = 0.01

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The loops of a convolution, channels and images in blocks, and what else a tile needs.

    images, out_blocks, rows, columns : of the result
    in_blocks, kernel_rows, kernel_columns : of the reduction
    row_step, column_step : of the input, for one of the result; row_dilation, column_dilation : for one tap
    passes  : over a tile's accumulators, beside the products
    tensors : that are loaded to the accumulator beside the result, one element each; vectors : one for each output block
    repeats : groups or phases, each a convolution of its own
    store_loops : of a tile, around what one instruction stores
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
    repeats: int = 1
    store_loops: tuple[str, ...] = ("images", "out_blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The sizes of a tile and of a chunk.

    keep : whether the weights of a tile's whole reduction are loaded once for all tiles of its output blocks
    cycles : the estimate; not part of the cut

    Raises VtaError for sizes that are no numbers of at least 1.
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

    def __post_init__(self) -> None:
        for one in fields(self)[:7]:
            object.__setattr__(self, one.name, whole(f"a cut: {one.name}", getattr(self, one.name), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cuts:
    """Many cuts, the sizes of each in one place of all arrays."""

    images: Ints
    out_blocks: Ints
    rows: Ints
    columns: Ints
    in_blocks: Ints
    kernel_rows: Ints
    kernel_columns: Ints
    keep: Ints

    def take(self, where: npt.NDArray[np.bool_]) -> "_Cuts":
        """Those for which it is true."""
        return _Cuts(**{one.name: getattr(self, one.name)[where] for one in fields(self)})

    def cut(self, at: int, cycles: float) -> Cut:
        """One of them, with its estimate."""
        sizes = {one.name: int(getattr(self, one.name)[at]) for one in fields(self) if one.name != "keep"}
        return Cut(**sizes, keep=bool(self.keep[at]), cycles=int(cycles))

    def parts(self, work: Work, *names: str) -> Ints:
        """How many parts loops are cut into."""
        return np.asarray(prod(-(-getattr(work, name) // getattr(self, name)) for name in names))

    def stores(self, work: Work) -> Ints:
        """Instructions that store a tile."""
        return np.asarray(prod(getattr(self, name) for name in work.store_loops))

    @property
    def outputs(self) -> Ints:
        """Accumulators of a tile."""
        return self.out_blocks * self.images * self.rows * self.columns

    @property
    def run(self) -> Ints:
        """Weight elements of one output block in a chunk."""
        return self.in_blocks * self.kernel_rows * self.kernel_columns

    def pixels(self, work: Work) -> tuple[Ints, Ints]:
        """Rows and columns of the input for one chunk of a tile."""
        return (
            (self.rows - 1) * work.row_step + (self.kernel_rows - 1) * work.row_dilation + 1,
            (self.columns - 1) * work.column_step + (self.kernel_columns - 1) * work.column_dilation + 1,
        )

    def needs(self, work: Work) -> dict[str, Ints]:
        """Elements of each scratchpad for a tile or a chunk."""
        whole, (rows, columns) = work.in_blocks * work.kernel_rows * work.kernel_columns, self.pixels(work)
        return {
            "acc": self.outputs * (1 + work.tensors) + self.out_blocks * work.vectors,
            "inp": self.images * self.in_blocks * rows * columns,
            "wgt": self.out_blocks * np.where(self.keep, whole, self.run),
        }


def even_sizes(whole: int) -> list[int]:
    """The sizes of the largest of one, two, three … nearly equal parts of a loop, ascending."""
    return sorted({-(-whole // parts) for parts in range(1, whole + 1)})


@lru_cache(maxsize=_REMEMBERED)
def choose(target: Target, work: Work) -> Cut:
    """The cut that fits and should take least time, with the target's copies or, where none fits, fewer.

    Where that takes many instructions, it is the one with fewest that takes hardly longer.

    Raises VtaError if not even one copy of the smallest part fits, naming the scratchpad that is too small.
    """
    for copies in range(target.copies, 0, -1):
        fewer = replace(target, copies=copies)
        best = _best(fewer, work, _cuts(work, _areas(work)), slack=0)
        if best is not None:
            cut, insns = best
            few = _best(fewer, work, _cuts(work, _parts_of_rows(work)), slack=SLACK) if insns > MANY_INSNS else None
            return few[0] if few is not None else cut
    one = np.ones(1, np.int64)
    least = _Cuts(**dict.fromkeys([one.name for one in fields(_Cuts)], one) | {"keep": 0 * one})
    scope, need = next((scope, need[0]) for scope, need in least.needs(work).items() if need[0] > target.depth(scope))
    raise VtaError(f"no part of the operator fits: {need} elements are more than the {target.depth(scope)} of the {scope} "
                   "scratchpad; enlarge it")


def _best(target: Target, work: Work, cuts: _Cuts, slack: float) -> tuple[Cut, int] | None:
    """Of the cuts that fit and take hardly longer than the fastest the one with fewest instructions, and how many; or none."""
    fitting = cuts.take(_fits(target, work, cuts))
    if not len(fitting.rows):
        return None
    cycles, insns = _cycles(target, work, fitting), _insns(work, fitting)
    slow = cycles > cycles.min() * (1 + slack)
    best = int(np.lexsort((cycles, insns, slow) if slack else (cycles,))[0])
    return fitting.cut(best, cycles[best]), int(insns[best])


_Area = tuple[int, int, int]  # images, rows, columns of a tile


def _areas(work: Work) -> list[_Area]:
    """Tiles of a part of one row, of whole rows, or of whole images."""
    areas = [(1, 1, n) for n in even_sizes(work.columns)] + [(1, n, work.columns) for n in even_sizes(work.rows)]
    return [*dict.fromkeys(areas + [(n, work.rows, work.columns) for n in even_sizes(work.images)])]


def _parts_of_rows(work: Work) -> list[_Area]:
    """Those, and tiles of equal parts of several rows: too many to look at where a few instructions do.

    Of parts that are not equal the last leaves gaps in the scratchpad, and each row of it takes instructions of its own.
    """
    whole = [columns for columns in even_sizes(work.columns) if work.columns % columns == 0]
    parts = [(1, rows, columns) for rows in even_sizes(work.rows) for columns in whole]
    return [*dict.fromkeys(_areas(work) + parts)]


def _cuts(work: Work, areas: list[_Area]) -> _Cuts:
    """Tiles of such areas and of any output blocks; chunks of whole kernels or parts of one."""
    kernel = work.kernel_rows, work.kernel_columns
    runs = [(1, 1, n) for n in even_sizes(kernel[1])] + [(1, n, kernel[1]) for n in even_sizes(kernel[0])]
    runs += [(n, *kernel) for n in even_sizes(work.in_blocks)]
    loops = [np.array(sizes) for sizes in (even_sizes(work.out_blocks), areas, [*dict.fromkeys(runs)], [0, 1])]
    blocks, area, run, keep = [loop[at] for loop, at in zip(
        loops, np.indices([len(loop) for loop in loops]).reshape(len(loops), -1), strict=True)]
    return _Cuts(
        images=area[:, 0], out_blocks=blocks, rows=area[:, 1], columns=area[:, 2], in_blocks=run[:, 0], kernel_rows=run[:, 1],
        kernel_columns=run[:, 2], keep=keep,
    )


def _fits(target: Target, work: Work, cuts: _Cuts) -> npt.NDArray[np.bool_]:
    """Whether each fits with all of the target's copies, of the accumulators with one."""
    copies = {"acc": 1, "inp": target.copies, "wgt": target.copies}
    found: npt.NDArray[np.bool_] = np.logical_and.reduce(
        [need * copies[scope] <= target.depth(scope) for scope, need in cuts.needs(work).items()])
    return found


_TILE = "images", "out_blocks", "rows", "columns"
_CHUNK = "in_blocks", "kernel_rows", "kernel_columns"


def _cycles(target: Target, work: Work, cuts: _Cuts) -> npt.NDArray[np.float64]:
    """The estimate: of a chunk the longer of steps and loads, of a tile its passes or its stores, and what nothing hides."""
    cfg = target.config
    tiles, chunks = cuts.parts(work, *_TILE), cuts.parts(work, *_CHUNK)
    outputs = prod(getattr(work, name) for name in _TILE) / tiles  # of a tile; the last of a loop may be smaller
    steps = outputs * prod(getattr(work, name) for name in _CHUNK) / chunks
    needs, boxes = cuts.needs(work), cuts.images * cuts.in_blocks

    weights = cuts.out_blocks * cuts.run * cfg.wgt_bytes // BUS_BYTES
    data = needs["inp"] * cfg.inp_bytes // BUS_BYTES + boxes * (GAP_BEATS + INSN_BEATS) + OTHER_INSNS * INSN_BEATS
    loads = data + START_CYCLES + np.where(cuts.keep, 0, weights)
    chunk = np.maximum(steps, loads)

    stored = outputs * cfg.out_bytes // BUS_BYTES
    computed = chunks * (chunk + loads // FELT) + work.passes * outputs
    total = tiles * np.maximum(computed, stored + STORE_CYCLES * cuts.stores(work))
    # Where the accumulators have one copy nothing hides stores.
    alone = needs["acc"] * target.copies > target.depth("acc")
    unhidden = stored + work.tensors * outputs * cfg.inp_bytes // BUS_BYTES + START_CYCLES
    total += np.where(alone, tiles * unhidden, 0)

    # Weights that are kept are loaded before a group's tiles, ahead of the products by so many chunks only.
    groups, whole = -(-work.out_blocks // cuts.out_blocks), chunks * weights
    late = np.maximum(0, whole - target.copies * chunk)
    kept = np.maximum(total + groups * late, groups * whole + tiles * chunks * loads)

    # What nothing hides: the first loads, the last store, micro-ops, and a residual's first tile, which its passes wait for.
    kernels = np.minimum(cuts.out_blocks * cuts.run, steps) * target.copies**2 * cfg.uop_bytes // BUS_BYTES
    beside = ACC_CYCLES * work.tensors * outputs
    found: npt.NDArray[np.float64] = (
        work.repeats * np.where(cuts.keep, kept, total) + np.where(cuts.keep, whole, weights) + data + stored + kernels + beside)
    return found


def _insns(work: Work, cuts: _Cuts) -> Ints:
    """The estimate of instructions: LOADs and a GEMM of each chunk; of a tile its stores, its passes, and what overwrites."""
    tiles, chunks = cuts.parts(work, *_TILE), cuts.parts(work, *_CHUNK)
    rows, columns = cuts.pixels(work)
    pointwise = work.kernel_rows * work.kernel_columns * work.row_step * work.column_step == 1
    boxes = np.where(rows * columns == 1, 1, cuts.images) * np.where(
        (rows == 1) | pointwise, chunks, cuts.parts(work, *_CHUNK[1:]) * work.in_blocks)
    uneven = (work.in_blocks % cuts.in_blocks != 0) | (work.kernel_rows % cuts.kernel_rows != 0)
    weights = np.where(cuts.keep, 0, chunks + uneven * cuts.out_blocks)  # the last of a loop leaves gaps in the scratchpad
    beside = work.tensors * cuts.images * cuts.out_blocks + work.passes + 1
    found: Ints = work.repeats * tiles * (boxes + weights + chunks + cuts.stores(work) + beside)
    return found
