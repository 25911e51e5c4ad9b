"""Bound inference: how much of each stage is computed where it stands (statements 20 to 29)."""

import numpy as np
import pytest
from lower_support import blocks, copies, extents, ints, loops, predicates, run, shapes

from vtakit import te
from vtakit.compiler.lower import VerifyError, lower


def test_statement_20_a_producer_under_an_outer_axis_has_the_extent_of_the_inner_one():
    m, n = te.size_var("m"), te.size_var("n")
    a, a1, a2 = copies((m, n))
    s = te.create_schedule(a2.op)
    outer, _ = s[a2].split(a2.op.axis[0], 8)
    s[a1].compute_at(s[a2], outer)
    assert shapes(lower(s, [a, a2])) == {"A1": (8, "n")}
    x = ints(13, 5)
    assert np.array_equal(run(s, [a, a2], x, shape=(13, 5)), x + 2)


def test_statement_20_under_both_axes_of_a_tile_it_is_the_tile():
    a, a1, a2 = copies((te.size_var("m"), te.size_var("n")))
    s = te.create_schedule(a2.op)
    _, yo, _, _ = s[a2].tile(*a2.op.axis, 8, 8)
    s[a1].compute_at(s[a2], yo)
    function = lower(s, [a, a2])
    assert shapes(function) == {"A1": (8, 8)}
    assert extents(function)["i0"] == extents(function)["i1"] == "8"


@pytest.mark.parametrize(("scope", "want"), [("shared", (32, 32)), ("local", (2, 2))])
def test_statement_21_memory_that_threads_share_covers_all_of_them(scope, want):
    a, a1, a2 = copies((64, 96))
    s = te.create_schedule(a2.op)
    s[a1].set_scope(scope)
    xo, xi = s[a2].split(a2.op.axis[0], 32)
    yo, yi = s[a2].split(a2.op.axis[1], 32)
    xi0, xi1 = s[a2].split(xi, nparts=16)
    yi0, yi1 = s[a2].split(yi, nparts=16)
    s[a2].bind(xi0, te.thread_axis(tag="threadIdx.x"))
    s[a2].bind(yi0, te.thread_axis(tag="threadIdx.y"))
    s[a2].reorder(xo, yo, xi0, yi0, xi1, yi1)
    s[a1].compute_at(s[a2], yo if scope == "shared" else yi0)
    assert shapes(lower(s, [a, a2])) == {"A1": want}


def test_statement_22_a_factor_above_the_extent_does_not_lengthen_the_loop():
    a, a1 = copies((8,), 1)
    s = te.create_schedule(a1.op)
    s[a1].split(a1.op.axis[0], 32)
    function = lower(s, [a, a1])
    assert extents(function) == {"i0_inner": "8"}
    assert predicates(function) == {}


def test_pitfall_16_but_a_loop_bound_to_threads_keeps_its_length():
    a, a1 = copies((8,), 1)
    s = te.create_schedule(a1.op)
    _, inner = s[a1].split(a1.op.axis[0], 32)
    s[a1].bind(inner, te.thread_axis(tag="threadIdx.x"))
    function = lower(s, [a, a1])
    assert extents(function) == {"threadIdx.x": "32"}
    assert predicates(function) == {"A1": "threadIdx.x < 8"}


def test_statement_23_a_multiple_of_the_factor_splits_without_a_guard():
    m = te.size_var("m")
    a, a1 = copies((8 * m, te.size_var("n")), 1)
    s = te.create_schedule(a1.op)
    s[a1].split(a1.op.axis[0], 8)
    function = lower(s, [a, a1])
    assert extents(function) == {"i0_outer": "m", "i0_inner": "8", "i1": "n"}
    assert predicates(function) == {}


