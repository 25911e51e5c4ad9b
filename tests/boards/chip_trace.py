"""Pins of an SDRAM over time, for the checking chip and for a vendor's Verilog model.

A trace is a list of numbers, one an edge of the clock: the pins as recorded_pins.h packs them.
"""

import ctypes
import hashlib
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vtakit.base.process import run_tool, run_tools
from vtakit.boards.memory.chips import Chip
from vtakit.cache.building import built_once
from vtakit.cache.libraries import load_library
from vtakit.cache.place import cache_folder
from vtakit.sim.board.build import FOLDER
from vtakit.sim.board.library import c_sdram
from vtakit.sim.verilator import compiler, compiler_identity

HARNESS, PINS = (Path(__file__).with_name(name) for name in ("chip_bench.cpp", "recorded_pins.h"))
CHIP_HEADER = FOLDER / "sdram.h"
BENCH = Path(__file__).with_name("vendor_bench.v")
BURST = 8
_SECONDS = 900
_ALL = 1 << 10  # of the address: PRECHARGE of all banks
_CODES = {  # cs_n, ras_n, cas_n, we_n
    "nop": (1, 1, 1, 1), "activate": (0, 0, 1, 1), "read": (0, 1, 0, 1), "write": (0, 1, 0, 0), "precharge": (0, 0, 1, 0),
    "refresh": (0, 0, 0, 1), "mode": (0, 0, 0, 0),
}


def pins(command: str = "nop", bank: int = 0, address: int = 0, dqm: int = 0, data: int | None = None) -> int:
    """The pins of an edge."""
    bits = 1 | sum(bit << n for n, bit in enumerate(_CODES[command], 1))
    return bits | bank << 5 | address << 7 | dqm << 20 | (0 if data is None else 1 << 22 | data << 23)


class Trace:
    """A trace that grows; a WRITE's data follow it by themselves until another column command ends them."""

    def __init__(self, cas: int, rng: random.Random | None = None) -> None:
        """`rng` draws data and masks; without one nothing is masked."""
        self.edges: list[int] = []
        self.cas, self._rng, self._left = cas, rng, 0

    def command(self, kind: str, bank: int = 0, address: int = 0) -> None:
        """Give a command at the next edge."""
        if kind == "write":
            self._left = BURST
        elif kind == "read":
            self._left = 0
        self._edge(kind, bank, address)

    def wait(self, edges: int) -> None:
        """Give none at so many."""
        for _ in range(edges):
            self._edge("nop", 0, 0)

    def at(self, distance: int, kind: str, bank: int = 0, address: int = 0) -> None:
        """Give a command so many edges after the last one."""
        self.wait(distance - 1)
        self.command(kind, bank, address)

    def initialise(self, wait: int = 20) -> None:
        """All banks closed, two REFRESHes, and the mode: bursts of eight."""
        self.wait(wait)
        self.command("precharge", 0, _ALL)
        for kind in ("refresh", "refresh", "mode"):
            self.at(16, kind, 0, self.cas << 4 | 3 if kind == "mode" else 0)
        self.wait(16)

    def _edge(self, kind: str, bank: int, address: int) -> None:
        masks, data = 0, None
        if self._left:
            self._left -= 1
            masks, data = 0, 257 * self._left
            if self._rng is not None:
                masks, data = self._rng.choice((0, 0, 0, 1, 2, 3)), self._rng.randrange(1 << 16)
        elif kind == "nop" and self._rng is not None and self._rng.random() < 0.05:
            masks = self._rng.randrange(4)
        self.edges.append(pins(kind, bank, address, masks, data))


