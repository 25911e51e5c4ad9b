"""Programs made by hand: a blocked matrix product for any configuration and shape, made to keep the matrix core busy.

As in `sim.workloads`, a *tile* is a part of the result that stays in ACC until it is stored, a *chunk* a part of a tile's
reduction, and contexts take turns on slices of ACC (tiles) and of INP and WGT (chunks). Two things differ. The micro-ops of
a chunk run along the reduction, so that neighbouring steps add to one element. And no step is spent on zeros: a LOAD of
nothing but padding clears the next tile's slice while the present tile is multiplied.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import AluOp, MemType
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Program, Relocation
from vtakit.hw.values import Ints, pack, unpack, wrap
from vtakit.sim.blocking import BUS_BYTES, START_CYCLES, even_sizes, part_count, parts

AnyInts = npt.NDArray[np.integer[Any]]
CLEAR_CYCLES = 9  # for each element that a LOAD clears while every step writes to ACC


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """result[rows, columns] = requantized (data[rows, inner] x transpose(weights[columns, inner])).

    shift   bits that every sum is shifted right, by one ALU pass; 0: none
    clip    whether two more passes clip it to the output's range; without them STORE keeps the low bits

    Raises `ProgramError` if a size is out of range.
    """

    rows: int
    inner: int
    columns: int
    shift: int = 0
    clip: bool = False

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("inner", 1), ("columns", 1), ("shift", 0)):
            if getattr(self, name) < least:
                raise ProgramError(f"matrix product: {name} is {getattr(self, name)} and must be at least {least}")

    @property
    def macs(self) -> int:
        """Multiplications."""
        return self.rows * self.inner * self.columns

    def blocks(self, cfg: VTAConfig) -> "_Box":
        """All of the work in blocks.

        Raises `ProgramError` for a size that is not a whole number of blocks.
        """
        for name, block in (("rows", cfg.batch), ("inner", cfg.block), ("columns", cfg.block)):
            if getattr(self, name) % block:
                raise ProgramError(f"matrix product: {name} is {getattr(self, name)} and must be a multiple of {block}")
        return _Box(range(self.rows // cfg.batch), range(self.columns // cfg.block), range(self.inner // cfg.block))


class _Box(NamedTuple):
    """A part of the work: a range of every loop, in blocks. The first two make a tile, the last a chunk of it."""

    rows: range
    columns: range
    inner: range

    @property
    def area(self) -> int:
        """ACC elements."""
        return len(self.rows) * len(self.columns)

    def load_beats(self, cfg: VTAConfig) -> int:
        """Beats of the reference bus that a chunk's LOADs take, with one between rows."""
        rows = (len(self.rows), cfg.inp_bytes), (len(self.columns), cfg.wgt_bytes)
        return sum(count * (-(-len(self.inner) * size // BUS_BYTES) + 1) for count, size in rows)


def _choose_cut(cfg: VTAConfig, whole: _Box, contexts: int) -> _Box:
    """The first chunk of the cut that should take least time, with the first loads and the last store, which nothing hides."""
    smallest = min(cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth)
    if not 1 <= contexts <= smallest:
        raise ProgramError(f"contexts is {contexts} and must be from 1 to {smallest}, the elements of the smallest scratchpad")
    if contexts**2 > cfg.uop_depth:
        raise ProgramError(f"{contexts} contexts need {contexts**2} micro-ops, and the scratchpad holds {cfg.uop_depth}")

    def fits(cut: _Box) -> bool:
        return (cut.area <= cfg.acc_depth // contexts and len(cut.rows) * len(cut.inner) <= cfg.inp_depth // contexts
                and len(cut.columns) * len(cut.inner) <= cfg.wgt_depth // contexts
                and len(cut.inner) * contexts**2 <= cfg.uop_depth)

    def cycles(cut: _Box) -> int:
        counts = [part_count(loop, part) for loop, part in zip(whole, cut, strict=True)]
        loads, stores = cut.load_beats(cfg), cut.area * cfg.out_bytes // BUS_BYTES
        late = max(0, CLEAR_CYCLES - contexts * len(cut.inner)) * cut.area  # chunks behind a clearing LOAD retire after it
        return prod(counts) * max(cut.area * len(cut.inner), loads + START_CYCLES) + counts[0] * counts[1] * late + loads + stores

    cuts = (_Box._make(map(range, sizes)) for sizes in product(*map(even_sizes, whole)))
    return min(filter(fits, cuts), key=cycles)


class _Writer:
    """A matrix product's instructions as they are written."""

    def __init__(self, cfg: VTAConfig, shape: MatMul, contexts: int) -> None:
        self.cfg, self.shape, self.contexts = cfg, shape, contexts
        self.whole = shape.blocks(cfg)
        self.cut = _choose_cut(cfg, self.whole, contexts)
        self.insns: list[int] = []
        self.relocations: list[Relocation] = []
        self.acc, self.inp, self.wgt = (depth // contexts for depth in (cfg.acc_depth, cfg.inp_depth, cfg.wgt_depth))

    def uops(self) -> tuple[int, ...]:
        """For each tile's context and each chunk's, a micro-op for every block of the reduction."""
        pairs = product(range(self.contexts), range(self.contexts))
        return tuple(
            encode_uop(self.cfg, tile * self.acc, chunk * self.inp + at, chunk * self.wgt + at)
            for tile, chunk in pairs for at in self.cut.inner
        )

    def insn(self, op: str, symbol: str = "", /, **fields: int) -> None:
        """Any instruction; the dram_base of one with a symbol counts from that buffer."""
        if symbol:
            self.relocations.append(Relocation(len(self.insns), symbol))
        self.insns.append(encode(self.cfg, op, **fields))

    def clear(self, tile: _Box, number: int) -> None:
        """Write zeros to a tile's slice, once the tile that was there before is stored."""
        self.insn("load", memory_type=MemType.ACC, sram_base=number % self.contexts * self.acc, y_pad_0=1, x_size=tile.area,
                  pop_next=number >= self.contexts)

    def load(self, chunk: _Box, context: int, *, wait: bool) -> None:
        """Load a chunk; before it, `wait` for the last reader of its slices."""
        for symbol, kind, base, lines, more in (
            ("weights", MemType.WGT, context * self.wgt, chunk.columns, {"pop_next": int(wait)}),
            ("data", MemType.INP, context * self.inp, chunk.rows, {"push_next": 1}),
        ):
            pitch = len(self.whole.inner)
            self.insn("load", symbol, memory_type=kind, sram_base=base, dram_base=lines[0] * pitch + chunk.inner[0],
                      y_size=len(lines), x_size=len(chunk.inner), x_stride=pitch, **more)

    def multiply(self, chunk: _Box, tile: int, context: int, **tokens: int) -> None:
        """Add a chunk to its tile."""
        down, across, deep = len(chunk.rows) > 1, len(chunk.columns) > 1, len(chunk.inner)  # a loop that runs once has no steps
        first = (tile * self.contexts + context) * len(self.cut.inner)
        self.insn("gemm", uop_bgn=first, uop_end=first + deep, iter_out=len(chunk.rows), dst_out=down * len(chunk.columns),
                  src_out=down * deep, iter_in=len(chunk.columns), dst_in=across, wgt_in=across * deep, **tokens)

    def requantize(self, tile: _Box, context: int, ops: list[tuple[AluOp, int]]) -> None:
        """Run ALU passes over a tile; the last gives a token to the store stage."""
        first = context * self.contexts * len(self.cut.inner)
        for number, (op, imm) in enumerate(ops, 1):
            self.insn("alu", uop_bgn=first, uop_end=first + 1, iter_out=1, iter_in=tile.area, dst_in=tile.area > 1,
                      alu_opcode=op, use_imm=1, imm=imm, push_next=number == len(ops))

    def store(self, tile: _Box, context: int, *, free: bool) -> None:
        """Store a tile; after it, `free` its slice for another."""
        pitch = len(self.whole.columns)
        self.insn("store", "result", memory_type=MemType.OUT, sram_base=context * self.acc,
                  dram_base=tile.rows[0] * pitch + tile.columns[0], y_size=len(tile.rows), x_size=len(tile.columns),
                  x_stride=pitch, pop_prev=1, push_prev=free)


def _passes(cfg: VTAConfig, shape: MatMul) -> Iterator[tuple[AluOp, int]]:
    largest = (1 << (cfg.out_bits - 1)) - 1
    if shape.shift:
        yield AluOp.SHR, shape.shift
    if shape.clip:
        yield AluOp.MAX, -largest - 1
        yield AluOp.MIN, largest


def matmul_program(cfg: VTAConfig, shape: MatMul, contexts: int = 2) -> Program:
    """A matrix product that keeps `contexts` tiles and chunks in the scratchpads at once.

    data      INPUT   inp_bits  [row blocks, inner blocks, batch, block]
    weights   INPUT   wgt_bits  [column blocks, inner blocks, block of columns, block of inner]
    result    OUTPUT  out_bits  [row blocks, column blocks, batch, block]

    Raises `ProgramError` if a size is not a whole number of blocks or a scratchpad has no room for the contexts, and
    `EncodingError` naming the field if a size leaves its instruction field: row pitches end at 65535 blocks.
    """
    writer = _Writer(cfg, shape, contexts)
    whole, cut, passes = writer.whole, writer.cut, list(_passes(cfg, shape))
    uops = writer.uops()
    rows, columns, depths = (parts(loop, len(part)) for loop, part in zip(whole, cut, strict=True))
    tiles = [_Box(*pair, whole.inner) for pair in product(rows, columns)]
    chunk_count, done = len(tiles) * len(depths), 0
    writer.insn("load", UOPS, memory_type=MemType.UOP, y_size=1, x_size=len(uops))
    writer.clear(tiles[0], 0)
    for number, tile in enumerate(tiles):
        context, more = number % contexts, number + 1 < len(tiles)
        for at, inner in enumerate(depths):
            chunk, last = _Box(tile.rows, tile.columns, inner), at == len(depths) - 1
            writer.load(chunk, done % contexts, wait=done >= contexts)
            writer.multiply(chunk, context, done % contexts, pop_prev=1, push_prev=done + contexts < chunk_count,
                            push_next=last and not passes)
            done += 1
            if more and contexts > 1 and at == len(depths) // 2:  # by now the slice's tile before has surely been stored
                writer.clear(tiles[number + 1], number + 1)
        writer.requantize(tile, context, passes)
        writer.store(tile, context, free=number + contexts < len(tiles))
        if more and contexts == 1:
            writer.clear(tiles[number + 1], number + 1)
    writer.insn("finish")
    buffers = (
        Buffer(name="data", size_bytes=len(whole.rows) * len(whole.inner) * cfg.inp_bytes),
        Buffer(name="weights", size_bytes=len(whole.columns) * len(whole.inner) * cfg.wgt_bytes),
        Buffer(name="result", size_bytes=whole.area * cfg.out_bytes, kind=BufferKind.OUTPUT),
    )
    return Program(config=cfg, insns=tuple(writer.insns), uops=uops, buffers=buffers, relocations=tuple(writer.relocations))


def matmul_reference(cfg: VTAConfig, shape: MatMul, data: AnyInts, weights: AnyInts) -> Ints:
    """The exact result, int64 [rows, columns]; sums wrap at acc_bits, the result at out_bits.

    data      integers  [rows, inner]
    weights   integers  [columns, inner]
    """
    sums = wrap(data.astype(np.int64) @ weights.astype(np.int64).T, cfg.acc_bits) >> min(shape.shift, cfg.acc_bits - 1)
    half = 1 << (cfg.out_bits - 1)
    return sums.clip(-half, half - 1) if shape.clip else wrap(sums, cfg.out_bits)


def pack_matmul_inputs(cfg: VTAConfig, shape: MatMul, data: AnyInts, weights: AnyInts) -> dict[str, bytes]:
    """The contents of `matmul_program`'s input buffers.

    data      integers of inp_bits  [rows, inner]
    weights   integers of wgt_bits  [columns, inner]

    Raises `ProgramError` for arrays of another shape.
    """
    wanted = (shape.rows, shape.inner), (shape.columns, shape.inner)
    if (data.shape, weights.shape) != wanted:
        raise ProgramError(f"data and weights must have shapes {wanted[0]} and {wanted[1]}, got {data.shape} and {weights.shape}")
    packed = {}
    for name, values, lines, bits in (("data", data, cfg.batch, cfg.inp_bits), ("weights", weights, cfg.block, cfg.wgt_bits)):
        blocks = values.astype(np.int64).reshape(-1, lines, shape.inner // cfg.block, cfg.block)
        packed[name] = pack(blocks.transpose(0, 2, 1, 3), bits).tobytes()
    return packed


def unpack_matmul_result(cfg: VTAConfig, shape: MatMul, result: bytes) -> Ints:
    """The values in `matmul_program`'s result buffer, int64 [rows, columns]."""
    values = unpack(np.frombuffer(result, np.uint8), cfg.out_bits)
    blocks = values.reshape(-1, shape.columns // cfg.block, cfg.batch, cfg.block)
    return blocks.transpose(0, 2, 1, 3).reshape(shape.rows, shape.columns)
