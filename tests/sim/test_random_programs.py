"""Random programs: both paths of the functional simulator agree on them in every interleaving, and they reach what matters."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtakit.hw.isa.codec import Insn, decode, from_bytes
from vtakit.hw.isa.config import INSN_BYTES, NAMED, VTAConfig
from vtakit.hw.isa.insns import ALL_FEATURES, AluOp, MemType, Opcode
from vtakit.sim import compiled, plain, run_image
from vtakit.sim.fuzz import Case, fuzz, random_config
from vtakit.sim.random_programs import RandomProgram, generate, random_program

ROOT = Path(__file__).parents[2]


@st.composite
def programs(draw: st.DrawFn, config: VTAConfig) -> RandomProgram:
    """A random legal program whose choices Hypothesis makes, and shrinks."""
    return generate(config, lambda low, high: draw(st.integers(low, high)), length=12, features=ALL_FEATURES)


@settings(max_examples=60)
@given(st.data())
def test_both_paths_agree_in_every_interleaving(data):
    config = data.draw(st.sampled_from(list(NAMED)))
    p = data.draw(programs(NAMED[config]))
    want = run_image(p.dram, p.insn_addr, p.insn_count, config, path="plain", bases=p.bases)
    for order in ("program", "eager", "lazy", 7):
        for path in ("plain", "compiled"):
            got = run_image(p.dram, p.insn_addr, p.insn_count, config, path=path, order=order, bases=p.bases)
            assert got.dram == want.dram
            assert np.array_equal(got.acc, want.acc)
            assert got.counters == want.counters


def test_a_seed_always_means_the_same_program():
    assert random_program(NAMED["default"], 5) == random_program(NAMED["default"], 5)
    assert random_program(NAMED["default"], 5) != random_program(NAMED["default"], 6)


@pytest.mark.slow
def test_two_thousand_programs_of_every_configuration_agree():
    """The long run is `vtakit fuzz --programs 100000`; this is its sample."""
    configs = [*NAMED, "any"]
    work = [Case(config=configs[n % len(configs)], seed=10_000 + n, length=40, device="fsim") for n in range(2_000)]
    done = []
    assert [str(failure) for failure in fuzz(work, 1, done.append)] == []
    assert sum(done) == 2_000


def test_random_configurations_cover_the_legal_space():
    configs = [random_config(seed) for seed in range(300)]
    for name, count in {"log_inp_width": 5, "log_wgt_width": 5, "log_acc_width": 3, "log_batch": 4, "log_block": 7}.items():
        assert len({getattr(cfg, name) for cfg in configs}) == count, name


# What could be wrong in a simulator and must show: each mutant is a change to the fields of GEMM instructions.
MUTANTS = {
    "src_in ignored": {"src_in": 0}, "src_out ignored": {"src_out": 0}, "wgt_in ignored": {"wgt_in": 0},
    "wgt_out ignored": {"wgt_out": 0}, "dst_in ignored": {"dst_in": 0}, "dst_out ignored": {"dst_out": 0},
}
ENOUGH = 2  # programs that show a mutant


@pytest.mark.parametrize("config", NAMED)
def test_the_stream_computes_with_real_numbers(config, monkeypatch):
    """In each configuration: products are not zero, results reach DRAM, and a wrong index changes them."""
    cfg, right = NAMED[config], plain.STEPS[Opcode.GEMM]
    seen: Counter[str] = Counter()

    def counting(machine: plain.Machine, insn: Insn) -> None:
        for _, src, wgt in [] if insn["reset"] else plain.steps(machine, insn):
            seen["products"] += 1
            seen["products that are not zero"] += bool((machine.inp[src] @ machine.wgt[wgt].T).any())
        right(machine, insn)

    for seed in range(80):
        p = random_program(cfg, seed)

        def run(gemm: Callable[[plain.Machine, Insn], None], p: RandomProgram = p) -> tuple[bytes, bytes]:
            monkeypatch.setitem(plain.STEPS, Opcode.GEMM, gemm)
            result = run_image(p.dram, p.insn_addr, p.insn_count, config, path="plain", bases=p.bases)
            return result.dram, result.acc.tobytes()

        want = run(counting)
        seen["programs that change DRAM"] += want[0] != p.dram
        for name, fields in MUTANTS.items():
            if seen[name] == ENOUGH:
                continue
            got = run(lambda machine, insn, fields=fields: right(machine, Insn(insn.op, {**insn.fields, **fields})))
            seen[name] += got != want
    assert seen["products that are not zero"] > 0.1 * seen["products"] > 100
    assert seen["programs that change DRAM"] > 40
    assert {name: seen[name] for name in MUTANTS if seen[name] < ENOUGH} == {}


@pytest.mark.parametrize("file", ["sim/kernels.py", "sim/decode.py", "hw/isa/insns.py", "hw/isa/requant.py"])
def test_a_change_to_any_source_is_another_fingerprint_of_the_machine_code(file, tmp_path, monkeypatch):
    """tests/sim/test_code.py has that code of another fingerprint is compiled anew, though its own file is the same."""
    for part in ("hw/isa", "sim"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    here = compiled._fingerprint()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "sim" / "compiled.py"))
    monkeypatch.setattr(compiled.insns, "__file__", str(tmp_path / "hw" / "isa" / "insns.py"))
    assert compiled._fingerprint() == here
    with (tmp_path / file).open("a", encoding="utf-8") as source:
        source.write("# changed\n")
    assert compiled._fingerprint() != here


def test_the_stream_reaches_every_instruction_and_situation():
    """What a program set must contain to be worth running; counted over 600 programs."""
    seen: Counter[str] = Counter()
    for seed in range(600):
        cfg = NAMED["default" if seed % 2 else "tiny"]
        p = random_program(cfg, seed)
        words = from_bytes(p.dram[p.insn_addr : p.insn_addr + p.insn_count * INSN_BYTES])
        for insn in (decode(cfg, word) for word in words):
            name = insn.op.name
            if insn.op in (Opcode.LOAD, Opcode.STORE):
                name += f" {MemType(insn['memory_type']).name}"
                seen[f"{name} moving"] += bool(insn["x_size"] and insn["y_size"])
                seen[f"{name} 2-D with gaps"] += insn["y_size"] > 1 and insn["x_stride"] > insn["x_size"] > 0
                if insn.op is Opcode.LOAD:
                    for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
                        seen[f"{name} {pad}"] += bool(insn[pad] and insn["x_size"])
                    pads_only = insn["x_size"] and not insn["y_size"] and (insn["y_pad_0"] or insn["y_pad_1"])
                    seen["LOAD of pads only"] += bool(pads_only)
            elif insn.op in (Opcode.GEMM, Opcode.ALU):
                if insn.op is Opcode.ALU:
                    name += f" {AluOp(insn['alu_opcode']).name} {'imm' if insn['use_imm'] else 'vector'}"
                else:
                    name += " reset" if insn["reset"] else " multiply"
                steps = insn["iter_out"] * insn["iter_in"] * (insn["uop_end"] - insn["uop_bgn"])
                seen[f"{name} running"] += steps > 0
                seen[f"{name} on one dst"] += steps > 1 and insn["iter_in"] > 1 and not insn["dst_in"]
            for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
                seen[f"{insn.stage.name} {flag}"] += insn[flag]
        seen["base registers"] += any(p.bases.values())
    impossible = {  # flags towards neighbours that do not exist
        "LOAD pop_prev", "LOAD push_prev", "STORE pop_next", "STORE push_next",
    }
    for what in impossible:
        assert seen.pop(what) == 0
    assert {what: count for what, count in seen.items() if count < 10} == {}
    assert len(seen) == 66
