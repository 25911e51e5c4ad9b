"""The verifier: for each rule a program that keeps it and programs that break it, with the whole message."""

from collections import Counter

import numpy as np
import pytest
from verify_support import (
    DATA,
    F32,
    GIVEN,
    I32,
    OTHER,
    REDUCE,
    ROWS,
    SIZE,
    A,
    C,
    block,
    broken,
    buffer,
    copy_over,
    function,
    loop,
    store,
)

from vtakit import te
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Load, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.lower import RULES, VerifyError, lower, verify
from vtakit.compiler.lower.interpreter import UndefinedValueError, interpret
from vtakit.compiler.lower.verify import bindings


def test_a_program_that_keeps_all_rules():
    verify(copy_over())


def test_every_rule_says_what_it_is():
    assert all(rule.doc.endswith(".") for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_the_message_shows_the_program_with_the_culprit():
    with pytest.raises(VerifyError) as error:
        verify(copy_over(7))
    assert str(error.value) == """\
outputs: not every element of the output C is certain to be written

      def main(A: int32[8], C: int32[8]):
          for i in range(7):
-->           block C(v0 = i):
                  C[v0] = A[v0] + 1

hint: let the loops around the block cover its axes"""


# -- names ---------------------------------------------------------------------------------------------------------------

def test_names_a_variable_that_nothing_sets():
    stray = Var("stray")
    program = function(A, C, body=loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], stray))))
    assert broken(program) == (
        "names: nothing sets the variable stray; if it is a parameter, give it among the arguments; if it is an axis of a "
        "reduction, use it within the reduction over it, as in te.sum(…, axis=k); otherwise use it within the loop or let that "
        "sets it")


def test_names_a_variable_set_twice():
    var = Var("i")
    inner = st.For(var, const(8, I32), block("C", [(8, DATA, var)], lambda v: store(C, [v], 0)))
    assert broken(function(C, body=st.For(var, const(2, I32), inner))) == (
        "names: the variable i is set twice; make a new variable for each loop, let and block iterator"
    )


def test_names_a_buffer_outside_its_allocation():
    t = buffer("T", 8)
    made = st.Allocate(t, loop("i", 8, lambda i: block("T", [(8, DATA, i)], lambda v: store(t, [v], 0))))
    used = loop("j", 8, lambda j: block("C", [(8, DATA, j)], lambda v: store(C, [v], t[v])))
    assert broken(function(C, body=st.seq(made, used))) == (
        "names: nothing allocates the buffer T here; use it within its allocation, or make it a parameter"
    )


def test_names_a_value_of_another_type():
    half = te.const(0.5, F32)
    program = function(C, body=loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], half))))
    assert broken(program) == (
        "names: a value of float32 is stored in C, which holds int32; convert it with .astype('int32')"
    )


def test_names_a_wrong_number_of_indices():
    program = function(C, body=loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v, v], 1))))
    assert broken(program).startswith("names: the buffer C has 1 dimensions, used with 2 indices;")


# -- bindings and declarations -------------------------------------------------------------------------------------------

def test_bindings_an_iterator_beyond_its_domain():
    assert broken(copy_over(9)) == (
        "bindings: the iterator v0 of block C is i, which is not certain to be within 0 to 7; "
        "guard the block with a predicate, or shorten its loops"
    )


def test_bindings_a_predicate_keeps_it_within():
    verify(function(A, C, body=loop("o", 3, lambda o: loop("i", 3, lambda i: block(
        "C", [(8, DATA, o * 3 + i)], lambda v: store(C, [v], A[v]), where=lambda v: o * 3 + i < 8,
    )))))


def total(make_binding, outer: int = 1, predicate=lambda v: TRUE) -> st.Function:
    """C[0] = sum of A in a loop within another."""
    c = buffer("C", 1)
    init = block("C_init", [], lambda: store(c, [0], 0))
    return function(A, c, body=st.seq(init, loop("o", outer, lambda o: loop("k", 8, lambda k: block(
        "C", [(8, REDUCE, make_binding(o, k))], lambda v: store(c, [0], c[0] + A[v]), where=predicate,
    )))))


