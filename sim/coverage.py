"""Counts which of the declared bins a set of programs reaches, from instructions and micro-ops alone, without running them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtakit.hw.isa.codec import Insn, decode, from_bytes
from vtakit.hw.isa.config import INSN_BYTES, NAMED, UOP_BYTES, VTAConfig
from vtakit.hw.isa.insns import FLAG_QUEUES, FLAGS, MEMORIES, TRANSFERS, UOP, AluOp, MemType, Opcode, Stage
from vtakit.hw.params import PAGE_BYTES
from vtakit.hw.system import BUS_BITS
from vtakit.hw.values import Ints
from vtakit.sim.access import window_accesses
from vtakit.sim.bins import COMPUTE_LOADS, GROUPS, NEAR, OTHER, TOKENS_ONLY, Bin, flag_text
from vtakit.sim.random_programs import RandomProgram
from vtakit.sim.trace import Trace

_KINDS = ("multiply", "overwrite", "reset", "alu", "MUL")
_FARTHEST = 16  # steps back in which "7 or more" is looked for
_LACKS = {(0, 0): "nothing", (1, 0): "a row", (0, 1): "a column", (1, 1): "both"}  # of the first windows
_PADS = {"top": "y_pad_0", "bottom": "y_pad_1", "left": "x_pad_0", "right": "x_pad_1"}
MOST_STEPS = 1 << 16  # of one instruction; further ones repeat what these reach


@dataclass(slots=True)
class Coverage:
    """Counts of the hits of each bin, by group."""

    counts: dict[str, Counter[Bin]] = field(default_factory=lambda: {group.name: Counter() for group in GROUPS})
    programs: int = 0

    def merge(self, other: "Coverage") -> None:
        """Add what another set of programs reached."""
        self.programs += other.programs
        for name, counter in other.counts.items():
            self.counts[name].update(counter)

    def add_run(self, program: RandomProgram, options: Mapping[str, Any], trace: Trace) -> None:
        """Count the memory system of a run on the RTL, and what its instructions waited for."""
        stall, latency, outstanding = (int(options[name]) for name in ("stall", "latency", "outstanding"))
        self.counts["memory"][
            "none" if not stall else "half or more" if stall >= 50 else "some",
            "100 or more" if latency > 99 else "10 to 99" if latency > 9 else "0 to 9",
            "16 or more" if outstanding > 15 else "2 to 15" if outstanding > 1 else "1",
        ] += 1
        _Reader(self.counts, program).waits(trace)

    def add_program(self, program: RandomProgram) -> None:
        """Count what a program's instructions reach."""
        self.programs += 1
        _Reader(self.counts, program).read()

    def as_json(self) -> dict[str, Any]:
        """Totals, holes and impossible bins of every group, as plain data."""
        found: dict[str, Any] = {"programs": self.programs, "groups": {}}
        for group in GROUPS:
            counts, bins = self.counts[group.name], list(group.bins())
            reachable = [each for each, reason in bins if not reason]
            found["groups"][group.name] = {
                "doc": group.doc, "axes": [name for name, _ in group.axes],
                "hit": sum(counts[each] > 0 for each in reachable), "reachable": len(reachable),
                "holes": [list(each) for each in reachable if not counts[each]],
                "impossible": {", ".join(each): reason for each, reason in bins if reason},
                "reached although impossible": [list(each) for each, reason in bins if reason and counts[each]],
                "counts": {", ".join(each): counts[each] for each in reachable if counts[each]},
            }
        return found


