"""The verifier: stores within outputs, the limits of a device, and copies of a body."""

import pytest
from lower_support import copies
from verify_support import DATA, I32, ROWS, SIZE, C, block, broken, copy_over, function, loop, store

from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import const
from vtakit.compiler.lower import Limits, VerifyError, lower, verify

# -- stores ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("extent", "found"), [
    (8, "inside: index 0 of C, which block D writes, takes the value 8, and C has 8 elements there; "),
    (SIZE, "inside: index 0 of R, which block D writes, takes the value m, and R has m elements there; "),
])
def test_inside_a_store_beyond_an_output(extent, found):
    out = C if extent == 8 else ROWS
    good = loop("i", extent, lambda i: block("C", [(extent, DATA, i)], lambda v: store(out, [v], v)))
    bad = loop("j", extent, lambda j: block("D", [(extent, DATA, j)], lambda v: store(out, [v + 1], v)))
    cure = "let the condition of the block keep it there"
    assert broken(function(out, body=st.seq(good, bad))) == found + cure


def test_inside_a_store_that_may_be_beyond_an_output():
    good = loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], v)))
    bad = loop("j", 8, lambda j: block("D", [(8, DATA, j)], lambda v: store(C, [v * v], v)))
    assert broken(function(C, body=st.seq(good, bad))) == (
        "inside: block D writes C, and index 0, v0 * v0, is not certain to be within its 8 elements; let the condition of the "
        "block keep it there"
    )


# -- limits of a device (statement 49) -----------------------------------------------------------------------------------

def on_threads(scope: str = "shared", threads: int = 32):
    a, a1, a2 = copies((128,))
    s = te.create_schedule(a2.op)
    bx, tx = s[a2].split(a2.op.axis[0], threads)
    s[a2].bind(bx, te.thread_axis(tag="blockIdx.x"))
    s[a2].bind(tx, te.thread_axis(tag="threadIdx.x"))
    s[a1].set_scope(scope)
    s[a1].compute_at(s[a2], bx)
    return s, [a, a2]


@pytest.mark.parametrize(("limits", "message"), [
    (Limits(threads=32, scope_bytes={"shared": 128}, thread_extents={"threadIdx.x": 32}), ""),
    (Limits(threads=31), "threads: a block has 32 threads, the device allows 31; bind loops with at most 31 iterations together"),
    (Limits(thread_extents={"threadIdx.x": 16}),
     "threads: threadIdx.x has 32 indices, the device has 16; bind a loop of at most 16 iterations"),
    (Limits(scope_bytes={"shared": 127}), (
        "memory: 128 bytes of shared memory are in use at one time, the device has 127; compute the stage at an inner loop, or "
        "split its reader's loops into smaller tiles"
    )),
])
def test_statement_49_threads_and_shared_memory(limits, message):
    s, args = on_threads()
    program = lower(s, args)
    if message:
        assert broken(program, limits) == message
        with pytest.raises(VerifyError):
            lower(s, args, limits=limits)
    else:
        verify(program, limits)


@pytest.mark.parametrize(("most", "message"), [
    (32, ""),
    (16, "vectors: 8 lanes of int32 are 32 bytes, the device's vectors have 16; vectorise a loop of at most 4 iterations"),
])
def test_statement_49_vector_width(most, message):
    program = copy_over(kind=LoopKind.VECTORIZED)
    if message:
        assert broken(program, Limits(vector_bytes=most)) == message
    else:
        verify(program, Limits(vector_bytes=most))


@pytest.mark.parametrize(("kind", "thread", "found"), [
    (LoopKind.UNROLLED, "", "the unrolled loop i has n iterations"),
    (LoopKind.THREAD, "vthread", "the vthread loop i has n iterations"),
])
def test_copies_of_a_body_are_of_a_known_number(kind, thread, found):
    n, i = Var("n", size=True), Var("i")
    a, c = Buffer("A", (n,), I32), Buffer("C", (n,), I32)
    body = block("C", [(8, DATA, i)], lambda v: store(c, [v], a[v] + 1))
    body = body.replace(iters=tuple(it._replace(dom=Range(const(0, I32), n)) for it in body.iters))
    word = "bind" if thread else "unroll"
    assert broken(function(a, c, body=st.For(i, n, body, kind, thread))) == (
        f"copies: {found}, which is no constant; split it by a constant factor and {word} the inner loop")
    verify(copy_over(kind=kind, thread=thread))


def test_vectors_and_copies_are_not_too_many():
    """More is minutes of compiling, or the end of the process in LLVM."""
    a, a1 = copies((10000, 10000), 1)
    for primitive, says in (
        ("vectorize", ("vectors: the vectorised loop i1 has 10000 iterations, and vectors have at most 4096 lanes; split it by a "
                       "factor such as 16 and vectorise the inner loop")),
        ("unroll", ("copies: block A1 becomes 10000 copies by the loops i1, and 8192 is the most; split the loops and unroll "
                    "only inner parts of a few iterations")),
    ):
        s = te.create_schedule(a1.op)
        getattr(s[a1], primitive)(a1.op.axis[1])
        assert broken(lower(s, [a, a1], check=False)) == says
    s = te.create_schedule(a1.op)
    outer, inner = s[a1].split(a1.op.axis[1], 4000)
    s[a1].vectorize(inner)
    part = s[a1].split(a1.op.axis[0], 64)[1]
    s[a1].reorder(outer, part, inner)
    s[a1].unroll(part)
    assert broken(lower(s, [a, a1], check=False)) == (
        "copies: block A1 becomes 64 copies of 250 vectors each by the loops i0_inner, and 8192 is the most; split the loops and "
        "unroll only inner parts of a few iterations")


def test_double_buffers_need_twice_the_memory():
    s, args = on_threads()
    s["A1"].double_buffer()
    assert broken(lower(s, args), Limits(scope_bytes={"shared": 255})).startswith("memory: 256 bytes of shared memory")


def test_a_buffer_fits_its_scope():
    """With `buffer_bytes` alone, others may share its memory: a double buffer counts once."""
    s, args = on_threads()
    s["A1"].double_buffer()
    verify(lower(s, args), Limits(buffer_bytes={"shared": 128}))
    says = ("memory: A1 has 128 bytes of shared memory, the device has 127; compute the stage at an inner loop, or split its "
            "reader's loops into smaller tiles")
    assert broken(lower(s, args), Limits(buffer_bytes={"shared": 127})) == says
