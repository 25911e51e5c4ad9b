"""Virtual threads, double buffers, barriers and all-reduces: statements 40, 41, 43, 44, 48."""

import numpy as np
import pytest
from ir_support import SYNC, allocate, buffer, calls, function, loop, numbers, of_kind, run, store, threads

from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import CommReducer, Var
from vtakit.compiler.ir.ops import maximum, select
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import const
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import DivergenceError, RaceError
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.passes.all_reduce import lower_all_reduce
from vtakit.compiler.passes.blocks import inline_blocks
from vtakit.compiler.passes.double_buffer import double_buffer
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.partition import partition_loops
from vtakit.compiler.passes.simplify import simplify
from vtakit.compiler.passes.thread_sync import thread_sync
from vtakit.compiler.passes.virtual_threads import virtual_threads

b, t, u, v, i, j, k = (Var(name) for name in "btuvijk")


# Virtual threads


def virtual(tag, *body):
    """A function with a loop over two virtual threads, and the same without it."""
    A, B = buffer("A", 2, 8), buffer("B", 2, 8)
    before = function([A, B], threads(tag, v, 2, body[0](A, B)))
    after = virtual_threads(before)
    np.testing.assert_array_equal(run(after, numbers(2, 8)), run(before, numbers(2, 8)))
    assert not [s for s in of_kind(after, st.For) if s.thread]
    return after


@pytest.mark.parametrize(("tag", "shapes"), [("vthread", ["[2, 8]", "[8]"]), ("cthread", ["[2, 8]", "[2, 8]"])])
def test_touched_buffers_gain_a_dimension(tag, shapes):
    """Statement 40."""
    own, same = buffer("Own", 8, scope="local"), buffer("Same", 8, scope="local")

    def body(A, B):
        return allocate(own, allocate(
            same, loop(i, 8, store(own, i, A[v, i])), loop(j, 8, store(same, j, A[0, j])),
            loop(k, 8, store(B, (v, k), own[k] + same[k])),
        ))
    after = virtual(tag, body)
    assert [f"[{', '.join(map(str, s.buffer.shape))}]" for s in of_kind(after, st.Allocate)] == shapes
    # What does not differ is done once; with cthread each does everything.
    assert len([s for s in of_kind(after, st.For) if s.kind is LoopKind.UNROLLED]) == (2 if tag == "vthread" else 3)


def test_virtual_threads_in_both_branches():
    """Statement 40."""
    own = buffer("Own", 8, scope="local")

    def body(A, B):
        return allocate(own, loop(i, 8, st.If(
            i < 4, st.seq(store(own, i, A[v, i]), store(B, (v, i), own[i] * 2)),
            st.seq(store(own, i, 1), store(B, (v, i), own[i])),
        )))
    after = virtual("vthread", body)
    branch, = of_kind(after, st.If)
    assert len(of_kind(branch.then, st.For)) == len(of_kind(branch.otherwise, st.For)) == 2


def test_a_condition_that_differs_is_within_the_virtual_thread():
    after = virtual("vthread", lambda A, B: loop(i, 8, st.If(v < 1, store(B, (v, i), A[v, i]), store(B, (v, i), 7))))
    assert isinstance(of_kind(after, st.If)[0], st.If)
    assert [s.kind for s in of_kind(after, st.For)] == [LoopKind.SERIAL, LoopKind.UNROLLED]


# Double buffers


def double_buffered(count, barriers):
    A, C = buffer("A", count * 4), buffer("C", count * 4)
    B = buffer("B", 4, scope="shared")
    body = loop(i, count, allocate(
        B, store(B, t, A[i * 4 + t]), store(C, i * 4 + t, B[3 - t] + 1), double_buffer=1,
    ))
    before = function([A, C], threads("threadIdx.x", t, 4, body))
    after = double_buffer(before)
    data = numbers(count * 4)
    np.testing.assert_array_equal(run(after, data), run(before, data))
    synced = thread_sync(simplify(flatten(after)))
    np.testing.assert_array_equal(run(synced, data), run(before, data))
    assert len(calls(synced, "sync")) == barriers
    return after


def test_double_buffering_pipelines_the_loop():
    """Statement 41: two halves, filled one iteration ahead; four barriers in the reference case."""
    after = double_buffered(100, 4)
    allocation, = of_kind(after, st.Allocate)
    assert str(allocation.buffer) == "B: float32[2, 4] in shared"
    assert [s.extent.value for s in of_kind(after, st.For) if not s.thread] == [49]