def test_bindings_a_sum_over_each_term_once():
    verify(total(lambda o, k: k))


def test_bindings_terms_added_twice():
    assert broken(total(lambda o, k: k, outer=2)) == (
        "bindings: block C adds up the same terms in every iteration of the loop o; let an iterator depend on the loop, or move "
        "the block out of it"
    )


def sum_of(binding, n: int, where=lambda o, k: TRUE) -> st.Function:
    """C[0] = sum of terms that two loops, over 4 and 2, make."""
    c = buffer("C", 1)
    init = block("C_init", [], lambda: store(c, [0], 0))
    return function(A, c, body=st.seq(init, loop("o", 4, lambda o: loop("k", 2, lambda k: block(
        "C", [(n, REDUCE, binding(o, k))], lambda v: store(c, [0], c[0] + A[v]), where=lambda v: where(o, k),
    )))))


def test_bindings_a_condition_pins_a_loop_only_where_it_says_its_value():
    verify(sum_of(lambda o, k: k, 2, lambda o, k: ir.EQ(o, const(0, I32))))
    assert broken(sum_of(lambda o, k: k, 2, lambda o, k: o < 2)).startswith(
        "bindings: block C adds up the same terms in every iteration of the loop o;")


def test_bindings_steps_that_overlap():
    verify(sum_of(lambda o, k: o * 2 + k, 8))
    assert broken(sum_of(lambda o, k: k * 3 + o, 7)) == (
        "bindings: block C is not certain to run once at each point: the steps of its iterators overlap; bind its iterators to "
        "sums of loop variables that splits and fuses make")


def test_bindings_that_are_no_sum_of_loops():
    found = broken(total(lambda o, k: k * k % 8))
    assert found.startswith("bindings: block C is not certain to run once at each point: v0 = k * k % 8")


def test_declared_a_read_that_is_not():
    one = loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], A[v]), reads=()))
    program = function(A, C, body=one)
    assert broken(program) == (
        "declared: block C reads elements of A that it does not declare to read; add them to the block's reads"
    )


def test_declared_a_region_around_what_is_read():
    whole = (st.Region(A, (Range(const(0, I32), const(8, I32)),)),)
    one = loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], A[v]), reads=whole))
    verify(function(A, C, body=one))


def test_declared_regions_of_thousands_of_reads_are_looked_up(monkeypatch):
    """An expression that reads 300 elements declares 300 regions; compared with each other, sums of 1,500 terms took seconds."""
    a = te.placeholder((400,), name="a")
    b = te.compute((10,), lambda i: sum((a[i + n] for n in range(1, 300)), a[i]), name="b")
    program = lower(te.create_schedule(b.op), [a, b])
    looked, counted = bindings.is_whole, Counter()
    monkeypatch.setattr(bindings, "is_whole", lambda region: [counted.update("x"), looked(region)][1])
    verify(program)
    assert counted["x"] == 301


# -- loops that run together ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("kind", "thread", "word"), [
    (LoopKind.PARALLEL, "", "parallel"), (LoopKind.VECTORIZED, "", "vectorised"),
    (LoopKind.THREAD, "blockIdx.x", "blockIdx.x thread"), (LoopKind.THREAD, "vthread", "vthread thread"),
])
def test_reductions_statement_14_no_race_on_a_sum(kind, thread, word):
    c = buffer("C", 1)
    init = block("C_init", [], lambda: store(c, [0], 0))
    sums = loop("k", 8, lambda k: block("C", [(8, REDUCE, k)], lambda v: store(c, [0], c[0] + A[v])), kind, thread)
    assert broken(function(A, c, body=st.seq(init, sums))) == (
        f"reductions: the {word} loop k adds up terms of block C, through its iterator v0, and its iterations run together; run "
        "it serially, bind it to threadIdx for a reduction across threads, or use rfactor"
    )


