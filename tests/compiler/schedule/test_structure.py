"""The structure that primitives make: statements 11 to 16 of BEHAVIOURS.md."""

import numpy as np
import pytest
from schedule_support import nests, program, run

from vtakit import te
from vtakit.compiler.schedule.relations import Fuse, Mark, Singleton, Split


def labels(stage):
    return [stage.axis_labels[axis] for axis in stage.leaf_iter_vars]


def test_split_tile_and_fuse_keep_the_order_of_loops():
    """Statement 11."""
    p = program()
    C = p.s[p.C]
    i, j = p.C.op.axis
    io, ii = C.split(i, factor=8)
    assert labels(C) == ["i_outer", "i_inner", "j", "k"]
    jo, ji = C.split(j, nparts=3)
    assert labels(C) == ["i_outer", "i_inner", "j_outer", "j_inner", "k"]
    C.reorder(jo, io)
    assert labels(C) == ["j_outer", "i_inner", "i_outer", "j_inner", "k"]
    fused = C.fuse(io, ji)
    assert labels(C) == ["j_outer", "i_inner", "i_outer_j_inner_fused", "k"]
    assert [type(relation) for relation in C.relations] == [Split, Split, Fuse]
    assert C.relations[0][:3] == (i, io, ii)
    assert (str(C.relations[0].factor), C.relations[0].nparts) == ("8", None)
    assert (C.relations[1].factor, str(C.relations[1].nparts)) == (None, "3")
    assert C.relations[2] == (io, ji, fused)
    assert len(C.all_iter_vars) == 3 + 2 + 2 + 1


def test_tile_takes_any_number_of_axes():
    """Statement 11, and the published snippets."""
    p = program()
    C = p.s[p.C]
    made = C.tile(*p.C.op.axis, p.C.op.reduce_axis[0], 8, 4, 2)
    assert labels(C) == ["i_outer", "j_outer", "k_outer", "i_inner", "j_inner", "k_inner"]
    assert list(made) == C.leaf_iter_vars
    D = p.s[p.D]
    D.tile("i", "j", x_factor=5, y_factor=3)
    assert te.nest_text(D).splitlines()[1:5] == [
        "for i_outer in range(6):", "    for j_outer in range(4):", "        for i_inner in range(5):",
        "            for j_inner in range(3):"]


def test_fuse_after_a_reorder_that_brings_the_axes_together():
    """Statement 12."""
    p = program()
    C = p.s[p.C]
    C.reorder("k", "i", "j")
    C.reorder("i", "k")
    C.fuse("k", "j")
    assert labels(C) == ["i", "k_j_fused"]
    assert C.leaf_iter_vars[1].kind.value == "reduce"


def test_fuse_of_nothing_makes_a_loop_on_rank_zero():
    """Statement 13."""
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B)
    axis = s[B].fuse(*s[B].op.axis)
    assert labels(s[B]) == ["singleton", "k"]
    assert s[B].relations == [Singleton(axis)]
    s[B].bind(axis, te.thread_axis("blockIdx.x"))
    x = np.arange(8, dtype="float32")
    [got] = run(s, [A, B], [x])
    assert got == x.sum()


def test_data_and_reduce_axes_fuse():
    """Statement 13: and give the right result."""
    p = program()
    p.s[p.C].fuse(p.C.op.axis[1], p.C.op.reduce_axis[0])
    rng = np.random.default_rng(0)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((30, 16), (16, 12)))
    [got] = run(p.s, [p.A, p.W, p.D], [a, w])
    np.testing.assert_allclose(got, 2 * ((a + 1) @ w), rtol=1e-4, atol=1e-5)


def test_pragmas_stay_with_their_axis():
    """Statement 15."""
    p = program()
    C = p.s[p.C]
    C.pragma("i", "unroll_step", 4)
    C.pragma("i", "import_c", "int f();")
    C.pragma("j", "vectorize")
    C.pragma("k", "parallel_launch_point")
    i, j, k = C.leaf_iter_vars
    assert C.note(i).pragmas == {"unroll_step": 4, "import_c": "int f();"}
    assert C.note(j).mark is Mark.VECTORIZED
    assert not C.note(j).pragmas
    assert C.note(k).pragmas == {"parallel_launch_point": 1}
    assert "for i in range(30):  # unroll_step=4, import_c=int f();" in te.nest_text(C)


@pytest.mark.parametrize(
    ("factor_axis", "order"), [(0, "k_inner, i, j"), (1, "i, k_inner, j"), (-1, "i, j, k_inner"), (2, "i, j, k_inner")])
def test_rfactor_puts_the_new_axis_where_it_is_asked(factor_axis, order):
    """Statement 16: the new axis, the reduce axes that stay, the final reduction, and the result; with an uneven split."""
    p = program()
    C = p.s[p.C]
    ko, ki = C.split(p.C.op.reduce_axis[0], factor=5)
    F = p.s.rfactor(p.C, ki, factor_axis)
    stage = p.s[F]
    assert ", ".join(labels(stage)) == f"{order}, k_outer"
    assert [axis.name for axis in F.op.reduce_axis] == ["k_outer"]
    assert [axis.name for axis in C.op.reduce_axis] == ["k_inner_v"]
    assert labels(C) == ["i", "j", "k_inner_v"]
    assert C.op.axis == p.C.op.axis
    assert [s.label for s in p.s.stages].index("C_rf") == [s.label for s in p.s.stages].index("C") - 1
    assert "where=k_outer * 5 + k_inner < 16" in str(F.op.body[0])
    rng = np.random.default_rng(1)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((30, 16), (16, 12)))
    [got] = run(p.s, [p.A, p.W, p.D], [a, w])
    np.testing.assert_allclose(got, 2 * ((a + 1) @ w), rtol=1e-4, atol=1e-5)
    assert ko not in stage.leaf_iter_vars


