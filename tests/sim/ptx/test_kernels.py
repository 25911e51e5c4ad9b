"""Control flow, memory and lanes that see each other: kernels by hand, beside what they say in Python."""

import random

import numpy as np
import pytest
from ptx_instructions import integers, run

from vtakit.sim.ptx import DeviceMemory, load
from vtakit.sim.ptx.decode.flow import meeting_points

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def launch(body, grid, block, arrays, results, *, params=(), declared="", module="", **options):
    """Run a kernel's body on arrays and scalars; returns the last `results` arrays and the counters."""
    names = [f".param .u64 p{n}" for n in range(len(arrays))] + [f".param .u32 s{n}" for n in range(len(params))]
    text = (f"{HEAD}{module}\n.visible .entry k({', '.join(names)})\n{{\n.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %x<20>; "
            f"{declared}\n{body}\nret;\n}}")
    memory = DeviceMemory()
    places = [memory.put(array) for array in arrays]
    counters = load(text).launch("k", grid, block, [*places, *params], memory, **options)
    last = list(zip(places, arrays, strict=True))[len(arrays) - results:]
    return [memory.read(at, array.shape, array.dtype) for at, array in last], counters


TID = "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;\n"


def test_loops_whose_lanes_leave_at_different_times():
    """Collatz steps of each number, with an inner branch on its parity."""
    x = np.arange(1, 101, dtype=np.uint32)
    body = TID + """
    setp.ge.u32 %p0, %r3, 100; @%p0 bra OUT;
    ld.param.u64 %x0, [p0]; mad.wide.u32 %x0, %r3, 4, %x0; ld.global.u32 %r4, [%x0]; mov.u32 %r5, 0;
    LOOP: setp.eq.u32 %p1, %r4, 1; @%p1 bra DONE;
    and.b32 %r6, %r4, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra EVEN;
    mad.lo.u32 %r4, %r4, 3, 1; bra NEXT;
    EVEN: shr.u32 %r4, %r4, 1;
    NEXT: add.u32 %r5, %r5, 1; bra LOOP;
    DONE: ld.param.u64 %x1, [p1]; mad.wide.u32 %x1, %r3, 4, %x1; st.global.u32 [%x1], %r5;
    OUT: """
    (found,), counters = launch(body, (4,), (32,), [x, np.zeros(100, np.uint32)], 1)

    def steps(value):
        count = 0
        while value != 1:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        return count

    want = [steps(int(v)) for v in x]
    np.testing.assert_array_equal(found, want)
    assert counters.lane_instructions["control"] > sum(want)


def test_lanes_meet_again_at_post_dominators():
    """Random graphs, beside the definition: the nearest of the nodes that all ways to the exit pass."""
    rng = random.Random(0)
    for _ in range(60):
        n = rng.randint(2, 9)
        graph = [sorted({rng.randint(0, n) for _ in range(rng.randint(1, 2))} | ({at + 1} if rng.random() < 0.7 else set()))
                 for at in range(n)]

        def reaches(start, target, without, graph=graph):
            seen, todo = {without}, [start]
            while todo:
                node = todo.pop()
                if node == target:
                    return True
                if node not in seen and node < len(graph):
                    seen.add(node)
                    todo += graph[node]
            return False

        found = meeting_points(graph)
        for at in range(n):
            if not reaches(at, n, -1):
                continue
            over = [node for node in range(n) if node != at and not reaches(at, n, node)]
            nearest = [node for node in over if all(reaches(node, other, -1) and not reaches(node, n, other) for other in over
                                                    if other != node)]
            assert found[at] == (nearest[0] if nearest else -1), (graph, at, over)


