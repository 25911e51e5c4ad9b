"""Loops and conditions: partition (statement 45), hoisting, simplification, flat indices, blocks; what a legal program is."""

import numpy as np
import pytest
from ir_support import allocate, buffer, function, loop, numbers, of_kind, run, store, threads, vectorized

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32, INT64, dtype
from vtakit.compiler.ir.expr import IntImm, Load, Ramp, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import FALSE
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.passes.blocks import inline_blocks
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.hoist import hoist_ifs
from vtakit.compiler.passes.legal import check
from vtakit.compiler.passes.partition import partition_loops
from vtakit.compiler.passes.simplify import simplify

o, i, j, k, n = Var("o"), Var("i"), Var("j"), Var("k"), Var("n", size=True)


def guarded(kind=LoopKind.SERIAL, inner=LoopKind.SERIAL, thread=""):
    """100 elements in 13 times 8 iterations."""
    A, B = buffer("A", 100), buffer("B", 100)
    body = loop(i, 8, st.If(o * 8 + i < 100, store(B, o * 8 + i, A[o * 8 + i] * 2)), kind=inner)
    return function([A, B], st.For(o, IntImm(13), body, kind, thread))


def same(before, after):
    np.testing.assert_array_equal(run(after, numbers(100)), run(before, numbers(100)))
    return after


@pytest.mark.parametrize("inner", [LoopKind.SERIAL, LoopKind.VECTORIZED, LoopKind.UNROLLED])
def test_the_boundary_is_cut_off(inner):
    """Statement 45."""
    after = same(guarded(inner=inner), simplify(partition_loops(guarded(inner=inner))))
    assert not of_kind(after, st.If)
    assert [(s.var.name, s.extent.value, s.kind) for s in of_kind(after, st.For)] == [
        ("o", 12, LoopKind.SERIAL), ("i", 8, inner), ("i", 4, inner),
    ]


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.PARALLEL])
def test_tiles_that_are_whole_have_no_guard_though_their_loops_are_fused(kind):
    """Statement 45: 7 × 13 elements in tiles of 4 × 8; the vectors of whole tiles stay vectors."""
    A, B = buffer("A", 7, 13), buffer("B", 7, 13)
    y, x = o // 2 * 4 + i, o % 2 * 8 + j
    tile = loop(i, 4, vectorized(j, 8, st.If(all_of(y < 7, x < 13), st.Store(B, (y, x), Load(A, (y, x)) * 2))))
    before = function([A, B], st.For(o, IntImm(4), tile, kind))
    after = simplify(partition_loops(before))
    np.testing.assert_array_equal(run(after, numbers(7, 13)), run(before, numbers(7, 13)))
    choice = after.body.body
    assert str(choice.condition) == "o // 2 < 1 and o < 1"
    assert not of_kind(choice.then, st.If)
    low = lower_late(before)
    assert [s for s in of_kind(low, st.Store) if isinstance(s.indices[0], Ramp)]


def test_a_double_buffer_stays_directly_in_its_loop():
    A, B, C = buffer("A", 7), buffer("B", 1), buffer("C", 7)
    body = allocate(B, store(B, 0, A[o % 7]), st.If(o % 7 < 6, store(C, o % 7, B[0])), double_buffer=1)
    before = function([A, C], loop(o, 14, body))
    assert isinstance(partition_loops(before).body.body, st.Allocate)


@pytest.mark.parametrize(("kind", "thread"), [(LoopKind.PARALLEL, ""), (LoopKind.THREAD, "blockIdx.x")])
def test_parallel_and_block_loops_stay_one_loop(kind, thread):
    """Statement 45."""
    before = guarded(kind, thread=thread)
    after = same(before, simplify(partition_loops(before)))
    outer = after.body
    assert isinstance(outer, st.For)
    assert outer.extent.value == 13
    choice = outer.body
    assert isinstance(choice, st.If)
    assert str(choice.condition) == "o < 12"
    assert not of_kind(choice.then, st.If)
    assert not of_kind(choice.otherwise, st.If)


