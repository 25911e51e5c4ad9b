"""Products with pads left out: a GEMM whose micro-ops read zeros that LOADs have filled in becomes several smaller ones."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.kernels import OPERANDS
from vtakit.compiler.codegen.vta.stream import Step
from vtakit.hw.isa.codec import decode_uop, encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MemType, Opcode

INSN_STEPS = 4  # GEMM steps that one more instruction must save: with 12 small layers took up to 5 % longer (cycle model)
_Box = tuple[int, int, int, int]  # turns of the outer loop, from and to; of the inner loop
_NONE: _Box = (0, 0, 0, 0)


def leave_out_pads(steps: list[Step], cfg: VTAConfig) -> list[Step]:
    """Return the same program with the products of marked GEMMs that add zeros left out, where that takes fewer cycles.

    A micro-op of a kernel's tap reads pads in some turns of the two loops only: at the image's edge. The micro-ops with the same
    other turns are one instruction. Those with all turns come first, so that they may overwrite what was in the accumulators.
    """
    if not any(step.inside for step in steps):
        return steps
    pads = np.zeros(cfg.inp_depth, np.bool_)  # whether an element of INP is a zero that a LOAD filled in
    found: list[Step] = []
    for step in steps:
        if step.op in (Opcode.LOAD, Opcode.PAD_LOAD) and step.fields["memory_type"] == MemType.INP:
            pads[step.accesses[0].elements] = _filled_in(step)
        found += _parts(step, pads, cfg) if step.inside and not step.fields.get("reset") else [step]
    return found


def _filled_in(step: Step) -> npt.NDArray[np.bool_]:
    """Return which of the elements that a LOAD writes are zeros that it fills in."""
    rows, columns = ([step.fields.get(f"{axis}_{name}", 0) for name in ("pad_0", "size", "pad_1")] for axis in "yx")
    found = np.full((sum(rows), sum(columns)), not step.fields.get("pad_value"))
    found[rows[0]:rows[0] + rows[1], columns[0]:columns[0] + columns[1]] = False
    return found.ravel()


def _parts(step: Step, pads: npt.NDArray[np.bool_], cfg: VTAConfig) -> list[Step]:
    """Return the instructions in the place of a GEMM: itself, or one for each box of turns in which some of its micro-ops add."""
    extents = step.fields["iter_out"], step.fields["iter_in"]
    places = [decode_uop(cfg, word) for word in step.uops]
    turns = np.add.outer(*[np.arange(extent) * step.fields.get(f"src_{loop}", 0) for extent, loop in zip(
        extents, ("out", "in"), strict=True)])
    boxes: dict[_Box, list[int]] = {(0, extents[0], 0, extents[1]): []}  # whole ones come first
    for at, place in enumerate(places):
        boxes.setdefault(_box(~pads[place["src"] + turns]), []).append(at)
    boxes.pop(_NONE, None)
    chosen = {box: uops for box, uops in boxes.items() if uops}
    steps = sum((rows - row) * (columns - column) * len(uops) for (row, rows, column, columns), uops in chosen.items())
    if steps + INSN_STEPS * (len(chosen) - 1) >= step.cycles:
        return [step]
    found = []
    for (row, rows, column, columns), uops in chosen.items():
        by = {name: row * step.fields.get(f"{name}_out", 0) + column * step.fields.get(f"{name}_in", 0) for name in OPERANDS}
        words = [encode_uop(cfg, *[places[at][name] + by[name] for name in OPERANDS]) for at in uops]
        fields = step.fields | {"iter_out": rows - row, "iter_in": columns - column}
        fields |= {f"{name}_out": 0 for name in OPERANDS if rows - row == 1}
        fields |= {f"{name}_in": 0 for name in OPERANDS if columns - column == 1}
        found.append(replace(step, fields=fields, uops=tuple(words)))
    return found


def _box(adds: npt.NDArray[np.bool_]) -> _Box:
    """Return the smallest box of turns outside of which a micro-op adds nothing."""
    rows, columns = np.flatnonzero(adds.any(1)), np.flatnonzero(adds.any(0))
    return (int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1) if len(rows) else _NONE
