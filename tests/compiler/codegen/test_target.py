"""What is known of processors: the features that their names imply, and which machine runs whose code."""

import re
import subprocess

import numpy as np
import pytest
from codegen_cases import buffer, loop
from codegen_machines import in_wasm
from support import raises

from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import micro_kernels as mk
from vtakit.compiler.codegen.llvm.link import find_linker
from vtakit.compiler.codegen.llvm.target import PROCESSORS, Target, target_machine
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-linux-gnu"}
NAMED = [(arch, cpu) for arch, processors in PROCESSORS.items() for cpu in processors]
PRODUCTS = {  # a feature -> the instruction that is made of a product of bytes
    "avx512vnni": "vpdpbusd", "avxvnni": "vpdpbusd", "i8mm": "usdot", "amx-int8": "tdpbusd",
}


@pytest.mark.parametrize(("arch", "cpu"), NAMED)
def test_llvm_agrees_with_what_a_name_implies(arch, cpu):
    """The instructions are chosen by our table; LLVM makes none that the processor of that name does not have."""
    target = Target(TRIPLES[arch], cpu, threads=False)
    rows, columns = mk.tile(target, "gemm_u8s8s32")
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
        assert columns == (32 if target.has("amx-int8") else 64 if target.has("avx512f") else 16 if target.has("avx2") else 8)


@pytest.mark.parametrize(("arch", "cpu"), NAMED)
def test_llvm_agrees_that_a_processor_multiplies_bfloat16_or_signed_bytes(arch, cpu):
    target = Target(TRIPLES[arch], cpu, threads=False)
    made = set()
    kernels = ("gemm_bf16", ("bfloat16", "bfloat16", "float32"), 2), ("gemm_s8s8s32", ("int8", "int8", "int32"), 4)
    for kernel, kinds, group in kernels:
        a, b, c = (buffer(name, 256, kind=kind) for name, kind in zip("abc", kinds, strict=True))
        call = effect(kernel, a.access_ptr("r"), b.access_ptr("r"), c.access_ptr("rw"), 2, 16, 4, 4 * group, 16 * group, 16)
        text = compile_for(st.Function("f", (a, b, c), st.Evaluate(call)), target).assembly
        made |= set(re.findall(r"\b(?:tdpbf16ps|vdpbf16ps|tdpbssd|vpdpbusd|sdot)\b", text))
    words = {"avx512bf16": "vdpbf16ps", "amx-bf16": "tdpbf16ps", "amx-int8": "tdpbssd", "avx512vnni": "vpdpbusd",
             "avxvnni": "vpdpbusd", "dotprod": "sdot"}
    wanted = {word for feature, word in words.items() if target.has(feature)}
    assert made == (wanted - {"vdpbf16ps"} if "tdpbf16ps" in wanted else wanted)  # two multiply-adds are faster there


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


@pytest.mark.parametrize("triple", [
    "i586-linux-gnu", "x86_64-linux-gnu", "armv7-linux-gnueabihf", "thumbv7em-none-eabi", "arm64-apple-darwin",
    "mipsel-linux-gnu", "mips64-linux-gnuabi64", "powerpc-linux-gnu", "powerpc64le-linux-gnu", "sparc-linux", "sparcv9-linux",
    "riscv32-unknown-elf", "riscv64-linux-gnu", "wasm32-wasi", "wasm64-wasi", "s390x-linux-gnu",
    "aarch64-linux-gnu",
])
def test_llvm_agrees_on_the_size_of_a_pointer(triple):
    """It is what memory is asked for with."""
    target = Target(triple)
    stated = re.search(r"(?:^|-)p:(\d+)", str(target_machine(target).target_data))  # 64 where it is not stated
    assert target.pointer_bits == (int(stated[1]) if stated else 64)


def test_code_for_linux_on_riscv_has_the_calling_convention_of_its_compilers():
    """Floats in registers of their own (RISC-V ELF psABI, e_flags); LLVM by itself makes code that nothing there links."""
    flags = int.from_bytes(doubled(Target("riscv64-linux-gnu")).code[48:52], "little")
    assert flags & 0b110 == 0b100
    assert flags & 0b001, "compressed instructions, as rv64gc has them"