@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.VECTORIZED])
def test_disjoint_every_iteration_writes_the_same(kind):
    body = loop("p", 4, lambda p: loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], A[v]))), kind)
    word = "parallel" if kind is LoopKind.PARALLEL else "vectorised"
    assert broken(function(A, C, body=body)) == (
        f"disjoint writes: every iteration of the {word} loop p writes the same elements of C in block C; let an axis of the "
        "block depend on p, or run the block in one iteration only"
    )


def test_disjoint_in_memory_of_each_iteration():
    t = buffer("T", 8)

    def each(p):
        fill = loop("i", 8, lambda i: block("T", [(8, DATA, i)], lambda v: store(t, [v], A[v])))
        return st.Allocate(t, st.seq(fill, block("C", [(8, DATA, p)], lambda v: store(C, [v], t[v]))))
    verify(function(A, C, body=loop("p", 8, each, LoopKind.PARALLEL)))


def test_launches_pitfall_7_one_thread_axis_on_two_loops():
    body = loop("t", 8, lambda t: loop("u", 4, lambda u: block("C", [(8, DATA, t)], lambda v: store(C, [v], A[v])),
                                       LoopKind.THREAD, "threadIdx.x"), LoopKind.THREAD, "threadIdx.x")
    assert broken(function(A, C, body=body)) == (
        "launches: threadIdx.x is bound to two loops within each other, with 8 indices and with 4; bind one of them"
    )


def test_launches_threads_of_a_number_that_is_not_known():
    n = Var("n", size=True)
    a, c = Buffer("A", (n,), I32), Buffer("C", (n,), I32)
    var = Var("t")
    it = st.BlockIter(v := Var("v"), Range(const(0, I32), n), DATA, var)
    at = (Range(v, const(1, I32)),)
    one = st.Block("C", (it,), (st.Region(a, at),), (st.Region(c, at),), TRUE, None, st.Store(c, (v,), Load(a, (v,))))
    assert broken(function(a, c, body=st.For(var, n, one, LoopKind.THREAD, "threadIdx.x"))) == (
        "launches: threadIdx.x has n indices, which is no constant; bind a loop of constant extent"
    )


def test_scopes_memory_of_threads_outside_their_kernel():
    t = buffer("T", 8, scope="local")
    fill = loop("t", 8, lambda i: block("T", [(8, DATA, i)], lambda v: store(t, [v], A[v])), LoopKind.THREAD, "threadIdx.x")
    use = loop("i", 8, lambda i: block("C", [(8, DATA, i)], lambda v: store(C, [v], t[v])))
    assert broken(function(A, C, body=st.Allocate(t, st.seq(fill, use)))) == (
        "scopes: T is local memory allocated outside the kernel that uses it in block T; compute its stage within a loop of the "
        "kernel, or give it the global scope"
    )


@pytest.mark.parametrize("divergent", [False, True])
def test_barriers_pitfall_8_all_threads_reach_each(divergent):
    wait = st.Block("wait", (), (), (), TRUE, None, st.Evaluate(effect("sync", "shared")))

    def each(t):
        one = block("C", [(8, DATA, t)], lambda v: store(C, [v], A[v]))
        return st.seq(one, st.If(t < 4, wait) if divergent else wait)
    program = function(A, C, body=loop("t", 8, each, LoopKind.THREAD, "threadIdx.x"))
    if divergent:
        assert broken(program) == "barriers: the barrier stands under a condition on t; move it out of the condition"
    else:
        verify(program)


