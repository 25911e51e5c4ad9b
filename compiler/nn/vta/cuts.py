"""Cuts of a convolution into parts that fit the scratchpads, and the estimate of their cycles.

A *tile* is a part of the result that stays in the accumulator until it is stored. A *chunk* is a part of a tile's reduction,
whose inputs and weights are loaded together. Every scratchpad holds `copies` of what belongs to a tile or chunk, so that
one is loaded or stored while another is computed.
"""

from dataclasses import dataclass, field, fields
from math import prod

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.between import MOST_GROUPS
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.hw.isa.config import INSN_BYTES

BURST_CYCLES = 8  # beside the latency, from one burst until the place of its request is free
GAP_CYCLES = 2  # between the data of one LOAD and the next
OTHER_INSNS = 4  # of a chunk, beside the LOADs of its inputs
EXPOSED_DIVISOR = 32  # 1/32 of a chunk's load time is not hidden behind its GEMM steps (measured on the reference system)
STAGE_CYCLES = 24  # beside the latency, from a token that lets a LOAD start until its first element is in the scratchpad
STORE_CYCLES = 13  # of a REQUANT beside its data, measured
ACC_CYCLES = 4  # of a LOAD to the accumulator for each element, beside products that write there in nearly every cycle, measured
TILE = "images", "out_blocks", "rows", "columns"
CHUNK = "in_blocks", "kernel_rows", "kernel_columns"

Ints = npt.NDArray[np.int64]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The loops of a convolution, channels and images in blocks, and what else a tile needs.

    images, out_blocks, rows, columns : of the result
    pooling : of the convolution's accumulators, whose windows are the result's pixels
    stored  : true if REQUANT can pool, in the tiles that `Cuts.on_store` returns
    in_blocks, kernel_rows, kernel_columns : of the reduction
    in_rows, in_columns : of the input, without pads; 0 if unknown
    row_step, column_step : of the input, for one of the result; row_dilation, column_dilation : for one tap
    digits  : of the weights; the whole reduction is computed with each
    passes  : over a tile's accumulators, beside the products
    tensors : that are loaded to the accumulator beside the result, one element each; vectors : one for each output block
    begun   : whether the sums begin with one of the tensors, in its place
    lifted  : how many of the tensors products bring there, from INP
    repeats : groups or phases, each a convolution of its own
    store_loops : of a tile, around what one instruction stores
    left_out : share of the products that are not computed, since they are with pads
    between  : whether a tile's blocks are stored between its last products and the next one's first
    """

    images: int
    out_blocks: int
    rows: int
    columns: int
    in_blocks: int
    kernel_rows: int
    kernel_columns: int
    in_rows: int = 0
    in_columns: int = 0
    row_step: int = 1
    column_step: int = 1
    row_dilation: int = 1
    column_dilation: int = 1
    digits: int = 1
    passes: int = 1
    tensors: int = 0
    begun: bool = False
    lifted: int = 0
    vectors: int = 0
    repeats: int = 1
    store_loops: tuple[str, ...] = ("images", "out_blocks")
    pooling: Pooling | None = None
    stored: bool = False
    left_out: float = 0.0
    between: bool = False

    @property
    def taken(self) -> float:
        """Return the share of the products that are computed."""
        return 1 - self.left_out


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
class Cuts:
    """Many cuts, the sizes of each in one place of all arrays."""

    images: Ints
    out_blocks: Ints
    rows: Ints
    columns: Ints
    in_blocks: Ints
    kernel_rows: Ints
    kernel_columns: Ints
    keep: Ints

    def take(self, where: npt.NDArray[np.bool_]) -> "Cuts":
        """Return the cuts where a mask is true."""
        return Cuts(**{one.name: getattr(self, one.name)[where] for one in fields(self)})

    def cut(self, at: int, cycles: float) -> Cut:
        """One of them, with its estimate."""
        sizes = {one.name: int(getattr(self, one.name)[at]) for one in fields(self) if one.name != "keep"}
        return Cut(**sizes, keep=bool(self.keep[at]), cycles=int(cycles))

    def parts(self, work: Work, *names: str) -> Ints:
        """Return the number of parts that loops are cut into."""
        return np.asarray(prod(-(-getattr(work, name) // getattr(self, name)) for name in names))

    def stores(self, work: Work) -> Ints:
        """Instructions that store a tile."""
        return np.asarray(prod(getattr(self, name) for name in work.store_loops))

    def groups_stored(self, work: Work) -> Ints:
        """Return the groups in which a tile's blocks are stored, each while another is computed."""
        found: Ints = np.minimum(MOST_GROUPS, self.stores(work)) if work.between else np.ones_like(self.rows)
        return found

    @property
    def outputs(self) -> Ints:
        """Accumulators of a tile."""
        return self.out_blocks * self.images * self.rows * self.columns

    def computed(self, work: Work) -> tuple[Ints, Ints]:
        """Return rows and columns of the convolution for a tile: more than its own where windows are pooled."""
        if work.pooling is None:
            return self.rows, self.columns
        (down, across), (rows, columns) = work.pooling.stride, work.pooling.kernel
        return (self.rows - 1) * down + rows, (self.columns - 1) * across + columns

    def products(self, work: Work) -> Ints:
        """Return the accumulators of a tile's convolution beside those of its result, which only pooling needs."""
        if work.pooling is None:
            return np.zeros_like(self.rows)
        return self.out_blocks * self.images * prod(self.computed(work))

    def on_store(self, work: Work) -> npt.NDArray[np.bool_]:
        """Return where REQUANT finds the greatest of windows: in tiles of equal columns, with a place for each pad.

        A tile as wide or as high as the result has no column or row of pads in the accumulator, and the last tile of several may
        not be narrower. A row of pads may lie in front of a tile, if there is room: where that is not known.
        """
        if work.pooling is None or not work.stored:
            return np.zeros(self.columns.shape, np.bool_)
        found: npt.NDArray[np.bool_] = work.columns % self.columns == 0
        above, _, left, _ = work.pooling.pad
        return found & ((self.columns < work.columns) | (left == 0)) & ((self.rows < work.rows) | (above == 0))

    @property
    def run(self) -> Ints:
        """Weight elements of one output block in a chunk."""
        return self.in_blocks * self.kernel_rows * self.kernel_columns

    def pixels(self, work: Work) -> tuple[Ints, Ints]:
        """Rows and columns of the input for one chunk of a tile."""
        rows, columns = self.computed(work)
        return (
            (rows - 1) * work.row_step + (self.kernel_rows - 1) * work.row_dilation + 1,
            (columns - 1) * work.column_step + (self.kernel_columns - 1) * work.column_dilation + 1,
        )

    def read_pixels(self, work: Work) -> Ints:
        """Pixels of the input that a chunk of a tile reads, without pads."""
        rows, columns = self.pixels(work)
        return np.minimum(rows, work.in_rows or rows) * np.minimum(columns, work.in_columns or columns)

    def needs(self, work: Work) -> dict[str, Ints]:
        """Elements of each scratchpad for a tile or a chunk."""
        whole, (rows, columns) = work.in_blocks * work.kernel_rows * work.kernel_columns, self.pixels(work)
        return {
            "acc": self.products(work) + self.outputs * (1 + work.tensors - work.begun) + self.out_blocks * work.vectors,
            "inp": self.images * self.in_blocks * rows * columns * work.digits // self.shared(work) + self.outputs * work.lifted,
            "wgt": self.out_blocks * np.where(self.keep, whole, self.run) * work.digits + work.lifted,
        }

    def shared(self, work: Work) -> Ints:
        """Return for how many digits of the weights a chunk's data is loaded once: all, if it is the whole reduction."""
        return np.where(self.parts(work, *CHUNK) == 1, work.digits, 1)