def test_the_one_guarded_iteration_of_a_parallel_loop_has_vectors_of_its_own_length():
    """Its number is put in, so that the guard is of the lanes alone."""
    before = guarded(LoopKind.PARALLEL, inner=LoopKind.VECTORIZED)
    after = same(before, simplify(partition_loops(before)))
    choice = after.body.body
    assert not of_kind(choice, st.If)[1:]
    assert [(s.var.name, s.extent.value, s.kind) for s in of_kind(choice, st.For)] == [
        ("i", 8, LoopKind.VECTORIZED), ("i", 4, LoopKind.VECTORIZED),
    ]


def test_thread_loops_stay_whole():
    before = guarded(LoopKind.THREAD, thread="threadIdx.x")
    after = partition_loops(before)
    assert [s.extent.value for s in of_kind(after, st.For) if s.thread] == [13]


def test_constant_loops_only_if_enabled():
    """Statement 45."""
    before = guarded()
    assert str(partition_loops(before, constant_loops=False)) == str(before)


def test_a_loop_of_symbolic_extent():
    """Statement 45: the body over whole tiles has no condition."""
    A, B = buffer("A", n), buffer("B", n)
    f = function([A, B], loop(o, (n + 7) // 8, loop(i, 8, st.If(o * 8 + i < n, store(B, o * 8 + i, A[o * 8 + i])))))
    after = simplify(partition_loops(f, constant_loops=False))
    first = of_kind(after, st.For)[0]
    assert str(first.extent) == "n // 8"
    assert not of_kind(first, st.If)
    for size in (0, 1, 7, 8, 9, 23):
        np.testing.assert_array_equal(run(after, numbers(size), n=size), numbers(size))


def test_a_guard_from_below_and_two_dimensions():
    A, B = buffer("A", 20, 30), buffer("B", 20, 30)
    body = st.If(all_of(i > 2, i * 4 + j < 30, o + i < 24), store(B, (o, i), A[o, i]))
    f = function([A, B], loop(o, 20, loop(i, 7, loop(j, 4, body))))
    after = simplify(partition_loops(f))
    np.testing.assert_array_equal(run(after, numbers(20, 30)), run(f, numbers(20, 30)))
    assert not of_kind(after, st.If)


def test_invariant_conditions_are_hoisted():
    A, B = buffer("A", 4, 8), buffer("B", 4, 8)
    f = function([A, B], loop(i, 4, loop(j, 8, st.If(i < 3, store(B, (i, j), A[i, j])))))
    after = hoist_ifs(f)
    outer = after.body
    assert isinstance(outer, st.For)
    assert isinstance(outer.body, st.If)
    np.testing.assert_array_equal(run(after, numbers(4, 8)), run(f, numbers(4, 8)))


def test_parts_of_a_condition_are_hoisted_one_by_one():
    A, B = buffer("A", 4, 8), buffer("B", 4, 8)
    f = function([A, B], loop(i, 4, loop(j, 8, st.If(all_of(i < 3, j > 2), store(B, (i, j), A[i, j])))))
    after = hoist_ifs(f)
    assert str(after.body) == (
        "for i in range(4):\n    if i < 3:\n        for j in range(8):\n            if 2 < j:\n"
        "                B[i, j] = A[i, j]")
    np.testing.assert_array_equal(run(after, numbers(4, 8)), run(f, numbers(4, 8)))


def test_what_a_part_of_a_condition_may_guard_stays_behind_it():
    """A division, which may be by 0 where the part before it is false."""
    A, B = buffer("A", 4, 8), buffer("B", 4, 8)
    f = function([A, B], loop(i, 4, loop(j, 8, st.If(all_of(j > 0, (i + 4) // (i + 1) > 2), store(B, (i, j), A[i, j])))))
    assert str(hoist_ifs(f)) == str(f)


def test_a_loop_that_is_to_stay_whole_is_not_split():
    A, B = buffer("A", 100), buffer("B", 100)
    body = loop(i, 8, st.If(o * 8 + i < 100, store(B, o * 8 + i, A[o * 8 + i])))
    f = function([A, B], loop(o, 13, body).replace(notes={st.WHOLE: 1}))
    assert len(of_kind(partition_loops(f), st.For)) == 3  # the inner loop, before and after its guard fails
    np.testing.assert_array_equal(run(partition_loops(f), numbers(100)), run(f, numbers(100)))


def test_conditions_on_memory_and_thread_loops_stay():
    A, B = buffer("A", 8), buffer("B", 8)
    for f in (
        function([A, B], loop(j, 8, st.If(B[0] < 3, store(B, 0, B[0] + A[j])))),
        function([A, B], threads("blockIdx.x", o, 2, threads("threadIdx.x", j, 4, st.If(o < 1, store(B, j, A[j]))))),
    ):
        assert str(hoist_ifs(f)) == str(f)


def test_simplification_removes_what_has_no_effect():
    A, B, unused = buffer("A", 8), buffer("B", 8), buffer("U", 8)
    x = Var("x")
    f = function([A, B], allocate(
        unused,
        loop(i, 1, loop(j, 8, store(unused, j, A[j]), store(B, (j * 4 + 3) // 4 + i, A[j % 8]), st.If(j < 9, store(A, j, A[j])))),
        loop(k, 0, store(B, k, 5)), st.If(FALSE, store(B, 0, 7)), st.LetStmt(x, IntImm(1), st.Evaluate(x)),
    ))
    assert str(simplify(f)) == "def main(A: float32[8], B: float32[8]):\n    for j in range(8):\n        B[j] = A[j]"


def test_values_keep_their_wrapping():
    """(a * 4) // 4 is not a where a * 4 wraps around: only indices and conditions are taken not to overflow."""
    A, B = buffer("A", 4, kind="int32"), buffer("B", 4, kind="int32")
    f = function([A, B], loop(i, 4, store(B, i, A[i] * 4 // 4)))
    data = np.array([1, 2**29, -(2**29), 2**31 - 1], np.int32)
    np.testing.assert_array_equal(run(simplify(f), data), (data * np.int32(4)) // 4)
    np.testing.assert_array_equal(run(f, data), (data * np.int32(4)) // 4)


def test_flat_indices():
    strided = Buffer("S", (4, 6), dtype("float32"), strides=(IntImm(8), IntImm(1)))
    A = buffer("A", 4, 6)
    f = function([strided, A], loop(i, 4, loop(j, 6, store(A, (i, j), strided[i, j]))))
    after = flatten(f)
    assert str(after.body) == "for i in range(4):\n    for j in range(6):\n        A[i * 6 + j] = S[i * 8 + j]"
    base = numbers(4, 8)
    out = np.zeros((4, 6), np.float32)
    interpret(after, [base[:, :6], out])
    np.testing.assert_array_equal(out, base[:, :6])


@pytest.mark.parametrize(("shape", "kind"), [((2, 2**30 - 1), INT32), ((2, 2**30), INT64), ((n, 8), INT64), ((n,), INT32)])
def test_indices_are_wide_where_memory_may_be(shape, kind):
    """Pitfall 4."""
    A, B = buffer("A", *shape), buffer("B", 1)
    f = function([A, B], store(B, 0, Load(A, tuple(IntImm(0) + i for _ in shape))))
    load = next(x for x in of_kind(flatten(f), Load))
    assert load.indices[0].dtype is kind


def test_vectors_apart_from_each_other_are_refused():
    wide = Buffer("W", (8,), dtype("int32x4"))
    apart = (Ramp(IntImm(0), IntImm(2), 4),)
    f = function([wide], st.Store(wide, apart, Load(wide, apart)))
    with pytest.raises(PassError) as error:
        flatten(f)
    assert str(error.value).startswith(
        "vectors of W (int32x4) are taken from ramp(0, 2, 4), which do not follow on each other: "
        "give the buffer a scalar type and one more dimension\n\ndef "
    )


def test_buffers_of_vectors_become_vectors_of_scalars():
    A, B = (Buffer(name, (IntImm(4),), dtype("float32x4")) for name in "AB")
    f = function([A, B], loop(i, 4, st.Store(B, (i,), A[i] + A[3 - i])))
    after = flatten(f)
    assert [x.lanes for x in of_kind(after, Ramp)] == [4, 4, 4]
    data = [numbers(4, 4), np.zeros((4, 4), np.float32)]
    interpret(after, data)
    np.testing.assert_array_equal(data[1], data[0] + data[0][::-1])


def test_a_block_becomes_its_statements():
    A, B = buffer("A", 6, kind="int32"), buffer("B", 1, kind="int32")
    v = Var("v")
    block = st.Block(
        "B", (st.BlockIter(v, Range(IntImm(0), IntImm(6)), IterKind.REDUCE, o * 4 + i),), (), (), o * 4 + i < 6,
        store(B, 0, 0), store(B, 0, B[0] + A[v]),
    )
    f = function([A, B], loop(o, 2, loop(i, 4, block)))
    after = inline_blocks(f)
    assert str(after.body) == """\
for o in range(2):
    for i in range(4):
        if o * 4 + i < 6:
            if o * 4 + i == 0:
                B[0] = 0
            B[0] = B[0] + A[o * 4 + i]"""
    assert run(f, numbers(6, kind="int32"))[0] == run(after, numbers(6, kind="int32"))[0] == numbers(6).sum()


def test_each_step_can_be_seen():
    A, B = buffer("A", 100), buffer("B", 100)
    f = function([A, B], loop(o, 13, vectorized(i, 8, st.If(o * 8 + i < 100, store(B, o * 8 + i, A[o * 8 + i])))))
    seen = []
    after = lower_late(f, "cpu", after=lambda step, result: seen.append((step.name, str(result))))
    assert [name for name, _ in seen] == [
        "inline_blocks", "partition_loops", "virtual_threads", "double_buffer", "flatten", "simplify", "vectorize", "hoist_ifs",
        "unroll", "rewrite_storage", "simplify_again", "prefetch_ahead",
    ]
    assert seen[-1][1] == str(after) == """\
def main(A: float32[100], B: float32[100]):
    for o in range(12):
        B[ramp(o * 8, 1, 8)] = A[ramp(o * 8, 1, 8)]
    B[ramp(96, 1, 4)] = A[ramp(96, 1, 4)]"""


A8, B8 = buffer("A", 8), buffer("B", 8)


@pytest.mark.parametrize(("body", "low", "message"), [
    (store(B8, i, 0), False, "'i' is used where it is not defined"),
    (loop(i, 8, loop(i, 8, store(B8, i, 0))), False, "'i' is defined again where it is defined already"),
    (store(buffer("C", 1), 0, 0), False, "buffer 'C' is used where it is not defined"),
    (st.Store(B8, (IntImm(0), IntImm(0)), A8[0]), False, "B has 1 dimensions, got 2 indices"),
    (st.Store(B8, (IntImm(0),), IntImm(0)), False, "a value of int32 is stored to 1 elements of float32"),
    (vectorized(i, 8, store(B8, i, 0)), True, "a loop of kind vectorized in the low form"),
    (allocate(buffer("C", 2, 2), store(B8, 0, 0)), True, "C is allocated with 2 dimensions"),
])
def test_illegal_programs(body, low, message):
    with pytest.raises(PassError) as caught:
        check(function([A8, B8], body), low=low)
    assert str(caught.value).split("\n")[0] == message
