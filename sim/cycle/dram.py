"""`sim/rtl/dram.h`: a DRAM behind its controller, as `vtakit.sim.dram` defines it.

For each bank and direction the earliest clock of each command is kept, so the next command and its clock are known at once. Until
then nothing is evaluated, unless a burst arrives.
"""

from typing import Any

from vtakit.hw.dram import CLOCK_PARTS, CONTROLLER, MOST_BANKS
from vtakit.sim.cycle.state import NONE, record

BURSTS = 256  # that the port accepts at most, in each direction
_FAR = 1 << 60  # a clock that never comes
_DUE = 512  # more than the column commands whose data are on their way
_FOUR = 4  # ACTIVATEs in a window of tfaw clocks

CHIP = record(*CONTROLLER)  # parameters, by the names of `Dram.controller`; kind is 0 where there is no DRAM
# Queues are rings of `surroundings.MEMORY`: the place of the first burst, the bursts that have arrived, and those on their way.
DRAM = record(
    "parts", "now", "wake", "free", "refresh_due", "next_read", "next_write", "next_activate", "four", "writing", "served", "has",
    "at", "begin", "end", "given",
    "read_at", "reads", "reads_coming", "write_at", "writes", "writes_coming",
    "beats", "answers", "due", "due_first",
    row=MOST_BANKS, activate=MOST_BANKS, precharge=MOST_BANKS, column=MOST_BANKS, activates=_FOUR,
    due_clock=_DUE, due_beats=_DUE, due_writes=_DUE,
)


def rest(s: Any, p: Any) -> None:
    """Begin anew, with all banks closed: what a program finds does not depend on the time before it."""
    s.parts = s.now = s.wake = s.free = s.next_read = s.next_write = s.next_activate = s.writing = s.served = 0
    s.refresh_due = p.trefi if p.trefi else _FAR
    for bank in range(1 << p.banks_log2):
        s.row[bank] = NONE
        s.activate[bank] = s.precharge[bank] = s.column[bank] = 0
    for n in range(_FOUR):
        s.activates[n] = -p.tfaw


def dram(s: Any, p: Any, m: Any, bus_bytes_log2: Any, busy: Any) -> None:
    """One cycle of the core; `m`: the memory's rings. `beats` and `answers` are counts of what is ready for the port."""
    if not (busy or s.has or s.reads or s.reads_coming or s.writes or s.writes_coming or s.due):
        rest(s, p)
        return
    begin = s.now
    s.parts += p.clock
    s.now = s.parts // CLOCK_PARTS
    while s.reads_coming and m.read_ready[(s.read_at + s.reads) % BURSTS] <= m.cycle:
        s.reads += 1
        s.reads_coming -= 1
        s.wake = 0
    while s.writes_coming and m.answer_ready[(s.write_at + s.writes) % BURSTS] <= m.cycle:
        s.writes += 1
        s.writes_coming -= 1
        s.wake = 0
    if s.wake < s.now and begin < s.now:
        s.free = max(s.free, begin)
        _commands(s, p, m, bus_bytes_log2)
    while s.due and s.due_clock[s.due_first] <= s.now:
        s.beats += s.due_beats[s.due_first]
        s.answers += s.due_writes[s.due_first]
        s.due_first = (s.due_first + 1) % _DUE
        s.due -= 1


def _commands(s: Any, p: Any, m: Any, bus_bytes_log2: Any) -> None:
    """Issue all commands whose clock has come."""
    if not s.has:
        _choose(s, p, m, bus_bytes_log2)
    while True:
        clock: Any = _FAR
        bank: Any = 0
        row: Any = 0
        if s.has:
            page = s.at >> p.row_log2
            bank = page & ((1 << p.banks_log2) - 1)
            row = (page >> p.banks_log2) & (p.rows - 1)
            clock = _earliest(s, p, bank, row)
            if clock > s.free and p.ahead:
                taken: Any = 1 << bank
                waiting = min(s.writes if s.writing else s.reads, p.ahead)
                for n in range(waiting):
                    if s.writing:
                        address = m.answer_at[(s.write_at + n) % BURSTS] << bus_bytes_log2
                    else:
                        address = m.read_at[(s.read_at + n) % BURSTS] << bus_bytes_log2
                    page = address >> p.row_log2
                    other = page & ((1 << p.banks_log2) - 1)
                    if taken >> other & 1:
                        continue
                    taken |= 1 << other
                    other_row = (page >> p.banks_log2) & (p.rows - 1)
                    if s.row[other] != other_row:
                        earliest = _earliest(s, p, other, other_row)
                        if earliest < clock:
                            clock, bank, row = earliest, other, other_row
        if s.refresh_due <= clock:
            if s.refresh_due >= s.now:
                s.wake = s.refresh_due
                return
            _refresh(s, p)
        elif clock >= s.now:
            s.wake = clock
            return
        else:
            s.free = clock + p.tcmd
            if s.row[bank] == row:
                _move(s, p, m, bus_bytes_log2, clock, bank)
            elif s.row[bank] == NONE:
                s.row[bank] = row
                s.column[bank] = clock + p.trcd
                s.precharge[bank] = max(s.precharge[bank], clock + p.tras)
                s.activate[bank] = clock + p.trc
                s.next_activate = clock + p.trrd
                s.activates[s.four] = clock
                s.four = (s.four + 1) % _FOUR
            else:
                s.row[bank] = NONE
                s.activate[bank] = max(s.activate[bank], clock + p.trp)


