"""Programs in the published instruction set: what its deployed implementations need beyond a program of ours.

A LOAD has at least one row from DRAM: rows of zeros come from a constant buffer. A STORE takes what GEMM or ALU wrote last, since
the original stores from a copy of ACC that LOADs and resets do not reach.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from vtakit.compiler.codegen.vta.alu import Pass
from vtakit.compiler.codegen.vta.copies import MOST_PADS, Move
from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.codec import encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import FORMATS, AluOp, MemType, Opcode, Stage
from vtakit.hw.isa.published import MOST_SHIFT, Ability, Isa

ZEROS = "zeros"  # the constant buffer; a program's own buffers have other names


def published_row(row: Sequence[Pass], isa: Isa) -> list[Pass]:
    """Return ALU passes that an instruction set has: long shifts become several short ones.

    Raises UnfitError for a shift by accumulators where the device is not known to have it.
    """
    return [part for one in row for part in _shifts(one, isa)]


def _shifts(one: Pass, isa: Isa) -> Iterator[Pass]:
    if one.op is not AluOp.SHR or not isa.published:
        yield one
    elif one.load is not None and not isa.has(Ability.VECTOR_SHIFT):
        raise UnfitError(f"shifts by {one.load} differ from lane to lane, which not every published implementation has right: "
                         "use one shift, or an instruction set with +vector_shift")
    elif one.load is None and not isa.has(Ability.WIDE_SHIFT):
        left, sign = abs(one.imm), 1 if one.imm > 0 else -1
        while left > MOST_SHIFT:
            yield replace(one, imm=sign * MOST_SHIFT)
            left -= MOST_SHIFT
        yield replace(one, imm=sign * left)
    else:
        yield one


def with_row(kind: MemType, move: Move) -> tuple[Move, bool]:
    """Return a move that has a row from DRAM, and whether that row is of zeros.

    Raises UnfitError for weights with pads, which implementations of the original disagree on.
    """
    if kind is MemType.WGT and move.padded:
        raise UnfitError("weights with pads, which not every published implementation has right: pad them in memory")
    if move.y_size:
        return move, False
    rows = next(rows for rows in range(MOST_PADS + 1, 0, -1) if move.elements % rows == 0)
    return Move(sram_base=move.sram_base, x_size=move.elements // rows, y_pad_0=rows - 1), True


def zeros_bytes(steps: Sequence[Step], bytes_of: dict[int, int]) -> int:
    """Return the bytes of zeros that LOADs read.

    bytes_of : bytes of an element in DRAM, by memory type
    """
    reads = (step.fields for step in steps if step.symbol == ZEROS)
    return max((fields["x_size"] * bytes_of[fields["memory_type"]] for fields in reads), default=0)


def refreshed(steps: Sequence[Step], cfg: VTAConfig) -> list[Step]:
    """Return the program with an ALU instruction that adds 0 before each STORE of what a LOAD or a reset wrote last."""
    stale = np.zeros(cfg.acc_depth, np.bool_)
    made: list[Step] = []
    for step in steps:
        touched = [access for access in step.accesses if access.memory == "acc"]
        if step.stage is Stage.STORE:
            for access in touched:
                old = access.indices[stale[access.indices]]
                runs = np.split(old, np.flatnonzero(np.diff(old) != 1) + 1) if old.size else []
                made += [_add_zero(cfg, int(run[0]), len(run), step.part) for run in runs]
                stale[old] = False
        elif step.stage is Stage.COMPUTE:
            for access in touched:
                if access.write:
                    stale[access.indices] = step.op is Opcode.LOAD or bool(step.fields.get("reset"))
        made.append(step)
    return made


def _add_zero(cfg: VTAConfig, first: int, count: int, part: int) -> Step:
    """Return the ALU instruction that adds 0 to accumulators one after another."""
    fields = {"alu_opcode": int(AluOp.ADD), "use_imm": 1, "iter_out": 1, "iter_in": count}
    fields |= {"dst_in": 1, "src_in": 1} if count > 1 else {}
    assert count <= next(place.high for place in FORMATS[Opcode.ALU].place(cfg) if place.field.name == "iter_in")
    return Step(Opcode.ALU, fields, Stage.COMPUTE, (Access("acc", slice(first, first + count), write=True),),
                uops=(encode_uop(cfg, first, first, 0),), part=part)
