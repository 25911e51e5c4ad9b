"""Random programs: machine code of each kind of machine against the interpreter."""

import codegen_fuzz
import pytest
from codegen_machines import AARCH64, HOST, in_c, in_wasm

from vtakit.compiler.codegen.llvm.target import Target


@pytest.mark.parametrize("seed", range(0, 16, 4))
def test_this_machine_agrees_with_the_interpreter(seed):
    codegen_fuzz.fuzz(seed, 4)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_every_level_of_x86_agrees_with_the_interpreter(cpu, tmp_path):
    """The baseline converts half-width floats by integer arithmetic, and has no fused multiply-add."""
    codegen_fuzz.fuzz(100, 2, in_c(Target("x86_64-linux-gnu", cpu, contract=False), HOST, tmp_path))


@pytest.mark.parametrize("seed", [200, 203])
def test_aarch64_agrees_with_the_interpreter(seed, tmp_path):
    target = Target("aarch64-linux-gnu", contract=False, threads=False)
    codegen_fuzz.fuzz(seed, 3, in_c(target, AARCH64, tmp_path))


@pytest.mark.parametrize("features", [(), ("+simd128",)], ids=["plain", "simd"])
def test_webassembly_agrees_with_the_interpreter(features, tmp_path):
    target = Target("wasm32-unknown-unknown", features=features, contract=False, threads=False)
    codegen_fuzz.fuzz(300, 4, in_wasm(target, tmp_path))


def test_the_check_sees_a_wrong_result():
    with pytest.raises(AssertionError, match=r"seed 0: out\d\[\d+\] is .*, the interpreter says .*"):
        codegen_fuzz.check(0, lambda function, args: None)