def test_shared_memory_barriers_and_names_of_barriers():
    """A block's elements in reverse order; the two halves of its warps meet at a barrier of their own first."""
    x = np.arange(256, dtype=np.int32)
    body = TID + """
    ld.param.u64 %x0, [p0]; mad.wide.u32 %x0, %r3, 4, %x0; ld.global.u32 %r4, [%x0];
    mov.u64 %x1, sh; mad.wide.u32 %x2, %r0, 4, %x1; st.shared.u32 [%x2], %r4;
    shr.u32 %r5, %r0, 6; add.u32 %r5, %r5, 1; barrier.sync %r5, 64;
    xor.b32 %r6, %r0, 63; mad.wide.u32 %x3, %r6, 4, %x1; ld.shared.u32 %r7, [%x3];
    bar.sync 0; sub.u32 %r8, 127, %r0; mad.wide.u32 %x4, %r8, 4, %x1; ld.shared.u32 %r9, [%x4];
    ld.param.u64 %x5, [p1]; mad.wide.u32 %x5, %r3, 8, %x5; st.global.v2.u32 [%x5], {%r7, %r9};
    """
    (found,), _ = launch(body, (2,), (128,), [x, np.zeros((256, 2), np.int32)], 1, declared=".shared .align 4 .b8 sh[512];")
    thread = np.arange(256)
    np.testing.assert_array_equal(found[:, 0], (thread & ~127) + ((thread & 127) ^ 63))
    np.testing.assert_array_equal(found[:, 1], (thread & ~127) + 127 - (thread & 127))


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(mode, width):
    """PTX ISA, shfl.sync: the table of the source lane, clamps and the predicate."""
    a, b = integers(32, 1), integers(32, 2) % 40
    clamp = ((32 - width) << 8) | (0 if mode == "up" else 31)
    lines = f"shfl.sync.{mode}.b32 %d0|%p0, %a0, %a1, {clamp}, -1; selp.u32 %d1, 1, 0, %p0;"
    got, inside = run(lines, [a, b], ["u4", "u4"])
    for at in range(len(a)):
        lane, by = at % 32, int(b[at]) & 31
        first = lane // width * width
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | (by & (width - 1))}[mode]
        legal = source >= first if mode == "up" else source < first + width
        assert inside[at] == legal
        assert got[at] == a[at - lane + (source if legal else lane)]


def test_votes_matches_and_reductions():
    a = integers(32, 3) % 5
    lines = ["setp.gt.u32 %p0, %a0, 2; vote.sync.ballot.b32 %d0, %p0, -1; vote.sync.any.pred %p1, %p0, -1;",
             "selp.u32 %d1, 1, 0, %p1;",
             "vote.sync.all.pred %p2, !%p0, -1; selp.u32 %d2, 1, 0, %p2; match.any.sync.b32 %d3, %a0, -1;",
             *(f"redux.sync.{name}.{'u32' if name in ('add', 'min', 'max') else 'b32'} %d{k}, %a0, -1;"
               for k, name in enumerate(("add", "min", "max", "and", "or", "xor"), 4))]
    found = run(lines, [a], ["u4"] * 10)
    rows = a.reshape(-1, 32)
    for got, make in zip(found[4:], (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor), strict=True):
        np.testing.assert_array_equal(got, np.repeat(make.reduce(rows, axis=1, dtype=np.uint32), 32))
    bit = 1 << np.arange(32, dtype=np.uint64)
    ballot = ((rows > 2) * bit).sum(1)
    np.testing.assert_array_equal(found[0], np.repeat(ballot, 32))
    np.testing.assert_array_equal(found[1], np.repeat(ballot != 0, 32))
    np.testing.assert_array_equal(found[2], np.repeat(ballot == 0, 32))
    same = ((rows[:, :, None] == rows[:, None, :]) * bit).sum(2)
    np.testing.assert_array_equal(found[3], same.reshape(-1))


