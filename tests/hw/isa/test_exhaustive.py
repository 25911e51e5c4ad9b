"""A new opcode, memory type or ALU operation is refused by name, by each part that does not know it, and is run by none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vtakit.hw.isa.exhaustive import IncompleteError, covers, for_each
from vtakit.hw.isa.insns import AluOp

ROOT = Path(__file__).parents[3]
PARTS = ("hw", "sim", "compiler", "runtime", "boards", "vtakit")
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(f"{name}: fine")
    except Exception as error:
        print(f"{name}: {error}")
"""


@pytest.fixture
def copy(tmp_path):
    """The package in a folder of its own."""
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edit(copy: Path, file: str, old: str, new: str) -> None:
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")


def said_by(copy: Path, *modules: str, then: str = "") -> list[str]:
    """Import modules of the copy in another process; return a line for each."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_OPT": "0"}  # it runs little
    done = subprocess.run([sys.executable, "-c", IMPORTS + then, *modules], capture_output=True, text=True, timeout=300,
                          check=False, env=environment, cwd=copy)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def refused(lines: list[str], modules: list[str], what: str) -> None:
    for line, module in zip(lines, modules, strict=True):
        assert line.startswith(f"{module}: ")
        assert f"does not know the {what}: add it there (docs/adding_an_alu_operation.md)" in line


def test_an_alu_operation_that_only_the_enumeration_has(copy):
    insns, consumers = "vtakit.hw.isa.insns", ["vtakit.sim.plain", "vtakit.sim.kernels", "vtakit.hw.compute.alu",
                                               "vtakit.compiler.codegen.vta.target"]
    edit(copy, "hw/isa/insns.py", "    MUL = 4\n", "    MUL = 4\n    MOV = 5\n")
    refused(said_by(copy, insns), [insns], "AluOp MOV")
    edit(copy, "hw/isa/insns.py", "AluOp.MUL: Feature.ALU_MUL,", "AluOp.MUL: Feature.ALU_MUL, AluOp.MOV: Feature(0),")
    refused(said_by(copy, *consumers), consumers, "AluOp MOV")
    drawn = ("from vtakit.sim import bins, random_programs as r\n"
             "print(*[op.name for op in r._ALU_OPS], sum('MOV' in values for group in bins.GROUPS for _, values in group.axes))")
    assert said_by(copy, then=drawn) == ["ADD SHR MIN MAX MUL MOV 2"]


RUN = """
from vtakit.hw.isa.config import NAMED
from vtakit.sim import run_image
from vtakit.sim.random_programs import random_program
def left(seed, path):
    p = random_program(NAMED["tiny"], seed)
    return run_image(p.dram, p.insn_addr, p.insn_count, p.config, bases=p.bases, path=path).dram
"""
COMPARED = RUN + """
from amaranth.back import rtlil
from vtakit.compiler.codegen.vta.target import Target
from vtakit.hw.compute.alu import Alu
from vtakit.hw.isa.insns import AluOp
for immediate in (False, True):
    made = Target().alu(AluOp.MOV, immediate=immediate)
    print(made.name, [tensor.name for tensor in made.inputs], str(made.op.body[0]))
assert "wire" in rtlil.convert(Alu(NAMED["tiny"]), name="alu")
print(all(left(seed, "plain") == left(seed, "compiled") for seed in range(200)))
"""
WITHOUT_A_BRANCH = RUN + """
try:
    for seed in range(200):
        left(seed, "compiled")
except NotImplementedError as error:
    print(error)
