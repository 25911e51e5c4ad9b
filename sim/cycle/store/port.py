"""`hw.store.port.StorePort`: accumulator elements in, beats out."""

from typing import Any

from vtakit.hw.isa.insns import REQUANT_WORDS, Opcode
from vtakit.sim.cycle.memory.bursts import BURST_GENERATOR, burst_generator, give_rows, rows_ready
from vtakit.sim.cycle.program import (
    DRAM_BASE,
    LOOKUP,
    MEMORY_TYPE,
    OPCODE,
    PARAMS,
    POOL,
    POOL_ABOVE,
    POOL_LEFT,
    POOL_STEP,
    SRAM_BASE,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
    place,
)
from vtakit.sim.cycle.state import record
from vtakit.sim.cycle.store.narrower import NARROWER, narrower, settled
from vtakit.sim.cycle.store.walk import WALK, begin_instruction, begin_windows, is_last, next_in_windows

_REQUANT = int(Opcode.REQUANT)

STORE_PORT = record("active", "left", "rows_left", "width", "place", "row_place", "pitch", "part", "element",
                    "words_left", "table_left", "scales", "looks_up", "pools", "pending",
                    bursts=BURST_GENERATOR, narrower=NARROWER, walk=WALK)


def port_ready(s: Any) -> Any:
    """Return whether the next instruction would be taken."""
    return not s.active and settled(s.narrower) and rows_ready(s.bursts)


def port_idle(s: Any) -> Any:
    """Return whether nothing is read, and nothing is on its way to the write master."""
    values = s.narrower
    return not (s.active or s.pending or values.found or values.plain or values.scaled or s.bursts.count or s.bursts.busy)


def stalled(s: Any) -> Any:
    """Return whether elements wait, since those before are still on their way to memory."""
    return s.active and s.narrower.room == 0


def beat_valid(s: Any, p: Any) -> Any:
    """Return whether a beat is offered."""
    return s.pending if p.out_lanes > 1 else s.narrower.found > 0


def store_port(s: Any, p: Any, commands: Any, insn: Any, read_ready: Any, beats_ready: Any, burst_taken: Any) -> None:
    """One cycle; `insn` is the instruction that starts, or -1."""
    if not (s.active or s.pending or s.narrower.found or s.narrower.plain or s.narrower.scaled):
        burst_generator(s.bursts, p, burst_taken)
    else:
        _read(s, p, read_ready, _join(s, p, beats_ready))
        burst_generator(s.bursts, p, burst_taken)
    if insn >= 0:
        _begin(s, p, commands, insn)


def _join(s: Any, p: Any, beats_ready: Any) -> Any:
    """An element joins the beat in hand. Returns whether one is taken."""
    values = s.narrower
    if p.out_lanes == 1:
        return values.found > 0 and beats_ready
    fills = values.fills[values.first]
    taken = values.found > 0 and (not fills or not s.pending or beats_ready)
    if beats_ready:
        s.pending = 0
    if taken and fills:
        s.pending = 1
    return taken


def _read(s: Any, p: Any, read_ready: Any, taken: Any) -> None:
    """Read ACC: parameters, the table, and then part by part of the elements."""
    is_part, fills = False, False
    if s.active and read_ready and s.narrower.room:
        part_ends = s.part == p.out_parts - 1
        if s.words_left:
            s.words_left -= 1
            s.walk.at += 1
            if s.words_left == 0 and s.table_left == 0:
                s.part = 0
                begin_windows(s.walk, s.element)
        elif s.table_left:
            s.table_left -= 1
            s.walk.at += part_ends
            s.part = 0 if part_ends else s.part + 1
            if s.table_left == 0:
                s.part = 0
                begin_windows(s.walk, s.element)
        else:
            row_ends = s.left == 1
            is_part = is_last(s.walk)
            fills = row_ends or s.place >> p.out_bytes_log2 == p.out_lanes - 1
            next_in_windows(s.walk, not part_ends, row_ends)
            if is_part:
                _go_on(s, p, part_ends, row_ends)
    narrower(s.narrower, is_part, s.scales, s.pools, s.looks_up, fills, taken)


def _go_on(s: Any, p: Any, part_ends: Any, row_ends: Any) -> None:
    """Go on behind the last element of a window."""
    if not part_ends:
        s.part += 1
        return
    s.part = 0
    s.left = s.width if row_ends else s.left - 1
    s.place = (s.place + p.out_bytes) & (p.bus_bytes - 1)
    if row_ends:
        s.place = s.row_place = (s.row_place + s.pitch) & (p.bus_bytes - 1)
        s.rows_left -= 1
        s.active = s.rows_left != 0


def _begin(s: Any, p: Any, commands: Any, insn: Any) -> None:
    """Take an instruction."""
    f, at = commands.fields, place(insn)
    address = p.bases[f[at + MEMORY_TYPE]] + (f[at + DRAM_BASE] << p.out_bytes_log2)
    s.active, s.left, s.width, s.rows_left, s.part = 1, f[at + X_SIZE], f[at + X_SIZE], f[at + Y_SIZE], 0
    s.place = s.row_place = address & (p.bus_bytes - 1)
    s.pitch = f[at + X_STRIDE] << p.out_bytes_log2
    s.element = f[at + SRAM_BASE]  # that is stored first
    s.scales = f[at + OPCODE] == _REQUANT
    if s.scales:
        double = f[at + POOL_STEP]
        pitch = ((1 + double) * f[at + X_SIZE] - double) + f[at + POOL]
        s.words_left, s.table_left = REQUANT_WORDS, p.table_rows if f[at + LOOKUP] else 0
        s.looks_up, s.pools = f[at + LOOKUP], f[at + POOL] != 0
        begin_instruction(s.walk, f[at + PARAMS], f[at + POOL], double, f[at + POOL_ABOVE], f[at + POOL_LEFT], pitch)
    else:
        begin_instruction(s.walk, s.element, 0, 0, 0, 0, f[at + X_SIZE])
    give_rows(s.bursts, address, f[at + Y_SIZE], f[at + X_SIZE] << p.out_bytes_log2, s.pitch)
