"""The AXI4 memory and the host of `sim/rtl/harness.cpp`, with its random numbers: stalls fall on the same cycles."""

from typing import Any

from vtakit.sim.cycle.dram import BURSTS, DRAM, dram
from vtakit.sim.cycle.state import record

ANY, DATA_FIRST, BOTH = 0, 1, 2  # what the memory waits for before it takes a write's address or data
EARLY_BEATS = 256  # write data that it takes before their address
_BEATS = 512  # more than early beats
_M32 = (1 << 32) - 1
WRITE, POLL = 0, 2  # kinds of the host's accesses; a poll is repeated while the program runs
POLL_CYCLES = 32
_CREDIT = 100  # hundredths of a beat that one takes
MOST_CREDIT = _CREDIT - 1  # kept from one cycle to the next

RANDOM = record("high", "low")
MEMORY = record(
    "ar_ready", "aw_ready", "w_ready", "r_valid", "r_last", "b_valid", "read_beats", "write_beats",
    "read_credit", "write_credit", "stands",
    "reads", "read_first", "read_beat", "cycle",
    "writes", "write_first", "write_beat", "data", "data_first", "early_bursts", "answers", "answer_first",
    dram=DRAM, read_beats_of=BURSTS, read_ready=BURSTS, read_at=BURSTS, write_beats_of=BURSTS, write_at=BURSTS, data_last=_BEATS,
    answer_ready=BURSTS, answer_at=BURSTS, answer_beats=BURSTS,
)
HOST = record("op", "pause", "begun", "wants_aw", "wants_w", "wants_ar", "aw_valid", "w_valid", "ar_valid", "b_ready", "r_ready")


def seed_random(s: Any, seed_high: Any, seed_low: Any) -> None:
    """Begin with the state that a seed stands for, in halves."""
    s.high, s.low = seed_high, seed_low


def percent(s: Any, chance: Any) -> Any:
    """Return whether an event of this chance happens: xorshift of 64 bits, in halves, since neither half has a sign."""
    if chance == 0:
        return False
    high, low = s.high, s.low
    high ^= (high << 13 | low >> 19) & _M32
    low ^= low << 13 & _M32
    low ^= (low >> 7 | high << 25) & _M32
    high ^= high >> 7
    high ^= (high << 17 | low >> 15) & _M32
    low ^= low << 17 & _M32
    s.high, s.low = high, low
    return (high << 12 | low >> 20) % 100 < chance


def take_read(s: Any, p: Any, at: Any, beats: Any) -> None:
    """Take the address of a read burst, in beats."""
    place = (s.read_first + s.reads) % BURSTS
    s.read_at[place], s.read_beats_of[place], s.read_ready[place] = at, beats, s.cycle + p.latency
    s.reads += 1
    s.dram.reads_coming += 1


def read_taken(s: Any) -> Any:
    """The core has taken the beat that is offered. Returns whether its burst ends."""
    s.r_valid = 0
    s.read_beats += 1
    s.read_credit -= _CREDIT
    s.read_beat += 1
    if s.read_beat == s.read_beats_of[s.read_first]:
        s.read_beat = 0
        s.read_first = (s.read_first + 1) % BURSTS
        s.reads -= 1
    return s.r_last


def take_write(s: Any, at: Any, beats: Any) -> None:
    """Take the address of a write burst, in beats."""
    place = (s.write_first + s.writes) % BURSTS
    s.write_at[place], s.write_beats_of[place] = at, beats
    s.writes += 1


def take_data(s: Any, last: Any) -> None:
    """Take a beat of write data."""
    s.write_beats += 1
    s.write_credit -= _CREDIT
    s.data_last[(s.data_first + s.data) % _BEATS] = last
    s.data += 1
    s.early_bursts += last


def write_data(s: Any, p: Any) -> None:
    """Write the data whose address is there, at the end of a cycle."""
    while s.data and s.writes:
        s.early_bursts -= s.data_last[s.data_first]
        s.data_first = (s.data_first + 1) % _BEATS
        s.data -= 1
        s.write_beat += 1
        if s.write_beat == s.write_beats_of[s.write_first]:
            place = (s.answer_first + s.answers) % BURSTS
            s.answer_ready[place] = s.cycle + p.latency
            s.answer_at[place], s.answer_beats[place] = s.write_at[s.write_first], s.write_beats_of[s.write_first]
            s.answers += 1
            s.dram.writes_coming += 1
            s.write_beat = 0
            s.write_first = (s.write_first + 1) % BURSTS
            s.writes -= 1


def answer_taken(s: Any) -> None:
    """The core has taken the answer that is offered."""
    s.b_valid = 0
    s.answer_first = (s.answer_first + 1) % BURSTS
    s.answers -= 1


def drive_memory(s: Any, p: Any, random: Any, busy: Any) -> None:
    """Set what the memory's channels say from the next cycle on, whose number `cycle` then is; `busy`: a program runs."""
    s.cycle += 1
    s.read_credit = min(s.read_credit, MOST_CREDIT) + p.bandwidth
    s.write_credit = min(s.write_credit, MOST_CREDIT) + p.bandwidth
    if p.dram.kind:
        dram(s.dram, p.dram, s, p.bus_bytes_log2, busy)
        read_ready, answer_ready = s.dram.beats > 0, s.dram.answers > 0
    else:
        read_ready = s.reads != 0 and s.read_ready[s.read_first] <= s.cycle
        answer_ready = s.answers != 0 and s.answer_ready[s.answer_first] <= s.cycle
    s.ar_ready = s.reads < p.memory_outstanding and not percent(random, p.stall)
    may_aw = s.writes + s.answers < p.memory_outstanding and not percent(random, p.stall)
    may_w = s.data < EARLY_BEATS and s.write_credit >= _CREDIT and not percent(random, p.stall)
    if p.patience == BOTH:
        begins = s.writes == 0 and s.stands != 0 and may_aw and may_w
        s.aw_ready = begins
        s.w_ready = begins or (s.writes != 0 and may_w)
    else:
        s.aw_ready = may_aw and (p.patience == ANY or s.early_bursts != 0)
        s.w_ready = may_w
    if s.r_valid == 0 and read_ready and s.read_credit >= _CREDIT and not percent(random, p.stall):
        s.r_valid, s.r_last = 1, s.read_beat + 1 == s.read_beats_of[s.read_first]
        s.dram.beats -= 1
    if s.b_valid == 0 and answer_ready and not percent(random, p.stall):
        s.b_valid = 1
        s.dram.answers -= 1


def drive_host(s: Any, p: Any, random: Any, kinds: Any) -> None:
    """Set what the host's channels say from the next cycle on."""
    s.b_ready = s.r_ready = not percent(random, p.stall)
    if s.begun == 0:
        if s.pause:
            s.pause -= 1
        elif s.op < len(kinds):
            s.wants_aw = s.wants_w = kinds[s.op] == WRITE
            s.wants_ar = kinds[s.op] != WRITE
            s.begun = 1
        if s.begun == 0:
            return
    if s.wants_aw and not percent(random, p.stall):
        s.wants_aw, s.aw_valid = 0, 1
    if s.wants_w and not percent(random, p.stall):
        s.wants_w, s.w_valid = 0, 1
    if s.wants_ar and not percent(random, p.stall):
        s.wants_ar, s.ar_valid = 0, 1
