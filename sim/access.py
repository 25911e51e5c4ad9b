"""Accesses of instructions to memories, and the earlier accesses after which they must be ordered.

The static checker and the random-program generator share this. Accesses of one stage are in order, and each memory
is written by one stage only (scratchpads inp and wgt by load, uop and acc by compute; DRAM by store), so for every element the
last write and the last read of each other stage are all that can conflict (as in vector-clock race detectors).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.codec import Insn
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.exhaustive import covers
from vtakit.hw.isa.insns import LOADS, MEMORIES, REQUANT_WORDS, TRANSFERS, UOP, MemType, Opcode, Stage
from vtakit.hw.isa.pools import pooled_elements
from vtakit.hw.values import Ints

# What the functions below know: transfers move elements, GEMM and ALU have loops, DWCONV has rows and columns.
covers(Opcode, (*TRANSFERS, Opcode.GEMM, Opcode.ALU, Opcode.FINISH, Opcode.DWCONV), __name__)

DRAM = "dram"
WRITER = {"uop": Stage.COMPUTE, "inp": Stage.LOAD, "wgt": Stage.LOAD, "acc": Stage.COMPUTE, DRAM: Stage.STORE}
READERS = {
    "uop": (Stage.COMPUTE,), "inp": (Stage.COMPUTE,), "wgt": (Stage.COMPUTE,), "acc": (Stage.COMPUTE, Stage.STORE),
    DRAM: (Stage.LOAD, Stage.COMPUTE),
}
Clock = list[int]  # for each stage, the number of its last instruction that has certainly retired; -1 for none


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of one memory (granules of DRAM), read or written."""

    memory: str
    elements: Ints | slice
    write: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """An earlier access to the same element by another stage."""

    stage: Stage
    index: int  # the last instruction of `stage` to be ordered after
    memory: str
    element: int
    write: bool  # whether that earlier access wrote


@lru_cache(maxsize=256)
def granule_bytes(cfg: VTAConfig) -> int:
    """The largest unit in which DRAM can be tracked: it divides every element's size and alignment."""
    return gcd(64, *(memory.bytes_in(cfg) for memory in MEMORIES.values()))


