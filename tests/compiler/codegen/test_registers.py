"""What makes the docs' matmul fast shows in its machine code: the hot loop is loads and multiply-adds, and nothing is spilled."""

import re

import pytest
from support import module

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.kernels import micro_kernels as mk
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

X86 = "x86_64-unknown-linux-gnu"
TARGETS = {"avx2": Target(X86, "x86-64-v3"), "avx512": Target(X86, "x86-64-v4", ("-prefer-256-bit",))}
STEPS = 4  # unrolled


def hot_loop(assembly: str) -> list[str]:
    """The instructions of the basic block with the most multiply-adds."""
    blocks = re.split(r"^\S+:.*$", assembly, flags=re.MULTILINE)
    lines = max(blocks, key=lambda block: block.count("vfmadd")).splitlines()
    code = [line.strip() for line in lines if line.startswith("\t") and not line.startswith("\t.")]
    ends = [at for at, line in enumerate(code) if line.startswith("j")]
    return code[:ends[0] + 1] if ends else code


def by_loops(rows, columns, target):
    example = module("matmul")
    A, B, C = example.product()
    return lower(example.schedule(C, rows, columns), [A, B, C], name="matmul")


def by_intrinsic(rows, columns, target):
    example = module("matmul")
    A, B, C = example.product(12 * columns)
    s = example.te.create_schedule(C)
    *_, inner, _, _ = s[C].tile("y", "x", "k", rows, columns, columns)
    s[C].tensorize(inner, mk.gemm_f32(columns, target))
    return lower(s, [A, B, C], name="matmul")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("make", [by_loops, by_intrinsic])
def test_sums_stay_in_registers(make, target):
    rows, columns = mk.tile(target)
    vectors = columns * 4 // target.vector_bytes
    code = hot_loop(compile_for(lower_late(make(rows, columns, target)), target).assembly)
    assert sum("vfmadd" in line for line in code) == STEPS * rows * vectors
    assert not [line for line in code if "%rsp" in line]
    assert not [line for line in code if re.match(r"v?mov\S*\s+%\S+, .*\(", line)], "a store in the hot loop"
    assert len(code) <= STEPS * (rows * vectors + rows + vectors) + 8, "more than loads, multiply-adds and a few that count"
