"""Peephole pass that moves max pooling from the ALU into the REQUANT that stores the maxima."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.codec import decode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import AluOp, MemType, Opcode
from vtakit.hw.isa.pools import pooled_elements

Ints = npt.NDArray[np.int64]

EDGES, STEPS = (2, 3, 4), (1, 2)  # of windows, and elements from one to the next
MOST_TAPS = max(EDGES) ** 2
LEAST_BYTE = -128  # of what ACC_8BIT loads, so that it counts for nothing among such values
NONE, ZERO = -1, 0  # `count` of an accumulator that holds no maximum, and of one that was reset


@dataclass(eq=False)
class _Maxima:
    """A chain of steps that computes maxima of accumulators: a reset, then ADD and MAX.

    begin   : index of the reset
    steps   : indices of the reset and of the ALU steps
    stores  : new steps for the REQUANTs that read the maxima, by index
    alone   : true while only REQUANTs read the maxima and each has a new step
    """

    begin: int
    steps: set[int] = field(default_factory=set)
    stores: dict[int, Step] = field(default_factory=dict)
    alone: bool = True


def stored_maxima(steps: list[Step], cfg: VTAConfig) -> list[Step]:
    """Return the program with maxima of square windows as fields of the REQUANTs that read them, where those can.

    A chain is a reset, an addition of one accumulator each, and MAX of others; its REQUANTs must read whole windows, one after
    another in rows, of accumulators that have not changed.
    """
    if not any(step.fields.get("alu_opcode") == AluOp.MAX and not step.fields.get("use_imm") for step in steps):
        return steps
    found = _Reader(cfg)
    for at, step in enumerate(steps):
        found.read(at, step)
    done = [maxima for maxima in found.every if maxima.alone and maxima.stores]
    gone = set().union(*(maxima.steps for maxima in done))
    stores = {at: store for maxima in done for at, store in maxima.stores.items()}
    return [stores.get(at, step) for at, step in enumerate(steps) if at not in gone]


class _Reader:
    """Abstract interpreter of a program: tracks, for each accumulator, the set of accumulators whose maximum it holds.

    every   : the chains found so far
    count   : number of sources of each accumulator; `NONE` if it holds no maximum, `ZERO` after a reset
    sources : the sources, `count` of them
    owner   : index in `every` of the chain it belongs to; -1 if none
    written : index of the step that wrote it last
    bytes   : true if ACC_8BIT loaded it
    floored : true if LEAST_BYTE was added after the reset, so that the maximum is at least that
    """

    def __init__(self, cfg: VTAConfig) -> None:
        self.cfg, depth = cfg, cfg.acc_depth
        self.every: list[_Maxima] = []
        self.count = np.full(depth, NONE)
        self.sources = np.full((depth, MOST_TAPS), -1)
        self.owner = np.full(depth, -1)
        self.written = np.full(depth, -1)
        self.bytes = np.zeros(depth, np.bool_)
        self.floored = np.zeros(depth, np.bool_)

    def read(self, at: int, step: Step) -> None:
        """Update the state by one instruction."""
        if step.op is Opcode.REQUANT:
            self._store(at, step)
        elif step.op is Opcode.STORE:
            self._used(_elements(step.accesses, write=False))
        elif step.op is Opcode.GEMM and step.fields.get("reset"):
            self._reset(at, np.unique(_pairs(step, self.cfg)[0]))  # its access is that of all instructions of its nest
        elif step.op is Opcode.ALU:
            self._alu(at, step)
        else:
            written = _elements(step.accesses, write=True)
            if step.op is not Opcode.LOAD:  # products are added to what is there
                self._used(written)
            self._overwritten(at, written, bytes_=step.op is Opcode.LOAD and step.fields["memory_type"] == MemType.ACC_8BIT)

    def _used(self, elements: Ints) -> None:
        """Mark the chains of these accumulators as read by other instructions than a REQUANT."""
        for number in np.unique(self.owner[elements]):
            if number >= 0:
                self.every[number].alone = False

    def _overwritten(self, at: int, elements: Ints, *, bytes_: bool = False) -> None:
        self.count[elements], self.owner[elements] = NONE, -1
        self.written[elements], self.bytes[elements] = at, bytes_

    def _reset(self, at: int, elements: Ints) -> None:
        self._overwritten(at, elements)
        self.count[elements], self.floored[elements], self.owner[elements] = ZERO, False, len(self.every)
        self.every.append(_Maxima(at, {at}))

    def _alu(self, at: int, step: Step) -> None:
        dst, src = _pairs(step, self.cfg)
        op, imm = AluOp(step.fields["alu_opcode"]), step.fields.get("imm", 0) if step.fields.get("use_imm") else None
        owners = np.unique(self.owner[dst])
        mine = self.every[owners[0]] if len(owners) == 1 and owners[0] >= 0 and len(np.unique(dst)) == len(dst) else None
        if imm is None:
            self._used(src)
        counts = self.count[dst]
        begins = imm is None and op is AluOp.ADD and not counts.any()
        floors = imm == LEAST_BYTE and op is AluOp.ADD and not counts.any() and not self.floored[dst].any()
        joins = imm is None and op is AluOp.MAX and (counts < MOST_TAPS).all() and (
            (counts > ZERO) | (counts == ZERO) & self.floored[dst]).all()
        if mine is None or not ((begins and not self.floored[dst].any()) or floors or joins):
            self._used(dst)
            self._overwritten(at, dst)
            return
        mine.steps.add(at)
        self.written[dst] = at
        if floors:
            self.floored[dst] = True
            return
        self.sources[dst, counts] = src
        self.count[dst] += 1

    def _store(self, at: int, step: Step) -> None:
        f = step.fields
        first = f.get("sram_base", 0)
        elements = np.arange(first, first + f["y_size"] * f["x_size"])
        owners = np.unique(self.owner[elements])
        self._params_used(step)
        if len(owners) != 1 or owners[0] < 0 or (self.count[elements] <= ZERO).any():
            self._used(elements)
            return
        mine = self.every[owners[0]]
        for y_size, x_size in _shapes(f["y_size"], f["x_size"], f.get("x_stride", 0)):
            if (windows := self._windows(elements, y_size, x_size, mine.begin)) is not None:
                image = Access("acc", pooled_elements(windows), write=False)
                stride = {} if y_size == f["y_size"] else {"x_stride": x_size}
                mine.stores[at] = replace(step, fields=f | windows | stride, accesses=(image, *step.accesses[1:]))
                return
        mine.alone = False

    def _params_used(self, step: Step) -> None:
        for access in step.accesses[1:]:
            if access.memory == "acc":
                self._used(access.indices)

    def _windows(self, elements: Ints, y_size: int, x_size: int, begin: int) -> dict[str, int] | None:
        """Return the fields by which REQUANT reads the same maxima; None if none do, or their accumulators have changed."""
        counts = self.count[elements]
        taps = np.sort(np.where(np.arange(MOST_TAPS) < counts[:, None], self.sources[elements], np.iinfo(np.int64).max), axis=1)
        used = np.unique(self.sources[elements][np.arange(MOST_TAPS) < counts[:, None]])
        if (self.written[used] >= begin).any() or (self.floored[elements].any() and not self.bytes[used].all()):
            return None
        for edge, step in product(EDGES, STEPS):
            rows, columns = (y_size - 1) * step + edge, (x_size - 1) * step + edge
            base = int(used[-1]) - (rows * columns - 1)
            if base < 0:
                continue
            for above, left in product((0, 1), (0, 1)):
                if np.array_equal(taps, _taps(base, y_size, x_size, edge, step, above, left)):
                    return {
                        "sram_base": base, "y_size": y_size, "x_size": x_size, "pool": edge - 1, "pool_step": step - 1,
                        "pool_above": above, "pool_left": left}
        return None


def _shapes(y_size: int, x_size: int, x_stride: int) -> list[tuple[int, int]]:
    """Return rows and columns that store the same values in the same places: any where rows follow each other in DRAM."""
    if y_size > 1 and x_stride != x_size:
        return [(y_size, x_size)]
    count = y_size * x_size
    return [(count // columns, columns) for columns in range(count, 0, -1) if count % columns == 0]


def _taps(base: int, y_size: int, x_size: int, edge: int, step: int, above: int, left: int) -> Ints:
    """Return the accumulators of each window, ascending: [windows, MOST_TAPS], filled up with the largest integer."""
    y, x, r, c = np.ogrid[:y_size, :x_size, :edge, :edge]
    row, column = y * step + r, x * step + c
    found: Any = np.where((row >= above) & (column >= left), base + row * ((x_size - 1) * step + edge) + column,
                          np.iinfo(np.int64).max)
    flat = np.sort(found.reshape(y_size * x_size, edge * edge), axis=1)
    return np.pad(flat, ((0, 0), (0, MOST_TAPS - edge * edge)), constant_values=np.iinfo(np.int64).max)


def _pairs(step: Step, cfg: VTAConfig) -> tuple[Ints, Ints]:
    """Return the accumulators that an ALU instruction writes, and those that it reads beside them, step by step."""
    f = step.fields
    uops = [decode_uop(cfg, word) for word in step.uops]
    found = []
    for name in ("dst", "src"):
        outer, inner = (np.arange(f[f"iter_{loop}"]) * f.get(f"{name}_{loop}", 0) for loop in ("out", "in"))
        first = np.array([uop[name] for uop in uops])
        found.append((outer[:, None, None] + inner[:, None] + first).reshape(-1))
    return found[0], found[1]


def _elements(accesses: tuple[Access, ...], *, write: bool) -> Ints:
    """Return the accumulators that an instruction writes or reads."""
    parts = [access.indices for access in accesses if access.memory == "acc" and access.write == write]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