def transfer_accesses(cfg: VTAConfig, insn: Insn, base: int) -> list[Access]:
    """Return the accesses of a transfer; `base` is the base register of its memory type."""
    if not insn["x_size"]:
        return []
    memory = MEMORIES[MemType(insn["memory_type"])]
    load = insn.op in LOADS
    count = insn["y_size"] * insn["x_size"]
    if load:
        count = (insn["y_size"] + insn["y_pad_0"] + insn["y_pad_1"]) * (insn["x_size"] + insn["x_pad_0"] + insn["x_pad_1"])
    own = pooled_elements(insn) if insn.op is Opcode.REQUANT else slice(insn["sram_base"], insn["sram_base"] + count)
    found = [Access(memory.scratchpad, own, load)] if count else []
    if insn.op is Opcode.REQUANT and count:
        words = REQUANT_WORDS + insn["lookup"] * cfg.table_elements
        found.append(Access("acc", slice(insn["params"], insn["params"] + words), False))
    if insn["y_size"]:
        size, granule = memory.bytes_in(cfg), granule_bytes(cfg)
        first, row = (base + insn["dram_base"] * size) // granule, insn["x_size"] * size // granule
        if insn["y_size"] == 1 or insn["x_stride"] == insn["x_size"]:
            found.append(Access(DRAM, slice(first, first + insn["y_size"] * row), not load))
        else:
            rows = first + np.arange(insn["y_size"]) * (insn["x_stride"] * size // granule)
            found.append(Access(DRAM, np.add.outer(rows, np.arange(row)).reshape(-1), not load))
    return found


def loop_accesses(cfg: VTAConfig, insn: Insn, uops: Ints) -> list[Access]:
    """Return the accesses of a GEMM or ALU instruction; `uops` are the words of its micro-op range. Indices must be in range."""
    if not insn["iter_out"] * insn["iter_in"] or not len(uops):
        return []
    dst = _indices(cfg, insn, uops, "dst")
    found = [Access("uop", slice(insn["uop_bgn"], insn["uop_end"]), False), Access("acc", dst, True)]
    if insn.op is Opcode.ALU:
        found.append(Access("acc", dst if insn["use_imm"] else _indices(cfg, insn, uops, "src"), False))
    elif not insn["reset"]:
        found += [Access("inp", _indices(cfg, insn, uops, "src"), False), Access("wgt", _indices(cfg, insn, uops, "wgt"), False)]
    return found


def window_accesses(insn: Insn) -> list[Access]:
    """Return the accesses of a DWCONV. Indices must be in range."""
    if not insn["rows"]:
        return []
    columns = insn["columns"] + 1
    src = insn["src"] + np.add.outer(np.arange(insn["rows"]) * insn["src_row"], np.arange(columns) * insn["src_column"])
    found = [Access("inp", np.unique(src), False), Access("wgt", slice(insn["wgt"], insn["wgt"] + 1), False)]
    y = np.arange(max(0, -(-(insn["rows"] - insn["y_first"]) // (insn["y_step"] + 1))))
    x = np.arange(max(0, -(-(columns - insn["x_first"]) // (insn["x_step"] + 1))))
    if y.size and x.size:
        found.append(Access("acc", np.unique(insn["dst"] + np.add.outer(y * insn["dst_row"], x * insn["dst_column"])), True))
    return found


def _indices(cfg: VTAConfig, insn: Insn, uops: Ints, name: str) -> Ints:
    """The distinct values of one index over both loops and all micro-ops."""
    place = next(p for p in UOP.place(cfg) if p.field.name == name)
    reached = np.zeros(max(cfg.acc_depth, cfg.inp_depth, cfg.wgt_depth), np.bool_)
    reached[(uops >> place.offset) & ((1 << place.width) - 1)] = True
    for loop in ("out", "in"):
        factor, done, turns = insn[f"{name}_{loop}"], 1, insn[f"iter_{loop}"]
        while factor and done < turns:  # doubling: what k turns reach, shifted by k turns
            more = min(done, turns - done)
            reached[more * factor :] |= reached[: len(reached) - more * factor].copy()
            done += more
    return np.flatnonzero(reached)


class Shadow:
    """The last accesses to every element of every memory.

    Instructions are counted from 1 here, and 0 is no access: memory that is zero and that no instruction touches takes none of
    this machine's.
    """

    def __init__(self, cfg: VTAConfig, dram_bytes: int) -> None:
        sizes = {"uop": cfg.uop_depth, "inp": cfg.inp_depth, "wgt": cfg.wgt_depth, "acc": cfg.acc_depth}
        sizes[DRAM] = -(-dram_bytes // granule_bytes(cfg))
        self._written: dict[str, npt.NDArray[np.int32]] = {m: np.zeros(n, np.int32) for m, n in sizes.items()}
        self._read: dict[tuple[str, Stage], npt.NDArray[np.int32]] = {
            (m, stage): np.zeros(n, np.int32) for m, n in sizes.items() for stage in READERS[m] if stage is not WRITER[m]
        }

    def conflicts(self, stage: Stage, accesses: list[Access], clock: Clock) -> list[Conflict]:
        """The accesses of other stages that an instruction of `stage` starting at `clock` is not ordered after."""
        found = []
        for access in accesses:
            history = [(WRITER[access.memory], self._written[access.memory], True)]
            if access.write:
                history += [
                    (reader, self._read[access.memory, reader], False)
                    for reader in READERS[access.memory] if reader is not WRITER[access.memory]
                ]
            for other, last, wrote in history:
                if other is stage:
                    continue
                seen = last[access.elements]
                worst = int(seen.argmax())
                last_index = int(seen[worst]) - 1
                if last_index > clock[other]:
                    at = access.elements.start + worst if isinstance(access.elements, slice) else access.elements[worst]
                    found.append(Conflict(other, last_index, access.memory, int(at), wrote))
        return found

    def record(self, index: int, stage: Stage, accesses: list[Access]) -> None:
        """Instruction `index` of `stage` made these accesses."""
        for access in accesses:
            if access.write:
                self._written[access.memory][access.elements] = index + 1
            elif stage is not WRITER[access.memory]:
                self._read[access.memory, stage][access.elements] = index + 1

    def writers(self, access: Access) -> list[int]:
        """The instructions that last wrote the access's elements."""
        return [int(i) - 1 for i in np.unique(self._written[access.memory][access.elements]) if i]
