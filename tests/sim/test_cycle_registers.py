"""Registers of the cycle model beside those of the RTL, cycle by cycle: a change of hw/ that moves a cycle fails for its block.

Where several differ, only the blocks of the first cycle fail. docs/cycle_model.md says how to bring the two in step again.
"""

from functools import cache
from importlib import import_module

import pytest
from sim_support import SMALL_CORE, TINY

from vtakit.hw.params import CoreParams
from vtakit.sim.cycle import lockstep
from vtakit.sim.cycle.lockstep import BLOCKS, Parting, first_partings
from vtakit.sim.fuzz import Case, first_block, options, run_case
from vtakit.sim.random_programs import random_program

pytestmark = pytest.mark.xdist_group("rtl-wave")  # one process builds the models with a waveform, and runs them once
# The first ones, and those that first notice a planted change that these do not (tests/mutation/run.py timing).
SEEDS = (*range(16), 27, 31, 32, 51, 75, 87, 88, 105, 108, 112)

NAMES = sorted({block.name for block in BLOCKS})


@cache
def partings(*, small: bool) -> list[Parting]:
    """Return what differs first in each of some random programs, with stalls and without."""
    core = SMALL_CORE if small else {}
    found = []
    for seed in SEEDS:
        case = Case(config="tiny", seed=seed, length=40, device="cycle")
        p = random_program(TINY, seed, 40, CoreParams.of(TINY, 64, core).features, crowds=True)
        found += first_partings(TINY, p.dram, p.insn_addr, p.insn_count, p.memories, core=core, **options(case))
    return found


def check(block: str, *, small: bool) -> None:
    mine = [str(parting) for parting in partings(small=small) if parting.block == block]
    assert not mine, f"{len(mine)} of {len(SEEDS)} programs differ first here: {mine[0]}"


@pytest.mark.parametrize("block", NAMES)
def test_registers_are_those_of_the_hardware(block):
    check(block, small=False)


@pytest.mark.parametrize("block", NAMES)
def test_registers_are_those_of_a_small_core(block):
    """Steps of several passes, and one copy of ACC."""
    check(block, small=True)


def test_hardware_that_stops_where_the_model_goes_on_differs():
    case = Case(config="tiny", seed=3, length=40, device="cycle")
    p = case.program()
    cut = first_partings(TINY, p.dram, p.insn_addr, p.insn_count, p.memories, max_cycles=300, **options(case))
    assert [(parting.block, parting.register) for parting in cut] == [("supervisor", "goes_on")]
    assert 100 < cut[0].cycle < 300


def test_the_waveform_of_a_difference_is_bounded(monkeypatch):
    """The hardware may hang, and a waveform of the usual bound fills the disk."""
    case = Case(config="tiny", seed=3, length=40, device="cycle")
    taken = {}
    monkeypatch.setattr(lockstep, "first_partings", lambda *program, **around: taken.update(around) or [])
    assert first_block(case.program(), case).startswith("none; ")
    assert taken["max_cycles"] < 1_000_000


PLANTS = [  # module of the model, a number in it, another number, and the block whose registers then differ first
    ("issue.stage", "INSNS_STARTED", 14, "compute.issue.retire.queue"),
    ("compute.steps", "STEPS_AHEAD", 7, "compute.steps"),
    ("compute.acc_memory", "BANK_STRIDE", 2, "compute.arithmetic"),
    ("store.narrower", "REQUANT_LATENCY", 8, "store.port.narrower"),
    ("compute.stage", "PATIENCE", 6, "compute"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "number", "block"), PLANTS)
def test_a_planted_cycle_is_found_and_told_with_its_block(monkeypatch, module, name, number, block):
    """In the model in the place of hw/, whose every change would be a build."""
    monkeypatch.setattr("vtakit.sim.cycle.has_machine_code", lambda *, required: False)
    monkeypatch.setattr(import_module(f"vtakit.sim.cycle.{module}"), name, number)
    cases = (Case(config="tiny", seed=seed, length=40, device="cycle") for seed in reversed(SEEDS))  # the rare ones first
    failure = next(filter(None, map(run_case, cases)))
    assert failure.difference.startswith("cycle ")
    assert f"core.{block}" in failure.block
    assert failure.shrunk
    assert f"replay: {failure.case.command}" in str(failure)
