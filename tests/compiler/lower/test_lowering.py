"""Lowering: loops, guards, attachments, reductions, and what comes out when it runs."""

from math import prod

import numpy as np
import pytest
from lower_support import blocks, copies, extents, ints, loops, predicates, run, shapes

import vtakit
from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import LowerError, lower
from vtakit.compiler.lower.interpreter import interpret


def matmul(n=12, m=10, depth=9):
    a, b = te.placeholder((n, depth), "int32", name="A"), te.placeholder((depth, m), "int32", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return a, b, c


def test_the_program_of_a_tiled_matmul_as_text():
    a, b, c = matmul(8, 8, 8)
    s = te.create_schedule(c.op)
    k = c.op.reduce_axis[0]
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 3)
    s[c].reorder(io, jo, k, ii, ji)
    s[c].unroll(ii)
    assert str(vtakit.lower(s, [a, b, c], name="matmul")) == """\
def matmul(A: int32[8, 8], B: int32[8, 8], C: int32[8, 8]):
    for i_outer in range(2):
        for j_outer in range(3):
            for i_inner_init in unrolled(4):
                for j_inner_init in range(3):
                    block C_init(vi = i_outer * 4 + i_inner_init, vj = {j}_init) where {j}_init < 8:
                        C[vi, vj] = 0
            for k in range(8):
                for i_inner in unrolled(4):
                    for j_inner in range(3):
                        block C(vi_1 = i_outer * 4 + i_inner, vj_1 = {j}, vk = k) where {j} < 8:
                            C[vi_1, vj_1] = C[vi_1, vj_1] + A[vi_1, vk] * B[vk, vj_1]""".replace("{j}", "j_outer * 3 + j_inner")


@pytest.mark.parametrize("then", ["split", "fuse"])
def test_statement_17_an_axis_may_be_split_or_fused_after_a_stage_was_put_there(then):
    a, a1, a2 = copies((12, 10))
    s = te.create_schedule(a2.op)
    i, j = a2.op.axis
    s[a1].compute_at(s[a2], i)
    if then == "split":
        s[a2].split(i, 4)
    else:
        s[a2].fuse(i, j)
    function = lower(s, [a, a2])
    home = loops(function)["i0_inner" if then == "split" else "i0_i1_fused"]
    assert any(isinstance(x, st.Allocate) for x in statements(home.body))
    x = ints(12, 10)
    assert np.array_equal(run(s, [a, a2], x), x + 2)


def test_statement_18_a_circle_of_places():
    a, a1, a2, a3 = copies((8,), 3)
    s = te.create_schedule(a3.op)
    s[a1].compute_at(s[a2], a2.op.axis[0])
    try:
        s[a2].compute_at(s[a1], a1.op.axis[0])
    except te.ScheduleError:
        return  # the schedule itself refuses
    with pytest.raises(LowerError, match="placed in a circle"):
        lower(s, [a, a3])


@pytest.mark.parametrize(("size", "want"), [(8, {}), (10, {"A1": "i0_outer * 4 + i0_inner < 10"})])
def test_statement_30_one_guard_for_an_uneven_split_and_none_for_an_even_one(size, want):
    a, a1 = copies((size,), 1)
    s = te.create_schedule(a1.op)
    s[a1].split(a1.op.axis[0], 4)
    assert predicates(lower(s, [a, a1])) == want


def test_statement_30_each_uneven_split_has_its_guard_once():
    a, a1, a2 = copies((10, 11))
    s = te.create_schedule(a2.op)
    _, yo, xi, _ = s[a2].tile(*a2.op.axis, 4, 4)
    s[a2].split(xi, 3)
    s[a1].compute_at(s[a2], yo)
    assert predicates(lower(s, [a, a2])) == {
        "A1": "vi0 < 10 and vi1 < 11",
        "A2": "i0_outer * 4 + i0_inner_outer * 3 + i0_inner_inner < 10 and i1_outer * 4 + i1_inner < 11 "
              "and i0_inner_outer * 3 + i0_inner_inner < 4",
    }
    x = ints(10, 11)
    assert np.array_equal(run(s, [a, a2], x), x + 2)