class _Reader:
    """One program's instructions in order, with the micro-ops that the scratchpad holds meanwhile."""

    def __init__(self, counts: dict[str, Counter[Bin]], program: RandomProgram) -> None:
        self.counts, self.program, self.cfg = counts, program, program.config
        self.uops: Ints = np.zeros(self.cfg.uop_depth, np.int64)
        self.steps: list[tuple[Ints, Ints, int]] = []  # dst, src or -1, and the number of what they do
        self.config = next((name for name, cfg in NAMED.items() if cfg == self.cfg), OTHER)
        self.places = {p.field.name: p for p in UOP.place(self.cfg)}

    def read(self) -> None:
        """Count every group."""
        beside: tuple[str, Ints] | None = None  # the working compute instruction before, and what it touches
        for insn in self._insns():
            if insn.op is Opcode.FINISH:
                continue
            touched = self._touched(insn)  # before its own micro-ops change
            works = self._works(insn)
            self._flags(insn, works)
            if insn.op in TRANSFERS:
                self._transfer(insn, works)
            elif insn.op is Opcode.DWCONV:
                self._window(insn)
            else:
                self._arithmetic(insn, works)
            if works and (insn.op not in TRANSFERS or self._name(insn) in COMPUTE_LOADS):
                beside = self._overlap(beside, insn, touched)
        self._hazards()

    def waits(self, trace: Trace) -> None:
        """Count what the cycles were spent on in which each instruction was under way, and the one before."""
        insns = list(self._insns())
        causes = {stage: [span for span in trace.causes if span.stage is stage] for stage in Stage}
        for span in trace.instructions:
            if insns[span.index].op is Opcode.FINISH or not self._works(insns[span.index]):
                continue
            name = self._name(insns[span.index])
            for cause in causes[span.stage]:
                if cause.name in {"wait_prev", "wait_next"} and cause.end == span.start:
                    self.counts["waits"][name, f"{cause.name} before it"] += 1
                elif cause.name in {"busy", "wait_memory"} and cause.start < span.end and span.start < cause.end:
                    self.counts["waits"][name, cause.name] += 1

    def _insns(self) -> Iterator[Insn]:
        p = self.program
        words = from_bytes(p.dram[p.insn_addr : p.insn_addr + p.insn_count * INSN_BYTES])
        return (decode(self.cfg, word) for word in words)

    def _name(self, insn: Insn) -> str:
        moves = insn.op in TRANSFERS
        return f"{insn.op.name} {MemType(insn['memory_type']).name}" if moves else insn.op.name

    def _works(self, insn: Insn) -> bool:
        if insn.op in TRANSFERS:
            return bool(insn["x_size"] and (insn["y_size"] or insn.fields.get("y_pad_0") or insn.fields.get("y_pad_1")))
        if insn.op is Opcode.DWCONV:
            return bool(insn["rows"])
        return bool(insn["iter_out"] and insn["iter_in"] and insn["uop_bgn"] < insn["uop_end"])

    def _flags(self, insn: Insn, works: bool) -> None:
        names = [flag for (stage, flag) in FLAG_QUEUES if stage is insn.stage]
        text = flag_text(flag for flag in FLAGS if flag in names and insn[flag])
        name = self._name(insn) if works else TOKENS_ONLY
        self.counts[f"{insn.stage.name.lower()} flags"][name, text] += 1
        if works:
            self.counts["configuration"][self.config, name] += 1

    def _transfer(self, insn: Insn, works: bool) -> None:
        name = self._name(insn)
        x, y, stride = insn["x_size"], insn["y_size"], insn["x_stride"]
        pitch = "overlap" if stride < x else "dense" if stride == x else "gaps"
        self.counts["shape"][name, _count(y), _count(x), pitch] += 1
        if not works:
            return
        sides = [side for side, pad in _PADS.items() if insn.fields.get(pad)]
        pads = sides[0] if len(sides) == 1 else "none" if not sides else "all four" if len(sides) == len(_PADS) else "several"
        self.counts["pads"][name, pads] += 1
        if insn.op is Opcode.REQUANT and y:
            self.counts["requant"][self.config, "looked up" if insn["lookup"] else "stored"] += 1
            if insn["pool"] or insn["pool_step"]:
                lack = _LACKS[insn["pool_above"], insn["pool_left"]]
                self.counts["pool"][str(insn["pool"] + 1), str(insn["pool_step"] + 1), lack] += 1
        if insn.op is Opcode.PAD_LOAD and sides:
            self.counts["pad value"][(_pad_value(insn["pad_value"], self.cfg),)] += 1
        kind = MemType(insn["memory_type"])
        size, base = MEMORIES[kind].bytes_in(self.cfg), self.program.bases[kind.name.lower()]
        for row in range(y):
            first = base + (insn["dram_base"] + row * stride) * size
            end = first + x * size
            crosses = first // PAGE_BYTES != (end - 1) // PAGE_BYTES
            where = {"crosses": crosses, "begins a page": first % PAGE_BYTES == 0, "ends a page": end % PAGE_BYTES == 0}
            for each in [each for each, true in where.items() if true] or ["inside"]:
                self.counts["page"][name, each] += 1
            for bits in BUS_BITS:
                beats = (end - 1) // (bits // 8) - first // (bits // 8) + 1
                many = "1" if beats == 1 else "16 or more" if beats > 15 else "2 to 15"
                self.counts["beats"][name, str(bits), "inside" if first % (bits // 8) else "begins a beat", many] += 1
        if kind is MemType.UOP:
            self._load_uops(insn, base)

    def _load_uops(self, insn: Insn, base: int) -> None:
        across = insn["x_pad_0"] + insn["x_size"] + insn["x_pad_1"]
        rows = np.zeros((insn["y_pad_0"] + insn["y_size"] + insn["y_pad_1"], across), np.int64)
        for row in range(insn["y_size"]):
            first = base + (insn["dram_base"] + row * insn["x_stride"]) * UOP_BYTES
            data = self.program.dram[first : first + insn["x_size"] * UOP_BYTES]
            rows[insn["y_pad_0"] + row, insn["x_pad_0"] : insn["x_pad_0"] + insn["x_size"]] = np.frombuffer(data, "<u4")
        self.uops[insn["sram_base"] : insn["sram_base"] + rows.size] = rows.reshape(-1)

    def _indices(self, insn: Insn, name: str) -> Ints:
        """One index of every step, in order."""
        place = self.places[name]
        uop = (self.uops[insn["uop_bgn"] : insn["uop_end"]] >> place.offset) & ((1 << place.width) - 1)
        outer, inner = (np.arange(min(insn[f"iter_{loop}"], MOST_STEPS)) * insn[f"{name}_{loop}"] for loop in ("out", "in"))
        found: Ints = (outer[:, None, None] + inner[None, :, None] + uop).reshape(-1)[:MOST_STEPS]
        return found

    def _arithmetic(self, insn: Insn, works: bool) -> None:
        loops = (_count(insn["iter_out"]), _count(insn["iter_in"]), _count(max(0, insn["uop_end"] - insn["uop_bgn"])))
        if insn.op is Opcode.GEMM:
            does = "reset" if insn["reset"] else "overwrite" if insn["overwrite"] else "multiply"
            self.counts["gemm"][does, *loops] += 1
        else:
            op = AluOp(insn["alu_opcode"])
            self.counts["alu"][op.name, "immediate" if insn["use_imm"] else "vector", *loops] += 1
            does = "MUL" if op is AluOp.MUL else "alu"
            if insn["use_imm"] and works:
                self.counts["immediate"][op.name, _amount(insn["imm"], self.cfg)] += 1
        if works:
            dst = self._indices(insn, "dst")
            reads = insn.op is Opcode.ALU and not insn["use_imm"]
            src = self._indices(insn, "src") if reads else -np.ones_like(dst)
            self.steps.append((dst, src, _KINDS.index(does)))

    def _window(self, insn: Insn) -> None:
        rows, columns = (max(0, -(-(insn[size] + more - insn[first]) // (insn[step] + 1))) for size, more, first, step in (
            ("rows", 0, "y_first", "y_step"), ("columns", 1, "x_first", "x_step")))
        skips = bool(insn["y_step"]), bool(insn["x_step"])
        steps = {(False, False): "every", (True, False): "some rows", (False, True): "some columns", (True, True): "some of both"}
        self.counts["dwconv"]["overwrite" if insn["overwrite"] else "add", _count(rows), _count(columns), steps[skips]] += 1

    def _touched(self, insn: Insn) -> Ints:
        """Accumulator elements, or micro-ops as negative numbers, that an instruction of the compute stage touches."""
        if insn.op in TRANSFERS:
            elements = insn["sram_base"] + np.arange(_elements(insn))
            return -1 - elements if insn["memory_type"] == MemType.UOP else elements
        if not self._works(insn):
            return np.zeros(0, np.int64)
        if insn.op is Opcode.DWCONV:
            written = [access.elements for access in window_accesses(insn) if access.write]
            return np.concatenate([np.zeros(0, np.int64), *written])
        src = self._indices(insn, "src") if insn.op is Opcode.ALU and not insn["use_imm"] else np.zeros(0, np.int64)
        return np.concatenate([self._indices(insn, "dst"), src, -1 - np.arange(insn["uop_bgn"], insn["uop_end"])])

    def _overlap(self, before: tuple[str, Ints] | None, insn: Insn, touched: Ints) -> tuple[str, Ints]:
        now = (self._name(insn) if insn.op is Opcode.LOAD else "arithmetic", touched)
        if before is not None and (before[0] == "arithmetic") != (now[0] == "arithmetic"):
            load, where = (now[0], "just before") if before[0] == "arithmetic" else (before[0], "just after")
            same = bool(np.intersect1d(before[1], touched).size)
            self.counts["overlap"][load, where, "the same" if same else "others"] += 1
        return now

    def _hazards(self) -> None:
        """Distances between the last writing step and each using step, over all steps of the program in order."""
        if not self.steps:
            return
        dst, src = np.concatenate([each[0] for each in self.steps]), np.concatenate([each[1] for each in self.steps])
        kinds = _KINDS
        kind = np.concatenate([np.full(len(each[0]), each[2]) for each in self.steps])
        for operand, used in (("dst", dst), ("src", src)):
            found = np.zeros(len(used), np.bool_)
            found |= used < 0
            if operand == "dst":
                found |= (kind == kinds.index("reset")) | (kind == kinds.index("overwrite"))  # they read no dst
            for distance in range(1, min(_FARTHEST, len(dst))):
                hit = (dst[:-distance] == used[distance:]) & ~found[distance:]
                found[distance:] |= hit
                pairs = np.bincount(kind[:-distance][hit] * len(kinds) + kind[distance:][hit], minlength=len(kinds) ** 2)
                for pair in np.flatnonzero(pairs):
                    by, user = (kinds[n] for n in divmod(int(pair), len(kinds)))
                    self.counts["hazard"][by, f"{user} {operand}", NEAR[min(distance, len(NEAR)) - 1]] += int(pairs[pair])


def _count(value: int) -> str:
    return str(value) if value < 2 else "many"


def _elements(insn: Insn) -> int:
    pads = {name: insn.fields.get(name, 0) for name in _PADS.values()}
    across = pads["x_pad_0"] + insn["x_size"] + pads["x_pad_1"]
    return (pads["y_pad_0"] + insn["y_size"] + pads["y_pad_1"]) * across if insn["x_size"] else 0


def _pad_value(given: int, cfg: VTAConfig) -> str:
    bits = cfg.inp_bits
    value = (given + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    names = {-(1 << bits - 1): "least", 0: "0", (1 << bits - 1) - 1: "greatest"}
    return names.get(value, "negative" if value < 0 else "positive")


def _amount(imm: int, cfg: VTAConfig) -> str:
    if abs(imm) >= cfg.acc_bits:
        return "the width or more" if imm > 0 else "minus the width or less"
    return "0" if not imm else "small positive" if imm > 0 else "small negative"


def cover(programs: Iterable[RandomProgram]) -> Coverage:
    """Return the coverage of some programs."""
    coverage = Coverage()
    for program in programs:
        coverage.add_program(program)
    return coverage
