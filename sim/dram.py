"""A DRAM behind its controller, clock by clock: the definition of memory systems of kinds "sdram" and "ddr".

What a datasheet demands is a list of rules between two commands, and every clock looks back at the commands before it. The
harness of device "rtl" (sim/rtl/dram.h) and the cycle model (sim/cycle/dram.py) keep the earliest clock of each command instead;
tests hold both equal to this.

In each clock the controller issues at most one command:

1. From the clock in which a refresh is due, all banks are precharged as soon as that is legal, and then refreshed. Nothing else
   begins.
2. Otherwise the burst in hand gets its next command: PRECHARGE if another row of its bank is open, ACTIVATE if none is, or a
   column command, READ or WRITE. That moves `burst_bytes`, aligned to their size.
3. If that is not legal yet, the bursts behind it that have arrived, `ahead` of them at most, get a PRECHARGE or ACTIVATE, in
   order, but for banks that a burst before them needs.

Behind the last column command of a burst the next of its direction is taken in hand. After `batch` bursts, or when there is none,
it is one of the other direction if one waits there.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product

from vtakit.hw.dram import CLOCK_PARTS, Dram

ACTIVATE, PRECHARGE, READ, WRITE, REFRESH = "ACTIVATE", "PRECHARGE", "READ", "WRITE", "REFRESH"
CLOSES = "closes"  # not a command: the chip precharges a bank by itself behind its last column command
COLUMN = (READ, WRITE)


@dataclass(frozen=True, slots=True)
class Burst:
    """Burst of the AXI port: bytes from an address on."""

    address: int
    size: int
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """Command in a clock; of REFRESH bank and row mean nothing, of PRECHARGE the row."""

    at: int
    name: str
    bank: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """Clocks that pass at least from a command to another, of the same bank or of any."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    clocks: int
    same_bank: bool = False


def rules_of(dram: Dram) -> tuple[Rule, ...]:
    """Return the rules of a chip; that of four ACTIVATEs in `tfaw` is beside them."""
    between = dram.between
    every = (ACTIVATE, PRECHARGE, READ, WRITE, REFRESH)
    return (
        Rule(every, every, dram.tcmd),
        Rule((ACTIVATE,), COLUMN, dram.trcd, same_bank=True),
        Rule((ACTIVATE,), (PRECHARGE, CLOSES), dram.tras, same_bank=True),
        Rule((ACTIVATE,), (ACTIVATE,), dram.trc, same_bank=True),
        Rule((ACTIVATE,), (ACTIVATE,), dram.trrd),
        Rule((PRECHARGE, CLOSES), (ACTIVATE,), dram.trp, same_bank=True),
        Rule((PRECHARGE, CLOSES), (REFRESH,), dram.trp),
        Rule((ACTIVATE,), (REFRESH,), dram.trc),
        Rule((READ,), (READ,), between["column"]),
        Rule((WRITE,), (WRITE,), between["column"]),
        Rule((READ,), (WRITE,), between["read_write"]),
        Rule((WRITE,), (READ,), between["write_read"]),
        Rule((READ,), (PRECHARGE, CLOSES), between["read_precharge"], same_bank=True),
        Rule((WRITE,), (PRECHARGE, CLOSES), between["write_precharge"], same_bank=True),
        Rule((REFRESH,), (ACTIVATE, REFRESH), dram.trfc),
    )


