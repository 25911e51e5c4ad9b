"""Kernels as PTX: their text, what the assembler makes of them on each architecture, and what is refused."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gpu_fuzz import drawn, low_form

from vtakit import te
from vtakit.compiler.codegen.gpu import split
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.nvptx import ptxas
from vtakit.compiler.codegen.nvptx.arch import ARCHES, Arch, arch_of
from vtakit.compiler.codegen.nvptx.compile import compile_launches
from vtakit.compiler.codegen.nvptx.kernel import multiple
from vtakit.compiler.ir.expr import Ramp, Var
from vtakit.compiler.lower import VerifyError, lower
from vtakit.compiler.passes import lower_late

BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
needs_ptxas = pytest.mark.skipif(ptxas.find_ptxas() is None, reason="ptxas is not installed: pip install 'vtakit[gpu]'")


def launches_of(schedule, args, name="f", limits=None):
    return split(lower_late(lower(schedule, args, name, limits=limits), "gpu")).launches


def ptx_of(schedule, args, arch="sm_80"):
    return compile_launches(launches_of(schedule, args), Arch(arch), cubin=False).ptx


def copied(n, kind="float32", lanes=1, threads=32, make=lambda x: x):
    a = te.placeholder((n,), kind, name="A")
    b = te.compute((n,), lambda i: make(a[i]), name="B")
    s = te.create_schedule(b.op)
    axis = b.op.axis[0]
    if lanes > 1:
        axis, inner = s[b].split(axis, lanes)
        s[b].vectorize(inner)
    outer, inner = s[b].split(axis, threads)
    s[b].bind(outer, BX)
    s[b].bind(inner, TX)
    return s, [a, b]


def product(n=64, kind="float32", into="float32"):
    a, b = (te.placeholder((n, n), kind, name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k].astype(into) * b[k, j].astype(into), axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    shared = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, 32, 32)
    ty, yi = s[c].split(yi, nparts=8)
    tx, xi = s[c].split(xi, nparts=8)
    s[c].reorder(by, bx, ty, tx, yi, xi)
    for axis, thread in ((by, BY), (bx, BX), (ty, TY), (tx, TX)):
        s[c].bind(axis, thread)
    s[c].vectorize(xi)
    s[local].compute_at(s[c], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for cache in shared:
        s[cache].compute_at(s[local], ko)
        rest, inner = s[cache].split(s[cache].fuse(*s[cache].op.axis), 8)
        s[cache].bind(s[cache].split(rest, 8)[1], TY)
        s[cache].bind(inner, TX)
    return s, [a, b, c]


# Text


def test_a_kernel_says_its_architecture_its_version_and_its_threads():
    ptx = ptx_of(*copied(100), arch="sm_90a")
    assert ".version 8.0\n.target sm_90a" in ptx
    assert ".visible .entry f_kernel0(" in ptx
    assert ".reqntid 32, 1, 1" in ptx


@pytest.mark.parametrize("name", ARCHES)
def test_ptx_is_of_the_version_that_each_architecture_needs_and_drivers_have(name):
    ptx = ptx_of(*copied(32), arch=name)
    version = int(re.search(r"\.version (\d+)\.(\d+)", ptx)[1]) * 10 + int(re.search(r"\.version (\d+)\.(\d+)", ptx)[2])
    assert version == Arch(name).ptx <= 90
    assert f".target {name}" in ptx


@pytest.mark.parametrize(("kind", "lanes", "read"), [
    ("float32", 4, "ld.global.nc.v4.b32"), ("float32", 2, "ld.global.nc.v2.b32"), ("int8", 16, "ld.global.nc.v4.b32"),
    ("float16", 8, "ld.global.nc.v4.b32"), ("bfloat16", 8, "ld.global.nc.v4.b32"), ("float64", 2, "ld.global.nc.v2.b64"),
])
def test_vectors_are_accesses_of_up_to_16_bytes(kind, lanes, read):
    ptx = ptx_of(*copied(4096, kind, lanes))
    assert ptx.count("ld.global") == ptx.count(read) == 1
    assert ptx.count("st.global") == ptx.count(read.replace("ld.global.nc", "st.global")) == 1


def test_shared_tiles_and_a_threads_own_sums_are_in_shared_memory_and_registers():
    ptx = ptx_of(*product())
    assert ".shared .align 16 .b8 f_kernel0_shared[2048];" in ptx
    assert "ld.shared" in ptx
    assert "st.shared" in ptx
    assert ".local" not in ptx
    assert ptx.count("bar.sync") == 2
    assert "fma.rn.f32" in ptx
    assert "st.global.v4.b32" in ptx


def test_products_and_sums_stay_apart_without_contraction():
    launches = launches_of(*product())
    assert "fma.rn" not in compile_launches(launches, Arch("sm_80", contract=False), cubin=False).ptx


def test_indices_of_int32_are_computed_in_32_bits():
    ptx = ptx_of(*product())
    assert not re.search(r"(div|rem|mul\.lo)\.[su]64", ptx)


def test_shuffles_name_the_lanes_of_their_group():
    a, k = te.placeholder((6, 16), name="A"), te.reduce_axis((0, 16), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, TX)
    s[b].bind(b.op.axis[0], TY)
    ptx = ptx_of(s, [a, b])
    assert ptx.count("shfl.sync.down.b32") == 4
    assert ptx.count("shfl.sync.idx.b32") == 1
    assert "%laneid" in ptx


def test_more_shared_memory_than_48_kib_is_asked_for_at_the_launch():
    n = 16384
    a = te.placeholder((2 * n,), name="A")
    b = te.compute((2 * n,), lambda i: a[2 * n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    outer, inner = s[b].split(b.op.axis[0], n)
    s[b].bind(outer, BX)
    s[b].bind(s[b].split(inner, 128)[1], TX)
    s[shared].compute_at(s[b], outer)
    s[shared].bind(s[shared].split(s[shared].op.axis[0], 128)[1], TX)
    launches = launches_of(s, [a, b])
    found = compile_launches(launches, Arch("sm_80"))
    assert found.dynamic == {"f_kernel0": 65536}
    assert ".extern .shared .align 16 .b8 f_kernel0_shared[]" in found.ptx
    (launch,) = launches
    (tile,) = launch.shared
    wider = replace(launch, shared=(replace(tile, offset=65536),))
    with pytest.raises(CodegenError, match=r"needs 131072 bytes of shared memory for a block, and sm_86 has 101376"):
        compile_launches([wider], Arch("sm_86"))


# Assembler


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_random_schedules_assemble_without_stack_spills_and_warnings(arch):
    for seed in range(200, 225):
        case = drawn(seed)
        assert case is not None, seed
        found = compile_launches(split(low_form(case.schedule, case.args)).launches, Arch(arch))
        assert found.cubin[:4] == b"\x7fELF", seed
        assert not found.warnings, seed
        for name, used in found.resources.items():
            assert used.registers > 0, (seed, name)
            assert not used.spill_stores, (seed, name)
            assert not used.stack_bytes, (seed, name)


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
@pytest.mark.parametrize(("kind", "into"), [
    ("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"),
])
def test_a_product_of_matrices_assembles(arch, kind, into):
    found = compile_launches(launches_of(*product(128, kind, into)), Arch(arch))
    used = found.resources["f_kernel0"]
    assert used.shared_bytes == 2 * 32 * 8 * (4 if kind == "float32" else 2 if "16" in kind else 1)
    assert used.barriers == 1
    assert not used.stack_bytes


FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "sqrt", "erf", "sin", "cos", "tan", "atan", "exp2", "log2", "log10", "floor",
             "ceil", "trunc", "round", "abs", "rsqrt", "log1p", "expm1", "sinh", "cosh", "asin", "acos", "asinh", "acosh",
             "atanh")


@needs_ptxas
@pytest.mark.parametrize("kind", ["float32", "float16", "float64"])
def test_math_functions_assemble(kind):
    names = [name for name in FUNCTIONS if hasattr(te, name) and not (kind == "float64" and name == "erf")]
    a = te.placeholder((64,), kind, name="A")
    made = [te.compute((64,), partial(lambda f, i: f(a[i]), getattr(te, name)), name=name) for name in names]
    s = te.create_schedule([tensor.op for tensor in made])
    for tensor in made:
        s[tensor].bind(tensor.op.axis[0], TX)
    found = compile_launches(launches_of(s, [a, *made]), Arch("sm_80"))
    assert found.cubin
    assert len(names) > 10


def test_what_ptxas_says_is_read():
    said = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel0' for 'sm_90a'
ptxas info    : Function properties for main_kernel0
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 8192 bytes smem, 400 bytes cmem[0]
ptxas info    : (C7517) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""
    assert ptxas.resources_of(said) == {"main_kernel0": ptxas.Resources(
        registers=64, shared_bytes=8192, stack_bytes=8, spill_stores=12, spill_loads=16, barriers=1)}
    assert len(ptxas.warnings_of(said)) == 1


@needs_ptxas
def test_ptx_that_the_assembler_refuses_is_a_sentence():
    with pytest.raises(CodegenError, match=r"refuses kernels for sm_80: .*error"):
        ptxas.assemble(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { nonsense; }\n", Arch("sm_80"))


def test_without_an_assembler_there_is_ptx_alone(monkeypatch):
    monkeypatch.setattr(ptxas, "find_ptxas", lambda: None)
    found = compile_launches(launches_of(*copied(32)), Arch("sm_80"))
    assert (found.cubin, found.resources) == (b"", {})


def test_the_assembler_can_be_named_or_left_out(monkeypatch, tmp_path):
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for given, found in ((str(tool), tool), ("off", None)):
        monkeypatch.setenv(ptxas.VARIABLE, given)
        ptxas.find_ptxas.cache_clear()
        assert ptxas.find_ptxas() == found
    ptxas.find_ptxas.cache_clear()


# Architectures


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(CodegenError, match=r"there is no GPU architecture 'sm_91'; did you mean 'sm_9"):
        Arch("sm_91")


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "sm_80"), ((8, 7), "sm_87"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a"),
                                                  ((11, 0), "sm_103"), ((12, 1), "sm_121a")])
def test_the_best_architecture_of_a_device(capability, name):
    assert arch_of(capability).name == name


def test_a_device_before_the_first_architecture_is_refused():
    with pytest.raises(CodegenError, match="older than sm_80"):
        arch_of((7, 5))


def test_code_runs_on_its_architecture_and_later_ones_unless_it_is_exact():
    assert Arch("sm_80").runs_on((9, 0))
    assert not Arch("sm_90").runs_on((8, 0))
    assert Arch("sm_90a").runs_on((9, 0))
    assert not Arch("sm_90a").runs_on((10, 0))


# Refusals


def test_a_c_function_has_no_code_on_a_gpu():
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: te.call_extern("float32", "own_function", a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], TX)
    with pytest.raises(CodegenError, match="calls the C function own_function, which a GPU has not"):
        compile_launches(launches_of(s, [a, b]), Arch("sm_80"))


def test_erf_of_float64_has_no_code_on_a_gpu():
    with pytest.raises(CodegenError, match="the function erf has no code on a GPU"):
        ptx_of(*copied(32, "float64", make=te.erf))


def test_limits_of_blocks_and_shared_memory_are_the_verifiers():
    a = te.placeholder((4096,), name="A")
    b = te.compute((4096,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].split(b.op.axis[0], 2048)[1], TX)
    with pytest.raises(VerifyError, match="1024"):
        lower(s, [a, b], limits=Arch("sm_80").limits)
    with pytest.raises(CodegenError, match="blocks of 2048 threads, and a block has at most 1024"):
        compile_launches(launches_of(s, [a, b]), Arch("sm_80"))


# Indices


def test_multiples_divide_the_index_for_all_values():
    rng = np.random.default_rng(0)
    x, y = Var("x"), Var("y")
    for _ in range(200):
        a, b, c, d = (int(value) for value in rng.integers(1, 33, 4))
        e = {0: x * a + y * b, 1: (x * a) // c * d, 2: (x * a + b) % c, 3: x * (a * b) - y * (c * b), 4: (x * a * c) // c}[
            int(rng.integers(0, 5))]
        of = multiple(e)
        for _ in range(10):
            given = {"x": int(rng.integers(0, 99)), "y": int(rng.integers(0, 99))}
            value = eval(str(e), {}, given)
            assert value % of == 0 if of else value == 0, (e, of, given)
    assert multiple(Ramp(x * 8, x * 0 + 1, 4)) == 8
