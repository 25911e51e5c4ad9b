"""Loops that splits, fuses and reorders leave uneven, strided or dependent: the program is right and the verifier sees that."""

import numpy as np
import pytest
from lower_support import copies, extents, ints, run

from vtakit import te
from vtakit.compiler.lower import lower


def rows(n=5, m=10):
    a, a1 = copies((n, m), 1)
    return a, a1, te.create_schedule(a1.op)


def test_pitfall_5_parts_of_an_uneven_split_fused():
    a, c, s = rows()
    outer, _ = s[c].split(c.op.axis[1], nparts=4)
    s[c].split(s[c].fuse(c.op.axis[0], outer), 8)
    x = ints(5, 10)
    assert np.array_equal(run(s, [a, c], x), x + 1)


def test_pitfall_5_both_parts_of_an_uneven_split_fused_again():
    a, c, s = rows(7, 7)
    s[c].fuse(c.op.axis[0], s[c].fuse(*s[c].split(c.op.axis[1], 4)))
    x = ints(7, 7)
    assert np.array_equal(run(s, [a, c], x), x + 1)


def test_pitfall_5_part_of_an_uneven_split_fused_with_another_axis():
    a, c, s = rows(8, 5)
    i, j = c.op.axis
    _, inner = s[c].split(s[c].fuse(*s[c].split(i, 2)), 3)
    outer, _ = s[c].split(j, 2)
    s[c].reorder(outer, inner)
    s[c].fuse(s[c].leaf_iter_vars[0], outer)
    x = ints(8, 5)
    assert np.array_equal(run(s, [a, c], x), x + 1)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_a_fused_axis_of_unknown_size_in_so_many_parts(parts):
    n = te.size_var("n")
    a, a1, a2 = copies((n, 6))
    s = te.create_schedule(a2.op)
    for made in (a1, a2):
        s[made].split(s[made].fuse(*made.op.axis), nparts=parts)
    x = ints(5, 6)
    assert np.array_equal(run(s, [a, a2], x, shape=(5, 6)), x + 2)


def test_a_row_of_unknown_length_fused_with_its_column():
    n = te.size_var("n")
    a = te.placeholder((n,), "int32", name="A")
    c = te.compute((9, n + 2), lambda i, j: te.if_then_else(j < n, a[j], i), name="C")
    s = te.create_schedule(c.op)
    s[c].fuse(*c.op.axis)
    x = ints(4)
    want = np.concatenate([np.tile(x, (9, 1)), np.tile(np.arange(9)[:, None], 2)], axis=1)
    assert np.array_equal(run(s, [a, c], x, shape=(9, 6)), want)


def test_a_strided_data_loop_within_the_reduction():
    a, k = te.placeholder((8, 6), "int32", name="A"), te.reduce_axis((0, 6), "k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 3)
    s[c].reorder(inner, k, outer)
    x = ints(8, 6)
    assert np.array_equal(run(s, [a, c], x), x.sum(axis=1))


def triangle(n=9):
    a = te.placeholder((n,), "int32", name="A")
    c = te.compute((n,), lambda i: te.sum(a[(k := te.reduce_axis((0, i + 1), name="k"))], axis=k), name="C")
    s = te.create_schedule(c.op)
    return a, c, s, s[c].op.reduce_axis[0]


def reordered(s, c, k):
    s[c].reorder(k, c.op.axis[0])


def fused(s, c, k):
    s[c].split(s[c].fuse(c.op.axis[0], k), 4)


def tiled(s, c, k):
    s[c].tile(c.op.axis[0], k, 2, 5)


def on_threads(s, c, k):
    s[c].bind(k, te.thread_axis(tag="threadIdx.x"))


def in_parts(s, c, k):
    s[c].parallel(c.op.axis[0])
    s[c].split(k, nparts=3)


def factored(s, c, k):
    s.rfactor(c, s[c].split(k, 5)[1])


@pytest.mark.parametrize("change", [reordered, fused, tiled, on_threads, in_parts, factored], ids=lambda f: f.__name__)
def test_pitfall_15_a_reduction_whose_length_another_axis_sets(change):
    a, c, s, k = triangle()
    change(s, c, k)
    x = ints(9)
    assert np.array_equal(run(s, [a, c], x), np.cumsum(x))


def test_pitfall_15_outside_of_the_axis_that_sets_its_length_a_loop_has_the_greatest_one():
    a, c, s, k = triangle()
    reordered(s, c, k)
    function = lower(s, [a, c])
    assert extents(function)["k"] == "9"
    assert "if vk < vi_1 + 1:" in str(function)


def test_what_a_reduction_across_threads_reads_stands_within_the_loop_that_reads_it():
    """Each thread's own part goes on in a serial loop, wherever that is named."""
    a, k = te.placeholder((4, 12), "int32", name="A"), te.reduce_axis((0, 12), "k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    cache = s.cache_read(a, "local")
    outer, inner = s[c].split(k, 3)
    s[c].bind(outer, te.thread_axis(tag="threadIdx.x"))
    s[c].reorder(c.op.axis[0], inner, outer)
    s[cache].compute_at(s[c], outer)
    x = ints(4, 12)
    assert np.array_equal(run(s, [a, c], x), x.sum(axis=1))
    text = str(lower(s, [a, c])).splitlines()
    at = [next(i for i, line in enumerate(text) if word in line) for word in ("for k_inner", "block A_local", "block C_part")]
    assert at == sorted(at)