def test_atomic_operations():
    """Histogram, sums of floats, extremes and a lock-free maximum by cas, of all threads of all blocks."""
    x = integers(32, 4)
    body = TID + """
    ld.param.u64 %x0, [p0]; mad.wide.u32 %x0, %r3, 4, %x0; ld.global.u32 %r4, [%x0];
    ld.param.u64 %x1, [p1]; and.b32 %r5, %r4, 7; mad.wide.u32 %x2, %r5, 4, %x1; red.global.add.u32 [%x2], 1;
    atom.global.max.s32 %r6, [%x1+32], %r4; atom.global.min.u32 %r7, [%x1+36], %r4; atom.global.add.f32 %r8, [%x1+40], 0f3F000000;
    atom.global.xor.b32 %r9, [%x1+44], %r4; atom.global.inc.u32 %r10, [%x1+48], 9;
    red.relaxed.gpu.global.add.noftz.f16x2 [%x1+52], 0x3C003C00;
    """
    first = np.zeros(14, np.uint32)
    first[9] = 0xFFFFFFFF
    (found,), _ = launch(body, (4,), (64,), [x, first], 1)
    np.testing.assert_array_equal(found[:8], np.bincount(x & 7, minlength=8))
    assert found[8:9].view(np.int32)[0] == max(0, x.view(np.int32).max())
    assert found[9] == x.min()
    assert found[10:11].view(np.float32)[0] == 128
    assert found[11] == np.bitwise_xor.reduce(x)
    assert found[12] == 256 % 10
    np.testing.assert_array_equal(found[13:14].view(np.float16), [256, 256])


def test_generic_local_constant_and_global_variables():
    """One value goes through local memory, a table of constants, a global variable and generic addresses of each."""
    body = TID + """
    mov.u64 %x0, mine; cvta.local.u64 %x1, %x0; st.u32 [%x1+4], %r3; ld.local.u32 %r4, [mine+4];
    mov.u64 %x2, table; and.b32 %r5, %r3, 3; mad.wide.u32 %x3, %r5, 4, %x2; ld.const.s32 %r6, [%x3];
    mov.u64 %x4, sh; cvta.shared.u64 %x5, %x4; mad.wide.u32 %x5, %r0, 4, %x5; st.u32 [%x5], %r6; ld.u32 %r7, [%x5];
    ld.global.u32 %r8, [big+8]; ld.global.u64 %x6, [where]; ld.global.u32 %r9, [%x6];
    add.u32 %r10, %r4, %r7; add.u32 %r10, %r10, %r8; add.u32 %r10, %r10, %r9;
    ld.param.u32 %r11, [s0]; add.u32 %r10, %r10, %r11;
    ld.param.u64 %x7, [p0]; mad.wide.u32 %x7, %r3, 4, %x7; st.global.u32 [%x7], %r10;
    """
    module = (".const .align 4 .u32 table[4] = {1, 2, 3, -4};\n.global .align 4 .b32 big[3] = {5, 6, 700};\n"
              ".global .align 8 .u64 where[1] = {big+4};")
    (found,), _ = launch(body, (2,), (32,), [np.zeros(64, np.int32)], 1, params=(10000,), module=module,
                         declared=".local .align 4 .b8 mine[8]; .shared .align 4 .b8 sh[128];")
    i = np.arange(64)
    np.testing.assert_array_equal(found, i + np.array([1, 2, 3, -4])[i & 3] + 700 + 6 + 10000)


def test_three_dimensions_dynamic_shared_memory_and_indirect_branches():
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.y;
    mad.lo.u32 %r5, %r2, 3, %r1; mad.lo.u32 %r5, %r5, 5, %r0; mad.lo.u32 %r6, %r3, 30, %r5;
    and.b32 %r7, %r5, 3; ts: .branchtargets A, B, C, B;
    brx.idx %r7, ts;
    A: mov.u32 %r8, 100; bra Z;
    B: mov.u32 %r8, 200; bra Z;
    C: mov.u32 %r8, 300;
    Z: mov.u64 %x0, dyn; mad.wide.u32 %x0, %r5, 4, %x0; st.shared.u32 [%x0], %r8; ld.shared.u32 %r9, [%x0];
    mad.lo.u32 %r9, %r4, 1000, %r9;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r6, 4, %x1; st.global.u32 [%x1], %r9;
    """
    (found,), _ = launch(body, (1, 2), (5, 3, 2), [np.zeros(60, np.int32)], 1, module=".extern .shared .align 16 .b8 dyn[];",
                         shared=120)
    np.testing.assert_array_equal(found, 2000 + np.array([100, 200, 300, 200])[np.arange(60) % 30 & 3])
