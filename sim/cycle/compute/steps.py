"""`hw.compute.steps.StepGenerator`: two hardware loops around a range of micro-ops, one step a cycle."""

from typing import Any

from vtakit.hw.isa.insns import AluOp, Opcode
from vtakit.hw.timing import STEPS_AHEAD
from vtakit.sim.cycle.pipeline import BUFFERED, buffered
from vtakit.sim.cycle.program import (
    ALU_OPCODE,
    DST,
    DST_COLUMN,
    DST_IN,
    DST_OUT,
    DST_ROW,
    ITER_IN,
    ITER_OUT,
    LAST_COLUMN,
    OPCODE,
    RESET,
    ROWS,
    SRC,
    SRC_COLUMN,
    SRC_IN,
    SRC_OUT,
    SRC_ROW,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    WGT,
    WGT_IN,
    WGT_OUT,
    X_FIRST,
    X_STEP,
    Y_FIRST,
    Y_STEP,
    place,
)
from vtakit.sim.cycle.state import record

_ALU, _DWCONV, _MUL = int(Opcode.ALU), int(Opcode.DWCONV), int(AluOp.MUL)
_STEPS = 16  # more than are under way: STEPS_AHEAD, and the one that arithmetic checks
_WAY = 3  # cycles from a micro-op's index to the queue

# Steps: `src` is -1 where ACC is not read for it; parts: passes for outputs or lanes. A ring from `first` on.
STEPS = record("first", "next", dst=_STEPS, src=_STEPS, is_alu=_STEPS, emits=_STEPS, last=_STEPS, fault=_STEPS, insn=_STEPS,
               loads_before=_STEPS, parts=_STEPS)
STEP_GENERATOR = record(
    "active", "ready", "room", "has_room", "issued", "way",
    "insn", "loads_before", "is_alu", "is_window", "uses_src", "uses_wgt", "multiplies", "bgn", "end", "turns", "rows",  # in hand
    "at", "inner", "outer", "last_uop", "last_turn", "last_row", "one_uop", "one_turn",
    "dst_in", "dst_out", "src_in", "src_out", "wgt_in", "wgt_out", "dst", "src", "wgt",
    "dst_offset", "dst_start", "src_offset", "src_start", "wgt_offset", "wgt_start",
    "y_wait", "y_phase", "y_step", "x_wait", "x_phase", "x_first", "x_step",
    queue=BUFFERED, steps=STEPS,
)


def reset_step_generator(s: Any) -> None:
    """Set the registers that a reset does not clear."""
    s.room, s.has_room = STEPS_AHEAD, 1


def commands_ready(s: Any) -> Any:
    """Return whether the next instruction would be taken."""
    return (s.active == 0) | (s.has_room & s.ready & s.last_uop & s.last_turn & s.last_row)


def step_generator(
    s: Any, p: Any, commands: Any, scratchpad: Any, insn: Any, loads_before: Any, loads_done: Any, pending: Any, end: Any,
    ready: Any,
) -> None:
    """One cycle.

    scratchpad               has the micro-ops
    insn                     the instruction that is taken, or -1, with the number of loads that were issued `loads_before` it
    loads_done, pending, end as in the hardware's guard: micro-ops from `pending` up to `end` are yet to be written
    ready                    arithmetic would take a step
    """
    takes = commands_ready(s)
    issue = s.active & s.has_room & s.ready
    s.issued = 0
    taken = s.queue.valid & ready
    buffered(s.queue, s.way >> (_WAY - 1) & 1, ready)
    s.way = (s.way << 1 | issue) & ((1 << _WAY) - 1)
    s.steps.first = (s.steps.first + taken) % _STEPS
    if s.active:
        _loop(s, p, scratchpad, issue, loads_done, pending, end)
    s.room += taken - issue
    s.has_room = s.room != 0
    if takes:
        s.active = 0
        if insn >= 0:
            _begin(s, commands, insn, loads_before, loads_done)


def _written(s: Any, index: Any, loads_done: Any, pending: Any, end: Any) -> Any:
    return s.loads_before == loads_done or index < pending or index >= end


def _loop(s: Any, p: Any, scratchpad: Any, issue: Any, loads_done: Any, pending: Any, end: Any) -> None:
    """A cycle of the loops: a step if `issue`, and whether the next micro-op is written."""
    if not issue:
        s.ready = s.is_window != 0 or _written(s, s.at, loads_done, pending, end)
        return
    turn = s.last_uop != 0
    row = turn and s.last_turn != 0
    ends = row and s.last_row != 0
    emits, row_emits = True, True
    if s.is_window:
        row_emits = s.y_wait == 0 and s.y_phase == 0
        emits = row_emits and s.x_wait == 0 and s.x_phase == 0
    else:
        s.ready = _written(s, s.bgn if turn else s.at + 1, loads_done, pending, end)
        word = scratchpad.uops[s.at]
        s.dst = word >> p.dst_at & p.dst_mask
        s.src = word >> p.src_at & p.src_mask
        s.wgt = word >> p.wgt_at & p.wgt_mask
    _append(s, p, emits, ends)
    if ends:
        s.issued = 1
        return
    _advance(s, turn, row, emits, row_emits)


