"""Bytes looked up in a table of 256: which instructions a target takes, and that every byte is right."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS, X86

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find

VBMI = Target(X86, "x86-64-v4", ("+avx512vbmi", "-prefer-256-bit"))
TARGETS = {**{name: LEVELS[name] for name in ("plain", "avx2", "avx512")}, "vbmi": VBMI}
HAS = {"plain": None, "avx2": "pshufb", "avx512": "pshufb", "vbmi": "vpermi2b"}


def made_of(op, kind, count, target):
    """(a built function, its arguments, what they give)."""
    rng = np.random.default_rng(count)
    x, table = (rng.integers(0, 256, size).astype(np.uint8).view(kind) for size in (count, 256))
    args = [te.placeholder((count,), kind), te.placeholder((256,), kind)]
    out = find(op).define(*args)
    built = vtakit.build(schedule([out], target), [*args, out], target)
    return built, (x, table), table[x.astype(np.int32) + (128 if kind == "int8" else 0)]


@pytest.mark.parametrize("level", [name for name, target in TARGETS.items() if name in HERE or Target.host().runs(target)])
@pytest.mark.parametrize("count", [1, 16, 64, 100, 487, 4096])
def test_a_table(level, count):
    for op, kind in (("lookup_bytes", "uint8"), ("lookup", "int8")):
        built, arrays, want = made_of(op, kind, count, TARGETS[level])
        got = np.zeros_like(want)
        built(*arrays, got)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("level", TARGETS)
def test_the_instructions(level):
    assembly = made_of("lookup", "int8", 4096, TARGETS[level])[0].compiled.assembly
    wanted = HAS[level]
    assert any(name in assembly for name in ("vpermi2b", "vpermt2b", "pshufb")) == (wanted is not None)
    assert wanted is None or wanted in assembly or (wanted == "vpermi2b" and "vpermt2b" in assembly)


def test_another_table_is_gathered():
    """255 entries, or an index that is no byte."""
    x, table = te.placeholder((256,), "int32"), te.placeholder((256,), "uint8")
    out = te.compute((256,), lambda i: table(x(i)))
    assembly = vtakit.build(schedule([out], VBMI), [x, table, out], VBMI).compiled.assembly
    assert "vpermi2b" not in assembly
    assert "vpermt2b" not in assembly