def test_statement_31_caches_of_several_readers_and_caches_of_caches():
    a = te.placeholder((9, 7), "int32", name="A")
    b = te.compute((9, 7), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((9, 7), lambda i, j: a[i, j] * b[i, j], name="C")
    s = te.create_schedule(c.op)
    near = s.cache_read(a, "local", [b, c])
    nearer = s.cache_read(near, "global", [c])
    s[nearer].compute_at(s[c], c.op.axis[0])
    assert shapes(lower(s, [a, c])) == {"A_local": (9, 7), "A_local_global": (1, 7), "B": (9, 7)}
    x = ints(9, 7)
    assert np.array_equal(run(s, [a, c], x), x * (x + 1))


def test_statement_31_cache_write_keeps_values_in_the_order_of_the_loops():
    a, a1 = copies((8, 6), 1)
    s = te.create_schedule(a1.op)
    i, j = a1.op.axis
    io, ii = s[a1].split(i, 3)
    s[a1].reorder(j, io, ii)
    cache = s.cache_write(a1, "local")
    assert [str(e) for e in cache.shape] == ["6", "3", "3"]
    x = ints(8, 6)
    assert np.array_equal(run(s, [a, a1], x), x + 1)


def test_statement_31_cache_write_of_two_outputs():
    a = te.placeholder((5, 4), "int32", name="A")
    x, y = te.compute((5, 4), lambda i, j: (a[i, j] + 1, a[i, j] * 2), name="C")
    s = te.create_schedule(x.op)
    caches = s.cache_write([x, y], "local")
    s[caches[0]].compute_at(s[x], x.op.axis[0])
    first, second, data = np.zeros((5, 4), "int32"), np.zeros((5, 4), "int32"), ints(5, 4)
    interpret(lower(s, [a, x, y]), [data, first, second])
    assert np.array_equal(first, data + 1)
    assert np.array_equal(second, data * 2)


def test_statement_6_one_of_two_outputs_asked_for():
    a = te.placeholder((4,), "int32", name="A")
    x, _ = te.compute((4,), lambda i: (a[i] + 1, a[i] * 2), name="C")
    s = te.create_schedule(x.op)
    assert shapes(lower(s, [a, x])) == {"C.v1": (4,)}
    data = ints(4)
    assert np.array_equal(run(s, [a, x], data), data + 1)


def test_statement_32_inlined_into_a_reduction_and_its_own_reader():
    a = te.placeholder((6, 5), "int32", name="A")
    b = te.compute((6, 5), lambda i, j: a[i, j] + 1, name="B")
    k, r = te.reduce_axis((0, 5), name="k"), te.reduce_axis((0, 5), name="r")
    c = te.compute((6,), lambda i: te.sum(b[i, k] * b[i, r], axis=[k, r]), name="C")
    d = te.compute((6,), lambda i: c[i] + b[i, 0], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    s[c].compute_at(s[d], d.op.axis[0])
    function = lower(s, [a, d])
    assert set(blocks(function)) == {"C_init", "C", "D"}
    x = ints(6, 5)
    assert np.array_equal(run(s, [a, d], x), (x + 1).sum(1) ** 2 + x[:, 0] + 1)


@pytest.mark.parametrize("cached", [False, True])
def test_statement_33_a_reduction_as_long_as_the_outer_index_says(cached):
    n = 7
    a = te.placeholder((n,), "int32", name="A")
    start = te.placeholder((n,), "int32", name="S")

    def up_to(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(a[k], axis=k, init=start[i])

    c = te.compute((n,), up_to, name="C")
    s = te.create_schedule(c.op)
    made = s.cache_write(c, "local") if cached else c
    s[made].split(s[made].op.reduce_axis[0], 3)
    x, first = ints(n), ints(n, seed=1)
    assert np.array_equal(run(s, [a, start, c], x, first), np.cumsum(x) + first)


def test_statement_13_data_and_reduction_axes_fused_together():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    _, j = c.op.axis
    fused = s[c].fuse(j, c.op.reduce_axis[0])
    s[c].split(fused, 7)
    x, y = ints(12, 9), ints(9, 10, seed=1)
    assert np.array_equal(run(s, [a, b, c], x, y), x @ y)


def test_statement_13_and_2_rank_zero():
    a = te.placeholder((), "int32", name="A")
    b = te.compute((), lambda: a() * 3, name="B")
    s = te.create_schedule(b.op)
    s[b].fuse()
    assert run(s, [a, b], np.array(5, "int32")) == 15


def test_statement_16_rfactor():
    a = te.placeholder((6, 32), "int32", name="A")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, ki = s[c].split(k, 5)
    s.rfactor(c, ki)
    x = ints(6, 32)
    assert np.array_equal(run(s, [a, c], x), x.sum(1))


@pytest.mark.parametrize("serial", [False, True])
def test_a_reduction_across_threads(serial):
    a = te.placeholder((4, 30), "int32", name="A")
    k = te.reduce_axis((0, 30), name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=a[i, k] > 0), name="C")
    s = te.create_schedule(c.op)
    axis = s[c].split(k, 8)[1] if serial else k
    s[c].bind(c.op.axis[0], te.thread_axis(tag="blockIdx.x"))
    s[c].bind(axis, te.thread_axis(tag="threadIdx.x"))
    x = ints(4, 30)
    assert np.array_equal(run(s, [a, c], x), np.where(x > 0, x, 0).sum(1))


def test_statement_4_the_largest_and_where_it_is():
    a = te.placeholder((5, 9), "int32", name="A")
    pick = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax",
    )
    k = te.reduce_axis((0, 9), name="k")
    x = ints(5, 9)
    below = np.where(x < 3, x, -100)
    for where, want in ((lambda i: None, x), (lambda i: a[i, k] < 3, below)):
        at, value = te.compute((5,), lambda i, w=where: pick((k.var, a[i, k]), axis=k, where=w(i)), name="C")
        s = te.create_schedule(at.op)
        s[at].split(at.op.reduce_axis[0], 4)
        found, most = np.zeros(5, "int32"), np.zeros(5, "int32")
        interpret(lower(s, [a, at, value]), [x, found, most])
        assert np.array_equal(found, want.argmax(1))
        assert np.array_equal(most, want.max(1))


@pytest.mark.parametrize("factor", [None, 2, 3])
def test_statement_7_a_scan(factor):
    m, n = 7, 5
    a = te.placeholder((m, n), "int32", name="A")
    state = te.placeholder((m, n), "int32", name="state")
    init = te.compute((1, n), lambda _, i: a[0, i], name="first")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + a[t, i], name="next")
    total = te.scan(init, update, state, inputs=[a], name="scan")
    s = te.create_schedule(total.op)
    if factor:
        s[update].split(update.op.axis[1], factor)
    x = ints(m, n)
    assert np.array_equal(run(s, [a, total], x), np.cumsum(x, axis=0))


