"""Planted defects: copies of a block with one thing wrong, which its checker must notice."""

import importlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """In the source of `block`, `right` becomes `wrong`; `proof` is the one that must fail.

    users    modules that use the block, each by its class `name`
    cycles   within which a run shows it
    """

    proof: str
    block: str
    name: str
    users: tuple[str, ...]
    right: str
    wrong: str
    cycles: int = 30


def defect(proof: str, block: str, name: str, right: str, wrong: str, *users: str, cycles: int = 30) -> Defect:
    """A defect, written in one line."""
    found = f"vtakit.{block}" if block.startswith("boards.") else f"vtakit.hw.{block}"
    return Defect(proof=proof, block=found, name=name, users=users, right=right, wrong=wrong, cycles=cycles)


def planted(wanted: Defect) -> Callable[..., Any]:
    """The block's class, or function, with the defect in it."""
    module = importlib.import_module(wanted.block)
    source = Path(str(module.__file__)).read_text()
    assert source.count(wanted.right) == 1, f"{wanted.block} has {wanted.right!r} {source.count(wanted.right)} times"
    copy = types.ModuleType(wanted.block)
    exec(compile(source.replace(wanted.right, wanted.wrong), str(module.__file__), "exec"), copy.__dict__)
    block = copy.__dict__[wanted.name]
    assert callable(block)
    return cast("Callable[..., Any]", block)


QUEUE = ("tokens, depth 3", "issue.token_queue", "TokenQueue")
BURSTS = ("bursts, 3 rows of 7 bytes", "memory.bursts", "BurstGenerator")
READS = ("reads, 2 outstanding", "memory.read_master", "ReadMaster")
BUFFER = ("buffer, 4 beats", "memory.read_buffer", "ReadBuffer")
LOADS = ("loads, a narrow row", "load.planner", "LoadPlanner")
RETIRE = ("retirement, 3 entries", "issue.retire", "Retire")
END = ("end of a program", "control.supervisor", "Supervisor")
WRITES = ("writes, 2 outstanding", "memory.write_master", "WriteMaster")
BYTES = ("stored bytes", "store.port", "StorePort")
WINDOW = ("window, 2 x 4 taps", "compute.window", "Window")
SDRAM = ("SDRAM, a slow chip", "boards.memory.scheduler", "Scheduler")
COLUMNS = ("SDRAM, columns", "boards.memory.scheduler", "Scheduler")
MODE = ("SDRAM, power-up", "boards.memory.initialisation", "Initialisation")
SCALED = ("requantizer, lanes: 1", "store.requantizer", "Requantizer")

PRODUCT = ("product, 8 by 8 bits", "compute.booth", "booth")

