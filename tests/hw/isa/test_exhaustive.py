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
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
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


def test_an_opcode_that_only_the_enumeration_and_a_format_have(copy):
    consumers = ["vtakit.sim.plain", "vtakit.sim.kernels", "vtakit.sim.access", "vtakit.hw.fetch.decoder"]
    edit(copy, "hw/isa/insns.py", "    REQUANT = 5\n", "    REQUANT = 5\n    NOP = 6\n")
    refused(said_by(copy, "vtakit.hw.isa.insns"), ["vtakit.hw.isa.insns"], "Opcode NOP")
    edit(copy, "hw/isa/insns.py", "    Opcode.REQUANT: REQUANT,\n", "    Opcode.REQUANT: REQUANT, Opcode.NOP: FINISH,\n")
    edit(copy, "hw/isa/insns.py", "Opcode.REQUANT: Stage.STORE,", "Opcode.REQUANT: Stage.STORE, Opcode.NOP: Stage.COMPUTE,")
    refused(said_by(copy, *consumers), consumers, "Opcode NOP")


def test_a_memory_type_that_only_the_enumeration_has(copy):
    edit(copy, "hw/isa/insns.py", "    ACC_8BIT = 5\n", "    ACC_8BIT = 5\n    INP_4BIT = 6\n")
    refused(said_by(copy, "vtakit.hw.isa.insns"), ["vtakit.hw.isa.insns"], "MemType INP_4BIT")


def test_a_table_is_complete_or_names_what_it_lacks():
    assert for_each(AluOp, dict.fromkeys(AluOp, 1), "here") == dict.fromkeys(AluOp, 1)
    with pytest.raises(IncompleteError, match=r"^here does not know the AluOp MAX, MUL: add it there"):
        covers(AluOp, (AluOp.MIN, AluOp.ADD, AluOp.SHR), "here")
