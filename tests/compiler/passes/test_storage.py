"""Which buffers share memory: statement 42."""

from itertools import pairwise

import numpy as np
import pytest
from ir_support import allocate, buffer, function, loop, numbers, of_kind, run, store, threads, vectorized

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.passes import PassError
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.simplify import simplify
from vtakit.compiler.passes.storage import rewrite_storage
from vtakit.compiler.passes.vectorize import vectorize

n = Var("n", size=True)


def plan(f, *inputs, **options):
    """The function planned, which must do what it did."""
    after = rewrite_storage(vectorize(simplify(flatten(f))), **options)
    data = inputs or [numbers(16)]
    np.testing.assert_array_equal(run(after, *data), run(f, *data))
    return after


def sizes(f):
    return sorted(s.buffer.shape[0].value * s.buffer.dtype.bytes for s in of_kind(f, st.Allocate))


def chain(count, make=loop, extent: Expr | int = 16, last=None):
    """``T1 = A + 1; T2 = T1 + 1; …`` through `count` buffers, each in a loop of its own."""
    buffers = [buffer("A", extent), *(buffer(f"T{i}", extent) for i in range(count)), buffer("B", extent)]
    loops = []
    for source, target in pairwise(buffers):
        i = Var("i")
        loops.append(make(i, extent, store(target, i, source[i] + 1)))
    body = st.seq(*loops)
    for inner in reversed(buffers[1:-1]):
        body = allocate(inner, body)
    return function([buffers[0], buffers[-1]], body)


@pytest.mark.parametrize("make", [loop, vectorized], ids=["scalar", "vector"])
def test_a_chain_of_elementwise_stages_uses_one_buffer(make):
    """Statement 42: each stage works in place."""
    assert sizes(plan(chain(5, make))) == [64]


def test_a_chain_of_symbolic_size_uses_one_buffer():
    f = chain(4, extent=n)
    after = rewrite_storage(simplify(flatten(f)))
    assert len(of_kind(after, st.Allocate)) == 1
    np.testing.assert_array_equal(run(after, numbers(9), n=9), numbers(9) + 5)


def test_a_diamond_with_rereads_uses_two():
    """Statement 42."""
    A, B = buffer("A", 16), buffer("B", 16)
    T = [buffer(f"T{i}", 16) for i in range(3)]
    i, j, k, m = (Var("i") for _ in range(4))
    body = st.seq(
        loop(i, 16, store(T[0], i, A[i] + 1)), loop(j, 16, store(T[1], j, T[0][15 - j] * 2)),
        loop(k, 16, store(T[2], k, T[0][k] + T[1][k])), loop(m, 16, store(B, m, T[2][15 - m])),
    )
    assert sizes(plan(function([A, B], allocate(T[0], allocate(T[1], allocate(T[2], body)))))) == [64, 64]


