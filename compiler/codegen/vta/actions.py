"""Actions of a loop nest: a transfer, a row of ALU passes, or a matrix product, emitted anew for each turn of the outer loops."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vtakit.compiler.codegen.vta.alu import Pass
from vtakit.compiler.codegen.vta.copies import Dim, Move, in_elements, moves
from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.codegen.vta.forms import Env, Form, Guard, evaluate
from vtakit.compiler.codegen.vta.kernels import Kernel, Loop, Place, kernels, most_uops, places
from vtakit.compiler.codegen.vta.places import Site
from vtakit.compiler.codegen.vta.published import ZEROS, with_row
from vtakit.compiler.codegen.vta.stream import Access, Elements, Step
from vtakit.compiler.codegen.vta.tree import Nest
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MEMORIES, REQUANT_WORDS, MemType, Opcode, Stage
from vtakit.hw.isa.published import Isa


@dataclass(frozen=True, slots=True)
class Operand:
    """Values of a scratchpad or of a buffer in DRAM: the first one, and how far each loop of the nest moves."""

    memory: "Site | str"
    form: Form

    def at(self, env: Env, ranges: list[range], lanes: int) -> int:
        """The element of the first value, within its memory; raises UnfitError if that value does not begin one."""
        first = self.form.base(env)
        for step, r in zip(self.form.steps, ranges, strict=True):
            if r.start:
                first += step * r.start
        if first % lanes:
            raise UnfitError(f"it begins at value {first}, in the middle of an element of {lanes} values")
        return first // lanes + (self.memory.address if isinstance(self.memory, Site) else 0)


class Output:
    """Emitter of instructions, with the configuration and the tracked buffers in DRAM.

    tracked : buffers in DRAM whose accesses are to be ordered, with the bytes of the unit in which they are counted
    isa     : what instructions may be
    part    : number of the part of the program (`parts`) that is being emitted
    """

    def __init__(self, cfg: VTAConfig, tracked: Mapping[str, int], isa: Isa) -> None:
        self.cfg, self.tracked, self.isa = cfg, tracked, isa
        self.steps: list[Step] = []
        self.part = 0
        self._nest: Nest | None = None  # of which the last product is a piece
        self._last: Step | None = None

    def move(
        self, kind: MemType, symbol: str, move: Move, params: int | None = None, pad: int = 0, lookup: bool = False,
        between: bool = False,
    ) -> None:
        """Append a LOAD or STORE, with the element of its parameters a REQUANT, with pads of another value than 0 a PAD_LOAD."""
        memory, zeros = MEMORIES[kind], False
        if self.isa.published:
            move, zeros = with_row(kind, move)
        opcode = memory.opcodes[0] if params is None else Opcode.REQUANT
        if pad and move.padded:
            opcode = Opcode.PAD_LOAD
        store = memory.stage is Stage.STORE
        accesses = [Access(memory.scratchpad, slice(move.sram_base, move.sram_base + move.elements), not store)]
        if symbol in self.tracked and move.y_size and not zeros:
            units = memory.bytes_in(self.cfg) // self.tracked[symbol]
            last = move.dram_base + (move.y_size - 1) * move.x_stride + move.x_size
            accesses.append(Access(symbol, slice(move.dram_base * units, last * units), store))
        fields = {"memory_type": int(kind)} | ({"pad_value": pad} if opcode is Opcode.PAD_LOAD else {})
        if params is not None:
            fields |= {"params": params} | ({"lookup": 1} if lookup else {})
            words = REQUANT_WORDS + lookup * self.cfg.table_elements
            accesses.append(Access(memory.scratchpad, slice(params, params + words), write=False))
        for name in Move.__slots__:
            value = getattr(move, name)
            if value:
                fields[name] = value
        name = ZEROS if zeros else symbol if move.y_size else ""
        self.steps.append(Step(opcode, fields, memory.stage, tuple(accesses), name, part=self.part, between=between))

    def run(
        self, op: Opcode, kernel: Kernel, base: Place, accesses: list[Access], nest: Nest | None = None,
        inside: bool = False, /, **fields: int,
    ) -> None:
        """Append a GEMM or ALU instruction, or add its micro-ops to the last one if both are of one scattered nest."""
        words = kernel.words(self.cfg, base)
        step = Step(op, kernel.fields(op) | fields, Stage.COMPUTE, tuple(accesses), uops=words, part=self.part, inside=inside)
        last = self.steps[-1] if nest is not None and nest is self._nest else None
        if last is self._last and last is not None and last.fields == step.fields and (
                len(last.uops) + len(words) <= most_uops(self.cfg)):
            last.uops += words
            last.accesses = tuple([a.joined(b) for a, b in zip(last.accesses, accesses, strict=True)])
            return
        self.steps.append(step)
        self._nest, self._last = nest, step


def turns(nest: Nest, env: Env) -> list[range] | None:
    """The iterations of a nest's loops for which its guards hold; None if there are none."""
    ranges = [range(evaluate(extent, env)) for _, extent in nest.loops]
    if all(guard.clip(env, ranges) for guard in nest.guards) and all(ranges):
        return ranges
    return None


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy between DRAM and a scratchpad; outside of `inside`, or where there is no `dram`, it writes `pad`."""

    nest: Nest
    kind: MemType
    lanes: int
    sram: Operand
    dram: Operand | None
    inside: tuple[Guard, ...] = ()
    pad: int = 0

    def emit(self, env: Env, out: Output) -> None:
        """Append its instructions."""
        ranges = turns(self.nest, env)
        if ranges is None:
            return
        have = list(ranges)
        some = self.dram is not None and all([guard.clip(env, have) for guard in self.inside])
        steps = self.sram.form.steps, (self.dram or self.sram).form.steps
        dims = _box(tuple(ranges), tuple(have) if some else None, steps, self.lanes)
        first = self.dram.at(env, have, self.lanes) if some and self.dram is not None else 0
        for move in moves(dims, self.sram.at(env, ranges, self.lanes), first):
            out.move(self.kind, self.symbol, move, pad=self.pad)

    @property
    def symbol(self) -> str:
        """The buffer in DRAM, or ""."""
        return self.dram.memory if self.dram is not None and isinstance(self.dram.memory, str) else ""


@lru_cache(maxsize=4096)
def _box(
    ranges: tuple[range, ...], have: tuple[range, ...] | None, steps: tuple[tuple[int, ...], tuple[int, ...]], lanes: int
) -> tuple[Dim, ...]:
    """The elements of a transfer: its iterations, those for which DRAM has values, and steps in the scratchpad and in DRAM."""
    dims = []
    for at, extent, (sram, dram) in in_elements(tuple(map(len, ranges)), steps, lanes):
        before, after = (extent, 0) if have is None else (have[at].start - ranges[at].start, ranges[at].stop - have[at].stop)
        if extent != len(ranges[at]) and (before or after) and have is not None:
            raise UnfitError("the edge of its pads lies within memory elements")
        dims.append(Dim(extent=extent, sram=sram, dram=dram, before=before, after=after))
    if have is not None and sum(len(r) != len(h) for r, h in zip(ranges, have, strict=True)) != sum(dim.padded for dim in dims):
        raise UnfitError("the edge of its pads lies within memory elements")
    if have is None and not dims:
        dims.append(Dim(extent=1, sram=1, dram=1, before=1))
    return tuple(dims)


@dataclass(frozen=True, slots=True)
class Requantized:
    """REQUANT instructions, one or more for each place of parameters; each iteration of the nest is a memory element.

    lanes  : values of a memory element
    params : where a value's first word is
    lookup : results are looked up in a table behind the words
    between : they should be among products (`between`)
    """

    nest: Nest
    kind: MemType
    lanes: int
    sram: Operand
    dram: Operand
    params: Operand
    lookup: bool = False
    between: bool = False

    def emit(self, env: Env, out: Output) -> None:
        """Append its instructions."""
        ranges = turns(self.nest, env)
        if ranges is None:
            return
        sram, dram, params = [operand.at(env, ranges, self.lanes) for operand in (self.sram, self.dram, self.params)]
        around: list[Loop] = []
        box: list[Loop] = []
        for at, values in enumerate(ranges):
            steps = [operand.form.steps[at] for operand in (self.sram, self.dram, self.params)]
            if any(step % self.lanes for step in steps):
                raise UnfitError(f"its steps are no multiples of an element of {self.lanes} values")
            each = Loop(len(values), _three([step // self.lanes for step in steps]))
            (around if steps[2] else box).append(each)
        dims = [Dim(extent=each.extent, sram=each.steps[0], dram=each.steps[1]) for each in box]
        for first in places(around):
            for move in moves(dims, sram + first[0], dram + first[1]):
                out.move(self.kind, self.symbol, move, params + first[2], lookup=self.lookup, between=self.between)

    @property
    def symbol(self) -> str:
        """The buffer in DRAM."""
        assert isinstance(self.dram.memory, str)
        return self.dram.memory


@dataclass(frozen=True, slots=True)
class Product:
    """GEMM instructions: ``dst += src x transpose(wgt)``, or ``dst = 0`` without operands.

    inside : whether products with pads may be left out
    """

    nest: Nest
    lanes: tuple[int, ...]
    dst: Operand
    src: Operand | None = None
    wgt: Operand | None = None
    inside: bool = False

    def emit(self, env: Env, out: Output) -> None:
        """Append its instructions."""
        ranges = turns(self.nest, env)
        if ranges is None:
            return
        operands = [operand for operand in (self.dst, self.src, self.wgt) if operand is not None]
        steps, base = [], []
        for operand, lanes in zip(operands, self.lanes, strict=False):
            steps.append(whole_steps(operand.form.steps, lanes))
            base.append(operand.at(env, ranges, lanes))
        none = 3 - len(operands)
        loops = tuple(
            Loop(len(r), _three([row[at] for row in steps] + [0] * none)) for at, r in enumerate(ranges) if len(r) > 1
        )
        first = _three(base + [0] * none)
        accesses = [
            Access(name, reach(first[at], tuple((loop.extent, loop.steps[at]) for loop in loops)), write=name == "acc")
            for at, name in enumerate(("acc", "inp", "wgt")[: len(operands)])
        ]
        part, fields = self.nest if self.nest.scattered else None, {} if self.src else {"reset": 1}
        for kernel in kernels(out.cfg, Opcode.GEMM, loops):
            out.run(Opcode.GEMM, kernel, first, accesses, part, self.inside, **fields)


@dataclass(frozen=True, slots=True)
class Passes:
    """ALU passes over a tile of accumulators, one after another."""

    nest: Nest
    lanes: int
    dst: Operand
    row: tuple[Pass, ...]
    loads: tuple[Operand | None, ...]  # the second operand of each pass

    def emit(self, env: Env, out: Output) -> None:
        """Append its instructions."""
        ranges = turns(self.nest, env)
        if ranges is None:
            return
        extents = tuple(map(len, ranges))
        dst = self.dst.at(env, ranges, self.lanes)
        alone = in_elements(extents, (self.dst.form.steps,), self.lanes)
        again = len(self.row) > 1 and any(not step for _, _, (step,) in alone)
        if again:
            raise UnfitError("it adds to one accumulator again and again what takes several ALU passes: "
                             "compute what is added in a stage before")
        for one, load in zip(self.row, self.loads, strict=True):
            second = self.dst if load is None and out.isa.published else load  # the original reads src beside an immediate too
            found = alone if second is None else in_elements(extents, (self.dst.form.steps, second.form.steps), self.lanes)
            loops = tuple(Loop(extent, _three([*steps, *[0] * (3 - len(steps))])) for _, extent, steps in found)
            base = dst, 0 if second is None else second.at(env, ranges, self.lanes), 0
            accesses = [
                Access("acc", reach(base[at], tuple((loop.extent, loop.steps[at]) for loop in loops)), write=not at)
                for at in range(1 if load is None else 2)
            ]
            op = Opcode.GEMM if one.op is None else Opcode.ALU
            for kernel in kernels(out.cfg, op, loops):
                if one.op is None:
                    out.run(op, kernel, base, accesses, reset=1)
                else:
                    imm = {"use_imm": 1, "imm": one.imm} if load is None else {}
                    out.run(op, kernel, base, accesses, alu_opcode=int(one.op), **imm)


Action = Transfer | Requantized | Product | Passes


@lru_cache(maxsize=4096)
def whole_steps(steps: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """Steps over values as steps over memory elements."""
    if any(step % lanes for step in steps):
        raise UnfitError(f"its steps are no multiples of an element of {lanes} values")
    return tuple([step // lanes for step in steps])


def _three(values: list[int]) -> Place:
    return values[0], values[1], values[2]


def reach(first: int, loops: tuple[tuple[int, int], ...]) -> Elements:
    """The elements that an operand takes: a slice if they lie together."""
    low, found = _reach(loops)
    return slice(first + low, first + low + found) if isinstance(found, int) else found + (first + low)


@lru_cache(maxsize=4096)
def _reach(loops: tuple[tuple[int, int], ...]) -> "tuple[int, int | np.ndarray]":
    low = sum(min(0, step) * (extent - 1) for extent, step in loops)
    steps = sorted((abs(step), extent) for extent, step in loops if step)
    length = 1
    for step, extent in steps:
        if step > length:
            break
        length += step * (extent - 1)
    else:
        return low, length
    offsets = np.zeros(1, np.int64)
    for step, extent in steps:
        offsets = np.unique(np.add.outer(offsets, np.arange(extent) * step))
    return low, offsets