def test_statement_7_a_scan_of_two_states():
    m, n = 6, 4
    p, q = (te.placeholder((m, n), "int32", name=name) for name in ("p", "q"))
    i1, i2 = (te.compute((1, n), lambda _, i, v=v: v, name=f"start{v}") for v in (0, 1))
    u1 = te.compute((m, n), lambda t, i: q[t - 1, i], name="u1")
    u2 = te.compute((m, n), lambda t, i: p[t - 1, i] + q[t - 1, i], name="u2")
    x, y = te.scan([i1, i2], [u1, u2], [p, q], name="fibonacci")
    s = te.create_schedule(x.op)
    first, second = np.zeros((m, n), "int32"), np.zeros((m, n), "int32")
    interpret(lower(s, [x, y]), [first, second])
    assert list(first[:, 2]) == [0, 1, 1, 2, 3, 5]
    assert list(second[:, 0]) == [1, 1, 2, 3, 5, 8]


def test_statement_8_an_extern_operation_that_calls_python():
    a = te.placeholder((6,), "int32", name="A")
    b = te.compute((6,), lambda i: a[i] + 1, name="B")
    c = te.extern((6,), [b], lambda ins, outs: te.call_packed("reverse", ins[0].access_ptr("r"), outs[0].access_ptr("w")),
                  dtype="int32", name="C")
    d = te.compute((6,), lambda i: c[i] * 2, name="D")
    s = te.create_schedule(d.op)
    out = np.zeros(6, "int32")

    def reverse(source, to):
        to[:] = source[::-1]

    interpret(lower(s, [a, d]), [np.arange(6, dtype="int32"), out], packed={"reverse": reverse})
    assert list(out) == [12, 10, 8, 6, 4, 2]


def test_statement_34_a_stage_of_each_thread_needs_no_guard():
    a, a1, a2 = copies((64,))
    s = te.create_schedule(a2.op)
    bx, tx = s[a2].split(a2.op.axis[0], 16)
    s[a2].bind(bx, te.thread_axis(tag="blockIdx.x"))
    s[a2].bind(tx, te.thread_axis(tag="threadIdx.x"))
    s[a1].set_scope("local")
    s[a1].compute_at(s[a2], tx)
    function = lower(s, [a, a2])
    assert (predicates(function), shapes(function)) == ({}, {"A1": (1,)})