@pytest.mark.parametrize(
    "index", [lambda i: 15 - i, lambda i: i // 2, lambda i: (i + 1) % 16], ids=["reversed", "halved", "moved"]
)
def test_no_sharing_in_place_where_indices_differ(index):
    """Pitfall 11."""
    A, B, S, T = (buffer(name, 16) for name in "ABST")
    i, j, k = (Var("i") for _ in range(3))
    body = st.seq(loop(i, 16, store(S, i, A[i])), loop(j, 16, store(T, j, S[index(j)])), loop(k, 16, store(B, k, T[k])))
    assert sizes(plan(function([A, B], allocate(S, allocate(T, body))))) == [64, 64]


def test_no_sharing_in_place_where_an_element_is_read_again():
    """A loop around that the index leaves out comes back to the element."""
    A, B, S, T = (buffer(name, 16) for name in "ABST")
    i, j, k, r = (Var("i") for _ in range(4))
    again = loop(r, 2, loop(j, 16, store(T, j, S[j] * (r + 1).astype("float32"))))
    body = st.seq(loop(i, 16, store(S, i, A[i])), again, loop(k, 16, store(B, k, T[k])))
    assert sizes(plan(function([A, B], allocate(S, allocate(T, body))))) == [64, 64]


def test_no_sharing_in_place_within_a_parallel_loop():
    """Pitfall 11, and statement 42: nothing is hoisted out of a parallel loop."""
    f = chain(3, lambda i, extent, *body: loop(i, extent, *body, kind=LoopKind.PARALLEL))
    assert sizes(plan(f)) == [64, 64]
    A, B, S = buffer("A", 16), buffer("B", 16), buffer("S", 4)
    i, j, k = (Var(name) for name in "ijk")
    body = allocate(S, loop(j, 4, store(S, j, A[i * 4 + j])), loop(k, 4, store(B, i * 4 + k, S[3 - k])))
    after = plan(function([A, B], loop(i, 4, body, kind=LoopKind.PARALLEL)))
    assert isinstance(after.body, st.For)
    assert isinstance(after.body.body, st.Allocate)


def test_types_share_by_bits():
    """Statement 42: one memory for a row of buffers of different types, of the size of the largest."""
    kinds = ("int8", "float64", "int16", "float32", "uint8", "int32")
    buffers = [buffer("A", 16), *(buffer(f"T{i}", 16, kind=kind) for i, kind in enumerate(kinds)), buffer("B", 16)]
    body = []
    for source, target in pairwise(buffers):
        i = Var("i")
        body.append(loop(i, 16, store(target, i, source[15 - i])))
    whole = st.seq(*body)
    for inner in reversed(buffers[1:-1]):
        whole = allocate(inner, whole)
    after = plan(function([buffers[0], buffers[-1]], whole))
    assert sizes(after) == [32, 128]
    assert len({s.buffer.data for s in of_kind(after, st.Store)}) == 3  # two memories and the output


def test_memory_that_is_needed_in_a_loop_is_kept_during_all_of_it():
    A, B, S, T = (buffer(name, 16) for name in "ABST")
    i, j, k, m = (Var("i") for _ in range(4))
    inner = allocate(T, loop(k, 16, store(T, k, S[15 - k])), loop(m, 16, store(B, m, B[m] + T[m])))
    f = function([A, B], allocate(S, loop(i, 16, store(S, i, A[i])), loop(j, 3, inner)))
    assert sizes(plan(f)) == [64, 64]


def test_a_scope_that_is_too_small():
    """Statement 42."""
    f = chain(3, lambda i, extent, *body: loop(i, extent, *body, kind=LoopKind.PARALLEL))
    f = f._replace(body=of_scope(f.body, "acc"))
    assert len(of_kind(plan(f, capacity={"acc": 128}), st.Allocate)) == 2
    with pytest.raises(PassError) as caught:
        plan(f, capacity={"acc": 100})
    assert str(caught.value).startswith(
        "scope 'acc' has 100 bytes, but T0 (64 bytes), T1 (64 bytes) need 128 at once: tile smaller, or attach them deeper\n\n"
    )


def of_scope(body, scope):
    """The statement with all allocated buffers in another scope."""
    for s in of_kind(body, st.Allocate):
        s.buffer.scope = scope
    return body


def test_shared_memory_stays_within_its_kernel():
    """Statement 42: five stages of two kernels' worth each: 5 shared buffers, 2 global ones."""
    stages = 5
    buffers = [buffer("A", 64), *(buffer(f"G{i}", 64) for i in range(stages - 1)), buffer("B", 64)]
    body = []
    for source, target in pairwise(buffers):
        b, t, shared = Var("b"), Var("t"), buffer("S", 8, scope="shared")
        inside = allocate(shared, store(shared, t, source[b * 8 + t] + 1), store(target, b * 8 + t, shared[t] * 2))
        body.append(threads("blockIdx.x", b, 8, threads("threadIdx.x", t, 8, inside)))
    whole = st.seq(*body)
    for inner in reversed(buffers[1:-1]):
        whole = allocate(inner, whole)
    after = plan(function([buffers[0], buffers[-1]], whole), numbers(64))
    scopes = [s.buffer.scope for s in of_kind(after, st.Allocate)]
    assert (scopes.count("shared"), scopes.count("global")) == (5, 2)


def test_size_that_a_loop_decides_stays_where_it_is():
    A, B = buffer("A", 16), buffer("B", 16)
    i, j, k = (Var(name) for name in "ijk")
    S = buffer("S", i + 1)
    f = function([A, B], loop(i, 16, allocate(S, loop(j, i + 1, store(S, j, A[j])), loop(k, i + 1, store(B, k, S[i - k])))))
    after = plan(f)
    assert isinstance(after.body, st.For)


def test_no_sharing_in_place_with_what_the_same_loop_stores():
    A, B, S, T = (buffer(name, 16) for name in "ABST")
    i, k, m = (Var("i") for _ in range(3))
    body = st.seq(
        loop(m, 16, store(S, m, A[m])),
        loop(i, 16, store(T, i, S[i]), st.If(i > 0, store(S, i - 1, 5))), loop(k, 16, store(B, k, T[k])),
    )
    assert sizes(plan(function([A, B], allocate(S, allocate(T, body))))) == [64, 64]