@pytest.mark.parametrize(("triple", "cpu", "hard"), [
    ("arm-linux-gnueabihf", "cortex-a9", True), ("arm-linux-gnueabihf", "", True), ("armv7-linux-gnueabihf", "", True),
    ("arm-unknown-linux-gnueabihf", "cortex-a9", True), ("arm-linux-musleabihf", "cortex-a7", True),
    ("thumbv7em-none-eabihf", "cortex-m4", True),
    ("arm-linux-gnueabi", "cortex-a9", False), ("arm-none-eabi", "cortex-a9", False), ("thumbv7m-none-eabi", "cortex-m3", False),
])
def test_the_name_of_the_system_says_how_32_bit_arm_passes_floats(tmp_path, triple, cpu, hard):
    """ABI for the Arm architecture, addenda, Tag_ABI_VFP_args; a linker refuses objects of both kinds in one program."""
    (tmp_path / "code.o").write_bytes(doubled(Target(triple, cpu, threads=False)).code)
    done = subprocess.run(["readelf", "-A", tmp_path / "code.o"], capture_output=True, text=True, check=True)
    assert ("Tag_ABI_VFP_args: VFP registers" in done.stdout) is hard


@pytest.mark.parametrize(("triple", "cpu"), [("arm-linux-gnueabihf", "cortex-m3"), ("thumbv7m-none-eabihf", "")])
def test_floats_in_registers_that_a_processor_lacks(triple, cpu):
    target = Target(triple, cpu, threads=False)
    with raises(CodegenError, f"no code for {target}: {triple!r} passes floats in registers of a floating-point unit, and "
                f"{cpu or 'its processor'} has none: name one that has, such as cortex-a9, or a triple that ends in eabi"):
        doubled(target)


def doubled(target):
    """A parallel loop's code for a target."""
    a, b, i = buffer("A", 1000), buffer("B", 1000), ir.Var("i")
    return compile_for(st.Function("doubled", (a, b), parallel_loop(a, b, i)), target)


def parallel_loop(a, b, i):
    return loop(i, 1000, st.Store(b, (i,), a[i] * 2.0), kind=st.LoopKind.PARALLEL)


@pytest.mark.parametrize("triple", [
    "x86_64-unknown-linux-gnu", "aarch64-linux-android", "arm64-apple-darwin22", "aarch64-apple-macosx13.0",
    "x86_64-w64-windows-gnu", "x86_64-w64-mingw32", "x86_64-unknown-freebsd",
])
def test_parallel_loops_call_the_openmp_runtime_of_systems_that_have_one(triple):
    assert doubled(Target(triple)).parallel
    assert not doubled(Target(triple, threads=False)).parallel


@pytest.mark.parametrize("triple", ["x86_64-pc-windows-msvc", "wasm32-unknown-unknown", "wasm32-wasi", "aarch64-none-elf"])
def test_parallel_loops_are_serial_on_systems_without_an_openmp_runtime(triple):
    """One sentence says so, unless it was asked for."""
    with pytest.warns(RuntimeWarning) as said:
        made = doubled(Target(triple))
    says = (f"doubled: parallel loops run on one thread, because {triple} has no OpenMP runtime; "
            "Target(…, threads=False) asks for that")
    assert [str(warning.message) for warning in said] == [says]
    assert not made.parallel
    assert made.outside == ()
    assert doubled(Target(triple, threads=False)).outside == ()


def test_a_parallel_loop_runs_in_webassembly(tmp_path):
    a, b, i = buffer("A", 1000), buffer("B", 1000), ir.Var("i")
    function = st.Function("doubled", (a, b), parallel_loop(a, b, i))
    x, found = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with pytest.warns(RuntimeWarning, match="wasm32-unknown-unknown has no OpenMP runtime"):
        in_wasm(Target("wasm32-unknown-unknown"), tmp_path)(function, [x, found])
    assert np.array_equal(found, 2 * x)


def test_a_linker_without_an_openmp_runtime_is_refused(tmp_path):
    """It would leave names open that fail where the library is loaded."""
    with raises(CodegenError, f"python -m ziglang cc cannot link {tmp_path / 'f.so'}: its parallel loops need an OpenMP runtime, "
                              "and ziglang has none; give linker=(command, …) with a compiler that has one, or compile for "
                              "Target(…, threads=False)"):
        doubled(Target.host()).save_library(tmp_path / "f.so", linker=("python", "-m", "ziglang", "cc"))


@pytest.mark.parametrize(("triple", "says"), [
    ("x86_64-pc-windows-msvc", "give linker=(command, …)"),
    ("mips-w64-windows-gnu", "install mips-w64-mingw32-gcc or give linker=(command, …)"),
    ("x86_64-unknown-none-elf", "give linker=(command, …)"),
])
def test_this_machines_linker_is_not_taken_for_another_system(triple, says):
    """It would make a library of this system of it."""
    with raises(CodegenError, f"no linker for {triple}: {says}"):
        find_linker(Target(triple))
