"""Random schedules as PTX: the emulator beside the interpreter, machine code beside the definition in Python, planted errors."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import passes_fuzz
import pytest
from ptx_instructions import floats, integers, run
from ptx_mutants import CASES, outcome, plant
from ptx_schedules import Emulated, check_passes, check_schedule

from vtakit.compiler.passes import late_passes
from vtakit.sim.ptx import DeviceMemory, load


def test_programs_of_random_passes():
    counts: Counter[str] = Counter()
    for seed in range(40):
        check_passes(seed, counts)
    assert counts["emulated"] >= 12


def test_random_schedules_that_bind_threads():
    counts: Counter[str] = Counter()
    for seed in range(40):
        check_schedule(seed, counts)
    assert counts["emulated"] >= 2, counts


def test_machine_code_is_its_definition():
    """Results and counters of both are equal, on programs of random passes and on instructions of each family."""
    ran = 0
    for seed in range(30):
        function, a, kind = passes_fuzz.drawn(seed)
        if kind != "gpu" or ran == 4:
            continue
        for step in late_passes("gpu"):
            if step.name != "check_memory":
                function = step.run(function)
        emulated = Emulated(function)
        want = passes_fuzz.run(function, a, len(a))
        both = [np.zeros_like(want), np.zeros_like(want)]
        counts = [emulated.run([a.copy(), out], plain=plain) for plain, out in zip((False, True), both, strict=True)]
        assert counts[0] == counts[1]
        np.testing.assert_array_equal(both[0], want)
        np.testing.assert_array_equal(both[1], want)
        ran += 1
    assert ran == 4


LINES = {
    "integers": (32,
                 ["mad.hi.s32 %d0, %a0, %a1, %a0; bfe.s32 %d1, %a0, 3, %a1; prmt.b32 %d2, %a0, %a1, %a1; rem.s32 %d3, %a0, %a1;",
                      "dp4a.s32.u32 %d4, %a0, %a1, %a0; shf.l.wrap.b32 %d5, %a0, %a1, %a0; brev.b32 %d6, %a0;",
                      "lop3.b32 %d7, %a0, %a1, %a0, 0x96;"]),
    "floats": (-32, ["fma.rn.f32 %d0, %a0, %a1, %a0; div.rn.f32 %d1, %a0, %a1; min.f32 %d2, %a0, %a1; ex2.approx.f32 %d3, %a0;",
                     "fma.rn.f16x2 %d4, %a0, %a1, %a0; cvt.rn.bf16x2.f32 %d5, %a0, %a1; cvt.rzi.s32.f32 %d6, %a0;",
                     "lg2.approx.ftz.f32 %d7, %a0;"]),
    "doubles": (-64, ["fma.rn.f64 %d0, %a0, %a1, %a0; sqrt.rn.f64 %d1, %a0; max.f64 %d2, %a0, %a1; add.rn.f64 %d3, %a0, %a1;",
                      "cvt.rn.f32.f64 %r0, %a0; cvt.f64.f32 %d4, %r0; cvt.rni.s64.f64 %d5, %a0; cvt.rn.f64.u64 %d6, %a0;",
                      "neg.f64 %d7, %a1;"]),
    "lanes": (32, ["shfl.sync.bfly.b32 %d0, %a0, 5, 31, -1; setp.gt.s32 %p0, %a0, %a1; vote.sync.ballot.b32 %d1, %p0, -1;",
                   "redux.sync.min.s32 %d2, %a0, -1; match.any.sync.b32 %d3, %a1, -1; mov.u32 %d4, %laneid;",
                   "@%p0 mov.u32 %d4, %a1;",
                   "mov.b32 %d5, %lanemask_lt; cvt.sat.s8.s32 %d6, %a0; selp.b32 %d7, %a0, %a1, %p0;"]),
}


@pytest.mark.parametrize("family", LINES)
def test_instructions_of_both_are_equal(family):
    bits, lines = LINES[family]
    make = floats if bits < 0 else integers
    inputs = [make(abs(bits), seed, 64) for seed in range(2)]
    kinds = [f"u{abs(bits) // 8}"] * 8
    for compiled, plain in zip(run(lines, inputs, kinds), run(lines, inputs, kinds, plain=True), strict=True):
        np.testing.assert_array_equal(compiled, plain)


def test_products_of_both_are_equal():
    """mma.sync and ldmatrix of one warp."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {
.reg .b32 %r<20>; .reg .b64 %x<9>; .shared .align 16 .b8 sh[1024];
mov.u32 %r0, %tid.x; ld.param.u64 %x0, [p0]; mad.wide.u32 %x1, %r0, 16, %x0; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%x1];
mov.u64 %x2, sh; mad.wide.u32 %x3, %r0, 16, %x2; st.shared.v4.b32 [%x3], {%r1, %r2, %r3, %r4}; bar.sync 0;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%x3];
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r9, %r10}, [%x3];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r11, %r12, %r13, %r14}, {%r5, %r6, %r7, %r8}, {%r9, %r10},
    {%r0, %r0, %r0, %r0};
ld.param.u64 %x4, [p1]; mad.wide.u32 %x5, %r0, 16, %x4; st.global.v4.b32 [%x5], {%r11, %r12, %r13, %r14}; ret; }"""
    found = []
    for plain in (False, True):
        memory = DeviceMemory()
        given = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float16)
        args = [memory.put(given), memory.allocate(512)]
        load(text).launch("k", (1,), (32,), args, memory, plain=plain)
        found.append(memory.read(args[1], (32, 4), np.float32))
    np.testing.assert_array_equal(*found)
    # rows of A are those of matrices 0 and 2, then of 1 and 3, beside each other; B's columns are turned rows of matrices 0 and 1
    tiles = given.reshape(4, 8, 8).astype(np.float64)
    a = np.block([[tiles[0], tiles[2]], [tiles[1], tiles[3]]])
    b = np.concatenate([tiles[0], tiles[1]])
    want = a @ b
    lane = np.arange(32)
    for number in range(4):
        rows, columns = lane // 4 + 8 * (number // 2), 2 * (lane % 4) + number % 2
        start = lane.astype(np.uint32).view(np.float32)
        np.testing.assert_allclose(found[0][:, number], want[rows, columns] + start, rtol=1e-6)


def test_planted_errors_are_found():
    cases = [make() for make in CASES]
    assert all(outcome(case, case[0].ptx) == ("not found", "") for case in cases)
    found = Counter(plant(seed, cases)[1] for seed in range(36))
    assert found["fault"] + found["result"] >= 34, found
    assert found["fault"] >= 18, found


def test_kept_machine_code_is_found():
    """A second process compiles none of the functions that the kept code is made of."""
    run("mov.b32 %d0, %a0;", [integers(32, 0, 32)], ["u4"])
    text = """
from ptx_instructions import integers, run
from vtakit.sim.ptx import compiled
from vtakit.sim.ptx.execute.loop import run_warp
run("mov.b32 %d0, %a0;", [integers(32, 0, 32)], ["u4"])
assert not compiled._compiled(run_warp).signatures
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=300,
                   env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
