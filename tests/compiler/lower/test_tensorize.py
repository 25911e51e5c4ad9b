"""Tensor intrinsics in programs: the match, the code's buffers, reductions (statements 35 to 37)."""

import numpy as np
import pytest
from lower_support import blocks, ints, run

from vtakit import te
from vtakit.compiler.intrin.tensor_intrin import decl_tensor_intrin
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.values import const
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.errors import LowerError


def count(name, extent, body):
    """A loop as an intrinsic's code."""
    var = Var(name)
    return st.For(var, const(extent, INT32), body(var))


def add_tile(n: int, dtype: str = "int32"):
    """z[0:n] = x[0:n] + y[0:n]"""
    x, y = te.placeholder((n,), dtype, name="x"), te.placeholder((n,), dtype, name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")
    return decl_tensor_intrin(
        z.op, lambda ins, outs: count("i", n, lambda i: st.Store(outs[0], (i,), ins[0][i] + ins[1][i])), name="vadd",
    )


def gemv(rows: int, depth: int, *, reset: bool = True, update: bool = True):
    """z[rows] = w[rows, depth] @ x[depth], the rows of w any number of elements apart."""
    w, x = te.placeholder((rows, depth), "int32", name="w"), te.placeholder((depth,), "int32", name="x")
    k = te.reduce_axis((0, depth), name="k")
    z = te.compute((rows,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")
    wide = te.decl_buffer(w.shape, w.dtype, "w", strides=[te.var("stride"), 1])

    def code(ins, outs):
        a, b = ins
        c = outs[0]

        def zero():
            return count("i", rows, lambda i: st.Store(c, (i,), const(0, INT32)))

        def add():
            return count("i", rows, lambda i: count("k", depth, lambda k: st.Store(c, (i,), c[i] + a[i, k] * b[k])))
        whole = st.seq(zero(), add())
        return whole, zero() if reset else None, add() if update else None
    return decl_tensor_intrin(z.op, code, name="gemv", binds={w: wide})


def vectors(n=64, dtype="int32"):
    a, b = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    return a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")


def matvec(n=16, depth=32, tile=8, part=4):
    a, b = te.placeholder((n, depth), "int32", name="A"), te.placeholder((depth,), "int32", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], tile)
    ko, ki = s[c].split(k, part)
    s[c].reorder(io, ko, ii, ki)
    return s, c, (a, b, c), ii


def test_statement_35_the_region_of_a_tile():
    a, b, c = vectors()
    s = te.create_schedule(c.op)
    _, xi = s[c].split(c.op.axis[0], 16)
    s[c].tensorize(xi, add_tile(16))
    function = lower(s, [a, b, c])
    block = blocks(function)["C"]
    assert dict(block.notes) == {"tensorize": "vadd"}
    assert [str(it.binding) for it in block.iters] == ["i_outer"]
    assert [str(r.min) for region in (*block.reads, *block.writes) for r in region.ranges] == ["vi * 16"] * 3
    x, y = ints(64), ints(64, seed=1)
    assert np.array_equal(run(s, [a, b, c], x, y), x + y)


@pytest.mark.parametrize("reset", [True, False])
def test_statement_35_a_reduction_in_parts_with_reset_or_a_guarded_first_part(reset):
    s, c, args, ii = matvec()
    s[c].tensorize(ii, gemv(8, 4, reset=reset))
    function = lower(s, args)
    assert ("C_init" in blocks(function)) == reset
    assert isinstance(blocks(function)["C"].body, st.If) != reset
    x, y = ints(16, 32), ints(32, seed=1)
    assert np.array_equal(run(s, args, x, y), x @ y)


def test_statement_35_without_reset_under_several_loops_of_the_reduction():
    s, c, args, ii = matvec()
    ko = s[c].leaf_iter_vars[1]
    s[c].split(ko, 2)
    s[c].tensorize(ii, gemv(8, 4, reset=False))
    x, y = ints(16, 32), ints(32, seed=1)
    assert np.array_equal(run(s, args, x, y), x @ y)
    assert str(blocks(lower(s, args))["C"].body.condition) == "vk == 0"


def test_statement_35_a_whole_reduction_by_the_body_alone():
    s, c, args, ii = matvec(part=32)
    s[c].tensorize(ii, gemv(8, 32, reset=False, update=False))
    x, y = ints(16, 32), ints(32, seed=1)
    assert np.array_equal(run(s, args, x, y), x @ y)


@pytest.mark.parametrize(("tile", "part", "rows"), [(8, 4, 16), (8, 32, 16), (8, 4, 13), (1, 8, 16)])
def test_a_reduction_that_begins_with_values_has_these_stored_and_the_update_in_all_loops(tile, part, rows):
    a, b, d = [te.placeholder(shape, "int32", name=name) for shape, name in (((16, 32), "A"), ((32,), "B"), ((16,), "D"))]
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((16,), lambda i: te.sum(a[i, k] * b[k], axis=k, init=d[i] * 3), name="C")
    e = te.compute((rows,), lambda i: c[i] + 1, name="E")
    s = te.create_schedule(e.op)
    outer, _ = s[e].split(e.op.axis[0], tile)
    s[c].compute_at(s[e], outer)
    ko, _ = s[c].split(k, part)
    s[c].reorder(ko, *s[c].op.axis)
    s[c].tensorize(s[c].op.axis[0], gemv(tile, part))
    made = blocks(lower(s, [a, b, d, e]))
    assert [str(read.buffer.name) for read in made["C_init"].reads] == [d.name]
    assert made["C"].body.kind is st.LoopKind.SERIAL
    x, y, z = ints(16, 32), ints(32, seed=1), ints(16, seed=2)
    assert np.array_equal(run(s, [a, b, d, e], x, y, z), (x @ y + z * 3 + 1)[:rows])


def test_a_reduction_that_begins_with_values_needs_an_update():
    a, b = te.placeholder((8, 32), "int32", name="A"), te.placeholder((32,), "int32", name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((8,), lambda i: te.sum(a[i, k] * b[k], axis=k, init=1), name="C")
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[0], gemv(8, 32, reset=False, update=False))
    with pytest.raises(LowerError, match="is not what the intrinsic does"):
        lower(s, [a, b, c])


def test_a_tile_in_a_cache_under_a_loop():
    a, b, c = vectors()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    xo, _ = s[c].split(c.op.axis[0], 16)
    s[cache].compute_at(s[c], xo)
    s[cache].tensorize(s[cache].op.axis[0], add_tile(16))
    x, y = ints(64), ints(64, seed=1)
    assert np.array_equal(run(s, [a, b, c], x, y), x + y)


def test_two_stages_by_one_intrinsic():
    a, b, c = vectors(32)
    d = te.compute((32,), lambda i: c[i] + a[i], name="D")
    s = te.create_schedule(d.op)
    tile = add_tile(8)
    for tensor in (c, d):
        _, inner = s[tensor].split(tensor.op.axis[0], 8)
        s[tensor].tensorize(inner, tile)
    x, y = ints(32), ints(32, seed=1)
    assert np.array_equal(run(s, [a, b, d], x, y), 2 * x + y)


def test_statement_36_indices_of_other_forms():
    a = te.placeholder((8, 9), "int32", name="A")
    c = te.compute((8, 9), lambda i, j: a[i, (j // 3) * 3 + j % 3] + (i * 4 + j) // 4 - i, name="C")
    x = te.placeholder((9,), "int32", name="x")
    z = te.compute((9,), lambda j: x[j] + j // 4, name="z")
    tile = decl_tensor_intrin(
        z.op, lambda ins, outs: count("j", 9, lambda j: st.Store(outs[0], (j,), ins[0][j] + j // 4)), name="row",
    )
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[1], tile)
    data = ints(8, 9)
    assert np.array_equal(run(s, [a, c], data), data + np.arange(9) // 4)


def test_the_address_of_a_tile():
    a, b, c = vectors()
    x, y = te.placeholder((16,), "int32", name="x"), te.placeholder((16,), "int32", name="y")
    z = te.compute((16,), lambda i: x[i] + y[i], name="z")
    tile = decl_tensor_intrin(
        z.op, lambda ins, outs: te.call_packed("add", ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("w")),
        name="vadd",
    )
    s = te.create_schedule(c.op)
    _, xi = s[c].split(c.op.axis[0], 16)
    s[c].tensorize(xi, tile)
    assert str(blocks(lower(s, [a, b, c]))["C"].body) == (
        "call_packed('add', address_of(A[vi * 16], 0, 'r'), address_of(B[vi * 16], 0, 'r'), address_of(C[vi * 16], 0, 'w'))"
    )


def test_a_tile_hangs_over_in_a_dimension_that_the_intrinsic_does_not_move_in():
    """Rows of 5 in tiles of 2: the last tile's second row is not computed, neither reset nor update; columns are tiles of 8."""
    a, b = te.placeholder((5, 16, 12), "int32", name="A"), te.placeholder((12,), "int32", name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((5, 16), lambda y, i: te.sum(a[y, i, k] * b[k], axis=k), name="C")
    d = te.compute((5, 16), lambda y, i: c[y, i] + 1, name="D")
    s = te.create_schedule(d.op)
    rows, _ = s[d].split(d.op.axis[0], 2)
    s[c].compute_at(s[d], rows)
    _, i = s[c].split(c.op.axis[1], 8)
    outer, inner = s[c].split(k, 4)
    s[c].reorder(outer, c.op.axis[0], i, inner)
    s[c].tensorize(i, gemv(8, 4))
    x, y = ints(5, 16, 12), ints(12, seed=1)
    assert np.array_equal(run(s, [a, b, d], x, y), x @ y + 1)
