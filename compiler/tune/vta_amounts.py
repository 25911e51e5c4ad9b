"""Amounts of candidates for the accelerator: steps, bytes, instructions, room. Their ratios are the cost model's features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.cuts import CHUNK, TILE, Cuts, Ints, Work, cycles_of, fits, insns_of
from vtakit.compiler.nn.vta.depthwise import Depthwise2d
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.tiles import Pair, Sizes, Tilings
from vtakit.hw.isa.config import INSN_BYTES

Floats = npt.NDArray[np.floating[Any]]
START_CYCLES = 24  # beside the latency, until a LOAD's first element is in the scratchpad, as in `vtakit.compiler.nn.vta.cuts`
_LEAST = 2.0**-20  # of a ratio whose logarithm is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Amounts of candidates, each an array [candidates].

    cycles  : the schedule rule's estimate
    steps   : of GEMM, DWCONV and ALU, together
    inputs, weights, beside : bytes that are read; `beside` those of residuals and parameters
    insns   : instructions
    least   : bytes that any candidate reads: everything once
    written : bytes that are stored
    tiles, chunks, threads, copies : of the program; of a tile; virtual threads; copies of a chunk that fit
    boxes, stores : LOADs of a chunk's inputs, STOREs of a tile
    keep    : 1 where weights stay for all tiles of their blocks
    rooms   : shares of the accumulator, input and weight scratchpads that one copy takes
    row     : bytes of the input that follow each other in DRAM
    sizes   : of each loop's part, for the loops of the tile and of the chunk
    whole   : extents of these loops
    passes  : ALU steps for each value
    """

    cycles: Floats
    steps: Floats
    inputs: Floats
    weights: Floats
    beside: Floats
    insns: Floats
    least: Floats
    written: Floats
    tiles: Floats
    chunks: Floats
    threads: Floats
    copies: Floats
    boxes: Floats
    stores: Floats
    keep: Floats
    rooms: Sequence[Floats]
    row: Floats
    sizes: Sequence[Floats]
    whole: Sequence[int]
    passes: Floats

    def features(self, target: Target) -> npt.NDArray[np.float32]:
        """Return features [candidates, features]: logarithms of ratios, shares and small counts, none of which grows with the
        operator.
        """
        system = target.system
        rate, latency = system.bytes_a_cycle, float(system.latency + START_CYCLES)
        bus = (self.inputs + self.weights + self.beside + self.insns * INSN_BYTES) / rate
        parts = self.tiles * self.chunks
        ideal = np.maximum(np.maximum(self.steps, (self.least + self.written) / rate), 1)
        step, load = self.steps / parts, (self.inputs + self.weights) / rate / parts
        store = self.written / rate / self.tiles
        waste = [np.ceil(whole / size) * size / whole for size, whole in zip(self.sizes, self.whole, strict=True)]
        found = [
            _log(self.cycles / ideal), _log(np.maximum(self.steps, bus) / ideal), _log(self.steps / ideal), _log(bus / ideal),
            *[share / rate / ideal for share in (self.inputs, self.weights, self.beside, INSN_BYTES * self.insns, self.written)],
            _log(ideal / self.insns), _log(self.tiles), _log(self.chunks), self.threads, self.copies, self.keep,
            _log(self.boxes), _log(self.stores), *self.rooms, *[1 / np.maximum(room, 1 / 64) for room in self.rooms],
            _log(step / latency), _log(load / latency), _log(load / np.maximum(step, _LEAST)), _log(store / latency),
            _log(store / np.maximum(step * self.chunks, _LEAST)), parts * latency / ideal, self.tiles * latency / ideal,
            _log(self.row / rate / latency), _log(self.row), *map(_log, self.sizes),
            *[size / whole for size, whole in zip(self.sizes, self.whole, strict=True)], np.prod(waste, axis=0),
            np.max(waste, axis=0), *[np.full_like(self.tiles, np.log2(value)) for value in (rate, latency, system.outstanding)],
            self.passes, _log(self.steps * rate / (self.least + self.written)),
        ]
        rows: npt.NDArray[np.float32] = np.stack(np.broadcast_arrays(*found), 1).astype(np.float32)
        return rows


def _log(values: Floats) -> Floats:
    found: Floats = np.log2(np.maximum(values, _LEAST))
    return found


