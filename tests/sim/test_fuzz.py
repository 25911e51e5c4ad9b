"""A device with a planted bug is caught, and the report names the element, the instruction, a small program and the replay."""

import multiprocessing.pool
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from vtakit.hw.isa.asm import asm
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import AluOp, Feature, Opcode
from vtakit.sim import api, fsim, plain
from vtakit.sim import fuzz as fuzz_module
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fuzz import Case, cases, fuzz, options, run_case
from vtakit.sim.shrinking import shrink

BROKEN = "vtakit_test_broken_device"


@pytest.fixture
def broken_device(monkeypatch):
    """A device that is right but for MIN with an immediate, which it takes for MAX."""
    module = ModuleType(BROKEN)

    def simulate(cfg, dram, insn_addr, insn_count, *, bases):
        def alu(machine, insn):
            wrong = insn["alu_opcode"] == AluOp.MIN and insn["use_imm"]
            right_alu(machine, type(insn)(insn.op, {**insn.fields, "alu_opcode": AluOp.MAX}) if wrong else insn)

        right_alu = plain.STEPS[Opcode.ALU]
        with monkeypatch.context() as patch:
            patch.setitem(plain.STEPS, Opcode.ALU, alu)
            return fsim.simulate(cfg, dram, insn_addr, insn_count, path="plain", bases=bases)

    module.simulate, module.features, module.OPTIONS = simulate, lambda cfg: Feature(0), ("bases",)
    monkeypatch.setitem(sys.modules, BROKEN, module)
    monkeypatch.setitem(api.DEVICES, "broken", BROKEN)
    return "broken"


def test_a_planted_bug_is_found_and_pinned_to_its_instruction(broken_device):
    work = list(cases(broken_device, ["tiny"], 0, 200, 40))
    failures = fuzz(work, 1, lambda count: None)
    assert failures
    for failure in failures:
        assert re.search(r"^(acc\[\d+\] row \d+ lane \d+|DRAM byte 0x[0-9a-f]+): got -?\d+, want -?\d+; \d+ ", failure.difference)
        number, text = re.fullmatch(r"instruction (\d+) \((.*)\)", failure.instruction).groups()
        culprit = decode(NAMED["tiny"], asm(text, NAMED["tiny"]))
        assert culprit["alu_opcode"] == AluOp.MIN
        assert culprit["use_imm"] == 1
        assert f"{number} ({text})" in failure.shrunk
        assert len(failure.shrunk) <= 8
        case = failure.case
        assert str(failure).splitlines()[1:4] == [
            f"first differs after {failure.instruction}",
            f"replay: vtakit fuzz --device broken --config tiny --seed {case.seed} --length 40 --programs 1", "shrunk program:",
        ]
        assert str(run_case(case)) == str(failure)


def test_the_replay_command_is_one_that_a_shell_takes():
    command = Case(config="my shapes/8 & 16.json", seed=3, length=10, device="rtl").command
    assert command == "vtakit fuzz --device rtl --config 'my shapes/8 & 16.json' --seed 3 --length 10 --programs 1"


def test_a_named_memory_system_takes_the_place_of_the_seeds(tmp_path):
    """Each program runs on every system, whose options are all that hardware gets; the replay names the one that failed."""
    slow = tmp_path / "slow.json"
    slow.write_text('{"latency": 100, "bandwidth": 0.25}')
    made = list(cases("cycle", ["tiny", "blk8"], 7, 2, 40, ["ideal", str(slow)]))
    assert [(case.config, case.seed, case.system) for case in made] == [
        ("tiny", 7, "ideal"), ("tiny", 7, str(slow)), ("blk8", 8, "ideal"), ("blk8", 8, str(slow))]
    assert [options(case) for case in made[:2]] == [
        {"bus_bits": 64, "latency": 0, "outstanding": 16, "bandwidth": 100},
        {"bus_bits": 64, "latency": 100, "outstanding": 16, "bandwidth": 25}]
    assert made[0].command == "vtakit fuzz --device cycle --config tiny --system ideal --seed 7 --length 40 --programs 1"
    assert options(Case(config="any", seed=7, length=40, device="cycle", system="ideal")).keys() == {
        "bus_bits", "latency", "outstanding", "bandwidth", "core"}


def test_a_device_that_refuses_a_legal_program_is_a_failure(monkeypatch):
    module = ModuleType(BROKEN)

    def simulate(cfg, dram, insn_addr, insn_count, *, bases):
        raise ProgramFault(Fault.DEADLOCK, -1, "", "it waits for ever")

    module.simulate, module.features, module.OPTIONS = simulate, lambda cfg: Feature(0), ("bases",)
    monkeypatch.setitem(sys.modules, BROKEN, module)
    monkeypatch.setitem(api.DEVICES, "broken", BROKEN)
    failure = run_case(Case(config="tiny", seed=3, length=10, device="broken"))
    assert failure.difference.startswith("broken says 'it waits for ever [DEADLOCK]', the definition says that the program ends")