@pytest.mark.parametrize(("width", "factor", "shape", "first"), [
    (6, 3, (1, 3), lambda f: (f * 3 // 6, f * 3 % 6)),  # aligned: never across a row's end
    (6, 4, (2, 6), lambda f: (f * 4 // 6, 0)),
    (6, 12, (2, 6), lambda f: (f * 2, 0)),
])
def test_statement_24_under_a_fused_axis_whole_rows_are_computed_unless_aligned(width, factor, shape, first):
    a, a1, a2 = copies((12, width))
    s = te.create_schedule(a2.op)
    outer, _ = s[a2].split(s[a2].fuse(*a2.op.axis), factor)
    s[a1].compute_at(s[a2], outer)
    function = lower(s, [a, a2])
    assert shapes(function) == {"A1": shape}
    zero = {name: 0 for name in loops(function)}
    for step in range(12 * width // factor):
        at = tuple(eval(str(it.binding), zero | {"i0_i1_fused_outer": step}) for it in blocks(function)["A1"].iters)
        assert at == first(step)
    x = ints(12, width)
    assert np.array_equal(run(s, [a, a2], x), x + 2)


def test_statement_24_with_symbolic_sizes_the_extent_is_exact():
    m, n, f = te.size_var("m"), te.size_var("n"), 3
    a, a1, a2 = copies((m, n))
    s = te.create_schedule(a2.op)
    outer, _ = s[a2].split(s[a2].fuse(*a2.op.axis), f)
    s[a1].compute_at(s[a2], outer)
    shape = shapes(lower(s, [a, a2]))["A1"]
    assert shape[1] == "n"
    for rows, width in ((3, 4), (2, 7), (5, 2)):
        for step in range(-(-rows * width // f)):
            have = eval(shape[0], {"i0_i1_fused_outer": step, "n": width, "m": rows, "min": min})
            assert have == (step * f + f - 1) // width - step * f // width + 1
        x = ints(rows, width)
        assert np.array_equal(run(s, [a, a2], x, shape=(rows, width)), x + 2)


def test_statement_24_an_element_of_symbolic_sizes_fused():
    a, a1, a2 = copies((te.size_var("m"), te.size_var("n")))
    s = te.create_schedule(a2.op)
    _, inner = s[a2].split(s[a2].fuse(*a2.op.axis), 16)
    s[a1].compute_at(s[a2], inner)
    assert shapes(lower(s, [a, a2])) == {"A1": (1, 1)}
    x = ints(5, 7)
    assert np.array_equal(run(s, [a, a2], x, shape=(5, 7)), x + 2)


@pytest.mark.parametrize("factor", [1, 4])
def test_statement_24_every_second_row_of_symbolic_sizes_fused(factor):
    """Row ``f // n * 2`` of the producer is certain to be one of its m rows."""
    m, n = te.size_var("m"), te.size_var("n")
    a = te.placeholder((m, n), "int32", name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((m // 2, n), lambda i, j: b[i * 2, j] + 1, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), factor)
    s[b].compute_at(s[c], outer)
    x = ints(7, 5)
    assert np.array_equal(run(s, [a, c], x, shape=(3, 5)), x[:6:2] * 2 + 1)


@pytest.mark.parametrize("size", [13, "n"])
@pytest.mark.parametrize("first", [{"factor": 5}, {"nparts": 5}])
@pytest.mark.parametrize("part", [0, 1])
def test_sizes_split_unevenly_twice(size, first, part):
    """Of the outer part of a split no condition is left: the whole being inside says that it is."""
    a, a1 = copies((te.size_var("n") if size == "n" else size,), 1)
    s = te.create_schedule(a1.op)
    s[a1].split(s[a1].split(a1.op.axis[0], **first)[part], 3)
    condition = predicates(lower(s, [a, a1]))["A1"]
    assert condition.count("<") == (1 if part == 0 or (size, first) == (13, {"nparts": 5}) else 2)
    x = ints(13)
    assert np.array_equal(run(s, [a, a1], x, shape=(13,)), x + 1)


def test_statement_25_windows():
    n = te.size_var("n")
    a = te.compute((n + 2,), lambda i: i * 3, name="A")
    b = te.compute((n,), lambda i: a[i] + a[i + 1] + a[i + 2], name="B")
    s = te.create_schedule(b.op)
    s[a].compute_at(s[b], b.op.axis[0])
    assert shapes(lower(s, [b])) == {"A": (3,)}
    assert np.array_equal(run(s, [b], shape=(6,)), 9 * np.arange(6) + 9)

    x = te.compute((12, 12), lambda i, j: i * 12 + j, name="X")
    window = [(d, e) for d in range(3) for e in range(3)]
    y = te.compute((10, 10), lambda i, j: sum((x[i + d, j + e] for d, e in window), te.const(0, "int32")), name="Y")
    s = te.create_schedule(y.op)
    s[x].compute_at(s[y], y.op.axis[1])
    assert shapes(lower(s, [y])) == {"X": (3, 3)}


@pytest.mark.parametrize(("stride", "dilation", "tile", "want"), [(2, 1, 4, 9), (1, 2, 4, 8), (2, 3, 1, 7), (3, 1, 2, 6)])
def test_statement_25_strided_and_dilated_windows(stride, dilation, tile, want):
    n = 8
    a = te.placeholder((64,), "int32", name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i * stride + k * dilation], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], tile)
    s[b].compute_at(s[c], outer)
    assert shapes(lower(s, [a, c])) == {"B": (want,)}
    x = ints(64)
    assert np.array_equal(run(s, [a, c], x), [sum(x[i * stride + j * dilation] + 1 for j in range(3)) for i in range(n)])


def test_statement_26_stages_of_a_group_are_as_long_as_where_the_group_stands():
    m, n = te.size_var("m"), te.size_var("n")
    a, a1, a2, a3 = copies((m, n), 3)
    s = te.create_schedule(a3.op)
    outer = s.create_group(a2, a)
    s.create_group(a1, a)
    outer.compute_at(s[a3], a3.op.axis[0])
    assert shapes(lower(s, [a, a3])) == {"A1": (1, "n"), "A2": (1, "n")}


def gemm_on_threads():
    n = 128
    a, b = (te.placeholder((n, n), "int32", name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    aa, bb = s.cache_read(a, "shared", [cc]), s.cache_read(b, "shared", [cc])
    bx, xi = s[c].split(c.op.axis[0], 64)
    by, yi = s[c].split(c.op.axis[1], 64)
    tx, xi = s[c].split(xi, nparts=8)
    ty, yi = s[c].split(yi, nparts=8)
    s[c].reorder(bx, by, tx, ty, xi, yi)
    for axis, tag in ((bx, "blockIdx.y"), (by, "blockIdx.x"), (tx, "threadIdx.y"), (ty, "threadIdx.x")):
        s[c].bind(axis, te.thread_axis(tag=tag))
    s[cc].compute_at(s[c], ty)
    ko, _ = s[cc].split(s[cc].op.reduce_axis[0], 8)
    s[cc].reorder(ko, *s[cc].op.axis)
    for cache in (aa, bb):
        s[cache].compute_at(s[cc], ko)
        x, _ = s[cache].split(s[cache].op.axis[1], nparts=8)
        s[cache].bind(s[cache].op.axis[0], te.thread_axis(tag="threadIdx.y"))
        s[cache].bind(x, te.thread_axis(tag="threadIdx.x"))
    return s, (a, b, c)


def test_statement_27_shared_tiles_of_a_gemm_and_the_part_of_each_thread():
    s, (a, b, c) = gemm_on_threads()
    function = lower(s, [a, b, c])
    assert shapes(function) == {"A_shared": (8, 64), "B_shared": (8, 64), "C_local": (8, 8)}
    assert predicates(function) == {}, "statement 34: no guard is needed"
    threads = [loop.thread for loop in loops(function).values() if loop.thread]
    assert threads == ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"], "one loop for each thread axis"


def test_statement_28_an_index_that_cannot_be_simplified_asks_for_no_more_than_there_is():
    a = te.compute((2,), lambda j: j, name="A")
    b = te.compute((2,), lambda j: a[te.if_then_else(te.all(j * j < 3, j >= 0), j * j * j % 2, 1)], name="B")
    s = te.create_schedule(b.op)
    s[a].compute_at(s[b], b.op.axis[0])
    assert shapes(lower(s, [b]))["A"][0] <= 2
    assert list(run(s, [b])) == [0, 1]


def test_statement_29_warp_memory_is_as_long_as_the_warp_has_lanes():
    a, a1, a2 = copies((8, 32))
    s = te.create_schedule(a2.op)
    s[a1].set_scope("warp")
    rows, lanes = a2.op.axis
    s[a2].bind(rows, te.thread_axis(tag="threadIdx.y"))
    s[a2].bind(lanes, te.thread_axis(tag="threadIdx.x"))
    s[a1].compute_at(s[a2], lanes)
    s[a1].bind(s[a1].op.axis[1], te.thread_axis(tag="threadIdx.x"))
    assert shapes(lower(s, [a, a2])) == {"A1": (1, 32)}


def test_rows_that_padding_replaces_are_not_computed():
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[i] * 2, name="B")
    c = te.compute((10,), lambda i: te.if_then_else(te.all(i >= 1, i < 9), b[i - 1], 0), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 5)
    s[b].compute_at(s[c], outer)
    x = ints(8)
    assert np.array_equal(run(s, [a, c], x), np.pad(x * 2, 1))
    assert shapes(lower(s, [a, c])) == {"B": (5,)}


def test_pitfall_1_an_axis_that_does_not_start_at_0():
    a = te.placeholder((10,), "int32", name="A")
    k = te.reduce_axis((3, 9), name="k")
    b = te.compute((), lambda: te.sum(a[k] * k, axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].split(s[b].op.reduce_axis[0], 4)
    x = ints(10)
    assert run(s, [a, b], x) == (x * np.arange(10))[3:9].sum()
    assert str(blocks(lower(s, [a, b]))["B"].iters[0].binding) == "k_outer * 4 + k_inner + 3"


def test_pitfall_12_an_empty_dimension():
    a = te.placeholder((0, 4), "int32", name="A")
    b = te.compute((0, 4), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 4)
    assert run(s, [a, b], np.zeros((0, 4), "int32")).shape == (0, 4)


def test_an_axis_counts_from_its_first_value_and_its_loop_from_0():
    """The region of ``i // 7`` for i from ``7 * j`` on: a loop over i from 0 would make it row 0."""
    a = te.placeholder((7, 7), "int32", name="A")
    b = te.compute((7, 7), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((49,), lambda i: b[i // 7, i % 7] + 1, name="C")
    d = te.compute((7, 7), lambda i, j: c[j * 7 + i], name="D")
    s = te.create_schedule(d.op)
    i, j = d.op.axis
    s[d].reorder(j, i)
    s[c].compute_at(s[d], j)
    assert shapes(lower(s, [a, d])) == {"B": (7, 7), "C": (7,)}
    x = ints(7, 7)
    assert np.array_equal(run(s, [a, d], x), x.T * 2 + 1)


def test_a_buffer_that_is_read_beyond_its_end_is_found():
    """Even if all of it was written, where sizes are numbers."""
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i + 1], name="C")
    with pytest.raises(VerifyError, match="block C reads elements of B that B is not certain to have written before"):
        lower(te.create_schedule(c.op), [a, c])


def flat_copy(column, factor):
    """Rows of 8 columns, of which one reads a flat tensor, computed in parts of the one loop over all of them."""
    a = te.placeholder((48,), "int32", name="A")
    flat = te.compute((48,), lambda p: a[p] + 1, name="flat")
    b = te.compute((6, 8), lambda y, x: flat[y * 8 + column(x)] * 2, name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(s[b].fuse(*b.op.axis), factor)
    s[flat].compute_at(s[b], outer)
    x = ints(48)
    return shapes(lower(s, [a, b]))["flat"], run(s, [a, b], x, shape=(6, 8)), ((x + 1) * 2).reshape(6, 8)


@pytest.mark.parametrize("factor", [5, 8, 48])
def test_a_flat_copy_of_a_fused_loop_needs_its_part_not_whole_rows(factor):
    shape, got, want = flat_copy(lambda x: x, factor)
    assert shape == (factor,)
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("factor", "needed"), [(4, 4), (5, 16)])
def test_a_part_that_does_not_run_along_a_row_needs_what_its_rows_do(factor, needed):
    shape, got, want = flat_copy(lambda x: 7 - x, factor)
    assert shape == (needed,)
    assert np.array_equal(got, want[:, ::-1])