def _append(s: Any, p: Any, emits: Any, ends: Any) -> None:
    """Add a step to the ring."""
    steps = s.steps
    n = steps.next
    steps.next = (n + 1) % _STEPS
    dst, src = s.dst + s.dst_offset, s.src + s.src_offset
    # A step of a DWCONV without an output may have any dst: its low bits are what a load of ACC is compared with.
    steps.dst[n], steps.src[n] = dst & (p.acc_depth - 1), src if s.is_alu and s.uses_src else -1
    steps.is_alu[n], steps.emits[n], steps.last[n], steps.insn[n] = s.is_alu, emits, ends, s.insn
    steps.loads_before[n] = s.loads_before
    src_depth = p.acc_depth if s.is_alu else p.inp_depth
    steps.fault[n] = ((emits and dst >= p.acc_depth) or (s.uses_src != 0 and src >= src_depth)
                      or (s.uses_wgt != 0 and s.wgt + s.wgt_offset >= p.wgt_depth))
    steps.parts[n] = 1
    if not steps.fault[n]:
        if s.multiplies:
            steps.parts[n] = p.mul_passes
        elif s.uses_wgt and emits:
            steps.parts[n] = p.gemm_passes


def _advance(s: Any, turn: Any, row: Any, emits: Any, row_emits: Any) -> None:
    """Go on to the next micro-op."""
    s.at = s.bgn if turn else s.at + 1
    s.last_uop = s.one_uop if turn else s.at + 1 == s.end
    if row:
        s.inner, s.last_turn = 0, s.one_turn
        s.outer += 1
        s.last_row = s.outer + 1 == s.rows
        if row_emits:
            s.dst_start += s.dst_out
        s.src_start += s.src_out
        s.wgt_start += s.wgt_out
        s.dst_offset, s.src_offset, s.wgt_offset = s.dst_start, s.src_start, s.wgt_start
    elif turn:
        s.inner += 1
        s.last_turn = s.inner + 1 == s.turns
        if emits:
            s.dst_offset += s.dst_in
        s.src_offset += s.src_in
        s.wgt_offset += s.wgt_in
    if s.is_window:
        if row:
            s.x_wait, s.x_phase = s.x_first, 0
            if s.y_wait:
                s.y_wait -= 1
            else:
                s.y_phase = 0 if s.y_phase == s.y_step else s.y_phase + 1
        elif s.x_wait:
            s.x_wait -= 1
        else:
            s.x_phase = 0 if s.x_phase == s.x_step else s.x_phase + 1


def _begin(s: Any, commands: Any, insn: Any, loads_before: Any, loads_done: Any) -> None:
    """Take an instruction."""
    f, at = commands.fields, place(insn)
    op = f[at + OPCODE]
    s.active, s.insn, s.loads_before, s.is_alu, s.is_window = 1, insn, loads_before, op == _ALU, op == _DWCONV
    s.dst_offset = s.dst_start = s.src_offset = s.src_start = s.wgt_offset = s.wgt_start = 0
    s.inner = s.outer = 0
    if s.is_window:
        s.rows, s.turns = f[at + ROWS], f[at + LAST_COLUMN] + 1
        s.bgn = s.at = 0
        s.one_uop, s.ready, s.uses_src, s.uses_wgt = 1, 1, 1, 1
        s.dst, s.src, s.wgt = f[at + DST], f[at + SRC], f[at + WGT]
        s.dst_in, s.dst_out, s.wgt_in, s.wgt_out = f[at + DST_COLUMN], f[at + DST_ROW], 0, 0
        s.src_in, s.src_out = f[at + SRC_COLUMN], f[at + SRC_ROW]
        s.y_wait, s.y_phase, s.y_step = f[at + Y_FIRST], 0, f[at + Y_STEP]
        s.x_wait, s.x_phase, s.x_step, s.x_first = f[at + X_FIRST], 0, f[at + X_STEP], f[at + X_FIRST]
    else:
        s.rows, s.turns, s.bgn, s.end = f[at + ITER_OUT], f[at + ITER_IN], f[at + UOP_BGN], f[at + UOP_END]
        s.at = s.bgn
        s.one_uop = s.bgn + 1 == s.end
        s.ready = loads_before == loads_done
        s.uses_src = f[at + USE_IMM] == 0 if s.is_alu else f[at + RESET] == 0
        s.uses_wgt = not s.is_alu and f[at + RESET] == 0
        s.dst_in, s.dst_out, s.src_in, s.src_out = f[at + DST_IN], f[at + DST_OUT], f[at + SRC_IN], f[at + SRC_OUT]
        s.wgt_in, s.wgt_out = f[at + WGT_IN], f[at + WGT_OUT]
    s.multiplies = s.is_alu and f[at + ALU_OPCODE] == _MUL
    s.last_uop = s.one_uop
    s.one_turn = s.last_turn = s.turns == 1
    s.last_row = s.rows == 1
