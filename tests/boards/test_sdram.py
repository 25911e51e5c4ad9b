"""The SDRAM controller beside a chip that checks its datasheet: random traffic, bandwidth, and planted mistakes."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from controller_bench import BURSTS, Bench, core_traffic, usual
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.boards.known import BOARDS
from vtakit.boards.memory import data_path
from vtakit.boards.memory.chips import CHIPS, find_chip
from vtakit.boards.memory.controller import OUTSTANDING, check
from vtakit.hw.dram import Dram
from vtakit.hw.params import CoreParams
from vtakit.hw.system import SYSTEMS
from vtakit.sim.dram import Burst, Controller
from vtakit.sim.workloads import Conv2d

RTL = pytest.mark.xdist_group("rtl_sdram")  # one process builds the models
CHIP = find_chip("MT48LC16M16A2-75")
NS = 12.5  # of a clock
BINDING = ("trcd", "trp", "tras", "trc", "trrd", "twr", "trfc")


def test_systems_of_boards_have_the_bursts_of_the_controller():
    """With one clock and with two: boards/known.py cannot read the number, as it goes without Amaranth."""
    for board in BOARDS.values():
        assert board.system().outstanding == board.clocked(75, 100).system().outstanding == OUTSTANDING
    assert SYSTEMS["ulx3s"].outstanding == OUTSTANDING


def test_the_named_system_is_the_chip_of_the_board():
    """But for a clock between refreshes, which leaves time for late ones."""
    named = SYSTEMS["ulx3s"].dram
    assert named is not None
    assert CHIP.timing(80) == replace(named, trefi=named.trefi - 1)


@pytest.mark.parametrize(("name", "mhz", "clocks"), [
    ("-75", 133, {"tcas": 3, "trcd": 3, "trp": 3, "tras": 6, "trc": 9, "trrd": 2, "twr": 2, "trfc": 9, "trefi": 1038}),
    ("-7E", 133, {"tcas": 2, "trcd": 2, "trp": 2, "tras": 5, "trc": 8, "trrd": 2, "twr": 2, "trfc": 9, "trefi": 1038}),
    ("-75", 50, {"tcas": 2, "trcd": 2, "trp": 2, "tras": 3, "trc": 4, "trrd": 1, "twr": 1, "trfc": 4, "trefi": 389}),
])
def test_times_in_clocks(name, mhz, clocks):
    timing = find_chip(f"MT48LC16M16A2{name}").timing(mhz)
    assert {field: getattr(timing, field) for field in clocks} == clocks


def test_a_chip_that_does_not_fit_is_refused():
    with raises(VtakitError, "unknown SDRAM 'MT48LC16M16A2'; did you mean …"):
        find_chip("MT48LC16M16A2")
    with raises(VtakitError, "the SDRAM MT48LC16M16A2-75 cannot have a clock of 150 MHz: it runs at 133 MHz at most"):
        CHIP.timing(150)
    for changes, named in (({"policy": "closed"}, "policy closed"), ({"trcd": 1, "ahead": 0}, "trcd 1, ahead 0"),
                           ({"kind": "ddr", "trcd": 2}, "kind ddr")):
        with raises(VtakitError, f"the SDRAM controller cannot serve a chip with {named}: kind is 'sdram', clock 1, …"):
            check(CoreParams(), replace(CHIP.timing(80), **changes))


@RTL
@pytest.mark.parametrize("pattern", ["uniform", "rows", "streams"])
def test_random_traffic_keeps_every_time_and_every_byte(pattern):
    """33,000 requests each, 10 to 30 megabytes; the command of docs/boards.md runs a million."""
    found = usual().run(pattern, 33_000, seed=7, stall=5, pause=10, rests=1)
    assert not found.error
    assert found.refreshes >= (found.cycles - 10_000) // 625
    assert found.read_beats > 50_000
    assert found.write_beats > 50_000


@RTL
@pytest.mark.parametrize(("stall", "write_percent"), [(60, 50), (0, 0), (0, 100)])
def test_extremes_of_back_pressure_and_direction(stall, write_percent):
    found = usual().run("rows", 4_000, seed=3, stall=stall, write_percent=write_percent)
    assert not found.error
    assert (found.write_beats == 0) == (write_percent == 0)
    assert (found.read_beats == 0) == (write_percent == 100)


@RTL
@pytest.mark.parametrize(("pattern", "write_percent", "least"), [
    ("sequential", 0, 0.98), ("sequential", 100, 0.98), ("streams", 30, 0.97), ("rows", 30, 0.88), ("uniform", 30, 0.88),
])
def test_share_of_the_peak(pattern, write_percent, least):
    """Measured 0.984, 0.982, 0.974, 0.893 and 0.888: a refresh takes 10 of 624 clocks, a burst may need half a column."""
    found = usual().run(pattern, 4_000, write_percent=write_percent)
    assert not found.error
    assert least <= found.share < 1


def clocks_of_definition(bursts: Any, bus_bytes: int = 8, outstanding: int = 8) -> int:
    """Return the clocks in which `vtakit.sim.dram` serves bursts that wait in their order, as the bench gives them."""
    controller, arrives = Controller(CHIP.timing(80), bus_bytes), deque[tuple[int, Burst]]()
    under_way, sizes, beats_left, data_until, at, clock = {False: 0, True: 0}, deque[int](), 0, 0, 0, 0
    while at < len(bursts) or under_way[False] or under_way[True]:
        while at < len(bursts) and under_way[bool(bursts["writes"][at])] < outstanding:
            writes, beats = bool(bursts["writes"][at]), int(bursts["beats"][at])
            data_until = max(data_until, clock) + beats if writes else data_until
            burst = Burst(int(bursts["address"][at]), beats * bus_bytes, writes)
            arrives.append(((data_until if writes else clock) + 6, burst))
            under_way[writes] += 1
            if not writes:
                sizes.append(beats)
            at += 1
        now = [burst for when, burst in arrives if when <= clock]
        arrives = deque(each for each in arrives if each[0] > clock)
        beats, through = controller.cycle(now)
        beats_left, under_way[True], clock = beats_left + beats, under_way[True] - through, clock + 1
        while sizes and beats_left >= sizes[0]:
            beats_left -= sizes.popleft()
            under_way[False] -= 1
    return clock


@RTL
@pytest.mark.parametrize(("write_share", "reach"), [(0.0, 1 << 16), (1.0, 1 << 16), (0.3, 1 << 16), (0.3, 32 << 20), (0.5, 8192)])
def test_the_controller_is_as_fast_as_its_definition(write_share, reach):
    """400 bursts of any length that follow each other; the order of commands may differ a little where bursts arrive."""
    rng = np.random.default_rng(round(100 * write_share) + reach)
    bursts = np.zeros(400, BURSTS)
    bursts["beats"] = rng.integers(1, 17, 400)
    bursts["address"] = rng.permutation(reach // 128)[np.arange(400) % (reach // 128)] * 128 + (16 - bursts["beats"]) * 8
    bursts["writes"] = rng.random(400) < write_share
    found = usual().replay(bursts)
    assert not found.error
    took = found.cycles - found.first_cycle
    assert abs(took / clocks_of_definition(bursts) - 1) < 0.01, (took, clocks_of_definition(bursts))


@RTL
@pytest.mark.parametrize("config", ["default", "blk8"])
def test_share_of_the_peak_with_a_cores_traffic(config):
    """A small convolution's bursts in its program's order; benchmarks of larger ones are in docs/boards.md."""
    shape = Conv2d(height=14, width=14, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)
    found = usual().replay(core_traffic(config, shape))
    assert not found.error
    assert 0.9 <= found.share < 1


@RTL
@pytest.mark.parametrize("name", BINDING)
def test_a_clock_too_few_is_noticed(name):
    """The chip wants each time by a nanosecond longer than the controller waits."""
    bench = usual()
    slower = replace(CHIP, **{name: NS * getattr(CHIP.timing(80), name) + 1})
    found = bench.run("uniform", 20_000, stall=5, chip=slower)
    clocks = CHIP.timing(80)
    assert f"comes {getattr(clocks, name)} clocks after" in found.error
    assert f"and t{name[1:].upper()} is" in found.error
    assert not bench.run("uniform", 1_000, stall=5).error  # the chip as it is


@RTL
def test_refreshes_that_come_too_seldom_are_noticed():
    found = usual().run("uniform", 20_000, chip=replace(CHIP, refresh=63.5e6))
    assert "REFRESHes were due since LOAD MODE" in found.error
    found = usual().run("uniform", 100, chip=replace(CHIP, power_up=100_200))
    assert "PRECHARGE comes 100.0 us after power-up, which takes 100.2 us" in found.error
    found = usual().run("uniform", 100, chip=replace(CHIP, refreshes=9))
    assert "ACTIVATE comes after 8 REFRESHes, and initialisation takes 9" in found.error


def _bench(**changes: int) -> Bench:
    """A controller for another chip than the one beside it."""
    return Bench(CHIP, 80, dram=replace(CHIP.timing(80), **changes), optimize="-O0")


@RTL
@pytest.mark.slow
@pytest.mark.parametrize(("changes", "told"), [
    ({"trefi": 0}, "REFRESHes were due since LOAD MODE"),
    ({"trtw": 0}, "the data bus has no idle clock between a read's data and a write's"),
])
def test_a_controller_that_breaks_a_rule_is_noticed(changes, told):
    assert told in _bench(**changes).run("rows", 10_000).error


@RTL
@pytest.mark.slow
def test_words_that_are_taken_a_clock_early_are_noticed(monkeypatch):
    monkeypatch.setattr(data_path, "CAPTURE_CLOCKS", 0)
    assert "read of a byte at address" in _bench().run("rows", 1_000).error


@RTL
@pytest.mark.slow
@pytest.mark.parametrize(("chip", "mhz", "burst", "bus_bits"), [
    ("MT48LC16M16A2-75", 133, 4, 64), ("MT48LC16M16A2-7E", 133, 2, 128), ("MT48LC16M16A2-75", 100, 8, 256),
    ("W9825G6KH-6", 60, 8, 64), ("IS42S16160B-7", 60, 8, 64),
])
def test_other_clocks_bursts_and_buses(chip, mhz, burst, bus_bits):
    found = find_chip(chip)
    bench = Bench(found, mhz, dram=found.timing(mhz, burst), bus_bits=bus_bits, optimize="-O0")
    for pattern in ("uniform", "rows"):
        assert not bench.run(pattern, 4_000, stall=5, pause=10, rests=1).error


@RTL
@pytest.mark.slow
def test_other_chips():
    """Each beside itself as a datasheet."""
    for seed in range(2):
        dram = Dram(
            trcd=2 + seed, trp=3 - seed % 2, tras=5 + seed, trc=9 + seed, trrd=1 + seed, twr=1 + seed, trfc=8 + 3 * seed,
            trefi=300 + 100 * seed, rows=2048 << seed, columns=256 << seed, ahead=1 + seed % 2, batch=1 + 5 * seed)
        times = {name: NS * getattr(dram, name) for name in BINDING}
        chip = replace(CHIP, rows=dram.rows, columns=dram.columns, refresh=NS * (dram.trefi + 1) * dram.rows, **times)
        bench = Bench(chip, 80, dram=dram, optimize="-O0")
        found = bench.run("uniform", 5_000, seed=seed, stall=5, pause=10, rests=1)
        assert not found.error, f"seed {seed}: {found.error}"


def test_chips_have_their_datasheets_geometry():
    for chip in CHIPS.values():
        assert chip.timing(80).capacity_bytes == 32 << 20