def fits(target: Target, work: Work, cuts: Cuts, threads: int = 1) -> npt.NDArray[np.bool_]:
    """Return a mask of the cuts that fit with all of the target's copies; accumulators need one for each virtual thread."""
    copies = {"acc": threads, "inp": target.copies, "wgt": target.copies}
    found: npt.NDArray[np.bool_] = np.logical_and.reduce(
        [need * copies[scope] <= target.depth(scope) for scope, need in cuts.needs(work).items()])
    return found


def cycles_of(target: Target, work: Work, cuts: Cuts) -> npt.NDArray[np.float64]:
    """The estimate: of a chunk the longer of steps and loads, of a tile its passes or its stores, and what nothing hides."""
    cfg, rate, start = target.config, target.system.bytes_a_cycle, STAGE_CYCLES + target.system.read_latency
    tiles, chunks = cuts.parts(work, *TILE), cuts.parts(work, *CHUNK) * work.digits
    outputs = prod(getattr(work, name) for name in TILE) / tiles  # of a tile; the last of a loop may be smaller
    pixels = outputs if work.pooling is None else outputs * prod(cuts.computed(work)) / (cuts.rows * cuts.columns)
    products = prod(getattr(work, name) for name in CHUNK) * work.digits * work.taken
    steps = pixels * products / chunks * target.params.gemm_passes  # cycles
    windows = 0 if work.pooling is None else work.pooling.steps  # steps for each value of the result
    on_store = cuts.on_store(work)
    passes = work.passes + np.where(on_store, 0, windows)
    needs, boxes = cuts.needs(work), cuts.images * cuts.in_blocks

    weights = cuts.out_blocks * cuts.run * cfg.wgt_bytes // rate
    insns = (boxes + OTHER_INSNS) * (INSN_BYTES / rate)
    rows, columns = cuts.pixels(work)
    short = np.where(columns < work.in_columns, (target.system.read_latency + BURST_CYCLES) / target.system.outstanding, 0)
    row = np.maximum(columns * cfg.inp_bytes / rate, short)  # a burst for each row, where rows do not follow each other in DRAM
    data = (boxes * rows * row // 1 + boxes * GAP_CYCLES) / cuts.shared(work) + insns
    loads = data + np.where(cuts.keep, 0, weights)
    # A chunk takes its steps, or its loads, or its share of a copy's turn: to be loaded, then computed with.
    busy = steps + (loads + start) // EXPOSED_DIVISOR
    chunk = np.maximum(np.maximum(busy, loads + start // 2), (start + loads + busy) / target.copies)

    parts = max(1, cfg.out_bytes * 8 // target.system.bus_bits)  # in which REQUANT reads an element
    stored = np.maximum(outputs * cfg.out_bytes // rate, np.where(on_store, windows * parts * outputs, 0))
    computed = chunks * chunk + passes * outputs
    total = tiles * np.maximum(computed, stored + STORE_CYCLES * cuts.stores(work))
    # Where the accumulators that are stored have one copy nothing hides stores. REQUANT needs no accumulators for maxima.
    once, none = np.where(on_store, 0, cuts.products(work)), np.where(on_store, cuts.outputs, 0)
    alone = once + (needs["acc"] - once - none) * target.copies > target.depth("acc")
    groups_stored = cuts.groups_stored(work)
    unhidden = (stored + work.tensors * outputs * cfg.inp_bytes // rate) / groups_stored + start
    total += np.where(alone, tiles * unhidden, 0)

    # Weights that are kept are loaded before a group's tiles, ahead of the products by so many chunks only; one copy of them is
    # in use until the last.
    groups, whole = -(-work.out_blocks // cuts.out_blocks), chunks * weights
    late = np.maximum(0, whole - (target.copies * chunk if target.copies > 1 else 0))
    kept = np.maximum(total + groups * late, groups * whole + tiles * chunks * loads)

    # All reads share the bus: inputs without pads, weights, instructions, residuals, parameters. With a DRAM writes take it too.
    read = cuts.read_pixels(work) * boxes * cfg.inp_bytes / cuts.shared(work) / rate + insns
    beside = (work.tensors * outputs * cfg.inp_bytes + work.vectors * cuts.out_blocks * cfg.acc_bytes) / rate
    bus = tiles * (chunks * read + beside + target.system.write_share * stored) + np.where(cuts.keep, groups, tiles) * whole

    # What nothing hides: the first loads, the last store, micro-ops, and a residual's first tile, which its passes wait for.
    kernels = np.minimum(cuts.out_blocks * cuts.run, steps) * target.copies**2 * cfg.uop_bytes // rate
    residuals = ACC_CYCLES * work.tensors * outputs
    first = np.where(cuts.keep, whole, weights) + data
    hidden = np.maximum(work.repeats * np.where(cuts.keep, kept, total), work.repeats * bus - first)
    found: npt.NDArray[np.float64] = hidden + first + stored / groups_stored + kernels + residuals
    return found


def insns_of(work: Work, cuts: Cuts) -> Ints:
    """The estimate of instructions: LOADs and a GEMM of each chunk; of a tile its stores, its passes, and what overwrites."""
    tiles, chunks = cuts.parts(work, *TILE), cuts.parts(work, *CHUNK)
    rows, columns = cuts.pixels(work)
    pointwise = work.kernel_rows * work.kernel_columns * work.row_step * work.column_step == 1
    boxes = np.where(rows * columns == 1, 1, cuts.images) * np.where(
        (rows == 1) | pointwise, chunks, cuts.parts(work, *CHUNK[1:]) * work.in_blocks)
    uneven = (work.in_blocks % cuts.in_blocks != 0) | (work.kernel_rows % cuts.kernel_rows != 0)
    weights = np.where(cuts.keep, 0, chunks + uneven * cuts.out_blocks)  # the last of a loop leaves gaps in the scratchpad
    weights, chunks, boxes = weights * work.digits, chunks * work.digits, boxes * work.digits // cuts.shared(work)
    beside = work.tensors * cuts.images * cuts.out_blocks + work.passes + 1
    found: Ints = work.repeats * tiles * (boxes + weights + chunks + cuts.stores(work) + beside)
    split: Ints = 2 * tiles * (cuts.groups_stored(work) - 1)  # a tile's last products, and the next one's first
    return found + work.repeats * split
