"""A program as the cycle model reads it: a table of its instructions' fields, and the rings of those that stages hold."""

from typing import Any

import numpy as np

from vtakit.hw.isa.insns import LOADS, MEMORIES, MemType, Opcode, Stage
from vtakit.sim.columns import COLUMNS
from vtakit.sim.cycle.state import record
from vtakit.sim.decode import Decoded, Ints

OPCODE, MEMORY_TYPE, SRAM_BASE, DRAM_BASE = (COLUMNS[n] for n in ("opcode", "memory_type", "sram_base", "dram_base"))
POP_PREV, POP_NEXT, PUSH_PREV, PUSH_NEXT = (COLUMNS[n] for n in ("pop_prev", "pop_next", "push_prev", "push_next"))
Y_SIZE, X_SIZE, X_STRIDE = (COLUMNS[n] for n in ("y_size", "x_size", "x_stride"))
Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = (COLUMNS[n] for n in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"))
UOP_BGN, UOP_END, ITER_OUT, ITER_IN = (COLUMNS[n] for n in ("uop_bgn", "uop_end", "iter_out", "iter_in"))
DST_OUT, DST_IN, SRC_OUT, SRC_IN = (COLUMNS[n] for n in ("dst_out", "dst_in", "src_out", "src_in"))
WGT_OUT, WGT_IN, RESET, USE_IMM, ALU_OPCODE = (COLUMNS[n] for n in ("wgt_out", "wgt_in", "reset", "use_imm", "alu_opcode"))
DST, SRC, WGT, ROWS, LAST_COLUMN = (COLUMNS[n] for n in ("dst", "src", "wgt", "rows", "columns"))
Y_FIRST, X_FIRST, Y_STEP, X_STEP = (COLUMNS[n] for n in ("y_first", "x_first", "y_step", "x_step"))
SRC_ROW, SRC_COLUMN, DST_ROW, DST_COLUMN = (COLUMNS[n] for n in ("src_row", "src_column", "dst_row", "dst_column"))
LOOKUP, POOL, POOL_ABOVE, POOL_LEFT = (COLUMNS[n] for n in ("lookup", "pool", "pool_above", "pool_left"))
POOL_STEP, PARAMS = (COLUMNS[n] for n in ("pool_step", "params"))
UNIT = len(COLUMNS)  # who does an instruction in its stage; 0: there is nothing to do
LOADS_UNIT, ARITHMETIC_UNIT = 1, 2  # of the compute stage; other stages have one unit
WORDS = UNIT + 1
_RING = 1 << 10  # more instructions than a stage has, under way or waiting: COMMAND_QUEUE_DEPTH and those that it has started

COMMANDS = record(fields=_RING * WORDS)  # instruction n of a stage, in the place of what the hardware keeps of its word


def place(n: Any) -> Any:
    """Return where the fields of a stage's instruction number `n` begin."""
    return n % _RING * WORDS


def keep(commands: Any, n: Any, row: Any) -> None:
    """Put the fields of a stage's instruction number `n` into the ring."""
    at = place(n)
    for column in range(WORDS):
        commands.fields[at + column] = row[column]


def table_of(d: Decoded) -> Ints:
    """Return the fields and the unit of each instruction of a checked program [instructions, WORDS]."""
    loops = (d["iter_out"] > 0) & (d["iter_in"] > 0) & (d["uop_end"] > d["uop_bgn"])
    computes = (d.is_op(Opcode.GEMM, Opcode.ALU) & loops) | (d.is_op(Opcode.DWCONV) & (d["rows"] > 0))
    loads = d.is_op(*LOADS) & (d["x_size"] > 0) & (d["y_size"] + d["y_pad_0"] + d["y_pad_1"] > 0)
    stores = d.is_op(*MEMORIES[MemType.OUT].opcodes) & (d["x_size"] > 0) & (d["y_size"] > 0)
    return np.column_stack([d.table, np.where(computes, ARITHMETIC_UNIT, loads | stores)])


def order_of(d: Decoded) -> tuple[Ints, Ints]:
    """Return the numbers of the instructions stage by stage, and where each stage's begin."""
    order = np.argsort(d.stage, kind="stable")
    return order, np.searchsorted(d.stage[order], [int(stage) for stage in Stage])
