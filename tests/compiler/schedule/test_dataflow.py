"""cache_read and cache_write: their structure, and that the results stay (statement 31 as far as schedules go)."""

import numpy as np
import pytest
from schedule_support import program, run

from vtakit import te


def result(p):
    rng = np.random.default_rng(0)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((30, 16), (16, 12)))
    [got] = run(p.s, [p.A, p.W, p.D], [a, w])
    np.testing.assert_allclose(got, 2 * ((a + 1) @ w), rtol=1e-4, atol=1e-5)


def labels(stage):
    return [stage.axis_labels[axis] for axis in stage.leaf_iter_vars]


def test_cache_read_serves_all_readers_or_those_named():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: A[i] * B[i], name="C")
    s = te.create_schedule(C)
    one = s.cache_read(A, "local", [C])
    assert (s[C].op.input_tensors, s[B].op.input_tensors) == ((one, B), (A,))
    every = s.cache_read(A, "shared")
    assert s[B].op.input_tensors == (every,)
    assert s[one].op.input_tensors == (every,)
    assert [stage.label for stage in s.stages] == ["A", "A_shared", "A_local", "B", "C"]
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(s, [A, C], [x])[0], x * (x + 1))


def test_a_reader_keeps_its_loops():
    p = program()
    p.s[p.C].tile("i", "j", 8, 4)
    before = te.nest_text(p.s[p.C])
    cached = p.s.cache_read(p.W, "shared", p.C)
    again = p.s.cache_read(cached, "local", [p.s[p.C]])
    assert te.nest_text(p.s[p.C]) == before.replace("W[", "W_shared_local[")
    p.s[cached].compute_at(p.s[p.C], "j_outer")
    p.s[again].compute_at(p.s[p.C], "k")
    result(p)


def test_a_tensor_is_the_same_under_its_new_operation():
    p = program()
    local = p.s.cache_write(p.C, "local")
    now = p.s[p.C].op.output(0)
    assert now != p.C
    assert p.s[now] is p.s[p.C]
    cached = p.s.cache_read(now, "shared")
    assert p.s[p.D].op.input_tensors == (cached,)
    assert p.s[local].op.reduce_axis == p.C.op.reduce_axis
    assert p.s[p.C].op.axis == p.C.op.axis
    result(p)


def test_two_levels_of_writes():
    p = program()
    first = p.s.cache_write(p.C, "shared")
    second = p.s.cache_write(first, "local")
    assert [stage.label for stage in p.s.stages] == ["A", "B", "W", "C_shared_local", "C_shared", "C", "D"]
    p.s[second].compute_at(p.s[first], "i")
    p.s[first].compute_at(p.s[p.C], "i")
    p.s[p.C].compute_at(p.s[p.D], "i")
    result(p)


@pytest.mark.parametrize("factor", [4, 7])
def test_cache_write_takes_the_order_of_the_loops(factor):
    """Statement 31: relayout after split and reorder, also where the split is uneven."""
    p = program()
    C = p.s[p.C]
    io, ii = C.split("i", factor)
    C.reorder("j", io, ii)
    local = p.s.cache_write(p.C, "local")
    assert labels(p.s[local]) == ["j", "i_outer", "i_inner", "k"]
    assert [str(extent) for extent in local.shape] == ["12", str(-(-30 // factor)), str(factor)]
    assert labels(C) == ["i", "j"]
    assert str(C.op.body[0]) == f"C_local[j, i // {factor}, i % {factor}]"
    result(p)


def test_cache_write_takes_a_fused_loop():
    """Statement 31."""
    p = program()
    p.s[p.C].fuse("i", "j")
    local = p.s.cache_write(p.C, "local")
    assert [str(extent) for extent in local.shape] == ["360"]
    assert str(p.s[local].op.body[0]) == "sum(B[i_j_fused // 12, k] * W[k, i_j_fused % 12], axis=[k])"
    result(p)


def test_cache_write_of_several_outputs_and_of_a_map_with_a_guard():
    """Statement 31."""
    A = te.placeholder((10,), name="A")
    first, second = te.compute((10,), lambda i: (A[i] + 1, A[i] * 2), name="T")
    s = te.create_schedule(first.op)
    s[first].split("i", 4)
    made = s.cache_write([first, second], "local")
    assert [tensor.name for tensor in made] == ["T_local.v0", "T_local.v1"]
    assert [str(extent) for extent in made[0].shape] == ["3", "4"]
    x = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(run(s, [A, first, second], [x]), [x + 1, x * 2])


def test_caches_of_rank_zero_and_of_placeholders_of_a_scan():
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), "k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    C = te.compute((), lambda: B() * 2, name="C")
    s = te.create_schedule(C)
    s.cache_read(B, "local")
    s.cache_write(B, "local")
    s.cache_read(A, "shared")
    x = np.arange(8, dtype="float32")
    assert run(s, [A, C], [x])[0] == 2 * x.sum()


def test_a_scan_reads_its_state_through_a_cache():
    X, state = te.placeholder((6, 5), name="X"), te.placeholder((6, 5), name="state")
    init = te.compute((1, 5), lambda _, i: X[0, i], name="init")
    update = te.compute((6, 5), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    result = te.scan(init, update, state, X)
    s = te.create_schedule(result)
    cached = s.cache_read(state, "local", [update])
    assert s[update].op.input_tensors[0] == cached
    x = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")
    np.testing.assert_allclose(run(s, [X, result], [x])[0], np.cumsum(x, 0, dtype="float32"), rtol=1e-5)
