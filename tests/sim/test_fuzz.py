"""A device with a planted bug is caught, and the report names the element, the instruction, a small program and the replay."""

import re
import sys
from types import ModuleType

import pytest

from vtakit.hw.isa.asm import asm
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import AluOp, Opcode
from vtakit.sim import api, fsim, plain
from vtakit.sim.faults import ProgramFault
from vtakit.sim.fuzz import Case, cases, fuzz, run_case, shrink

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

    module.simulate = simulate
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


def test_a_device_that_refuses_a_legal_program_is_a_failure(monkeypatch):
    module = ModuleType(BROKEN)

    def simulate(cfg, dram, insn_addr, insn_count, *, bases):
        raise ProgramFault(Fault.DEADLOCK, -1, "", "it waits for ever")

    module.simulate = simulate
    monkeypatch.setitem(sys.modules, BROKEN, module)
    monkeypatch.setitem(api.DEVICES, "broken", BROKEN)
    failure = run_case(Case(config="tiny", seed=3, length=10, device="broken"))
    assert failure.difference.startswith("broken says 'it waits for ever [DEADLOCK]', the definition says Result(")


def test_shrink_keeps_only_what_the_failure_needs():
    tried = []

    def still_fails(kept):
        tried.append(kept)
        return kept[3] and kept[11]

    assert [i for i, keep in enumerate(shrink([True] * 16, still_fails)) if keep] == [3, 11]
    assert len(tried) < 40


def test_several_processes_run_every_case():
    done = []
    assert fuzz(list(cases("fsim", ["tiny", "any"], 0, 60, 10)), 2, done.append) == []
    assert sum(done) == 60