class Known:
    """State of the chip that keeps a generated trace off the data bus while it is busy: open rows, WRITEs and READs under way."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.open: set[int] = set()
        self.written: dict[int, int] = {}  # edge of a bank's last WRITE
        self.reads_until = -1

    def may(self, kind: str, bank: int, edge: int) -> bool:
        """Return True if a command at an edge disturbs no data: it finds its bank as it must be, and the bus free."""
        end = self.written.get(bank, -BURST) + BURST
        if kind == "write":
            return bank in self.open and edge > self.reads_until + 1
        if kind == "read":
            return bank in self.open
        if kind == "precharge":
            return edge >= end
        return bank not in self.open if kind == "activate" else not self.open

    def did(self, kind: str, bank: int, edge: int) -> None:
        """Remember a command."""
        if kind == "activate":
            self.open.add(bank)
        elif kind == "precharge":
            self.open.discard(bank)
        elif kind == "read":
            self.reads_until = edge + self.trace.cas + BURST - 1
            self.written.clear()  # a READ ends a WRITE
        elif kind == "write":
            self.written = {bank: edge}


def random_trace(chip: Chip, mhz: float, seed: int, commands: int = 40) -> list[int]:
    """Commands whose distances are those of the datasheet, now and then a clock less or a few more."""
    rng, timing = random.Random(seed), chip.timing(mhz)
    trace = Trace(timing.tcas, rng)
    trace.initialise()
    known = Known(trace)
    near = (1, timing.trcd, timing.trp, timing.tras, timing.trrd, timing.trfc)
    motifs = (  # distances that one command alone seldom meets
        (("activate", timing.trfc), ("precharge", timing.tras), ("activate", timing.trc - timing.tras)),
        (("activate", timing.trfc), ("precharge", timing.trc), ("activate", timing.trp)),
        (("write", timing.trcd), ("precharge", BURST - 1 + timing.twr)),
    )
    hasty = rng.random() < 0.6  # takes a clock less at times; others are legal
    for _ in range(commands):
        bank = rng.randrange(4)
        kind = rng.choice(("activate", "activate", "read", "write", "read", "write", "precharge", "refresh"))
        for what, least in rng.choice((*motifs, *5 * [((kind, rng.choice(near)),)])):
            distance = least + rng.choice((0, 0, 0, 1, 5))
            if not hasty:
                distance += timing.trc + BURST
            elif rng.random() < 0.12:
                distance = max(1, distance - 1)
            edge = len(trace.edges) + distance - 1
            if not known.may(what, bank, edge):
                break
            column = 8 * rng.randrange(4) if what in ("read", "write") else 0
            trace.at(distance, what, bank, rng.randrange(2) if what == "activate" else column)
            known.did(what, bank, edge)
    trace.wait(40)
    trace.command("precharge", 0, _ALL)
    trace.wait(40)
    return trace.edges


@cache
def _library() -> Any:
    """The checking chip alone, built once."""
    parts = [path.read_text() for path in (HARNESS, PINS, CHIP_HEADER)]
    folder = cache_folder("link") / hashlib.sha256("\0".join([*parts, compiler_identity(compiler())]).encode()).hexdigest()[:32]

    def build(work: Path) -> None:
        run_tools([[compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", f"-I{FOLDER}", f"-I{PINS.parent}",
                    str(HARNESS), "-o", "libchip.so"]], jobs=1, limit_seconds=_SECONDS, work=work)

    made = built_once(folder, ("libchip.so",), build, "the checking chip")
    return load_library(made.path, made.data)


def check(chip: Chip, mhz: float, trace: Sequence[int], memory: Any) -> tuple[str, Any]:
    """Run a trace on the checking chip: its error, and the word that it drives at each edge, -1 for none."""
    edges, words = np.array(trace, "<u8"), np.zeros(len(trace), "<i4")
    error = ctypes.create_string_buffer(320)
    _library().chip_run(ctypes.byref(c_sdram(chip, mhz)), ctypes.c_void_p(memory.ctypes.data), ctypes.c_void_p(edges.ctypes.data),
                        ctypes.c_uint64(len(edges)), ctypes.c_void_p(words.ctypes.data), error)
    return error.value.decode(), words


def edge_of(error: str) -> int | None:
    """The edge that an error of the checking chip names, from 0."""
    found = re.match(r"SDRAM, clock (\d+): ", error)
    return int(found[1]) - 1 if found else None


def lanes_driven(trace: Sequence[int], words: Any) -> Any:
    """For each edge a bit for each byte that the checking chip drives: where it has a word, and no mask two edges before."""
    masks = np.array([edge >> 20 & 3 for edge in trace])
    return np.where(words >= 0, 3 & ~np.concatenate([[0, 0], masks[:-2]]), 0)


class Vendor:
    """A vendor's Verilog model, compiled by Icarus Verilog in a folder."""

    def __init__(self, model: Path, period_ns: int, work: Path) -> None:
        self._period, self._work = period_ns, work
        run_tool(["iverilog", "-g2005", "-o", "bench", f"-Pbench.PERIOD={period_ns}", "-s", "bench", str(BENCH), str(model)],
                 work=work, limit_seconds=_SECONDS)

    def run(self, trace: Sequence[int]) -> tuple[list[tuple[int, str]], list[str]]:
        """Run a trace: errors with their edges, from 0, and the data bus before each edge as 16 of the letters 0, 1, x, z."""
        (self._work / "trace.txt").write_text("".join(f"{edge:x}\n" for edge in trace))
        said = run_tool(["vvp", "-N", "bench"], work=self._work, limit_seconds=_SECONDS)
        errors = [(round((float(time) - self._period / 2) / self._period), what)
                  for time, what in re.findall(r"at time\s+([\d.]+) ns ERROR: (.*)", said)]
        return errors, (self._work / "words.txt").read_text().split()
