"""A DRAM chip and its controller, in the datasheet's terms: geometry, timing in clocks, and what follows from both.

The controller serves bursts of the AXI port in order of their arrival, a direction at a time. It issues one command at a time and
keeps rows open. `vtakit.sim.dram` is its definition, clock by clock; docs/targets.md has the fields in a table.
"""

from dataclasses import dataclass, fields
from math import ceil, floor
from typing import Any, ClassVar, NoReturn

from vtakit.base.errors import VtakitError, one_of

CLOCK_PARTS = 100  # of a memory clock, in which `clock` is exact
MOST_CLOCK = 16
STREAM_BURST = 128  # bytes of the longest burst of a 64-bit port
KINDS = ("sdram", "ddr")
POLICIES = ("open", "closed")
MOST_BANKS, MOST_AHEAD = 32, 8


class MemorySystemError(VtakitError, ValueError):
    """A memory system that does not exist."""


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dram:
    """A chip, or several side by side, and its controller. Defaults: a 16-bit SDRAM of 32 MB at 80 MHz, the core's clock.

    Times are in clocks of the memory. A datasheet's times in ns are divided by the clock's period and rounded up.

    kind    "sdram": one word a clock, and data of a write beside its command; "ddr": two words a clock
    clock   memory clocks in one cycle of the core, 0.1 to 16 in steps of 0.01
    width   bits of the data bus, which reads and writes share
    banks, rows, columns   of the chip; consecutive rows' worths of addresses lie in consecutive banks
    burst   words that a column command moves (BL)
    tcas    from READ to its first data (CL); tcwl from WRITE to its first data (CWL, 0 of an SDRAM)
    trcd    from ACTIVATE to READ or WRITE of that bank
    trp     from PRECHARGE to ACTIVATE of that bank, and to REFRESH
    tras    from ACTIVATE to PRECHARGE of that bank; trc to the next ACTIVATE of that bank
    trrd    from ACTIVATE to ACTIVATE of another bank; in tfaw clocks there are four at most (0: no limit)
    twr     from the last data of a write to PRECHARGE of that bank
    twtr    from the last data of a write to READ of any bank
    trtp    from READ to PRECHARGE of that bank
    trtw    clocks in which the bus is idle between data of a READ and of a WRITE
    trfc    from REFRESH to the next command; one is due every trefi clocks (0: never)
    tcmd    clocks that a command takes on the command bus
    policy  "open": a row stays open until another one of its bank is needed; "closed": it closes behind a burst of the port
    ahead   bursts behind the one in hand whose rows are opened in advance, while no burst before them needs that bank
    batch   bursts of one direction after which waiting ones of the other direction are served

    Raises MemorySystemError for a value out of range.
    """

    kind: str = "sdram"
    clock: float = 1.0
    width: int = 16
    banks: int = 4
    rows: int = 8192
    columns: int = 512
    burst: int = 8
    tcas: int = 2
    tcwl: int = 0
    trcd: int = 2
    trp: int = 2
    tras: int = 4
    trc: int = 6
    trrd: int = 2
    tfaw: int = 0
    twr: int = 2
    twtr: int = 0
    trtp: int = 8
    trtw: int = 1
    trfc: int = 6
    trefi: int = 625
    tcmd: int = 1
    policy: str = "open"
    ahead: int = 2
    batch: int = 8

    POWERS: ClassVar[dict[str, tuple[int, int]]] = {
        "width": (8, 512), "banks": (1, MOST_BANKS), "rows": (1, 1 << 20), "columns": (1, 1 << 16), "burst": (1, 32)}
    RANGES: ClassVar[dict[str, tuple[int, int]]] = {
        "tcas": (1, 64), "tcwl": (0, 64), "trcd": (1, 256), "trp": (1, 256), "tras": (1, 1024), "trc": (1, 1024),
        "trrd": (1, 256), "tfaw": (0, 1024), "twr": (1, 256), "twtr": (0, 256), "trtp": (1, 256), "trtw": (0, 64),
        "trfc": (1, 4096), "trefi": (0, 1_000_000), "tcmd": (1, 16), "ahead": (0, MOST_AHEAD), "batch": (1, 256)}

    def __post_init__(self) -> None:
        for name, words in (("kind", KINDS), ("policy", POLICIES)):
            if getattr(self, name) not in words:
                self._refuse(name, f"{' or '.join(map(repr, words))}")
        clock = self.clock
        if not isinstance(clock, int | float) or isinstance(clock, bool) or not 0.1 <= clock <= MOST_CLOCK:
            self._refuse("clock", f"a number of memory clocks in a cycle of the core, 0.1 to {MOST_CLOCK}")
        object.__setattr__(self, "clock", round(clock, 2))
        for name, (low, high) in self.POWERS.items():
            value = getattr(self, name)
            if not _whole(value) or not low <= value <= high or value & (value - 1):
                self._refuse(name, f"a power of two from {low} to {high}")
        for name, (low, high) in self.RANGES.items():
            value = getattr(self, name)
            if not _whole(value) or not low <= value <= high:
                self._refuse(name, f"a whole number from {low} to {high}")
        self._check_together()

    def _check_together(self) -> None:
        """Refuse values that do not go together."""
        if self.burst % self.words:
            self._refuse("burst", f"at least {self.words}: kind {self.kind!r} moves {self.words} words a clock")
        if self.columns < self.burst:
            self._refuse("columns", f"at least burst, {self.burst}")
        if self.tcwl > self.tcas:
            self._refuse("tcwl", f"at most tcas, {self.tcas}")
        if self.trc < self.tras:
            self._refuse("trc", f"at least tras, {self.tras}")
        least = self.trfc + self.trp + self.trc + 2 * self.trcd + self.between["write_precharge"] + 4 * self.tcmd
        if self.trefi and self.trefi <= least:
            self._refuse("trefi", f"0, or more than {least}: a refresh and a row's turn take that long")

    def _refuse(self, name: str, legal: str) -> NoReturn:
        raise MemorySystemError(f"a memory system's {name} is {getattr(self, name)!r:.40} and must be {legal}")

    @property
    def words(self) -> int:
        """Words that the data bus moves in a clock."""
        return 1 if self.kind == "sdram" else 2

    @property
    def burst_clocks(self) -> int:
        """Clocks for which the data of one column command take the bus."""
        return self.burst // self.words

    @property
    def burst_bytes(self) -> int:
        """Bytes that one column command moves."""
        return self.burst * self.width // 8

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.columns * self.width // 8

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the memory."""
        return self.rows * self.banks * self.row_bytes

    @property
    def between(self) -> dict[str, int]:
        """Clocks from one command to another that depend on the direction of data, and to the end of a command's data.

        column          READ to READ, WRITE to WRITE: the data follow each other without a gap
        read_write      data of the WRITE come `trtw` clocks behind those of the READ
        write_read      `twtr` clocks behind the last data
        write_precharge `twr` clocks behind the last data; of an SDRAM they count from the clock of the last data on
        read_data, write_data   to the end of the data
        """
        data = self.burst_clocks
        last = self.tcwl + data
        return {
            "column": max(data, self.tcmd), "read_write": max(data, self.tcas + data + self.trtw - self.tcwl),
            "write_read": last + self.twtr, "read_precharge": self.trtp,
            "write_precharge": last + self.twr - (self.kind == "sdram"),
            "read_data": self.tcas + data, "write_data": last,
        }

    @property
    def peak_bytes_a_cycle(self) -> float:
        """Bytes that the chip's bus moves in a cycle of the core."""
        return self.width / 8 * self.words * self.clock

    @property
    def stream_bytes_a_cycle(self) -> float:
        """Bytes of a sequential stream of bursts of `STREAM_BURST` bytes in a cycle of the core.

        With policy "open" rows are opened in advance, and a stream loses what refreshes take: from the PRECHARGE of all banks to
        the first data of a row that is opened anew. With policy "closed" the next burst needs the same bank again, but at the end
        of a row.
        """
        between = self.between
        clocks = columns = -(-STREAM_BURST // self.burst_bytes)
        clocks *= between["column"]
        if self.policy == "closed":
            opened = max(self.tras, self.trcd + (columns - 1) * between["column"] + between["read_precharge"])
            clocks = max(clocks, self.trc, opened + self.trp)
        lost = self.trp + self.trfc + self.trcd if self.trefi else 0
        return columns * self.burst_bytes / clocks * self.clock * (1 - lost / self.trefi if self.trefi else 1)

    @property
    def read_cycles(self) -> int:
        """Cycles of the core from a READ that needs a row of a closed bank to the end of its first data."""
        return ceil((self.trcd + self.between["read_data"]) / self.clock)

    @property
    def controller(self) -> dict[str, int]:
        """The numbers of the controller, in the order and with the names of `struct vta_dram` of sim/rtl/harness.h."""
        return {
            "kind": 1 + KINDS.index(self.kind), "clock": floor(self.clock * CLOCK_PARTS + 0.5),
            "burst_log2": self.burst_bytes.bit_length() - 1, "row_log2": self.row_bytes.bit_length() - 1,
            "banks_log2": self.banks.bit_length() - 1, "rows": self.rows,
            "trcd": self.trcd, "trp": self.trp, "tras": self.tras, "trc": self.trc, "trrd": self.trrd, "tfaw": self.tfaw,
            "trfc": self.trfc, "trefi": self.trefi, "tcmd": self.tcmd, **self.between,
            "closes": int(self.policy == "closed"), "ahead": self.ahead, "batch": self.batch,
        }


FIELDS = tuple(each.name for each in fields(Dram))
CONTROLLER = tuple(Dram().controller)


def check_kind(kind: Any, others: tuple[str, ...] = ()) -> None:
    """Raise MemorySystemError for a kind of memory that there is not."""
    known = (*others, *KINDS)
    if kind not in known:
        raise MemorySystemError(f"unknown kind of memory {kind!r:.40}; {one_of(known, kind if isinstance(kind, str) else '')}")
