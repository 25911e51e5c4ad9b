"""Rules of the published instruction set beyond its specification: what its deployed implementations need of a program.

Each was found by running programs both on ours and on the original's simulators. `vtakit check --isa original` reports them.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from vtakit.hw.isa.codec import Insn, decode_uop
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import AluOp, MemType, Opcode, Stage
from vtakit.hw.isa.published import MOST_SHIFT, Ability, Isa, overwrite_bit
from vtakit.hw.values import Ints
from vtakit.sim.access import Access, Clock

_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


class PublishedRules:
    """The rules for one program, whose instructions are shown in an order that its tokens allow.

    code : its instructions, with bits that a device of the published instruction set ignores
    """

    def __init__(self, cfg: VTAConfig, isa: Isa, code: bytes) -> None:
        self.cfg, self.isa, self.code = cfg, isa, code
        self._stale = np.zeros(cfg.acc_depth, np.bool_)  # accumulators that a LOAD or a reset wrote last
        self._last_store = -1

    def step(self, index: int, insn: Insn, accesses: Sequence[Access], uops: Ints, clock: Clock) -> Iterator[str]:
        """Yield what an instruction breaks.

        accesses : its own; uops : the words of its micro-ops
        clock    : for each stage, the last instruction that has certainly retired when this one starts
        """
        match insn.op:
            case Opcode.LOAD:
                yield from self._load(insn)
            case Opcode.ALU:
                yield from self._alu(insn, uops)
            case Opcode.GEMM if self._word(index) & overwrite_bit(self.cfg):
                yield "overwrite is an extension, which a device of the published instruction set ignores: reset first"
            case Opcode.FINISH if clock[Stage.STORE] < self._last_store:
                yield (f"nothing orders it after STORE {self._last_store}, and the original ends a program when its compute "
                       "stage meets FINISH: let an instruction of that stage take a token of the STORE first")
            case Opcode.STORE:
                stored = [access for access in accesses if access.memory == "acc"]
                if any(self._stale[access.elements].any() for access in stored):
                    yield ("it stores accumulators that a LOAD or a reset wrote last, and the original stores those that GEMM or "
                           "ALU wrote: add 0 to them")
        self._note(index, insn, accesses)

    def _word(self, index: int) -> int:
        return int.from_bytes(self.code[index * INSN_BYTES : (index + 1) * INSN_BYTES], "little")

    def _note(self, index: int, insn: Insn, accesses: Sequence[Access]) -> None:
        if insn.stage is Stage.STORE and accesses:
            self._last_store = index
        for access in accesses:
            if access.memory == "acc" and access.write:
                self._stale[access.elements] = insn.op is Opcode.LOAD or (insn.op is Opcode.GEMM and bool(insn["reset"]))

    def _load(self, insn: Insn) -> Iterator[str]:
        if not insn["x_size"]:
            return
        if not insn["y_size"]:
            yield "it has no row from DRAM, only pads, which not every implementation does: give it a row of zeros"
        kind, padded = insn["memory_type"], any(insn[name] for name in _PADS)
        if kind == MemType.ACC_8BIT and not self.isa.has(Ability.ACC_8BIT):
            yield "not every implementation has ACC_8BIT: check with +acc_8bit for a device that has it"
        if kind == MemType.WGT and padded:
            yield "not every implementation has weights with pads: pad them in memory"
        if kind == MemType.UOP and (padded or insn["y_size"] > 1):
            yield "not every implementation loads micro-ops in rows or with pads: give it one row"

    def _alu(self, insn: Insn, uops: Ints) -> Iterator[str]:
        op = insn["alu_opcode"]
        if op == AluOp.MUL and not self.isa.has(Ability.MUL):
            yield "not every implementation has MUL: check with +mul for a device that has it"
        if op == AluOp.SHR and not insn["use_imm"] and not self.isa.has(Ability.VECTOR_SHIFT):
            yield "not every implementation shifts by accumulators: check with +vector_shift for a device that does"
        if op == AluOp.SHR and insn["use_imm"] and abs(insn["imm"]) > MOST_SHIFT and not self.isa.has(Ability.WIDE_SHIFT):
            yield (f"it shifts by {abs(insn['imm'])} bits, and not every implementation shifts by more than {MOST_SHIFT}: shift "
                   "twice, or check with +wide_shift for a device that does")
        if insn["use_imm"] and insn["iter_out"] * insn["iter_in"]:
            alike = all(insn[f"dst_{loop}"] == insn[f"src_{loop}"] for loop in ("out", "in") if insn[f"iter_{loop}"] > 1)
            words = (decode_uop(self.cfg, int(word)) for word in np.unique(uops))
            if not alike or any(word["src"] != word["dst"] for word in words):
                yield "it has an immediate, and the original reads src all the same: make src the same as dst"
