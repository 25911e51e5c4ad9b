"""Cycles of random programs on every named memory system: those that were reviewed, on the RTL and in the cycle model.

The figures are reviewed: `python -m pytest tests/sim/test_memory_systems.py --update-cycles` rewrites them.
"""

import importlib.util
import json
from pathlib import Path

import pytest
from sim_support import FINISH, OUT, TINY, WGT
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.dram import Dram
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.system import SYSTEMS, System
from vtakit.runtime.vta import connect
from vtakit.sim import run_image
from vtakit.sim.differences import first_cycle
from vtakit.sim.faults import ProgramFault
from vtakit.sim.fuzz import Case, options
from vtakit.sim.random_programs import random_program

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "dram_cycles.json"
NAMES, SEEDS = ("ulx3s", "pynq", "ultra96"), range(8)
RTL = pytest.mark.xdist_group("rtl")  # one process builds each model


@pytest.fixture(scope="module", autouse=True)
def _update(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-cycles"):
        found = {f"{name}, seed {seed}": cycles(name, seed, "cycle") for name in NAMES for seed in SEEDS}
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")


def cycles(name: str, seed: int, device: str) -> int:
    p = random_program(TINY, seed)
    return run_image(p.dram, p.insn_addr, p.insn_count, TINY, device, bases=p.bases, system=name).counters["cycles"]


@RTL
@pytest.mark.parametrize("device", ["cycle", "rtl"])
@pytest.mark.parametrize("name", NAMES)
def test_programs_take_the_cycles_that_were_reviewed(name, device):
    golden = json.loads(GOLDEN.read_text())
    assert {f"{name}, seed {seed}": cycles(name, seed, device) for seed in SEEDS} == {
        key: value for key, value in golden.items() if key.startswith(f"{name},")}


@RTL
@pytest.mark.parametrize("name", NAMES)
def test_a_driver_counts_the_cycles_of_a_run(name):
    """A program begins with a memory whose banks are closed and whose first refresh is tREFI away, whatever ran before it."""
    program = random_program(TINY, 5)
    alone = run_image(program.dram, program.insn_addr, program.insn_count, TINY, "cycle", bases=program.bases, system=name)
    found = []
    for device in ("rtl", "cycle"):
        with connect(device, TINY, memory_bytes=1 << 20, system=name) as driver:
            for _ in range(3):
                driver.device.write(0, program.dram)
                driver.device.start(program.insn_addr, program.insn_count)
                ending = driver.device.wait(60)
                found.append(ending)
    assert all(ending.counters == found[0].counters for ending in found)
    assert found[0].counters["cycles"] == alone.counters["cycles"]


@RTL
def test_errors_of_the_memory_are_told_behind_a_dram_too():
    p = random_program(TINY, 3)
    for name in ("ulx3s", "pynq"):
        with raises(ProgramFault, "… stopped in cycle …"):
            run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, system=name, read_error=p.insn_addr)


def test_the_fuzzer_draws_memories_of_every_kind():
    chips = [options(Case(config="tiny", seed=seed, length=40, device="cycle"))["chip"] for seed in range(60)]
    assert {chip.kind if chip else "flat" for chip in chips} == {"flat", "sdram", "ddr"}
    assert len(set(chips)) > 35


def test_reads_and_writes_share_a_dram():
    """A LOAD beside STOREs takes their time too; with a flat memory the longer of the two hides the other."""
    def took(system: str, *words: int) -> int:
        image = to_bytes([*words, encode(DEFAULT, "finish")]).ljust(1 << 20, b"\0")
        return run_image(image, 0, len(words) + 1, DEFAULT, "cycle", data=False, system=system).counters["cycles"]

    loads = encode(DEFAULT, "load", memory_type=WGT, y_size=1, x_size=128, x_stride=128, dram_base=256)
    stores = encode(DEFAULT, "store", memory_type=OUT, y_size=1, x_size=2048, x_stride=2048, dram_base=32768)
    both, one, other = (took("reference", *words) for words in ((loads, stores), (loads,), (stores,)))
    assert both < 1.1 * max(one, other)
    both, one, other = (took("ulx3s", *words) for words in ((loads, stores), (loads,), (stores,)))
    assert both > 0.97 * (one + other)


def test_a_program_that_its_memory_cannot_hold_is_refused():
    small = System(dram=Dram(rows=1))
    assert small.dram is not None
    assert small.dram.capacity_bytes == 4096
    image = to_bytes([FINISH]).ljust(1 << 13, b"\0")
    for device in ("cycle", "rtl"):
        with raises(VtakitError, "the program and its data take 8,192 bytes of memory, and this memory system has 4,096: rows …"):
            run_image(image, 0, 1, TINY, device, system=small)
    with raises(VtakitError, "memory_bytes is 8192 and the memory system's chip has 4096, which are rows x banks x …"):
        connect("cycle", TINY, memory_bytes=8192, system=small)
    with connect("cycle", TINY, system=small) as driver:
        assert len(driver.device.memory) == 4096
    with connect("cycle", TINY, system=SYSTEMS["pynq"]) as driver:
        assert len(driver.device.memory) == 64 << 20


def test_a_report_knows_what_a_chip_moves():
    p = random_program(TINY, 3)
    for name, bus in (("ulx3s", 2), ("pynq", 8), ("reference", 8)):
        with connect("cycle", TINY, memory_bytes=1 << 20, system=name) as driver:
            assert driver.device.bus_bytes == bus
    want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, system="pynq", trace=True)
    assert first_cycle(want, want) is None


def test_the_page_has_the_cycles_that_were_measured():
    """ResNet-18 for each system by benchmarks/memory_systems.py; what is cheap is measured again."""
    spec = importlib.util.spec_from_file_location("memory_systems", ROOT / "benchmarks" / "memory_systems.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    kept = json.loads((ROOT / "tests" / "data" / "memory_systems.json").read_text())
    page = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8").splitlines()
    command = "python benchmarks/memory_systems.py --write"
    assert list(kept) == list(SYSTEMS), command
    for name, figures in kept.items():
        assert made.row(name, figures) in page, command
        assert round(made.stream(SYSTEMS[name]), 2) == figures["stream"], command
    networks = json.loads((ROOT / "tests" / "data" / "vta_networks.json").read_text())
    assert kept["reference"]["made for it"] == networks["ResNet-18, 224x224"]["cycles"], command
