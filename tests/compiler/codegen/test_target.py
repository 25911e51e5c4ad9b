"""What is known of processors: the features that their names imply, and which machine runs whose code."""

import pytest

from vtakit import te
from vtakit.compiler.codegen.llvm import micro_kernels as mk
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.target import PROCESSORS, Target
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-linux-gnu"}
NAMED = [(arch, cpu) for arch, processors in PROCESSORS.items() for cpu in processors]
PRODUCTS = {  # a feature -> the instruction that is made of a product of bytes
    "avx512vnni": "vpdpbusd", "avxvnni": "vpdpbusd", "i8mm": "usdot",
}


@pytest.mark.parametrize(("arch", "cpu"), NAMED)
def test_llvm_agrees_with_what_a_name_implies(arch, cpu):
    """The instructions are chosen by our table; LLVM makes none that the processor of that name does not have."""
    target = Target(TRIPLES[arch], cpu, threads=False)
    rows, columns = mk.tile(target)
    A, B = te.placeholder((rows, 8), "uint8", name="A"), te.placeholder((2, columns, 4), "int8", name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((rows, columns), lambda i, j: te.sum(
        A[i, k].astype("int32") * B[k // 4, j, k % 4].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C)
    s[C].tensorize(C.op.axis[0], mk.gemm_u8s8s32(8, target))
    text = compile_for(lower_late(lower(s, [A, B, C])), target).assembly
    wanted = {PRODUCTS[feature] for feature in PRODUCTS if target.has(feature)}
    assert {name for name in PRODUCTS.values() if name in text} == wanted
    if arch == "x86_64":
        assert columns == (64 if target.has("avx512f") else 16 if target.has("avx2") else 8)


def test_a_feature_that_is_taken_away_is_not_there():
    target = Target(TRIPLES["x86_64"], "sapphirerapids", ("-avx512vnni",))
    assert not target.has("avx512vnni")
    assert target.has("avx512vl")
    assert not Target(TRIPLES["x86_64"], "a-name-of-no-processor").has("avx2")
    assert not Target(TRIPLES["aarch64"], "x86-64-v4").has("avx512f")


def test_which_machine_runs_whose_code():
    old, new = (Target(TRIPLES["x86_64"], cpu) for cpu in ("x86-64-v3", "cascadelake"))
    assert new.runs(old)
    assert not old.runs(new)
    assert old.lacks(new) == ("avx512bw", "avx512dq", "avx512f", "avx512vl", "avx512vnni")
    assert new.lacks(old) == ()
    assert not old.runs(Target(TRIPLES["aarch64"]))
    assert Target.host().runs(Target.host())
