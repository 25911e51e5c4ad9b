"""Reductions whose ends other axes set, with a producer placed somewhere: what is needed of it (statement 33)."""

import numpy as np
import pytest

from vtakit import te
from vtakit.compiler.lower import VerifyError, lower
from vtakit.compiler.lower.interpreter import interpret

WIDTH = 2
DOMAINS = {
    "lower": (lambda i, n: (0, i + 1), lambda i, n: (0, i + 1)),
    "strict": (lambda i, n: (0, i), lambda i, n: (0, i)),
    "upper": (lambda i, n: (i, n), lambda i, n: (i, n)),
    "band": (
        lambda i, n: (te.max(te.const(0), i - WIDTH), te.min(n, i + WIDTH + 1)),
        lambda i, n: (max(0, i - WIDTH), min(n, i + WIDTH + 1)),
    ),
}
READS = {
    "vector": (1, lambda i, k: (k,)),
    "rows": (2, lambda i, k: (i, k)),
    "columns": (2, lambda i, k: (k, i)),
}


def split(stage, i, k):
    stage.split(i, 4)


def parts(stage, i, k):
    stage.split(i, nparts=3)


def split_terms(stage, i, k):
    stage.split(k, 2)


def tile(stage, i, k):
    (io, ii), (ko, ki) = stage.split(i, 4), stage.split(k, 2)
    stage.reorder(io, ko, ii, ki)


def terms_outside(stage, i, k):
    stage.reorder(k, i)


def fuse(stage, i, k):
    stage.fuse(i, k)


def vectors(stage, i, k):
    io, ii = stage.split(i, 4)
    stage.reorder(io, k, ii)
    stage.vectorize(ii)


LOOPS = [split, parts, split_terms, tile, terms_outside, fuse, vectors]


def program(domain, read, size):
    """``C[i] = sum of B`` over a part of a row, with B = 2 * A."""
    dims, index = READS[read]
    n = te.var("n") if size is None else size
    A = te.placeholder((n,) * dims, "int32", name="A")
    B = te.compute((n,) * dims, lambda *i: A(*i) * 2, name="B")
    ends = DOMAINS[domain][0]
    C = te.compute((n,), lambda i: te.sum(B[index(i, k := te.reduce_axis(ends(i, n), "k"))], axis=k), name="C")
    return A, B, C


def expected(domain, read, a):
    n, ends, index = len(a), DOMAINS[domain][1], READS[read][1]
    return np.array([sum(2 * a[index(i, k)] for k in range(*ends(i, n))) for i in range(n)], np.int32)


def check(domain, read, size, s, args, *, refused=False):
    """That what a schedule computes is right for sizes from 0 on, or is refused."""
    if refused:
        with pytest.raises(VerifyError, match=r"^bindings: the iterator vi of block C is i_k_fused // \(n - 1\), which is not"):
            lower(s, args)
        return
    function = lower(s, args)
    for n in [0, 1, 2, 4, 5, 9] if size is None else [size]:
        a = np.random.default_rng(n).integers(-9, 9, (n,) * READS[read][0]).astype(np.int32)
        c = np.full(n, 77, np.int32)
        interpret(function, [a, c])
        np.testing.assert_array_equal(c, expected(domain, read, a))


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("loops", LOOPS)
def test_a_producer_at_the_root(loops, domain, read, size):
    A, _, C = program(domain, read, size)
    s = te.create_schedule(C)
    loops(s[C], *C.op.axis, *C.op.reduce_axis)
    # the terms of all rows are n - 1, by which the fused loop divides, and that is 0 for n = 1
    check(domain, read, size, s, [A, C], refused=loops is fuse and domain == "strict" and size is None)


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(("loops", "at"), [
    (split, 0), (split, 1), (split, 2), (split_terms, 0), (split_terms, 1), (tile, 0), (tile, 2), (vectors, 0), (fuse, 0),
    (terms_outside, 0),
])
def test_a_producer_within_a_loop(loops, at, domain, read, size):
    A, B, C = program(domain, read, size)
    s = te.create_schedule(C)
    loops(s[C], *C.op.axis, *C.op.reduce_axis)
    s[B].compute_at(s[C], s[C].leaf_iter_vars[at])
    # the terms of all rows are n - 1, by which the fused loop divides, and that is 0 for n = 1
    check(domain, read, size, s, [A, C], refused=loops is fuse and domain == "strict" and size is None)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("at", [None, 0, 1])
def test_a_copy_that_is_read(at, domain):
    A, B, C = program(domain, "rows", None)
    s = te.create_schedule(C)
    copy = s.cache_read(B, "local", [C])
    split(s[C], *C.op.axis, *C.op.reduce_axis)
    if at is not None:
        s[copy].compute_at(s[C], s[C].leaf_iter_vars[at])
    check(domain, "rows", None, s, [A, C])


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_copy_that_is_written(domain):
    A, B, C = program(domain, "rows", None)
    s = te.create_schedule(C)
    local = s.cache_write(C, "local")
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[local].compute_at(s[C], outer)
    s[B].compute_at(s[local], s[local].leaf_iter_vars[0])
    check(domain, "rows", None, s, [A, C])


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("domain", DOMAINS)
def test_partial_results(domain, within):
    A, B, C = program(domain, "rows", None)
    s = te.create_schedule(C)
    _, inner = s[C].split(C.op.reduce_axis[0], 2)
    partial = s.rfactor(C, inner)
    if within:
        s[B].compute_at(s[partial], s[partial].leaf_iter_vars[1])
    check(domain, "rows", None, s, [A, C])


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_prefetch(domain, size):
    A, B, C = program(domain, "rows", size)
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[C].prefetch(B, outer, 1)
    check(domain, "rows", size, s, [A, C])


def test_no_more_than_the_dimension_is_computed_at_the_root():
    A, B, C = program("lower", "rows", None)
    s = te.create_schedule(C)
    s[C].split(C.op.axis[0], 4)
    text = str(lower(s, [A, C]))
    assert "B = allocate(int32[n, n])" in text
    outer = s[C].leaf_iter_vars[0]
    s[B].compute_at(s[C], outer)
    assert "B = allocate(int32[4, i_outer * 4 + 4])" in str(lower(s, [A, C]))


def test_what_cannot_be_proved_is_refused():
    A, B, C = program("band", "rows", None)
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], nparts=3)
    s[B].compute_at(s[C], outer)
    with pytest.raises(VerifyError, match=r"^reads: block C reads elements of B that B is not certain to have written before"):
        lower(s, [A, C])