def test_barriers_threads_that_share_memory_take_the_same_loops():
    a = te.placeholder((6,), "int32", name="A")
    b = te.compute((6,), lambda i: a[i] + 1, name="B")

    def up_to(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(b[k], axis=k)

    c = te.compute((6,), up_to, name="C")
    s = te.create_schedule(c.op)
    i, k = c.op.axis[0], c.op.reduce_axis[0]
    s[c].bind(i, te.thread_axis(tag="threadIdx.y"))
    s[b].set_scope("shared")
    s[b].compute_at(s[c], k)
    with pytest.raises(VerifyError) as error:
        lower(s, [a, c])
    assert (error.value.rule, error.value.found) == (
        "barriers", "threads exchange elements of B where not all of them come: threadIdx.y + 1 differs between them"
    )
    s[b].set_scope("local")
    lower(s, [a, c])


# -- values --------------------------------------------------------------------------------------------------------------

def staged(first: int, width: int, shift: int = 0, swapped: bool = False) -> st.Function:
    """T = A in a loop, then C[i] = T[i + shift]."""
    t = buffer("T", 8)
    fill = loop("i", width, lambda i: block("T", [(8, DATA, i + first)], lambda v: store(t, [v], A[v])))
    use = loop("j", 8 - shift, lambda j: block("C", [(8, DATA, j)], lambda v: store(C, [v], t[v + shift])))
    rest = loop("r", shift, lambda r: block("rest", [(8, DATA, r + 8 - shift)], lambda v: store(C, [v], 0))) if shift else None
    return function(A, C, body=st.Allocate(t, st.seq(*(use, fill) if swapped else (fill, use), rest)))


def test_reads_of_what_was_written():
    verify(staged(0, 8))


@pytest.mark.parametrize(("first", "width"), [(1, 7), (0, 7)])
def test_reads_of_elements_that_nothing_wrote(first, width):
    assert broken(staged(first, width)) == (
        "reads: block C reads elements of T that T is not certain to have written before; compute the stage at a loop around all "
        "that reads it, or over a larger part"
    )


def test_reads_before_the_write():
    assert broken(staged(0, 8, swapped=True)) == "reads: block C reads T before block T writes it; move T before C"


def test_reads_of_an_unfinished_sum():
    t = buffer("T", 1)
    init = block("T_init", [], lambda: store(t, [0], 0))
    sums = loop("k", 8, lambda k: st.seq(
        block("T", [(8, REDUCE, k)], lambda v: store(t, [0], t[0] + A[v])),
        block("C", [(8, DATA, k)], lambda v: store(C, [v], t[0])),
    ))
    assert broken(function(A, C, body=st.Allocate(t, st.seq(init, sums)))) == (
        "reads: block C reads T before block T has certainly added up all of it: v0 takes 1 of its 8 values; read it outside the "
        "loops of the reduction"
    )


def test_reads_of_a_sum_that_nothing_began():
    c = buffer("C", 1)
    sums = loop("k", 8, lambda k: block("C", [(8, REDUCE, k)], lambda v: store(c, [0], c[0] + A[v])))
    assert broken(function(A, c, body=sums)) == (
        "reads: block C reads elements of C that no block wrote before; compute the stage at a loop around all that reads it, or "
        "over a larger part"
    )


@pytest.mark.parametrize(("extent", "ok"), [(8, True), (7, False)])
def test_outputs_a_sum_lacks_terms(extent, ok):
    c = buffer("C", 1)
    init = block("C_init", [], lambda: store(c, [0], 0))
    sums = loop("k", extent, lambda k: block("C", [(8, REDUCE, k)], lambda v: store(c, [0], c[0] + A[v])))
    program = function(A, c, body=st.seq(init, sums))
    if ok:
        verify(program)
    else:
        assert broken(program) == (
            "outputs: the reduction in block C is not certain to be complete: v0 takes 7 of its 8 values; let the loops around "
            "the block cover the whole domain of its reduction"
        )


def test_outputs_every_other_element():
    body = loop("i", 4, lambda i: block("C", [(8, DATA, i * 2)], lambda v: store(C, [v], A[v])))
    assert broken(function(A, C, body=body)).startswith("outputs: not every element of the output C is certain to be written;")


def test_outputs_two_indices_of_one_loop():
    c = buffer("C", 8, 8)
    body = loop("i", 8, lambda i: block("C", [(8, DATA, i), (8, DATA, i)], lambda v, w: store(c, [v, w], 0)))
    assert broken(function(c, body=body)).startswith("outputs: not every element of the output C is certain to be written;")


# -- sizes that may be 0 -------------------------------------------------------------------------------------------------

def fused_rows(to: Buffer) -> st.For:
    return loop("f", SIZE * OTHER, lambda f: block(
        "R", [(SIZE, DATA, f // OTHER), (OTHER, DATA, f % OTHER)], lambda v, w: store(to, [v], GIVEN[w])))


def test_outputs_rows_of_which_none_is_counted_where_they_have_no_elements():
    """With l = 0 the loop has no iterations, and there are m rows."""
    found = broken(function(ROWS, GIVEN, body=fused_rows(ROWS)))
    assert found.startswith("outputs: not every element of the output R is certain to be written;")


def test_outputs_a_loop_that_counts_nothing_may_have_no_iterations():
    body = loop("i", SIZE, lambda i: loop("k", OTHER, lambda k: block("R", [(SIZE, DATA, i)], lambda v: store(ROWS, [v], v))))
    found = broken(function(ROWS, GIVEN, body=body))
    assert found.startswith("outputs: not every element of the output R is certain to be written;")


def test_outputs_whose_elements_the_loop_counts():
    both = buffer("B", SIZE, OTHER)
    verify(function(both, body=loop("f", SIZE * OTHER, lambda f: block(
        "B", [(SIZE, DATA, f // OTHER), (OTHER, DATA, f % OTHER)], lambda v, w: store(both, [v, w], v)))))


@pytest.mark.parametrize(("extent", "ok"), [(OTHER, True), (1, False)])
def test_reads_of_rows_that_are_written_where_they_have_elements(extent, ok):
    """A reader within a loop over l only runs where l is at least 1."""
    inner, out = buffer("I", SIZE), buffer("O", SIZE, extent)
    reader = loop("i", SIZE, lambda i: loop("j", extent, lambda j: block(
        "O", [(SIZE, DATA, i), (extent, DATA, j)], lambda v, w: store(out, [v, w], inner[v]))))
    program = function(GIVEN, out, body=st.Allocate(inner, st.seq(fused_rows(inner), reader)))
    if ok:
        verify(program)
    else:
        assert broken(program).startswith("reads: block O reads elements of I that R is not certain to have written before;")


def test_outputs_a_loop_of_constant_0_iterations():
    body = loop("i", 0, lambda i: loop("f", 8, lambda f: block("C", [(8, DATA, f)], lambda v: store(C, [v], A[v]))))
    assert broken(function(A, C, body=body)).startswith("outputs: not every element of the output C is certain to be written;")


def test_bindings_divided_by_a_loop_of_0_iterations():
    c = buffer("C", 0, 4)
    verify(function(c, body=loop("f", 0, lambda f: block(
        "C", [(0, DATA, f // 4), (4, DATA, f % 4)], lambda v, w: store(c, [v, w], v)))))


# -- it is right about what runs -----------------------------------------------------------------------------------------

STAGED = [(first, n, shift) for first in (0, 1) for n in (6, 7, 8) for shift in (0, 1, 2) if first + n <= 8]


@pytest.mark.parametrize(("first", "width", "shift"), STAGED)
def test_reads_agree_with_the_interpreter(first, width, shift):
    program = staged(first, width, shift)
    arrays = [np.arange(8, dtype="int32"), np.zeros(8, "int32")]
    if first <= shift and first + width == 8:
        interpret(program, arrays)
        verify(program)
    else:
        with pytest.raises(UndefinedValueError):
            interpret(program, arrays)
        assert broken(program).startswith("reads: ")