def test_a_device_that_hangs_or_breaks_the_protocol_is_a_failure_with_a_shrunk_program(monkeypatch):
    module = ModuleType(BROKEN)

    def simulate(cfg, dram, insn_addr, insn_count, *, bases):
        result = fsim.simulate(cfg, dram, insn_addr, insn_count, path="plain", bases=bases)
        if result.counters["gemm_counter"]:
            raise DeviceError("the RTL has not finished within 5 cycles")
        return result

    module.simulate, module.features, module.OPTIONS = simulate, lambda cfg: Feature(0), ("bases",)
    monkeypatch.setitem(sys.modules, BROKEN, module)
    monkeypatch.setitem(api.DEVICES, "broken", BROKEN)
    failures = fuzz(list(cases("broken", ["tiny"], 0, 60, 20)), 1, lambda count: None)
    assert failures
    for failure in failures:
        told = "broken says 'the RTL has not finished within 5 cycles', the definition says that the program ends"
        assert failure.difference.startswith(told)
        assert "(gemm " in failure.instruction
        assert sum("(gemm " in line for line in failure.shrunk) == 1
        assert f"--seed {failure.case.seed} " in str(failure)


@pytest.mark.xdist_group("rtl")
def test_hardware_that_takes_too_long_is_a_failure(monkeypatch):
    monkeypatch.setattr(fuzz_module, "_bound", lambda program, case: {"max_cycles": 60})
    failure = run_case(Case(config="tiny", seed=3, length=10, device="rtl"))
    assert failure.difference == (
        "rtl says 'the RTL has not finished within 60 cycles', the definition says that the program ends")
    assert "replay: vtakit fuzz --device rtl --config tiny --seed 3 --length 10 --programs 1" in str(failure)


def test_programs_of_an_rtl_model_follow_each_other(monkeypatch):
    """So the first run when one model has been built, not all of them; each is built once, and every program is run."""
    ran = []
    monkeypatch.setattr(fuzz_module, "run_case", lambda case: ran.append(case))
    work = list(cases("rtl", ["tiny", "any", "default"], 200, 120, 40))
    counts = []
    assert fuzz(work, 1, counts.append) == []
    models = [case.model for case in ran]
    changes = [model for n, model in enumerate(models) if not n or models[n - 1] != model]
    assert changes == [("tiny", 0), ("any", 0), ("default", 0), ("any", 1)]
    assert sorted(case.seed for case in ran) == list(range(200, 320))
    assert sum(counts) == 120
    assert max(counts) <= 25


def test_shrink_keeps_only_what_the_failure_needs():
    tried = []

    def still_fails(kept):
        tried.append(kept)
        return kept[3] and kept[11]

    assert [i for i, keep in enumerate(shrink([True] * 16, still_fails)) if keep] == [3, 11]
    assert len(tried) < 40


def test_a_long_program_shrinks_by_pieces():
    """Each trial is a run of what is left of it."""
    tried = []

    def still_fails(kept):
        tried.append(kept)
        return kept[30] and kept[1110]

    kept = shrink([True] * 1600, still_fails, 16)
    assert kept[30]
    assert kept[1110]
    assert sum(kept) <= 64
    assert len(tried) < 250


def test_one_program_of_the_cycle_model_in_many_is_long():
    lengths = [case.length for case in cases("cycle", ["tiny", "blk8"], 5, 400, 40)]
    assert lengths.count(40 * 40) == 4
    assert set(lengths) == {40, 40 * 40}
    assert {case.length for case in cases("rtl", ["tiny"], 5, 400, 40)} == {40}


def test_no_more_processes_are_started_than_there_is_work_for(monkeypatch):
    started = []

    class Pool(multiprocessing.pool.ThreadPool):
        def __init__(self, processes):
            started.append(processes)
            super().__init__(processes)

    monkeypatch.setattr(fuzz_module, "get_context", lambda method: SimpleNamespace(Pool=Pool))
    monkeypatch.setattr(fuzz_module, "run_case", lambda case: None)
    for programs in (1, 60):
        done = []
        assert fuzz(list(cases("fsim", ["tiny"], 0, programs, 10)), 8, done.append) == []
        assert sum(done) == programs
    assert started == [3]  # 60 programs are three pieces of work; one is done right here


def test_several_processes_run_every_case():
    done = []
    assert fuzz(list(cases("fsim", ["tiny", "any"], 0, 60, 10)), 2, done.append) == []
    assert sum(done) == 60