"""


def moves(copy: Path, *, branch: bool) -> None:
    """Add MOV as docs/adding_an_alu_operation.md says, to the ISA and the simulators; without a branch one thing is missing."""
    edit(copy, "hw/isa/insns.py", "    MUL = 4\n", "    MUL = 4\n    MOV = 5\n")
    edit(copy, "hw/isa/insns.py", "AluOp.MUL: Feature.ALU_MUL,", "AluOp.MUL: Feature.ALU_MUL, AluOp.MOV: Feature(0),")
    edit(copy, "sim/plain.py", "    AluOp.MUL:", "    AluOp.MOV: lambda a, b, bits: b,\n    AluOp.MUL:")
    edit(copy, "sim/kernels.py", "AluOp.SHR, AluOp.MUL\n", "AluOp.SHR, AluOp.MUL, AluOp.MOV\n")
    edit(copy, "sim/kernels.py", "_MIN, _MAX, _ADD, _SHR, _MUL =", "_MIN, _MAX, _ADD, _SHR, _MUL, _MOV =")
    if branch:
        last = "                        a *= b\n"
        edit(copy, "sim/kernels.py", last, f"{last}                    elif op == _MOV:\n                        a = b\n")


@pytest.mark.slow
def test_the_page_is_followed(copy):
    """In five files: the simulators agree, the RTL elaborates, and tensorize has the operation."""
    moves(copy, branch=True)
    file = "hw/compute/alu.py"
    edit(copy, file, "    AluOp.MUL: Result.PRODUCT,\n", "    AluOp.MUL: Result.PRODUCT, AluOp.MOV: Result.SECOND,\n")
    edit(copy, file, '    PRODUCT = "', '    SECOND = "the second operand"\n    PRODUCT = "')
    edit(copy, file, "Result.SUM, Result.COMPARED)", "Result.SUM, Result.COMPARED, Result.SECOND)")
    other = "                with m.Else():\n"
    edit(copy, file, other, "                with m.Elif(is_from(self.chosen, Result.SECOND)):\n"
                            f"                    m.d.sync += other.eq(b)\n{other}")
    edit(copy, "compiler/codegen/vta/target.py", "    AluOp.SHR: partial", "    AluOp.MOV: lambda a, b: b, AluOp.SHR: partial")
    assert said_by(copy, then=COMPARED) == ["vta.mov ['b'] b[i, j]", "vta.mov_imm [] number", "True"]


def test_an_alu_operation_without_a_branch_in_the_compiled_simulator(copy):
    """Its name alone makes nothing of it run."""
    moves(copy, branch=False)
    assert said_by(copy, then=WITHOUT_A_BRANCH) == ["an ALU operation of _ALU_OPS has no branch in _alu"]


def test_a_source_of_results_without_logic_in_the_alu(copy):
    edit(copy, "hw/compute/alu.py", '    PRODUCT = "', '    SECOND = "the second operand"\n    PRODUCT = "')
    made = ("from amaranth.back import rtlil\nfrom vtakit.hw.compute.alu import Alu\nfrom vtakit.hw.isa.config import NAMED\n"
            "try:\n    rtlil.convert(Alu(NAMED['tiny']))\nexcept Exception as error:\n    print(error)")
    assert "Alu does not know the Result SECOND: add it there" in said_by(copy, then=made)[0]


def test_an_opcode_that_only_the_enumeration_and_a_format_have(copy):
    consumers = ["vtakit.sim.plain", "vtakit.sim.kernels", "vtakit.sim.access", "vtakit.hw.fetch.decoder"]
    edit(copy, "hw/isa/insns.py", "    DWCONV = 7\n", "    DWCONV = 7\n    NOP = 8\n")
    refused(said_by(copy, "vtakit.hw.isa.insns"), ["vtakit.hw.isa.insns"], "Opcode NOP")
    edit(copy, "hw/isa/insns.py", "Opcode.PAD_LOAD: PAD_LOAD,", "Opcode.PAD_LOAD: PAD_LOAD, Opcode.NOP: FINISH,")
    edit(copy, "hw/isa/insns.py", "Opcode.PAD_LOAD: Stage.LOAD,", "Opcode.PAD_LOAD: Stage.LOAD, Opcode.NOP: Stage.COMPUTE,")
    refused(said_by(copy, *consumers), consumers, "Opcode NOP")


def test_a_memory_type_that_only_the_enumeration_has(copy):
    edit(copy, "hw/isa/insns.py", "    ACC_8BIT = 5\n", "    ACC_8BIT = 5\n    INP_4BIT = 6\n")
    refused(said_by(copy, "vtakit.hw.isa.insns"), ["vtakit.hw.isa.insns"], "MemType INP_4BIT")


def test_a_table_is_complete_or_names_what_it_lacks():
    assert for_each(AluOp, dict.fromkeys(AluOp, 1), "here") == dict.fromkeys(AluOp, 1)
    with pytest.raises(IncompleteError, match=r"^here does not know the AluOp MAX, MUL: add it there"):
        covers(AluOp, (AluOp.MIN, AluOp.ADD, AluOp.SHR), "here")
