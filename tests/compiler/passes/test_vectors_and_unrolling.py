"""Vectorised and unrolled loops: statements 38 and 39."""

import numpy as np
import pytest
from ir_support import buffer, calls, function, loop, numbers, of_kind, run, store, vectorized

from vtakit import te
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect, math_call
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.ir.ops import if_then_else, select
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.unroll import unroll
from vtakit.compiler.passes.vectorize import vectorize

i, j, n = Var("i"), Var("j"), Var("n", size=True)
A, B = buffer("A", 32), buffer("B", 32)


def check(*body, inputs=None, params=(A, B)):
    """The program vectorised, which must do what it did before."""
    before = function([*params], *body)
    after = vectorize(flatten(before))
    data = inputs or [numbers(32)]
    np.testing.assert_array_equal(run(after, *data), run(before, *data))
    return after


def test_a_store_becomes_one_of_ramps_and_broadcasts():
    """Statement 38."""
    after = check(loop(j, 4, vectorized(i, 8, store(B, j * 8 + i, A[j * 8 + i] * 2 + 1))))
    assert str(after.body) == (
        "for j in range(4):\n"
        "    B[ramp(j * 8, 1, 8)] = A[ramp(j * 8, 1, 8)] * broadcast(2.0, 8) + broadcast(1.0, 8)"
    )


def test_a_condition_that_all_lanes_share_stays():
    """Statement 38."""
    after = check(loop(j, 4, vectorized(i, 8, st.If(j < 3, store(B, j * 8 + i, A[j * 8 + i])))))
    assert len(of_kind(after, st.If)) == 1
    assert len(of_kind(after, ir.Ramp)) == 2
    assert len(of_kind(after, st.For)) == 1


