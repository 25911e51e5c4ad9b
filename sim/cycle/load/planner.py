"""`hw.load.planner.LoadPlanner`: from LOAD instructions to pieces, what one cycle writes to a scratchpad."""

from typing import Any

from vtakit.sim.cycle.program import (
    DRAM_BASE,
    MEMORY_TYPE,
    SRAM_BASE,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
    place,
)
from vtakit.sim.cycle.state import record

_PIECES = 8  # more than are between the planner and the end of the writer

# A ring of pieces: `count` in the slice from `first` on, and behind them the planner's own register, if `offered`.
# address: byte of DRAM of a piece of data
PIECES = record("first", "count", "offered", target=_PIECES, elements=_PIECES, whole=_PIECES, pad=_PIECES, ends_beat=_PIECES,
                begins=_PIECES, ends=_PIECES, base=_PIECES, bound=_PIECES, address=_PIECES)
PLANNER = record(
    "stage", "planned", "insn", "target", "across", "data_end", "rows", "bound",  # the plan
    "active", "begins", "now_target", "now_across", "now_data_end", "now_rows", "now_bound", "base", "first_address",
    "element_log2", "lanes", "a_beat", "last_beat", "x_pad_0", "x_pad_1", "x_size", "x_stride", "y_pad_0",  # of the LOAD in hand
    "next_row", "left", "leading", "trailing", "place", "row_place", "beat", "most", "data_row", "address",
    pieces=PIECES,
)


def planner_ready(s: Any) -> Any:
    """Return whether the next LOAD would be taken."""
    return (s.stage == 0) & ((s.planned == 0) | (s.active == 0))


def planner(s: Any, p: Any, targets: Any, commands: Any, insn: Any, room: Any) -> Any:
    """One cycle; `insn` is the LOAD that is taken, or -1. `room`: the slice behind takes a piece.

    Returns whether the next cycle may differ without either.
    """
    takes = s.planned & (s.active == 0)
    changes = _walk(s, room) or takes or s.stage != 0 or insn >= 0
    if takes:
        _begin(s, p, targets, commands)
        s.planned = 0
    _size(s, targets, commands, insn)
    return changes


def _size(s: Any, targets: Any, commands: Any, insn: Any) -> None:
    if s.stage == 0:
        if insn >= 0:
            s.insn, s.stage = insn, 1
    elif s.stage == 1:
        f, at = commands.fields, place(s.insn)
        s.across = f[at + X_PAD_0] + f[at + X_SIZE] + f[at + X_PAD_1]
        s.data_end = f[at + Y_PAD_0] + f[at + Y_SIZE]
        s.rows = s.data_end + f[at + Y_PAD_1]
        s.target = targets.number[f[at + MEMORY_TYPE]]
        s.stage = 2
    elif s.stage == 2:
        s.stage = 3
    else:
        s.bound = commands.fields[place(s.insn) + SRAM_BASE] + s.rows * s.across
        s.planned, s.stage = 1, 0


def _begin(s: Any, p: Any, targets: Any, commands: Any) -> None:
    """Take the LOAD whose size is known in hand."""
    f, at = commands.fields, place(s.insn)
    s.now_target, s.now_across, s.now_data_end, s.now_rows, s.now_bound = s.target, s.across, s.data_end, s.rows, s.bound
    s.element_log2, s.lanes = targets.element_log2[s.target], targets.lanes[s.target]
    s.a_beat, s.last_beat = targets.a_beat[s.target], targets.last_beat[s.target]
    s.base, s.x_pad_0, s.x_pad_1 = f[at + SRAM_BASE], f[at + X_PAD_0], f[at + X_PAD_1]
    s.x_size, s.x_stride, s.y_pad_0 = f[at + X_SIZE], f[at + X_STRIDE], f[at + Y_PAD_0]
    s.first_address = p.bases[f[at + MEMORY_TYPE]] + (f[at + DRAM_BASE] << s.element_log2)
    s.active, s.begins, s.beat = 1, 1, 0
    _begin_row(s, 0, f[at + DRAM_BASE] & (s.a_beat - 1))


def _begin_row(s: Any, number: Any, at: Any) -> None:
    s.data_row = (number >= s.y_pad_0) & (number < s.now_data_end)
    pads = s.data_row == 0 or s.x_pad_0 != 0
    s.next_row, s.leading, s.trailing, s.place, s.row_place = number + 1, pads, 0, at, at
    if s.data_row:
        s.left = s.x_pad_0 if s.x_pad_0 else s.x_size
        s.address = s.first_address + ((number - s.y_pad_0) * s.x_stride << s.element_log2)
    else:
        s.left = s.now_across
    s.most = s.lanes if pads else min(s.a_beat - at, s.lanes)


def _walk(s: Any, room: Any) -> Any:
    pieces = s.pieces
    moves = s.active & ((pieces.offered == 0) | room)
    changes = False
    if pieces.offered and room:
        pieces.count += 1
        pieces.offered = 0
        changes = True
    if not moves:
        return changes
    pad = s.leading | s.trailing
    whole = pad | (s.beat == s.last_beat)
    past = s.place + s.most
    ends_run = whole & (s.left <= s.most)
    ends_row = ends_run & (s.trailing | (s.leading & (s.data_row == 0)) | ((pad == 0) & (s.x_pad_1 == 0)))
    ends = ends_row & (s.next_row == s.now_rows)
    at = (pieces.first + pieces.count) % _PIECES
    count = s.left if ends_run else s.most
    pieces.offered = 1
    pieces.target[at], pieces.pad[at], pieces.elements[at], pieces.whole[at] = s.now_target, pad, count, whole
    pieces.begins[at], pieces.ends[at] = s.begins, ends
    pieces.ends_beat[at] = (s.last_beat != 0) | ends_run | (past == s.a_beat)
    pieces.base[at], pieces.bound[at], pieces.address[at] = s.base, s.now_bound, s.address
    s.begins = 0
    if whole:
        s.beat = 0
        s.left -= s.most
        s.address += 0 if pad else count << s.element_log2
    else:
        s.beat += 1
    if ends_row:
        _begin_row(s, s.next_row, (s.row_place + s.x_stride) & (s.a_beat - 1) if s.data_row else s.row_place)
    elif ends_run and s.leading:
        s.leading, s.left, s.most = 0, s.x_size, min(s.a_beat - s.place, s.lanes)
    elif ends_run:
        s.trailing, s.left, s.most = 1, s.x_pad_1, s.lanes
    elif not pad and s.last_beat == 0:
        s.place = past & (s.a_beat - 1)
        s.most = min(s.a_beat - s.place, s.lanes)
    if ends:
        s.active = 0
    return True