def test_pitfall_2_a_cooperative_stage_needs_no_guard_and_one_that_uses_no_thread_runs_in_one():
    """And statement 34: a shared stage under blockIdx."""
    a, a1, a2 = copies((64,))
    s = te.create_schedule(a2.op)
    bx, tx = s[a2].split(a2.op.axis[0], 16)
    s[a2].bind(bx, te.thread_axis(tag="blockIdx.x"))
    s[a2].bind(tx, te.thread_axis(tag="threadIdx.x"))
    s[a1].compute_at(s[a2], bx)
    assert predicates(lower(s, [a, a2])) == {"A1": "threadIdx.x == 0"}
    s[a1].bind(a1.op.axis[0], te.thread_axis(tag="threadIdx.x"))
    function = lower(s, [a, a2])
    assert (predicates(function), shapes(function)) == ({}, {"A1": (16,)})
    x = ints(64)
    assert np.array_equal(run(s, [a, a2], x), x + 2)


def test_statement_15_a_pragma_stands_on_the_loop():
    a, a1 = copies((8, 4), 1)
    s = te.create_schedule(a1.op)
    s[a1].pragma(a1.op.axis[0], "auto_unroll_max_step", 16)
    assert dict(loops(lower(s, [a, a1]))["i0"].notes) == {"auto_unroll_max_step": 16}


def test_what_is_said_of_memory_stands_on_its_allocation():
    a, a1, a2 = copies((8, 4))
    s = te.create_schedule(a2.op)
    s[a1].compute_at(s[a2], a2.op.axis[0])
    s[a1].double_buffer()
    s[a1].storage_align(a1.op.axis[0], 8, 1)
    made = next(x for x in statements(lower(s, [a, a2]).body) if isinstance(x, st.Allocate))
    assert dict(made.notes) == {"double_buffer": 2, "storage_align": ((0, 8, 1),)}


def test_a_dimension_is_computed_whole_whatever_is_read():
    a, a1, a2 = copies((8, 4))
    s = te.create_schedule(a2.op)
    s[a1].compute_at(s[a2], a2.op.axis[0])
    def values() -> int:
        [made] = [x for x in statements(lower(s, [a, a2]).body) if isinstance(x, st.Allocate)]
        return prod(extent.value for extent in made.buffer.shape)

    assert values() == 4
    s[a1].whole(a1.op.axis[0])
    assert values() == 8 * 4


def test_pitfall_4_an_index_of_64_bits():
    n = te.const(1 << 33, "int64")
    a = te.placeholder((n,), "int8", name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 1 << 20)
    function = lower(s, [a, b])
    assert extents(function) == {"i_outer": "int64(8192)", "i_inner": "int64(1048576)"}
    assert all(it.binding.dtype.bits == 64 for it in blocks(function)["B"].iters)


def test_a_prefetch_beyond_the_last_iteration():
    a, a1 = copies((1, 1), 1)
    s = te.create_schedule(a1.op)
    outer, _ = s[a1].split(s[a1].fuse(*a1.op.axis), 4)
    s[a1].prefetch(a, outer, 1)
    x = ints(1, 1)
    assert np.array_equal(run(s, [a, a1], x), x + 1)


def test_a_prefetch_of_the_next_tile():
    a, a1 = copies((32, 64), 1)
    s = te.create_schedule(a1.op)
    outer, _ = s[a1].split(a1.op.axis[0], 4)
    s[a1].prefetch(a, outer, 1)
    function = lower(s, [a, a1])
    assert extents(function)["line0"] == "4"
    assert extents(function)["line1"] == "4", "64 elements of 4 bytes are 4 lines"
    assert str(blocks(function)["A1_prefetch"].body) == (
        "prefetch(address_of(A[min(i0_outer * 4 + line0, 27) + 4, line1 * 16], 0, 'r'))"
    )
    x = ints(32, 64)
    assert np.array_equal(run(s, [a, a1], x), x + 1)


def test_a_store_predicate_and_threads_around():
    a = te.placeholder((8, 16), "int32", name="A")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    tx = te.thread_axis((0, 4), "threadIdx.x")
    s[c].env_threads(tx)
    s[c].set_store_predicate(tx.var == 2)
    assert predicates(lower(s, [a, c])) == {"C_init": "threadIdx.x == 2", "C": "threadIdx.x == 2"}
    x = ints(8, 16)
    assert np.array_equal(run(s, [a, c], x), x.sum(1))