def amounts_of_products(work: Work, cuts: Cuts, threads: Ints, target: Target) -> Amounts:
    """Return the amounts of sums of products.

    threads : virtual threads of each cut
    """
    cfg, ones = target.config, np.ones(len(cuts.rows))
    tiles, chunks = cuts.parts(work, *TILE), cuts.parts(work, *CHUNK)
    needs = cuts.needs(work)
    copies = np.ones(len(cuts.rows), np.int64)
    cycles = cycles_of(replace(target, copies=1), work, cuts)
    for count in range(2, target.copies + 1):  # as many copies as fit, as the code generator has them
        for each in np.unique(threads):
            have = fits(replace(target, copies=count * int(each)), work, cuts, int(each)) & (threads == each)
            cycles = np.where(have, cycles_of(replace(target, copies=count), work, cuts), cycles)
            copies = np.where(have, count, copies)
    outputs = prod(getattr(work, name) for name in TILE)
    shares = prod(cuts.computed(work)) / (cuts.rows * cuts.columns)  # sums for each value of the result
    taps = prod(getattr(work, name) for name in CHUNK)
    windows = np.zeros(len(tiles)) if work.pooling is None else np.where(cuts.on_store(work), 0, work.pooling.steps)
    rows, columns = cuts.pixels(work)
    in_rows, in_columns = work.in_rows or rows, work.in_columns or columns
    wide = columns >= in_columns
    weights = work.out_blocks * taps * cfg.wgt_bytes
    residuals = work.tensors * outputs * cfg.inp_bytes
    least = work.images * work.in_blocks * in_rows * in_columns * cfg.inp_bytes + weights + residuals
    n = work.repeats
    return Amounts(
        cycles=cycles, steps=n * outputs * (shares * taps * work.taken + work.passes + windows),
        inputs=n * cuts.read_pixels(work) * cuts.images * cuts.in_blocks * cfg.inp_bytes * tiles * chunks * 1.0,
        weights=n * weights * np.where(cuts.keep, 1, tiles / -(-work.out_blocks // cuts.out_blocks)),
        beside=n * (residuals + work.vectors * cuts.out_blocks * cfg.acc_bytes * tiles * 1.0), insns=insns_of(work, cuts) * 1.0,
        least=n * least * ones, written=n * outputs * cfg.out_bytes * ones, tiles=n * tiles * 1.0, chunks=chunks * 1.0,
        threads=threads * 1.0, copies=copies * 1.0, boxes=cuts.images * cuts.in_blocks * np.where(wide, 1, rows) * 1.0,
        stores=cuts.stores(work) * ones, keep=cuts.keep * 1.0,
        rooms=[needs["acc"] / cfg.acc_depth, needs["inp"] / cfg.inp_depth, needs["wgt"] / cfg.wgt_depth],
        row=np.minimum(columns, in_columns) * np.where(wide, np.minimum(rows, in_rows), 1) * cfg.inp_bytes * 1.0,
        sizes=[getattr(cuts, name) * 1.0 for name in (*TILE, *CHUNK)], whole=[getattr(work, name) for name in (*TILE, *CHUNK)],
        passes=work.passes + windows,
    )


def amounts_of_elements(layer: Layer, tilings: Tilings, decided: Sequence[tuple[Sizes, Pair]], target: Target) -> Amounts:
    """Return the amounts of an operator without a reduction to split.

    decided : what its `decide` returns for each candidate
    """
    cfg, system, shape = target.config, target.system, shape_of(layer.result)[:4]
    sizes, taps = (np.array([each[at] for each in decided], np.float64) for at in (0, 1))
    loaded = np.array([tilings.loaded(chunk, tile) for tile, chunk in decided], np.float64)
    needs = [tilings.needs(chunk, tile) for tile, chunk in decided]
    rooms = {scope: np.array([need.get(scope, 0) for need in needs]) / target.depth(scope) for scope in ("acc", "inp", "wgt")}
    tiles, parts = np.ceil(np.array(shape) / sizes).prod(1), np.ceil(np.array(tilings.taps) / taps).prod(1)
    ones, elements, added = np.ones(len(tiles)), prod(shape), len(layer.epilogue.elements)
    steps = elements * (prod(tilings.taps) + added + 1) * ones
    if isinstance(layer, Depthwise2d):
        steps = tiles * loaded * prod(layer.parts.count)
    boxes = sizes[:, 0] * sizes[:, 1]
    stores = boxes * np.where(sizes[:, 3] == shape[3], 1, sizes[:, 2])
    insns = tiles * (parts * (boxes + 4) + stores + 6)
    inputs, beside = tiles * parts * loaded * cfg.inp_bytes, elements * added * cfg.inp_bytes
    bus = (inputs + beside + insns * INSN_BYTES) / system.bytes_a_cycle
    start = tiles * parts * (system.latency + START_CYCLES)
    least = sum(prod(shape_of(tensor)) for tensor in layer.operands) + beside
    copies = np.minimum(target.copies, np.floor(1 / np.max([*rooms.values()], axis=0)))
    return Amounts(
        cycles=np.maximum(bus, steps) + (np.minimum(bus, steps) + start) / 4, steps=steps, inputs=inputs, weights=0 * ones,
        beside=beside * ones, insns=insns, least=least * ones, written=elements * cfg.out_bytes * ones, tiles=tiles,
        chunks=parts, threads=ones, copies=copies, boxes=boxes, stores=stores, keep=0 * ones, rooms=[*rooms.values()],
        row=np.maximum(1, loaded / (boxes * sizes[:, 2])) * cfg.inp_bytes, sizes=[*sizes.T, ones, *taps.T],
        whole=[*shape, 1, *tilings.taps], passes=added * ones,
    )