def test_rfactor_keeps_other_loops_and_whole_axes():
    """Statement 16: data loops stay split, untouched reduce axes keep their loops, an unsplit axis leaves no reduction."""
    A = te.placeholder((8, 6, 10), name="A")
    k, r = te.reduce_axis((0, 6), "k"), te.reduce_axis((2, 10), "r")
    B = te.compute((8,), lambda i: te.sum(A[i, k, r], axis=[k, r]), name="B")
    s = te.create_schedule(B)
    s[B].split("i", 4)
    s[B].split(r, 3)
    F = s.rfactor(B, k)
    assert labels(s[F]) == ["k", "i", "r_outer", "r_inner"]
    assert labels(s[B]) == ["i_outer", "i_inner", "k_v"]
    x = np.random.default_rng(2).standard_normal((8, 6, 10)).astype("float32")
    np.testing.assert_allclose(run(s, [A, B], [x])[0], x[:, :, 2:].sum((1, 2)), rtol=1e-4, atol=1e-5)
    C = te.compute((8,), lambda i: te.sum(A[i, 0, r], axis=r), name="C")
    s = te.create_schedule(C)
    G = s.rfactor(C, r)
    assert not G.op.reduce_axis
    assert str(G.op.body[0]) == "A[i, 0, r + 2]"
    np.testing.assert_allclose(run(s, [A, C], [x])[0], x[:, 0, 2:].sum(1), rtol=1e-4, atol=1e-5)


def test_rfactor_of_several_values_and_with_an_init():
    """Statement 16."""
    A, k = te.placeholder((4, 12), "int32", "A"), te.reduce_axis((0, 12), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.max_value(t0), te.min_value(t1)), "argmax")
    index, value = te.compute((4,), lambda i: argmax((k.var, A[i, k]), axis=k), name="T")
    s = te.create_schedule(index.op)
    _, ki = s[index].split(k, 5)
    made = s.rfactor(index, ki)
    assert [tensor.name for tensor in made] == ["T_rf.v0", "T_rf.v1"]
    x = np.random.default_rng(3).integers(0, 50, (4, 12), "int32")
    got = run(s, [A, index, value], [x])
    np.testing.assert_array_equal(got, [x.argmax(1), x.max(1)])
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=100), name="B")
    s = te.create_schedule(B)
    s.rfactor(B, s[B].split(k, 4)[0])
    np.testing.assert_array_equal(run(s, [A, B], [x])[0], x.sum(1) + 100)


def test_an_attached_stage_follows_split_and_fuse():
    """Statement 17: within the inner part of a split loop, within the fused loop; the result is right."""
    p = program()
    D, C = p.s[p.D], p.s[p.C]
    C.compute_at(D, "j")
    _, ji = D.split("j", 4)
    assert D.loop_of(C.attach.axis) is ji
    fused = D.fuse("i", "j_outer")
    assert D.loop_of(C.attach.axis) is ji
    p.s[p.B].compute_at(D, fused)
    again = D.fuse(fused, ji)
    assert D.loop_of(C.attach.axis) is again
    assert D.loop_of(p.s[p.B].attach.axis) is again
    assert te.nest_text(C).startswith("# C, at D's loop i_j_outer_fused_j_inner_fused\n")
    rng = np.random.default_rng(0)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((30, 16), (16, 12)))
    [got] = run(p.s, [p.A, p.W, p.D], [a, w])
    np.testing.assert_allclose(got, 2 * ((a + 1) @ w), rtol=1e-4, atol=1e-5)


def test_a_copy_is_independent():
    p = program()
    p.s[p.C].split("i", 8)
    before = nests(p.s)
    other = p.s.copy()
    other[p.C].vectorize("j")
    other[p.C].reorder("j", "k")
    other.cache_write(p.D, "local")
    other[p.B].compute_inline()
    other[p.C].pragma("k", "x", 1)
    other[p.B].storage_align("j", 8, 1)
    other[p.B].whole("j")
    assert nests(p.s) == before
    assert len(p.s.trace.steps) == 1
    assert other[p.C] is not p.s[p.C]
    assert other[p.C].schedule is other


def test_a_refused_primitive_changes_nothing():
    p = program()
    p.s[p.C].split("i", 8)
    before = nests(p.s), str(p.s.trace)
    for misuse in (
        lambda: p.s[p.C].tile("i_outer", "j", 2, 0), lambda: p.s[p.C].fuse("i_outer", "i_inner", "k"),
        lambda: p.s[p.C].reorder("j", "l"), lambda: p.s.rfactor(p.C, "k", 9), lambda: p.s[p.D].compute_inline(),
        lambda: p.s.cache_read(p.A, "shared", [p.B, p.C]),
    ):
        with pytest.raises(te.ScheduleError):
            misuse()
        assert (nests(p.s), str(p.s.trace)) == before
