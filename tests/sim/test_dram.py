"""DRAM behind its controller: the definition against hand computation, and the cycle model's step against the definition."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from vtakit.hw.dram import CONTROLLER, Dram
from vtakit.hw.system import SYSTEMS
from vtakit.sim.cycle.dram import BURSTS, CHIP, dram
from vtakit.sim.cycle.state import zeros
from vtakit.sim.cycle.surroundings import MEMORY
from vtakit.sim.dram import ACTIVATE, COLUMN, PRECHARGE, READ, REFRESH, WRITE, Burst, Command, Controller
from vtakit.sim.random_systems import random_dram

SDRAM = SYSTEMS["ulx3s"].dram
DDR3 = SYSTEMS["pynq"].dram
BUS = 8  # bytes


class Step:
    """The cycle model's step, as `Controller.cycle`."""

    def __init__(self, chip: Dram, bus_bytes: int) -> None:
        self.s, self.p, self.bus_bytes = zeros(MEMORY, plain=True)[0], zeros(CHIP, plain=True)[0], bus_bytes
        for name, value in chip.controller.items():
            setattr(self.p, name, value)
        self.sent = [0, 0]
        dram(self.s.dram, self.p, self.s, bus_bytes.bit_length() - 1, False)

    def cycle(self, arrived: list[Burst]) -> tuple[int, int]:
        s, state = self.s, self.s.dram
        for burst in arrived:
            at, place = (burst.address // self.bus_bytes, burst.size // self.bus_bytes), self.sent[burst.writes] % BURSTS
            if burst.writes:
                s.answer_at[place], s.answer_beats[place], s.answer_ready[place] = *at, 0
                state.writes_coming += 1
            else:
                s.read_at[place], s.read_beats_of[place], s.read_ready[place] = *at, 0
                state.reads_coming += 1
            self.sent[burst.writes] += 1
        before = state.beats, state.answers
        dram(state, self.p, s, self.bus_bytes.bit_length() - 1, True)
        return state.beats - before[0], state.answers - before[1]


def random_bursts(numbers: random.Random, bus_bytes: int, streams: int = 3) -> list[list[Burst]]:
    """Bursts that arrive in each of some cycles: streams that go on, and jump."""
    places, found = [numbers.randrange(1 << 14) * bus_bytes for _ in range(streams)], []
    for _ in range(numbers.randint(20, 120)):
        arrived = []
        for n in range(streams):
            if numbers.randrange(4) == 0:
                size = numbers.choice((1, 1, 2, 4, 16)) * bus_bytes
                arrived.append(Burst(places[n], size, writes=n == 0))
                places[n] = places[n] + size if numbers.randrange(4) else numbers.randrange(1 << 14) * bus_bytes
        found += [arrived, *([] for _ in range(numbers.choice((0, 0, 3, 60))))]
    return found


def first_difference(seed: int, planted: str | None = None) -> int | None:
    """Return the clock in which step and definition part, on the random chip and bursts of a seed.

    planted   a number of the step that is off by one
    """
    numbers, chip = random.Random(seed), random_dram(seed)
    bus_bytes = numbers.choice((8, 16, 64))
    want, got = Controller(chip, bus_bytes), Step(chip, bus_bytes)
    if planted is not None:
        value = getattr(got.p, planted)
        setattr(got.p, planted, 1 - value if planted == "closes" else value + 1)
    work = random_bursts(numbers, bus_bytes)
    moved = 0
    while work or not want.idle:
        arrived = work.pop(0) if work else []
        found = want.cycle(arrived)
        moved += sum(found)
        if got.cycle(arrived) != found:
            return want.now
    assert moved
    return None


@pytest.mark.parametrize("first", range(0, 300, 30))
def test_the_step_of_the_cycle_model_is_the_definition(first):
    """In every cycle of random bursts on random chips."""
    for seed in range(first, first + 30):
        assert first_difference(seed) is None, f"seed {seed}"


@pytest.mark.parametrize("name", [name for name in CONTROLLER if name not in ("kind", "rows")])
def test_every_number_of_a_controller_matters(name):
    assert any(first_difference(seed, name) is not None for seed in range(100))


def served(chip: Dram, bursts: list[Burst], bus_bytes: int = BUS) -> tuple[list[Command], list[int]]:
    """Serve bursts that are all there at once; returns the commands, and the clock in which each burst's data end."""
    controller = Controller(replace(chip, clock=1.0), bus_bytes)
    for burst in bursts:
        controller._waiting[burst.writes].append(burst)
    ends = []
    while not controller.idle:
        controller.clock()
        while controller.finished and controller.finished[0][0] <= controller.now:
            ends.append(controller.finished.popleft()[0])
    return controller.commands, ends


def at(commands: list[Command], name: str) -> list[int]:
    return [command.at for command in commands if command.name == name]


def test_a_read_of_a_closed_bank_takes_trcd_and_cl():
    commands, ends = served(SDRAM, [Burst(0, 16)])
    assert commands == [Command(0, ACTIVATE), Command(2, READ)]
    assert ends == [2 + 2 + 8]
    commands, ends = served(DDR3, [Burst(0, 16)])
    assert commands == [Command(0, ACTIVATE), Command(7, READ)]
    assert ends == [7 + 7 + 4]


def test_sequential_reads_leave_no_gap_but_for_refreshes():
    """64 KiB over 64 rows of four banks: each row is opened while data of the one before move."""
    commands, ends = served(replace(SDRAM, trefi=0), [Burst(n * 128, 128) for n in range(512)])
    reads = at(commands, READ)
    assert len(reads) == 4096
    assert reads == list(range(2, 2 + 8 * 4096, 8))
    assert ends[-1] == 2 + 2 + 8 * 4096
    assert len(at(commands, ACTIVATE)) == 64


STREAMS = {
    **{name: SYSTEMS[name].dram for name in ("ulx3s", "pynq", "ultra96")}, "closed": replace(SDRAM, policy="closed"),
    "closed ddr": replace(DDR3, policy="closed"), "slow commands": replace(SDRAM, burst=2, tcmd=5),
    "slow commands, closed": replace(DDR3, tcmd=7, policy="closed"), "one clock a command": replace(SDRAM, burst=1),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_the_bandwidth_that_tiles_are_chosen_for(name):
    chip = STREAMS[name]
    size = 1 << 19
    _, ends = served(chip, [Burst(at, 128) for at in range(0, size, 128)])
    measured = size / (ends[-1] / chip.clock)
    assert measured == pytest.approx(chip.stream_bytes_a_cycle, rel=0.03)
    assert measured <= chip.peak_bytes_a_cycle


def test_rows_of_one_bank_take_trc_each():
    """Row after row of bank 0, one column command each: ACTIVATE, READ, PRECHARGE of an SDRAM take 2 + 8 + 2 clocks, not tRC."""
    pitch = 4 * SDRAM.row_bytes
    short = replace(SDRAM, burst=1, trtp=1, trefi=0)
    commands, _ = served(short, [Burst(n * pitch, 8) for n in range(20)])
    assert at(commands, ACTIVATE) == [n * (2 + 3 + 1 + 2) for n in range(20)]  # trcd, four words, trtp, trp
    commands, _ = served(replace(short, trc=30), [Burst(n * pitch, 8) for n in range(20)])
    assert at(commands, ACTIVATE) == [n * 30 for n in range(20)]
    commands, _ = served(replace(DDR3, trefi=0), [Burst(n * 8 * DDR3.row_bytes, 16) for n in range(20)])
    assert at(commands, ACTIVATE) == [n * (19 + 7) for n in range(20)]  # tras and trp, which are trc
    assert at(commands, PRECHARGE) == [n * 26 + 19 for n in range(19)]


def test_rows_of_other_banks_are_opened_in_advance():
    """Short bursts on eight banks in turn: tRRD and tFAW bound ACTIVATEs, not tRC."""
    bursts = [Burst(n * DDR3.row_bytes, 16) for n in range(64)]
    commands, _ = served(replace(DDR3, trefi=0, ahead=4), bursts)
    activates = at(commands, ACTIVATE)
    assert all(b - a >= 6 for a, b in pairwise(activates))
    assert all(b - a >= 21 for a, b in zip(activates, activates[4:], strict=False))
    assert activates[-1] - activates[3] == (64 - 4) * 6  # four times tRRD are more than tFAW
    alone, _ = served(replace(DDR3, trefi=0, ahead=0), bursts)
    assert at(alone, ACTIVATE)[-1] > activates[-1] * 1.3


def test_four_activates_take_tfaw():
    commands, _ = served(replace(DDR3, trefi=0, ahead=4, tfaw=60), [Burst(n * DDR3.row_bytes, 16) for n in range(16)])
    activates = at(commands, ACTIVATE)
    assert [b - a for a, b in zip(activates, activates[4:], strict=False)] == [60] * 12


def test_writes_and_reads_share_the_bus():
    """A WRITE's data begin tRTW clocks behind those of a READ; a READ comes tWTR clocks behind a WRITE's data."""
    bursts = [Burst(0, 16), Burst(64, 16, writes=True)]
    commands, ends = served(SDRAM, bursts)
    assert [(c.name, c.at) for c in commands] == [(ACTIVATE, 0), (READ, 2), (WRITE, 2 + 2 + 8 + 1)]
    assert ends == [12, 13 + 8]
    commands, _ = served(replace(DDR3, batch=1), [*bursts, Burst(128, 16)])
    assert [(c.name, c.at) for c in commands] == [(ACTIVATE, 0), (READ, 7), (WRITE, 7 + 7 + 4 + 2 - 6), (READ, 14 + 6 + 4 + 4)]


def test_a_written_row_is_closed_twr_behind_its_data():
    pitch = 4 * SDRAM.row_bytes
    commands, _ = served(SDRAM, [Burst(0, 16, writes=True), Burst(pitch, 16, writes=True)])
    # The last word is written in clock 2 + 7; two clocks on, the bank may be precharged.
    assert [(c.name, c.at) for c in commands] == [(ACTIVATE, 0), (WRITE, 2), (PRECHARGE, 11), (ACTIVATE, 13), (WRITE, 15)]
    commands, _ = served(DDR3, [Burst(0, 16, writes=True), Burst(8 * DDR3.row_bytes, 16, writes=True)])
    assert at(commands, PRECHARGE) == [7 + 6 + 4 + 8]


def test_the_direction_turns_after_a_batch():
    bursts = [Burst(n * 16, 16) for n in range(20)] + [Burst(512 + n * 16, 16, writes=True) for n in range(20)]
    commands, _ = served(replace(SDRAM, batch=8), bursts)
    names = [command.name for command in commands if command.name in COLUMN]
    assert names == [READ] * 8 + [WRITE] * 8 + [READ] * 8 + [WRITE] * 8 + [READ] * 4 + [WRITE] * 4


def test_refreshes_come_every_trefi_and_take_trp_and_trfc():
    size = 1 << 18
    without, ends = served(replace(SDRAM, trefi=0), [Burst(at, 128) for at in range(0, size, 128)])
    commands, late = served(SDRAM, [Burst(at, 128) for at in range(0, size, 128)])
    refreshes = at(commands, REFRESH)
    assert Counter(c.name for c in commands)[READ] == Counter(c.name for c in without)[READ]
    assert len(refreshes) == late[-1] // 625
    assert all(n * 625 <= clock < n * 625 + 12 for n, clock in enumerate(refreshes, 1))
    # From the PRECHARGE, tRTP behind a READ, on: tRP, tRFC, tRCD; the next READ would have come at once.
    assert (late[-1] - ends[-1]) / len(refreshes) == pytest.approx(2 + 6 + 2, abs=0.5)


def test_an_idle_memory_is_refreshed_too():
    controller = Controller(SDRAM, BUS)
    for _ in range(10 * 625 + 100):
        controller.cycle()
    assert at(controller.commands, REFRESH) == [n * 625 for n in range(1, 11)]


def test_a_closed_policy_closes_rows_behind_each_burst():
    chip = replace(SDRAM, policy="closed", trefi=0)
    commands, _ = served(chip, [Burst(0, 16), Burst(16, 16)])
    assert [(c.name, c.at) for c in commands] == [(ACTIVATE, 0), (READ, 2), (ACTIVATE, 2 + 8 + 2), (READ, 14)]
    commands, _ = served(replace(chip, policy="open"), [Burst(0, 16), Burst(16, 16)])
    assert [(c.name, c.at) for c in commands] == [(ACTIVATE, 0), (READ, 2), (READ, 10)]


def test_a_burst_that_is_not_aligned_takes_every_column_command_that_it_touches():
    commands, ends = served(SDRAM, [Burst(8, 16)])
    assert at(commands, READ) == [2, 10]
    assert ends == [12, 20]


def test_a_word_of_the_port_may_take_several_column_commands():
    controller = Controller(replace(SDRAM, trefi=0), 64)
    ready = [controller.cycle([Burst(0, 128)] if n == 0 else []) for n in range(80)]
    assert [n + 1 for n, (beats, _) in enumerate(ready) for _ in range(beats)] == [2 + 2 + 4 * 8, 2 + 2 + 8 * 8]