@pytest.mark.parametrize("body", [
    st.If(i < 5, store(B, i, A[i])),
    st.If(i < 5, store(B, i, A[i]), store(B, i, A[i] * 3)),
    store(B, i, if_then_else(i < 5, A[i], A[i] + 1)),
    store(B, i // 3 * 0, B[0] + A[i]),
], ids=["if", "else", "if_then_else", "one place"])
def test_what_lanes_do_differently_runs_one_after_another(body):
    """Statement 38."""
    after = check(vectorized(i, 8, body))
    assert not of_kind(after, ir.Ramp)
    assert [s.kind for s in of_kind(after, st.For)] == [LoopKind.SERIAL]


def test_only_the_statement_that_differs_is_serial():
    """Statement 38."""
    after = check(vectorized(i, 8, store(B, i, A[i]), st.If(i < 5, store(B, i + 8, A[i]))))
    assert len(of_kind(after, ir.Ramp)) == 2
    assert len(of_kind(after, st.For)) == 1


def test_a_let_is_widened():
    """Statement 38."""
    x, y = Var("x", A.dtype), Var("y", A.dtype)
    after = check(vectorized(i, 8, st.LetStmt(x, A[i] + 1, store(B, i, ir.Let(y, x * 2, y + y)))))
    let, = of_kind(after, st.LetStmt)
    assert str(let.var.dtype) == "float32x8"
    assert [str(e.var.dtype) for e in of_kind(after, ir.Let)] == ["float32x8"]


def test_a_while_is_refused():
    """Statement 38."""
    f = function([A, B], vectorized(i, 8, st.While(B[0] < 5, store(B, 0, B[0] + 1))))
    with pytest.raises(PassError) as caught:
        vectorize(flatten(f))
    assert str(caught.value) == """\
loop 'i' is to be vectorised but contains a while

      def main(A: float32[32], B: float32[32]):
          for i in vectorized(8):
-->           while B[0] < 5.0:
                  B[0] = B[0] + 1.0"""


def test_a_symbolic_extent_is_refused():
    wide = buffer("W", n)
    with pytest.raises(PassError, match="loop 'i' is to be vectorised but its extent n is no constant: split it by one first"):
        vectorize(flatten(function([wide], vectorized(i, n, store(wide, i, 0)))))


def test_selects_casts_math_and_gathers_work_on_lanes():
    index = buffer("I", 32, kind="int32")
    value = select(A[i] < 4, math_call("sqrt", A[index[i]]), A[i * 2].astype("int32").astype("float32"))
    body = vectorized(i, 8, store(B, i, value))
    after = check(body, inputs=[numbers(32), numbers(32, kind="int32", seed=1)], params=(A, index, B))
    assert not of_kind(after, st.For)


def test_memory_within_the_loop_is_one_for_each_lane():
    own = buffer("Own", 3, scope="local")
    after = check(vectorized(i, 8, st.Allocate(own, st.seq(
        loop(j, 3, store(own, j, A[i] + j.astype("float32"))), store(B, i, own[0] + own[2]),
    ))))
    assert of_kind(after, st.Allocate)[0].buffer.shape[0].value == 24
    assert {s.kind for s in of_kind(after, st.For)} == {LoopKind.SERIAL}


def test_an_explicit_loop_is_always_unrolled():
    """Statement 39."""
    f = function([A, B], loop(j, 3, loop(i, 4, store(B, j * 4 + i, A[i]), kind=LoopKind.UNROLLED)))
    after = unroll(f)
    assert len(of_kind(after, st.Store)) == 4
    assert len(of_kind(after, st.For)) == 1
    np.testing.assert_array_equal(run(after, numbers(32)), run(f, numbers(32)))


@pytest.mark.parametrize(("steps", "loops"), [(0, 2), (3, 2), (4, 1), (11, 1), (12, 0)])
def test_serial_loops_are_unrolled_up_to_a_number_of_steps(steps, loops):
    """Statement 39."""
    f = function([A, B], loop(j, 3, loop(i, 4, store(B, j * 4 + i, A[i]))))
    after = unroll(f, auto_steps=steps)
    assert len(of_kind(after, st.For)) == loops
    np.testing.assert_array_equal(run(after, numbers(32)), run(f, numbers(32)))


def test_a_pragma_affects_only_its_own_loop():
    """Statement 39."""
    k = Var("k")
    f = function(
        [A, B], loop(i, 4, store(B, i, A[i]), auto_unroll_max_step=4), loop(k, 4, store(B, k + 4, A[k])),
    )
    after = unroll(f)
    assert [s.var.name for s in of_kind(after, st.For)] == ["k"]
    assert len(of_kind(after, st.Store)) == 5


@pytest.mark.parametrize(("lanes", "inner", "loops"), [
    (1, 8, []), (1, 9, ["i"]), (1, 1025, ["i", "j"]), (256, 64, ["i"]), (256, 65, ["i", "j"]),
])
def test_a_pragma_may_ask_for_any_number_but_copies_have_an_end(lanes, inner, loops):
    wide = buffer("W", 128 * inner * lanes)
    index = (i * inner + j) * lanes
    ramp = st.Store(wide, (ir.Ramp(index, IntImm(1), lanes),), ir.Broadcast(A[0], lanes))
    put = ramp if lanes > 1 else store(wide, index, A[0])
    body = loop(j, inner, put)
    after = unroll(function([A, wide], loop(i, 128, body, auto_unroll_max_step=10**9)))
    assert [s.var.name for s in of_kind(after, st.For)] == loops


def test_a_pragma_may_be_a_constant_and_nothing_else():
    def asked(value):
        return function([A, B], loop(i, 4, store(B, i, A[i]), auto_unroll_max_step=value))
    assert not of_kind(unroll(asked(IntImm(4))), st.For)
    says = "loop 'i' has the pragma auto_unroll_max_step with the value 'four': give a whole number"
    with pytest.raises(PassError, match=f"^{says}\n"):
        unroll(asked("four"))


def test_copies_have_variables_of_their_own():
    own = buffer("Own", 2, scope="local")
    f = function([A, B], loop(j, 2, st.Allocate(own, loop(i, 2, store(own, i, A[i]), store(B, j * 2 + i, own[i]))),
                              kind=LoopKind.UNROLLED))
    after = unroll(f)
    assert len({s.var for s in of_kind(after, st.For)}) == 2
    assert len({s.buffer for s in of_kind(after, st.Allocate)}) == 2


def test_an_unrolled_loop_of_symbolic_extent_is_refused():
    wide = buffer("W", n)
    with pytest.raises(PassError, match="loop 'i' is to be unrolled but its extent n is no constant: split it by one first"):
        unroll(function([wide], loop(i, n, store(wide, i, 0), kind=LoopKind.UNROLLED)))


def test_calls_with_effects_are_made_for_each_lane():
    f = function([A, B], vectorized(i, 4, st.Evaluate(effect("prefetch", i))))
    after = vectorize(flatten(f))
    assert len(calls(after, "prefetch")) == 1
    assert of_kind(after, st.For)[0].extent == IntImm(4)


@pytest.mark.parametrize("threads", [8, 7], ids=["shuffles", "shared memory"])
def test_statement_44_partial_vectors_reduced_across_threads(threads):
    """Each thread adds up vectors of 4 of 6 columns, of 20 rows that the threads do not divide; then all add theirs."""
    a, k = te.placeholder((3, 20, 6), "int32", name="A"), te.reduce_axis((0, 20), "k")
    c = te.compute((3, 6), lambda i, j: te.sum(a[i, k, j], axis=k), name="C")
    d = te.compute((3, 6), lambda i, j: c[i, j] * 2, name="D")
    s = te.create_schedule(d.op)
    i, j = c.op.axis
    outer, lanes = s[c].split(j, 4)
    s[c].vectorize(lanes)
    rows, part = s[c].split(k, threads)
    s[c].bind(part, te.thread_axis(tag="threadIdx.x"))
    s[c].reorder(i, outer, lanes, rows, part)
    s[d].bind(d.op.axis[0], te.thread_axis(tag="blockIdx.x"))
    s[c].compute_at(s[d], d.op.axis[0])
    function = lower(s, [a, d])
    late = lower_late(function, "gpu")
    x = np.random.default_rng(threads).integers(-9, 10, (3, 20, 6)).astype(np.int32)
    for f in (function, late):
        y = np.zeros((3, 6), np.int32)
        interpret(f, [x, y])
        np.testing.assert_array_equal(y, 2 * x.sum(axis=1))
    assert {2, 4} <= {s.value.dtype.lanes for s in statements(late.body) if isinstance(s, st.Store)}
