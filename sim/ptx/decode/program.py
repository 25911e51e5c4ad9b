"""The program of one kernel."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import SINK, Context
from vtakit.sim.ptx.decode.flow import meeting_points, used_on_all_ways
from vtakit.sim.ptx.decode.table import decoder
from vtakit.sim.ptx.execute.codes import SHARED_FIRST
from vtakit.sim.ptx.opcodes import LANES
from vtakit.sim.ptx.text.syntax import Defined, Instruction, Kernel, Label, Variable

_PLACES = (o.D, o.A, o.B, o.C, o.E, o.PRED)
_RED_ZONE = 16  # bytes between variables, which no access may touch


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel as arrays.

    code        int64 [instruction, column]   operations; sources and destinations are places: register times 32
    lists       int64                         operands of vectors, registers that an instruction reads and writes
    constants   (symbol or "", value)         what the registers behind the special ones hold
    first       the first register that an instruction writes; those below are defined from the start
    registers   how many there are; `names` are those from `first` on
    shared      offset, bytes and symbol of each shared variable; `shared_bytes` is their end
    local_bytes bytes of a thread's local memory
    params      offset, bytes and name of each parameter
    """

    kernel: Kernel
    code: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]
    constants: tuple[tuple[str, int], ...]
    first: int
    names: tuple[str, ...]
    shared: tuple[tuple[int, Variable], ...]
    shared_bytes: int
    local_bytes: int
    params: tuple[tuple[int, Variable], ...]
    offsets: dict[str, int]  # of shared, local and parameter symbols
    granule: int  # log2 of the bytes that the shadow tells apart

    @property
    def registers(self) -> int:
        return self.first + len(self.names)


def _laid_out(variables: list[Variable], start: int, gap: int) -> tuple[tuple[tuple[int, Variable], ...], int]:
    found, at = [], start
    for variable in variables:
        at += -at % max(1, variable.align)
        found.append((at, variable))
        at += variable.size + gap
    return tuple(found), at


def program_of(kernel: Kernel, variables: list[Variable]) -> Program:
    """Decode a kernel; `variables` are those of its module."""
    everything = [*variables, *kernel.variables]
    shared = [each for each in everything if each.space == "shared" and not each.external]
    shared += [each for each in everything if each.space == "shared" and each.external]  # dynamic memory is behind the rest
    placed, shared_bytes = _laid_out(shared, SHARED_FIRST, _RED_ZONE)
    local, local_bytes = _laid_out([each for each in everything if each.space == "local"], 16 if kernel.variables else 0,
                                   _RED_ZONE)
    params, _ = _laid_out(kernel.params, 0, 0)
    offsets = {each.name: at for group in (placed, local, params) for at, each in group}
    c = Context(kernel, {each.name: each for each in [*everything, *kernel.params]})
    labels: dict[str, int] = {}
    for statement in kernel.body:
        if isinstance(statement, Label):
            labels[statement.name] = len(c.rows)
        elif isinstance(statement, Defined):
            c.here = Instruction("implicit-def", (), statement.line, statement.name)
            if statement.name in kernel.registers:
                c.defs.append(c.registers.setdefault(statement.name, len(c.registers)))
                c.row(o.UNDEFINED, "control")
        else:
            c.here = statement
            words = statement.words
            try:
                decoder(c, words)(c, statement, words)
            except (IndexError, KeyError, ValueError) as error:
                raise c.error(f"its form is unknown ({type(error).__name__}: {error})") from None
    c.here = Instruction("exit", (), kernel.line, "the end of the kernel")
    c.row(o.EXIT, "control")
    first = SINK + 2 + len(c.constants)
    code, lists = np.array(c.rows, np.int64), np.array([*c.lists, 0], np.int64)
    code[:, _PLACES] = _resolved(code[:, _PLACES], first)
    shuffles = code[:, o.OP] == o.SHFL
    code[shuffles, o.IMM] = _resolved(code[shuffles, o.IMM], first)
    lists = _resolved(lists, first)
    _connect(c, code, lists, labels)
    accesses = code[(code[:, o.OP] >= o.LD) & (code[:, o.OP] <= o.RED)]
    accesses = accesses[~np.isin(accesses[:, o.KIND2], (o.PARAM, o.LOCAL))]
    return Program(
        kernel=kernel, code=code, lists=lists, constants=tuple(c.constants), first=first, names=tuple(c.registers), shared=placed,
        shared_bytes=shared_bytes, local_bytes=-(-local_bytes // 16) * 16, params=params, offsets=offsets,
        granule=min([2, *accesses[:, o.KIND].tolist()]))


def _resolved(places: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
    """Registers and constants at their places."""
    found = places.copy()
    constant = places <= -2
    found[constant] = (SINK + 2 - 2 - places[constant]) * LANES
    numbers = places >= 1 << 41
    found[numbers] = places[numbers] - (1 << 41) + first
    registers = (places >= 1 << 40) & ~numbers
    found[registers] = (places[registers] - (1 << 40) + first) * LANES
    return found


def _connect(c: Context, code: npt.NDArray[np.int64], lists: npt.NDArray[np.int64], labels: dict[str, int]) -> None:
    """Write the targets of branches and where their lanes meet."""
    successors: list[list[int]] = []
    for at in range(len(code)):
        op, guarded = code[at, o.OP], code[at, o.PRED] >= 0
        if at not in c.branches:
            leaves = [len(code)] if op == o.EXIT or op == o.TRAP else []
            successors.append([*leaves, *([at + 1] if guarded or not leaves else [])])
            continue
        for name in c.branches[at]:
            if name not in labels:
                raise VtakitError(f"PTX line {code[at, o.LINE]}: a branch goes to {name}, which the kernel {c.kernel.name} lacks")
        targets = [labels[name] for name in c.branches[at]]
        if op == o.BRA:
            code[at, o.TARGET] = targets[0]
        else:
            lists[code[at, o.LIST] : code[at, o.LIST] + len(targets)] = targets
        successors.append(sorted({*targets, *([at + 1] if guarded else [])}))
    code[:, o.RECONVERGE] = meeting_points(successors)
    _find_early(code, lists, successors)


def _find_early(code: npt.NDArray[np.int64], lists: npt.NDArray[np.int64], successors: list[list[int]]) -> None:
    """Mark loads whose value some way does not use; a choice uses nothing yet."""
    through = np.isin(code[:, o.OP], (o.MOV, o.SELP))
    uses = [set() if skip else set(lists[row[o.USES] : row[o.USES] + row[o.USE_COUNT]].tolist()) for row,
            skip in zip(code, through, strict=True)]
    for row, guard in zip(uses, code[:, o.PRED].tolist(), strict=True):
        if guard >= 0:
            row.add(guard // LANES)
    defs = [set(lists[row[o.DEFS] : row[o.DEFS] + row[o.DEF_COUNT]].tolist()) for row in code]
    for at in np.flatnonzero((code[:, o.OP] == o.LD) & (code[:, o.KIND2] != o.PARAM)).tolist():
        if not all(used_on_all_ways(at, register, successors, uses, defs) for register in defs[at]):
            code[at, o.FLAGS] |= 2