def _earliest(s: Any, p: Any, bank: Any, row: Any) -> Any:
    """Return the clock from which a row's next command is legal."""
    if s.row[bank] == row:
        return max(s.free, s.column[bank], s.next_write if s.writing else s.next_read)
    if s.row[bank] == NONE:
        return max(s.free, s.activate[bank], s.next_activate, s.activates[s.four] + p.tfaw)
    return max(s.free, s.precharge[bank])


def _choose(s: Any, p: Any, m: Any, bus_bytes_log2: Any) -> None:
    """Take a burst in hand, if one waits."""
    mine, others = (s.writes, s.reads) if s.writing else (s.reads, s.writes)
    if others and (mine == 0 or s.served >= p.batch):
        s.writing, s.served = not s.writing, 0
    elif mine == 0:
        return
    if s.writing:
        beat, beats = m.answer_at[s.write_at], m.answer_beats[s.write_at]
        s.write_at = (s.write_at + 1) % BURSTS
        s.writes -= 1
    else:
        beat, beats = m.read_at[s.read_at], m.read_beats_of[s.read_at]
        s.read_at = (s.read_at + 1) % BURSTS
        s.reads -= 1
    s.has, s.given = 1, 0
    s.begin = beat << bus_bytes_log2
    s.end = (beat + beats) << bus_bytes_log2
    s.at = s.begin >> p.burst_log2 << p.burst_log2


def _move(s: Any, p: Any, m: Any, bus_bytes_log2: Any, clock: Any, bank: Any) -> None:
    """A column command: note when its data end, and go on to the next burst behind a burst's last one."""
    s.at += 1 << p.burst_log2
    last = s.at >= s.end
    place = (s.due_first + s.due) % _DUE
    s.due += 1
    if s.writing:
        s.due_clock[place], s.due_beats[place], s.due_writes[place] = clock + p.write_data, 0, last
        s.precharge[bank] = max(s.precharge[bank], clock + p.write_precharge)
        s.next_write, s.next_read = clock + p.column, clock + p.write_read
    else:
        complete = (min(s.at, s.end) - s.begin) >> bus_bytes_log2
        s.due_clock[place], s.due_beats[place], s.due_writes[place] = clock + p.read_data, complete - s.given, 0
        s.given = complete
        s.precharge[bank] = max(s.precharge[bank], clock + p.read_precharge)
        s.next_read, s.next_write = clock + p.column, clock + p.read_write
    if last:
        if p.closes:
            s.row[bank] = NONE
            s.activate[bank] = max(s.activate[bank], s.precharge[bank] + p.trp)
        s.has = 0
        s.served += 1
        _choose(s, p, m, bus_bytes_log2)


def _refresh(s: Any, p: Any) -> None:
    """Precharge all banks, and refresh them: nothing comes between the two."""
    clock, opened = max(s.free, s.refresh_due), False
    for bank in range(1 << p.banks_log2):
        if s.row[bank] != NONE:
            clock, opened = max(clock, s.precharge[bank]), True
    if opened:
        for bank in range(1 << p.banks_log2):
            if s.row[bank] != NONE:
                s.row[bank] = NONE
                s.activate[bank] = max(s.activate[bank], clock + p.trp)
        clock += p.tcmd
    for bank in range(1 << p.banks_log2):
        clock = max(clock, s.activate[bank])
    for bank in range(1 << p.banks_log2):
        s.activate[bank] = clock + p.trfc
    s.free = clock + p.tcmd
    s.refresh_due += p.trefi