@pytest.mark.parametrize(("count", "barriers"), [(1, 1), (2, 1), (3, 3), (4, 4), (5, 3)])
def test_double_buffering_of_few_iterations(count, barriers):
    double_buffered(count, barriers)


def test_both_operands_of_a_product_are_double():
    """The second stands after what fills the first; what one is made from is made with it."""
    A, B = te.placeholder((8, 6), "int32", name="A"), te.placeholder((6, 8), "int32", name="B")
    k = te.reduce_axis((0, 6), "k")
    twice = te.compute((8, 6), lambda i, j: A[i, j] * 2, name="twice")
    C = te.compute((8, 8), lambda i, j: te.sum(twice[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C)
    first, second = s.cache_read(twice, "local", [C]), s.cache_read(B, "local", [C])
    outer, inner = s[C].split(k, 2)
    s[C].reorder(outer, *C.op.axis, inner)
    for tensor in (twice, first, second):
        s[tensor].compute_at(s[C], outer)
    for tensor in (first, second):
        s[tensor].double_buffer()
    after = double_buffer(inline_blocks(lower(s, [A, B, C])))
    assert sorted((x.buffer.name, len(x.buffer.shape)) for x in of_kind(after, st.Allocate)) == [
        ("B_local", 3), ("twice", 2), ("twice_local", 3)]
    a, b = (np.random.default_rng(0).integers(-9, 9, shape).astype("int32") for shape in ((8, 6), (6, 8)))
    np.testing.assert_array_equal(run(after, a, b), a * 2 @ b)


def test_double_buffering_what_changes_its_size_is_refused():
    A, C = buffer("A", 8), buffer("C", 8)
    B = buffer("B", i + 1)
    f = function([A, C], loop(i, 4, allocate(B, store(B, 0, A[i]), store(C, i, B[0]), double_buffer=1)))
    with pytest.raises(PassError, match="double_buffer in loop 'i': the size of B changes with the loop"):
        double_buffer(f)


def test_double_buffering_what_the_loop_writes_is_refused():
    A, B = buffer("A", 8), buffer("B", 4)
    f = function([A], loop(i, 2, allocate(B, loop(j, 4, store(B, j, A[j])), loop(k, 4, store(A, k, B[k] + 1)), double_buffer=1)))
    with pytest.raises(PassError, match="double_buffer in loop 'i': filling reads A, which the loop writes"):
        double_buffer(f)


# Barriers


def kernel(*body, params=None, width=8):
    """A function of one block of threads, synchronised, and what it gives."""
    A, B = buffer("A", 8), buffer("B", 8)
    S = buffer("S", 8, scope="shared")
    parts = body[0](A, B, S)
    before = function([A, B], threads("blockIdx.x", b, 1, threads("threadIdx.x", t, width, allocate(S, *parts))))
    after = thread_sync(flatten(before))
    np.testing.assert_array_equal(run(after, numbers(8)), run(before, numbers(8)))
    return before, after


def test_a_barrier_stands_between_a_write_and_another_threads_read():
    """Statement 43."""
    before, after = kernel(lambda A, B, S: [store(S, t, A[t]), store(B, t, S[7 - t])])
    assert len(calls(after, "sync")) == 1
    with pytest.raises(RaceError, match=r"element \d of S is read and written by thread threadIdx"):
        run(before._replace(notes={"synchronised": 1}), numbers(8))


def test_no_barrier_where_indices_coincide():
    """Statement 43."""
    _, after = kernel(lambda A, B, S: [store(S, t, A[t]), store(B, t, S[t] * 2)])
    assert not calls(after, "sync")


def test_barriers_within_a_loop_go_around_it():
    """Statement 43: before the read and, for the next iteration's write, before the write."""
    _, after = kernel(lambda A, B, S: [loop(k, 3, store(S, t, A[t]), store(B, t, S[7 - t]))])
    body = of_kind(after, st.For)[-1].body
    assert [type(s).__name__ for s in body.stmts] == ["Evaluate", "Store", "Evaluate", "Store"]


def test_barriers_for_branches():
    """Statement 43: writes and reads in the else branches of conditions that threads decide differently."""
    local = buffer("L", 1, scope="local")
    _, after = kernel(lambda A, B, S: [allocate(
        local,
        st.If(A[t] < 4, store(local, 0, A[t]), store(local, 0, 3)), store(S, t, local[0]),
        st.If(A[t] < 4, store(B, t, A[t]), store(B, t, S[7 - t])),
    )])
    assert len(calls(after, "sync")) == 1
    assert not [s for s in of_kind(after, st.If) if calls(s, "sync")]


def test_no_barrier_is_left_under_a_condition():
    """A condition around an exchange is moved inwards: all threads reach the barrier."""
    _, after = kernel(lambda A, B, S: [st.If(t < 8, loop(k, 2, store(S, t, A[t]), store(B, t, S[7 - t])))], width=11)
    assert len(calls(after, "sync")) == 2
    assert not [s for s in of_kind(after, st.If) if calls(s, "sync")]


def test_a_barrier_in_a_loop_that_threads_leave_apart_is_refused():
    A, B = buffer("A", 8, kind="int32"), buffer("B", 8, kind="int32")
    S = buffer("S", 8, kind="int32", scope="shared")
    f = function([A, B], threads("threadIdx.x", t, 8, allocate(S, loop(k, A[t], store(S, t, k), store(B, t, S[7 - t])))))
    with pytest.raises(PassError, match=r"loop 'k' needs a barrier inside, but its extent A\[t\] differs between threads"):
        thread_sync(flatten(f))


def test_divergence_is_an_error_of_the_interpreter():
    A = buffer("A", 8)
    f = function([A], threads("threadIdx.x", t, 8, st.If(t < 4, SYNC), store(A, t, 1)))
    with pytest.raises(DivergenceError, match=r"threadIdx\.x = 0 waits at a barrier at which thread threadIdx\.x = 4 never"):
        run(f)


# All-reduces


def all_reduce(over, extents, number=1, width=None, **options):
    """The sum (or the greatest and its index) over threads of each row; returns the lowered function."""
    ty, tx = Var("ty"), Var("tx")
    rows, columns = extents
    A = buffer("A", rows, columns, kind="int32")
    B = buffer("B", rows, columns, kind="int32")
    kind = dtype("int32")
    width = width or columns
    own = [buffer(f"R{n}", 1, kind="int32", scope="local") for n in range(number)]
    lhs, rhs = ([Var(f"{side}{n}", kind) for n in range(number)] for side in "lr")
    if number == 1:
        combiner = CommReducer("sum", tuple(lhs), tuple(rhs), (lhs[0] + rhs[0],), (const(0, kind),))
        values = [A[ty, tx]]
    else:
        first = rhs[0] <= lhs[0]
        combiner = CommReducer(
            "argmax", tuple(lhs), tuple(rhs), (select(first, lhs[0], rhs[0]), select(first, lhs[1], rhs[1])),
            (const(-1, kind), const(-1, kind)),
        )
        values = [A[ty, tx], tx]
    names = {"x": tx, "y": ty}
    call = effect("allreduce", number, *values, tx < width, *[r.access_ptr("w") for r in own], *[names[o] for o in over])
    body = st.seq(st.Attr("reducer", combiner, 0, st.Evaluate(call)), store(B, (ty, tx), own[-1][0]))
    for r in reversed(own):
        body = allocate(r, body)
    before = function([A, B], threads("threadIdx.y", ty, rows, threads("threadIdx.x", tx, columns, body)))
    data = numbers(rows, columns, kind="int32", seed=rows + columns)
    part = data[:, :width]
    axes = tuple({"x": 1, "y": 0}[o] for o in over)
    want = part.sum(axis=axes, keepdims=True) if number == 1 else part.argmax(axis=1)[:, None]
    after = thread_sync(lower_all_reduce(flatten(before), **options))
    for f in (before, after):
        np.testing.assert_array_equal(run(f, data), np.broadcast_to(want, data.shape))
    return after


@pytest.mark.parametrize("columns", [2, 8, 32])
def test_a_reduction_within_a_warp_uses_shuffles(columns):
    """Statement 44."""
    after = all_reduce("x", (3, columns))
    assert not calls(after, "sync")
    assert len(calls(after, "shuffle_down")) == columns.bit_length() - 1


@pytest.mark.parametrize("columns", [2, 8, 32])
def test_without_shuffles_a_reduction_within_a_warp_is_a_tree_in_shared_memory(columns):
    after = all_reduce("x", (3, columns), shuffles=False)
    assert not calls(after, "shuffle_down")
    assert calls(after, "sync")


@pytest.mark.parametrize(("over", "extents"), [("x", (2, 7)), ("x", (1, 48)), ("y", (5, 4)), ("xy", (4, 6)), ("yx", (3, 3))])
def test_a_reduction_over_other_threads_uses_shared_memory(over, extents):
    """Statement 44: threadIdx.x, threadIdx.y, and both."""
    after = all_reduce(over, extents)
    assert not calls(after, "shuffle_down")
    assert calls(after, "sync")


@pytest.mark.parametrize("columns", [8, 11])
def test_a_reduction_with_a_predicate(columns):
    """Statement 44."""
    all_reduce("x", (2, columns), width=5)


@pytest.mark.parametrize("columns", [8, 11])
def test_a_reduction_of_two_values(columns):
    """Statement 44 (and 4): the greatest and where it is first."""
    all_reduce("x", (2, columns), number=2)


# The whole row of passes


def test_the_host_may_not_touch_device_memory():
    """Statement 48."""
    A, B = buffer("A", 8), buffer("B", 8)
    with pytest.raises(PassError) as caught:
        lower_late(function([A, B], loop(i, 8, store(B, i, maximum(A[i], 0.0)))), "gpu")
    assert str(caught.value) == """\
function 'main' is for a device, but the host touches B, which is in the device's memory: \
bind the stage's axes to blockIdx and threadIdx

      def main(A: float32[8], B: float32[8]):
          for i in range(8):
-->           B[i] = max(A[i], 0.0)"""


def test_an_unknown_kind_of_target():
    with pytest.raises(ValueError, match="'tpu' is no kind of target: use one of cpu, gpu"):
        lower_late(function([buffer("A", 1)], st.NOTHING), "tpu")


def test_a_tiled_matmul_with_cooperative_fetch():
    """Shared tiles fetched by all threads of a block together, registers for each thread's results."""
    n, tile = 16, 4
    A, B, C = (buffer(name, n, n) for name in "ABC")
    SA, SB = (buffer(f"S{name}", tile, tile, scope="shared") for name in "AB")
    acc = buffer("acc", 1, scope="local")
    bx, by, tx, ty = (Var(name) for name in ("bx", "by", "tx", "ty"))
    body = allocate(acc, store(acc, 0, 0), loop(k, n // tile, allocate(SA, allocate(
        SB, store(SA, (ty, tx), A[by * tile + ty, k * tile + tx]), store(SB, (ty, tx), B[k * tile + ty, bx * tile + tx]),
        loop(j, tile, store(acc, 0, acc[0] + SA[ty, j] * SB[j, tx])), double_buffer=1), double_buffer=1)),
        store(C, (by * tile + ty, bx * tile + tx), acc[0]))
    nest = threads("threadIdx.y", ty, tile, threads("threadIdx.x", tx, tile, body))
    f = function([A, B, C], threads("blockIdx.y", by, n // tile, threads("blockIdx.x", bx, n // tile, nest)))
    a, c = numbers(n, n), numbers(n, n, seed=1)
    np.testing.assert_array_equal(run(f, a, c), a @ c)
    after = lower_late(f, "gpu")
    np.testing.assert_array_equal(run(after, a, c), a @ c)
    assert len(of_kind(after, st.Allocate)) == 3
    assert 2 <= len(calls(after, "sync")) <= 4


@pytest.mark.parametrize(("index", "barriers"), [
    (lambda t, k: t * 2 + k, False), (lambda t, k: t + k * 4, False), (lambda t, k: t + k * 3, True),
    (lambda t, k: (t * 5 + k) % 11, True),
], ids=["a tile a thread", "threads within a step", "overlapping", "not linear"])
def test_a_threads_own_tile_needs_no_barrier(index, barriers):
    """Statement 43: threads are told apart by the steps of their indices."""
    B = buffer("B", 8, kind="int32")
    S = buffer("S", 12, kind="int32", scope="shared")
    fill, use = loop(i, 2, store(S, index(t, i), t)), loop(k, 2, store(B, t * 2 + k, S[index(t, k)]))
    f = function([B], threads("threadIdx.x", t, 4, allocate(S, loop(j, 3, fill, use))))
    assert bool(calls(thread_sync(simplify(flatten(f))), "sync")) == barriers


def test_partition_leaves_loops_alone_that_threads_would_leave_apart():
    A, B = buffer("A", 15), buffer("B", 15)
    f = function([A, B], threads("threadIdx.x", t, 8, loop(k, 2, st.If(t * 2 + k < 15, store(B, t * 2 + k, A[t * 2 + k])))))
    assert str(partition_loops(f)) == str(f)