class Controller:
    """A DRAM and its controller.

    commands   all that were issued
    finished   clocks in which data end, with beats of the port that a READ makes complete and writes that are through
    """

    def __init__(self, dram: Dram, bus_bytes: int) -> None:
        self.dram, self.bus_bytes = dram, bus_bytes
        self._rules: dict[tuple[str, str], list[Rule]] = {}
        for rule in rules_of(dram):
            for pair in product(rule.before, rule.after):
                self._rules.setdefault(pair, []).append(rule)
        self.now = 0
        self.commands: list[Command] = []
        self.finished: deque[tuple[int, int, int]] = deque()
        self._recent: deque[Command] = deque()
        self._longest = max(dram.tfaw, *(rule.clocks for rule in rules_of(dram)))
        self._open: dict[int, int] = {}  # row of each open bank
        self._waiting: dict[bool, deque[Burst]] = {False: deque(), True: deque()}  # reads and writes
        self._writing, self._served = False, 0
        self._hand: Burst | None = None
        self._at = self._given = 0  # in the burst in hand: address of the next column command, beats that are complete
        self._refresh_due = dram.trefi
        self._parts = 0

    @property
    def idle(self) -> bool:
        """Return whether nothing waits and no data are on their way."""
        return self._hand is None and not (self._waiting[False] or self._waiting[True] or self.finished)

    def cycle(self, arrived: Iterable[Burst] = ()) -> tuple[int, int]:
        """One cycle of the core, at whose begin bursts arrive. Returns the beats and the writes that became complete."""
        for burst in arrived:
            self._waiting[burst.writes].append(burst)
        self._parts += round(self.dram.clock * CLOCK_PARTS)
        while self.now < self._parts // CLOCK_PARTS:
            self.clock()
        beats = writes = 0
        while self.finished and self.finished[0][0] <= self.now:
            _, more, through = self.finished.popleft()
            beats, writes = beats + more, writes + through
        return beats, writes

    def clock(self) -> None:
        """One clock of the memory."""
        if self._hand is None:
            self._choose()
        if self.dram.trefi and self.now >= self._refresh_due:
            self._refresh()
        else:
            for burst, address in self._candidates():
                name, bank, row = self._next(burst, address)
                if (burst is self._hand or name not in COLUMN) and self._legal(name, bank):
                    self._issue(name, bank, row)
                    break
        self.now += 1

    def place(self, address: int) -> tuple[int, int]:
        """Return bank and row of an address."""
        page = address // self.dram.row_bytes
        return page % self.dram.banks, page // self.dram.banks % self.dram.rows

    def _choose(self) -> None:
        """Take a burst in hand, if one waits."""
        mine, others = (len(self._waiting[way]) for way in (self._writing, not self._writing))
        if others and (not mine or self._served >= self.dram.batch):
            self._writing, self._served = not self._writing, 0
        elif not mine:
            return
        self._hand = self._waiting[self._writing].popleft()
        self._at, self._given = self._hand.address // self.dram.burst_bytes * self.dram.burst_bytes, 0

    def _candidates(self) -> Iterator[tuple[Burst, int]]:
        """Yield the burst in hand and those behind it that may get a command, each with the address that is next."""
        if self._hand is None:
            return
        yield self._hand, self._at
        taken = {self.place(self._at)[0]}
        for burst in islice(self._waiting[self._writing], self.dram.ahead):
            bank, _ = self.place(burst.address)
            if bank not in taken:
                yield burst, burst.address
            taken.add(bank)

    def _next(self, burst: Burst, address: int) -> tuple[str, int, int]:
        bank, row = self.place(address)
        if bank not in self._open:
            return ACTIVATE, bank, row
        if self._open[bank] != row:
            return PRECHARGE, bank, row
        return WRITE if burst.writes else READ, bank, row

    def _legal(self, name: str, bank: int, at: int | None = None) -> bool:
        """Return whether a command keeps all rules, now or in another clock."""
        now = self.now if at is None else at
        for command in self._recent:
            for rule in self._rules.get((command.name, name), ()):
                if now - command.at < rule.clocks and (command.bank == bank or not rule.same_bank):
                    return False
        activates = [command.at for command in self._recent if command.name == ACTIVATE] if name == ACTIVATE else []
        return len(activates) < 4 or now - activates[-4] >= self.dram.tfaw

    def _issue(self, name: str, bank: int, row: int) -> None:
        self._note(Command(self.now, name, bank, row))
        if name == ACTIVATE:
            self._open[bank] = row
        elif name == PRECHARGE:
            del self._open[bank]
        else:
            self._move(name, bank)

    def _move(self, name: str, bank: int) -> None:
        """Note the data of a column command, and go on to the next burst behind a burst's last one."""
        burst, between = self._hand, self.dram.between
        assert burst is not None
        self._at += self.dram.burst_bytes
        last = self._at >= burst.address + burst.size
        if name == READ:
            complete = (min(self._at, burst.address + burst.size) - burst.address) // self.bus_bytes
            self.finished.append((self.now + between["read_data"], complete - self._given, 0))
            self._given = complete
        else:
            self.finished.append((self.now + between["write_data"], 0, int(last)))
        if not last:
            return
        if self.dram.policy == "closed":
            at = next(at for at in range(self.now, self.now + self._longest + 1) if self._legal(CLOSES, bank, at))
            self._recent.append(Command(at, CLOSES, bank))
            del self._open[bank]
        self._hand, self._served = None, self._served + 1
        self._choose()

    def _refresh(self) -> None:
        """Precharge all banks, or refresh them."""
        if self._open:
            if all(self._legal(PRECHARGE, bank) for bank in self._open):
                for bank in list(self._open):
                    self._note(Command(self.now, PRECHARGE, bank))
                self._open.clear()
        elif self._legal(REFRESH, 0):
            self._note(Command(self.now, REFRESH))
            self._refresh_due += self.dram.trefi

    def _note(self, command: Command) -> None:
        self.commands.append(command)
        self._recent.append(command)
        while self._recent[0].at < self.now - self._longest:
            self._recent.popleft()
