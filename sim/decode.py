"""A whole program's instructions decoded at once into columns, and every rule that needs no execution.

The simulators and the static checker share this: what one refuses before running, all refuse, with one message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.formats import listing
from vtakit.hw.isa.insns import (
    FLAG_QUEUES,
    FLAGS,
    FORMATS,
    MEMORIES,
    REQUANT_WORDS,
    STAGES,
    TRANSFERS,
    AluOp,
    MemType,
    Opcode,
    Stage,
)
from vtakit.hw.isa.pools import pooled_extents
from vtakit.hw.isa.published import EXTENSIONS, FINISH_FLAG
from vtakit.sim.columns import COLUMNS, fields_of
from vtakit.sim.faults import ProgramFault

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """Memories of a program: base registers in bytes, and the DRAM window that may be touched."""

    bases: dict[MemType, int]
    window: tuple[int, int]  # first byte, byte after the last


class Decoded:
    """Instructions as columns of int64: `decoded["x_size"]` has one value an instruction, 0 where a format lacks it.

    published : a device of the published instruction set alone is to run them, `CoreParams.published`

    Read-only, so that everyone who asks `decoded_program` for the same program shares one.
    """

    def __init__(self, cfg: VTAConfig, code: bytes | bytearray | memoryview, *, published: bool = False) -> None:
        words: npt.NDArray[np.uint64] = np.frombuffer(code, dtype="<u8").reshape(-1, 2)
        self.cfg, self.published = cfg, published
        self.count = len(words)
        self._words = words
        self.table: Ints = np.zeros((self.count, len(COLUMNS)), np.int64)
        opcode_bits = np.uint64((1 << FORMATS[Opcode.LOAD].place(cfg)[0].width) - 1)
        self.table[:, COLUMNS["opcode"]] = (words[:, 0] & opcode_bits).astype(np.int64)
        self.reserved: Mask = np.zeros(self.count, np.bool_)
        for opcode, fields in fields_of(cfg).items():
            rows = np.flatnonzero(self["opcode"] == opcode)
            if not len(rows):
                continue
            mine = words[rows]
            values = ((mine[:, fields.half] >> fields.shift) & fields.mask).astype(np.int64)
            self.table[rows[:, None], fields.column] = (values ^ -fields.least) + fields.least
            self.reserved[rows] = (mine & fields.reserved).any(1)
        self.table.flags.writeable = self.reserved.flags.writeable = False
        self._of_opcode: dict[Opcode, Mask] = {opcode: self["opcode"] == opcode for opcode in Opcode}
        self._of_memory: dict[MemType, Mask] = {
            kind: self.is_op(*memory.opcodes) & (self["memory_type"] == kind) for kind, memory in MEMORIES.items()
        }
        self.stage = self._stages()
        self._sound: Memories | None = None  # in which `check` found nothing

    def __getitem__(self, name: str) -> Ints:
        return self.table[:, COLUMNS[name]]

    def word(self, index: int) -> int:
        """The 128 bits of an instruction."""
        return int(self._words[index, 0]) | int(self._words[index, 1]) << 64

    def is_op(self, *opcodes: Opcode) -> Mask:
        """Return the mask of the instructions that have one of these opcodes."""
        mine: Mask = np.logical_or.reduce([self._of_opcode[opcode] for opcode in opcodes])
        return mine

    def of_memory(self, kind: MemType) -> Mask:
        """Return the mask of the instructions that move this memory type."""
        return self._of_memory[kind]

    def _stages(self) -> Ints:
        stage = np.full(self.count, int(Stage.COMPUTE), np.int64)
        for opcode, own in STAGES.items():
            if own is not None:
                stage[self.is_op(opcode)] = own
        for kind, memory in MEMORIES.items():
            stage[self.of_memory(kind)] = memory.stage
        return stage

    @cached_property
    def row_elements(self) -> Ints:
        """Scratchpad elements that one row of a transfer fills, pads included."""
        return self["x_pad_0"] + self["x_size"] + self["x_pad_1"]

    @cached_property
    def sram_elements(self) -> Ints:
        """Scratchpad elements that a transfer touches from sram_base on; 0 where no data move."""
        rows = self["y_pad_0"] + self["y_size"] + self["y_pad_1"]
        loaded = np.where(self["x_size"] > 0, rows * self.row_elements, 0)
        return np.where(self.is_op(Opcode.REQUANT), prod(pooled_extents(self)), loaded)

    def fault(self, fault: Fault, index: int, detail: str) -> ProgramFault:
        """The exception for instruction `index`."""
        return ProgramFault.at(self.cfg, fault, index, self.word(index), detail)

    def dram_span(self, kind: MemType, base: int) -> tuple[Ints, Ints]:
        """First byte and byte after the last that each instruction touches as a transfer of `kind`; empty spans are 0, 0."""
        size = MEMORIES[kind].bytes_in(self.cfg)
        touched = (self["x_size"] > 0) & (self["y_size"] > 0)
        first = base + self["dram_base"] * size
        last = first + ((self["y_size"] - 1) * self["x_stride"] + self["x_size"]) * size
        return np.where(touched, first, 0), np.where(touched, last, 0)

    def check(self, memories: Memories) -> None:
        """Raise the `ProgramFault` of the first instruction that is wrong whatever the data."""
        if memories == self._sound:
            return
        if not self.count:
            raise ProgramFault(Fault.NO_FINISH, -1, "", "the program has no instructions; it must end with FINISH")
        rules, broken = self._broken(memories)
        if (hits := np.flatnonzero(broken < len(rules))).size:
            fault, _, explain = rules[broken[hits[0]]]
            raise self.fault(fault, int(hits[0]), explain(int(hits[0])))
        if self["opcode"][-1] != Opcode.FINISH:
            raise self.fault(Fault.NO_FINISH, self.count - 1, "the program ends here and must end with FINISH")
        self._sound = memories

    def faults(self, memories: Memories) -> Ints:
        """Return the `Fault` of each instruction that is wrong whatever the data, 0 for the others."""
        rules, broken = self._broken(memories)
        return np.array([*(fault for fault, _, _ in rules), 0], np.int64)[broken]

    def _broken(self, memories: Memories) -> tuple[list["Rule"], Ints]:
        """Return the rules, and for each instruction the number of the first that it breaks; their count if it breaks none."""
        rules = _rules(self, memories)
        broken = np.full(self.count, len(rules), np.int64)
        for number, (_, bad, _) in reversed([*enumerate(rules)]):
            broken[bad] = number
        return rules, broken

    def moved_bytes(self, kind: MemType) -> int:
        """Bytes of DRAM that all transfers of this memory type move; pads are not counted."""
        moved = (self["x_size"] * self["y_size"])[self.of_memory(kind)]
        return int(moved.sum()) * MEMORIES[kind].bytes_in(self.cfg)

    def transfer_counters(self) -> dict[str, int]:
        """Bytes by memory, micro-op steps and instructions: what a run without a fault counts."""
        loops = self["iter_out"] * self["iter_in"] * np.maximum(self["uop_end"] - self["uop_bgn"], 0)
        gemm = self.is_op(Opcode.GEMM)
        return {
            "inp_load_nbytes": self.moved_bytes(MemType.INP),
            "wgt_load_nbytes": self.moved_bytes(MemType.WGT),
            "acc_load_nbytes": self.moved_bytes(MemType.ACC) + self.moved_bytes(MemType.ACC_8BIT),
            "uop_load_nbytes": self.moved_bytes(MemType.UOP),
            "out_store_nbytes": self.moved_bytes(MemType.OUT),
            "gemm_counter": int(loops[gemm & (self["reset"] == 0)].sum()),
            "gemm_reset_counter": int(loops[gemm & (self["reset"] == 1)].sum()),
            "alu_counter": int(loops[self.is_op(Opcode.ALU)].sum()),
            "dwconv_counter": int((self["rows"] * (self["columns"] + 1))[self.is_op(Opcode.DWCONV)].sum()),
            "insn_counter": self.count,
        }


Rule = tuple[Fault, Mask, Callable[[int], str]]


def _rules(d: Decoded, memories: Memories) -> list[Rule]:
    """(fault, which instructions break it, what to say), the most basic first."""
    transfer, requant = d.is_op(*TRANSFERS), d.is_op(Opcode.REQUANT)
    known = np.zeros(d.count, np.bool_)
    for kind in MEMORIES:
        if kind is not MemType.ACC_8BIT or d.cfg.has_acc8:
            known |= d.of_memory(kind)
    rules: list[Rule] = [
        (Fault.UNKNOWN_OPCODE, ~d.is_op(*Opcode),
         lambda i: f"opcode {d['opcode'][i]} is unknown; known: {listing(Opcode)}"),
        (Fault.UNKNOWN_OPCODE, d.is_op(*[op for op, extension in EXTENSIONS.items() if extension]) & d.published,
         lambda i: f"opcode {d['opcode'][i]} is unknown; known: {listing(op for op in Opcode if not EXTENSIONS[op])}"),
        (Fault.UNKNOWN_OPCODE, requant & (not d.cfg.has_requant),
         lambda i: "REQUANT exists only for 32-bit accumulators, at least 4 elements of them, and outputs of at most 8 bits"),
        (Fault.UNKNOWN_OPCODE, d.is_op(Opcode.PAD_LOAD) & (not d.cfg.has_pad_value),
         lambda i: "PAD_LOAD exists only for inputs of at most 8 bits"),
        (Fault.UNKNOWN_OPCODE, d.is_op(Opcode.DWCONV) & (not d.cfg.has_dwconv),
         lambda i: "DWCONV exists only for blocks of at least 4"),
        (Fault.RESERVED_BITS, (d["lookup"] == 1) & (not d.cfg.has_lookup),
         lambda i: "a REQUANT looks up only outputs of 8 bits, with room for a table beside its parameters"),
        (Fault.RESERVED_BITS, ((d["pool_above"] | d["pool_left"]) == 1) & (d["pool"] == 0),
         lambda i: "pool_above and pool_left need pool of at least 1: a window without its only row or column has no values"),
        (Fault.RESERVED_BITS, d.reserved, lambda i: "bits that belong to no field are set; they must be 0"),
        (Fault.UNKNOWN_MEMORY_TYPE, transfer & ~known, lambda i: _memory_type(d, i)),
        (Fault.UNKNOWN_ALU_OPCODE, d.is_op(Opcode.ALU) & ~np.isin(d["alu_opcode"], list(AluOp)),
         lambda i: f"alu_opcode {d['alu_opcode'][i]} is unknown; known: {listing(AluOp)}"),
        (Fault.FINISH_NOT_LAST, d.is_op(Opcode.FINISH) & (np.arange(d.count) != d.count - 1),
         lambda i: f"FINISH must be the last instruction, and {d.count - 1 - i} follow"),
    ]
    for flag in FLAGS:
        illegal = np.zeros(d.count, np.bool_)
        for stage in Stage:
            if (stage, flag) not in FLAG_QUEUES:
                illegal |= d.stage == stage
        on_finish = d.is_op(Opcode.FINISH) & (not (d.published and flag == FINISH_FLAG))
        illegal = (illegal | on_finish) & (d[flag] == 1)
        rules.append((Fault.ILLEGAL_FLAG, illegal, partial(_illegal_flag, d, flag)))
    pads = d["y_pad_0"] | d["y_pad_1"] | d["x_pad_0"] | d["x_pad_1"]
    rules.append((Fault.STORE_PAD, d.is_op(Opcode.STORE) & (pads != 0), lambda i: "the pads of a STORE must be 0"))
    for kind, memory in MEMORIES.items():
        rules += _range_rules(d, kind, memory.depth_in(d.cfg), memories)
    words = REQUANT_WORDS + d["lookup"] * d.cfg.table_elements
    rules.append((Fault.SRAM_RANGE, requant & (d.sram_elements > 0) & (d["params"] + words > d.cfg.acc_depth),
                  lambda i: f"params {d['params'][i]} + {words[i]} elements = {d['params'][i] + words[i]} exceeds the "
                            f"{d.cfg.acc_depth} of the acc scratchpad"))
    for name, depth, reach in _window_reach(d):
        rules.append((Fault.SRAM_RANGE, reach >= depth, partial(_beyond, name, depth, reach)))
    loops = d.is_op(Opcode.GEMM, Opcode.ALU) & (d["iter_out"] * d["iter_in"] > 0) & (d["uop_end"] > d["uop_bgn"])
    rules.append((Fault.UOP_RANGE, loops & (d["uop_end"] > d.cfg.uop_depth),
                  lambda i: f"uop_end {d['uop_end'][i]} is beyond the {d.cfg.uop_depth} micro-ops of the scratchpad"))
    return rules


def window_outputs(d: Decoded) -> tuple[Ints, Ints]:
    """Rows and columns of outputs of each DWCONV; 0 of other instructions."""
    rows = -(-(d["rows"] - d["y_first"]) // (d["y_step"] + 1))
    columns = -(-(d["columns"] + 1 - d["x_first"]) // (d["x_step"] + 1))
    some = d.is_op(Opcode.DWCONV) & (rows > 0) & (columns > 0)
    return np.where(some, rows, 0), np.where(some, columns, 0)


def _window_reach(d: Decoded) -> list[tuple[str, int, Ints]]:
    """(scratchpad, its depth, largest index) of each operand of DWCONVs; -1 of other instructions, and where none is used."""
    works = d.is_op(Opcode.DWCONV) & (d["rows"] > 0)
    rows, columns = window_outputs(d)
    src = d["src"] + (d["rows"] - 1) * d["src_row"] + d["columns"] * d["src_column"]
    dst = d["dst"] + (rows - 1) * d["dst_row"] + (columns - 1) * d["dst_column"]
    return [
        ("inp", d.cfg.inp_depth, np.where(works, src, -1)), ("acc", d.cfg.acc_depth, np.where(rows > 0, dst, -1)),
        ("wgt", d.cfg.wgt_depth, np.where(works, d["wgt"], -1)),
    ]


def _beyond(scratchpad: str, depth: int, reach: Ints, index: int) -> str:
    return f"its largest index is {reach[index]}, beyond the {depth} elements of the {scratchpad} scratchpad"


def _range_rules(d: Decoded, kind: MemType, depth: int, memories: Memories) -> list[Rule]:
    mine = d.of_memory(kind)
    end = d["sram_base"] + d.sram_elements
    low, high = memories.window
    first, last = d.dram_span(kind, memories.bases[kind])
    scratchpad = MEMORIES[kind].scratchpad
    return [
        (Fault.SRAM_RANGE, mine & (d.sram_elements > 0) & (end > depth),
         lambda i: f"sram_base {d['sram_base'][i]} + {d.sram_elements[i]} elements = {end[i]} exceeds the {depth} of the "
                   f"{scratchpad} scratchpad"),
        (Fault.DRAM_RANGE, mine & (last > first) & ((first < low) | (last > high)),
         lambda i: f"dram_base {d['dram_base'][i]} reaches bytes {first[i]} to {last[i]}, outside the DRAM window "
                   f"{low} to {high}"),
    ]


def _memory_type(d: Decoded, index: int) -> str:
    opcode, kind = Opcode(int(d["opcode"][index])), int(d["memory_type"][index])
    if opcode is Opcode.LOAD and kind == MemType.ACC_8BIT:
        return "memory_type ACC_8BIT exists only for 8-bit inputs and 32-bit accumulators"
    kinds = (m.kind for m in MEMORIES.values() if opcode in m.opcodes)
    fits = listing(kind for kind in kinds if kind is not MemType.ACC_8BIT or d.cfg.has_acc8)
    return f"memory_type {kind} is not one that {opcode.name} moves; known: {fits}"


def _illegal_flag(d: Decoded, flag: str, index: int) -> str:
    if d["opcode"][index] == Opcode.FINISH:
        return f"{flag} is set, but the dependence flags of FINISH must be 0{f' except {FINISH_FLAG}' if d.published else ''}"
    stage = Stage(int(d.stage[index])).name.lower()
    return f"{flag} points to a neighbour that the {stage} stage does not have"