DEFECTS = (
    *(defect(*SDRAM, right, wrong, "formal.sdram", cycles=70) for right, wrong in (
        ("(activates[n], dram.trcd)", "(activates[n], dram.trcd - 1)"),
        ("(activates[n], dram.trc),", "(activates[n], dram.trc - 1),"),
        ("state.precharges_all, dram.trp)", "state.precharges_all, dram.trp - 1)"),
        ("(precharges[n] | state.precharges_all, dram.trp)", "(precharges[n], dram.trp)"),
        ("(state.refreshes, dram.trfc)", "(state.refreshes, dram.trfc - 1)"),
        ("(activates[n], dram.tras)", "(activates[n], dram.tras - 1)"),
        ('(reads & at_hand[n], between["read_precharge"])', '(reads & at_hand[n], between["read_precharge"] - 1)'),
        ('(writes & at_hand[n], between["write_precharge"])', '(writes & at_hand[n], between["write_precharge"] - 1)'),
        ('(writes, between["write_read"])', '(writes, between["write_read"] - 1)'),
        ('(reads, between["read_write"])', '(reads, between["read_write"] - 1)'),
        ('(writes, between["column"])', '(writes, between["column"] - 1)'),
        ("(state.activates, dram.trrd)", "(state.activates, dram.trrd - 1)"),
        ("refreshing & ~opened.any() & may.activate.all()", "refreshing & ~opened.any()"),
        ("(~opened | may.precharge).all()", "may.precharge.any()"),
        ("owed.eq(owed + due - state.refreshes)", "owed.eq(owed + due)"),
        ("self.enable & ~refreshing & state.has_hand", "self.enable & state.has_hand"),
    )),
    *(defect(*COLUMNS, right, wrong, "formal.sdram") for right, wrong in (
        ("following.eq(place + 1)", "following.eq(place)"),
        ("place = Cat(hand.column, hand.bank, hand.row)", "place = Cat(hand.column, hand.row)"),
        ("state.rows[n].eq(state.row)", "state.rows[n].eq(0)"),
        ("loads.eq(finishes | ~state.has_hand)", "loads.eq(state.moves | ~state.has_hand)"),
        ("reads.take.eq(loads & ~turned)", "reads.take.eq(loads)"),
    )),
    *(defect(*MODE, right, wrong, "formal.sdram", cycles=100) for right, wrong in (
        ("left.eq(table[step])", "left.eq(table[step] - 1)"), ("dram.tcas << 4", "dram.tcas << 3"),
        ("1 << PRECHARGE_ALL_BIT, dram.trp", "0, dram.trp"), ("[(Kind.REFRESH, 0, dram.trfc)]", "[(Kind.REFRESH, 0, dram.trp)]"),
    )),
    defect(*PRODUCT, "missing = Cat(negative, Const(0, 1))", "missing = Const(0, 2)", "formal.products"),
    defect(*PRODUCT, "Mux(negative, ~(low | middle), low & middle)", "Mux(negative, ~low, low & middle)", "formal.products"),
    defect(*WINDOW, "self.row >= back", "self.row > back", "formal.windows"),
    defect(*WINDOW, "Mux(self.first, 0, taps[n + 1])", "taps[n + 1]", "formal.windows"),
    defect(*WINDOW, "write.en.eq(self.shifts)", "write.en.eq(1)", "formal.windows"),
    defect("window, 3 x 5 taps", *WINDOW[1:], "write.data.eq(entering[-1])", "write.data.eq(self.tile)", "formal.windows"),
    defect(*QUEUE, "before == self._depth - 1", "before == self._depth", "formal.tokens"),
    defect(*QUEUE, "(before == self._depth)", "(before + 1 == self._depth)", "formal.tokens"),
    defect(*QUEUE, "loses.eq(self.push & ~taken & full)", "loses.eq(self.push & full)", "formal.tokens"),
    defect(*QUEUE, "came.eq(self.push & ~taken & ~full)", "came.eq(self.push & ~taken)", "formal.tokens"),
    defect(*BURSTS, "(found.end <= self.window_high)", "(found.end < self.window_high + 2)", "formal.bursts"),
    defect(*BURSTS, "params.burst_beats - beat[: params.burst_beats.bit_length() - 1]", "params.burst_beats",
           "formal.bursts"),
    defect(*BURSTS, "now.is_last & ends", "now.is_last", "formal.bursts"),
    defect(*BURSTS, "+ piece.row_bytes + params.bus_bytes - 1", "+ piece.row_bytes", "formal.bursts"),
    defect(*BURSTS, "& (~has_row | inside)),", "),", "formal.bursts"),
    defect(*BURSTS, "row_end.eq(row_end + piece.pitch_bytes)", "row_end.eq(row_end)", "formal.bursts"),
    defect(*READS, "depth=params.outstanding + 1", "depth=params.outstanding", "formal.reads"),
    defect(*READS, "(in_flight + start < params.outstanding)", "(in_flight < params.outstanding)", "formal.reads"),
    defect("reads, 3 outstanding", *READS[1:], "start.eq(is_open & address.i.ready & any_valid)",
           "start.eq(is_open & any_valid)", "formal.reads"),
    defect(*READS, "~self.stop & (in_flight", "(in_flight", "formal.reads"),
    defect(*READS, "owners.r_en.eq(finished)", "owners.r_en.eq(r.valid & r.ready)", "formal.reads"),
    defect(*WRITES, "(here > wanted.last)", "(here >= wanted.last)", "formal.writes"),
    defect(*WRITES, "lengths.w_en.eq(start)", "lengths.w_en.eq(aw.valid & aw.ready)", "formal.writes"),
    defect(*WRITES, "lengths.w_data.eq(wanted.last)", "lengths.w_data.eq(aw.payload.len)", "formal.writes"),
    defect(*READS, "in reversed(range(1, readers + 1))", "in range(1, readers + 1)", "formal.reads"),
    defect("reads, three readers", *READS[1:], "n = (owner + away) % readers", "n = (away + 1) % readers", "formal.reads"),
    defect(*WRITES, "sent == lengths.r_data", "sent >= 1", "formal.writes"),
    defect(*WRITES, "m.d.sync += sent.eq(0)", "m.d.sync += sent.eq(1)", "formal.writes"),
    defect(*WRITES, "finals.w_data.eq(wanted.final)", "finals.w_data.eq(1)", "formal.writes"),
    defect(*WRITES, "(in_flight != params.outstanding) & ~self.stop", "~self.stop", "formal.writes"),
    defect(*WRITES, "self.idle.eq(in_flight == 0)", "self.idle.eq(~aw.valid & ~w.valid)", "formal.writes"),
    defect(*BUFFER, "(room > wanted.last)", "(room >= wanted.last)", "formal.buffers"),
    defect(*BUFFER, "room.eq(room + change)", "room.eq(room + change + (asked & taken))", "formal.buffers"),
    defect(*BUFFER, "taken_before.eq(taken)", "taken_before.eq(self.beats.valid)", "formal.buffers"),
    defect("loads, single", *LOADS[1:], "(last_beat != 0) | ends_run | (past == a_beat)", "(last_beat != 0) | (past == a_beat)",
           "vtakit.hw.load.writer"),
    defect(*LOADS, "(trailing | (leading & ~data_row)", "(trailing | leading", "vtakit.hw.load.writer"),
    defect(*RETIRE, "ready = Array([Signal(init=1", "ready = Array([Signal(init=1), Signal(init=1", "formal.retirement"),
    defect(*RETIRE, "(self.retires & (oldest.unit == n + 1))", "self.retires", "formal.retirement"),
    defect("stores", "memory.write_master", "WriteMaster", "finals.w_data.eq(wanted.final)", "finals.w_data.eq(1)",
           "vtakit.hw.store.stage"),
    defect("stores", "memory.write_master", "WriteMaster", "self.done.eq(finished", "self.done.eq(w.valid & w.ready",
           "vtakit.hw.store.stage"),
    defect("stores", "store.stage", "StoreStage", "fault_index.eq(writers.r_data)", "fault_index.eq(issue.retire_index)",
           "formal.stores"),
    defect(*END, 'm.d.sync += self.clear.eq(1)\n                    m.next = "FORGET"', 'm.next = "FORGET"', "formal.ending"),
    defect("end of a program", "core", "Core", "self.ended.eq(finished & empty)", "self.ended.eq(finished)", "formal.ending"),
    defect("end of a program", "core", "Core", "reader.idle & store.idle", "reader.idle", "formal.ending"),
    defect(*BYTES, "strobes.eq(Mux(full, 0, Cat(*new_strobes)))", "strobes.eq(Cat(*new_strobes))", "formal.narrowing"),
    defect(*BYTES, "~self.active & narrower.settled &", "~self.active &", "formal.narrowing"),
    defect(*BYTES, "walk.first_of.eq(first)", "walk.first_of.eq(begin)", "formal.narrowing"),
    defect(*BYTES, "wanted.word.eq(REQUANT_WORDS - words_left)", "wanted.word.eq(words_left)", "formal.narrowing"),
    defect("stored bytes, elements of two beats", *BYTES[1:], "part.eq(Mux(part_ends, 0, part + 1))", "part.eq(0)",
           "formal.narrowing"),
    defect("stored bytes", "store.narrower", "Narrower", "coming.is_part & coming.scales, unit.stays]",
           "coming.is_part & coming.scales]", "vtakit.hw.store.port"),
    defect("stored bytes", "store.narrower", "Narrower", "out.place.eq(unit.result_tag)", "out.place.eq(here.place)",
           "vtakit.hw.store.port"),
    defect("walk, windows of up to 4", "store.walk", "Walk", "origin + 1 + double - lacks_column", "origin + 1 + double",
           "formal.walks"),
    defect("walk, windows of 1 or 2", "store.walk", "Walk", "Mux(lacks_row, 0, pitch)", "pitch", "formal.walks"),
    defect(*SCALED, "+ near5[0] +", "+", "formal.requantizing"),
    defect(*SCALED, "far4 | (unlike4 >> fine4).any()", "far4", "formal.requantizing"),
    defect(*SCALED, "| (low6 > high6)", "", "formal.requantizing"),
    defect(*SCALED, "(high2 + low2[LOW_BITS:])", "high2", "formal.requantizing"),
    defect("requantizer, lanes: 2", *SCALED[1:], ")[parts[stage]]", ")[parts[0]]", "formal.requantizing"),
    defect(*SCALED, "Cat(flags[:-1]).any() |", "Cat(flags).any() |", "formal.requantizing"),
)
