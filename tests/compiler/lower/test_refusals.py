"""Schedules of which lowering makes no program: for each of its rules one, with the whole message."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from lower_support import copies

from vtakit import te
from vtakit.compiler.ir.depth import MOST_CALLS
from vtakit.compiler.lower import LOWER_RULES, LowerError, lower

REFUSED: list[Callable[[], object]] = []


def refused(function: Callable[[], object]) -> Callable[[], object]:
    """The function's docstring is the whole message of the error that it raises."""
    REFUSED.append(function)
    return function


def call(ins, outs):
    return te.call_packed("f", ins[0].access_ptr("r"), outs[0].access_ptr("w"))


def bind(stage, axis, tag):
    stage.bind(axis, te.thread_axis(tag=tag))


@refused
def an_input_that_is_no_argument():
    """
    arguments: A is read by the program but is not among its arguments, which are A1

    hint: add A to the arguments
    """
    _, a1 = copies((8,), 1)
    lower(te.create_schedule(a1.op), [a1])


@refused
def an_argument_given_twice():
    """
    arguments: the argument A of 'main' is given twice

    hint: give each once
    """
    a, a1 = copies((8,), 1)
    lower(te.create_schedule(a1.op), [a, a.op.output(0), a1])


@refused
def arguments_that_are_no_list():
    """
    arguments: the arguments of 'main' are A1: int32[8]

    hint: give a list of tensors, variables and buffers
    """
    _, a1 = copies((8,), 1)
    lower(te.create_schedule(a1.op), a1)


@refused
def a_tensor_in_the_place_of_the_schedule():
    """
    arguments: A1: int32[8] is no schedule

    hint: make one of the results with te.create_schedule
    """
    a, a1 = copies((8,), 1)
    lower(a1, [a, a1])


@refused
def an_expression_that_is_too_deep():
    """
    depth: an expression of 'main', or its stages one within another, are nested deeper than Python calls functions

    hint: compute parts as tensors of their own, inline fewer stages, or call sys.setrecursionlimit with more than LIMIT
    """
    a = te.placeholder((8,), "int32", name="A")
    value = a[0]
    for _ in range(MOST_CALLS):
        value = value + a[1]
    b = te.compute((8,), lambda i: value, name="B")
    lower(te.create_schedule(b.op), [a, b])


@refused
def values_that_too_many_branches_need():
    """
    depth: an expression of 'main' needs the same large values, with reads that may be outside of their tensors, in cases of \
if_then_else within others, in more ways than can be written

    hint: compute parts as tensors of their own, or inline fewer stages
    """
    a = te.placeholder((8,), "int32", name="A")

    def body(i):
        value = a[i - 1]
        for at in range(1, 40):  # each way through them has conditions of its own under which that element is read
            value = te.if_then_else(i > at, value, at) + te.if_then_else(i > at + 40, value, at)
        return value

    b = te.compute((8,), body, name="B")
    lower(te.create_schedule(b.op), [a, b])


@refused
def a_prefetch_of_what_was_cached():
    """
    prefetch: A1 prefetches A, which it reads no more since that was cached or inlined

          # A1, an output
    -->   for i0 in range(8):  # prefetch A + 1
              A1[i0] = A_local[i0] + 1

    hint: cache and inline first, then prefetch what is read
    """
    a, a1 = copies((8,), 1)
    s = te.create_schedule(a1.op)
    s[a1].prefetch(a, "i0")
    s.cache_read(a, "local")
    lower(s, [a, a1])


@refused
def a_prefetch_of_what_the_loop_computes():
    """
    prefetch: A2 prefetches A1, which is computed anew in each iteration of i0

          # A2, an output
    -->   for i0 in range(8):  # prefetch A1 + 1
              A2[i0] = A1[i0] + 1

    hint: prefetch what is there before the loop, or compute A1 outside of it
    """
    a, a1, a2 = copies((8,))
    s = te.create_schedule(a2.op)
    s[a1].compute_at(s[a2], "i0")
    s[a2].prefetch(a1, "i0")
    lower(s, [a, a2])


@refused
def an_argument_that_is_inlined():
    """
    arguments: the argument A1 of 'main' is inlined, so the program does not compute it

    hint: leave it out, or compute A1 at the root
    """
    a, a1, a2 = copies((8,))
    s = te.create_schedule(a2.op)
    s[a1].compute_inline()
    lower(s, [a, a1, a2])


@refused
def an_output_whose_elements_share_memory():
    """
    arguments: elements of A1, which 'main' writes, may share memory: int32[4, 4] has strides of 3, 1

    hint: declare its buffer with strides that keep them apart
    """
    a, a1 = copies((4, 4), 1)
    apart = [te.decl_buffer((4, 4), "int32", strides=strides) for strides in ([4, 1], [1, 4], [5, 1], [te.var("s"), 1])]
    s = te.create_schedule(a1.op)
    for buffer in apart:
        lower(s, [a, a1], binds={a1: buffer})
    lower(s, [a, a1], binds={a: te.decl_buffer((4, 4), "int32", strides=[0, 1])})
    lower(s, [a, a1], binds={a1: te.decl_buffer((4, 4), "int32", strides=[3, 1])})


@refused
def an_argument_of_another_program():
    """
    arguments: the argument A of 'main' is no tensor that the schedule reads or computes

    hint: leave it out, or give the tensors from which the schedule was made
    """
    (a, a1), (other, _) = copies((8,), 1), copies((8,), 1)
    lower(te.create_schedule(a1.op), [a, other, a1])


@refused
def an_inlined_stage_that_an_extern_reads():
    """
    inlining: A1 is inlined, but E, which reads it, has no expression to put it in

    -->   # A1, inlined
          for i0 in range(8):
              A1[i0] = A[i0] + 1

          # E, an output
    -->   extern(A1)

    hint: compute A1 at the root
    """
    a, a1 = copies((8,), 1)
    e = te.extern((8,), [a1], call, name="E", dtype="int32")
    s = te.create_schedule(e.op)
    s[a1].compute_inline()
    lower(s, [a, e])


@refused
def a_reader_outside_the_loop_in_which_its_producer_stands():
    """
    places: B is computed at the loop i of C, but D, which reads it, is not within that loop

          # C
    -->   for i in range(8):
              C[i] = B[i] * 2

    -->   # D, an output
          for i in range(8):
              D[i] = B[i] + C[i]

    hint: compute D there too, or B at a loop around both or at the root
    """
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    d = te.compute((8,), lambda i: b[i] + c[i], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    lower(s, [a, d])


@refused
def an_argument_within_a_loop():
    """
    places: A1 is an argument of the program, and is computed at the loop i0 of A2

    -->   # A1, at A2's loop i0
          for i0 in range(8):
              A1[i0] = A[i0] + 1

          # A2, an output
    -->   for i0 in range(8):
              A2[i0] = A1[i0] + 1

    hint: compute A1 at the root, or use cache_write(A1, scope) and compute that there
    """
    a, a1, a2 = copies((8,))
    s = te.create_schedule(a2.op)
    s[a1].compute_at(s[a2], a2.op.axis[0])
    lower(s, [a, a1, a2])


@refused
def the_length_of_a_row_that_is_data():
    """
    lengths: how far k goes is read from ends

          # C, an output
          for i in range(4):
              for k in range(ends[i]):  # reduce
    -->           C[i] = sum(A[k], axis=[k])

    hint: give k the greatest length and the reduction a condition where=, or write it with te.hybrid.script
    """
    a, ends = te.placeholder((9,), "int32", name="A"), te.placeholder((4,), "int32", name="ends")

    def row(i):
        k = te.reduce_axis((0, ends[i]), name="k")
        return te.sum(a[k], axis=k)

    c = te.compute((4,), row, name="C")
    lower(te.create_schedule(c.op), [a, ends, c])


@refused
def the_length_of_a_row_without_a_bound():
    """
    lengths: how far k goes depends on i, whose loops are not all around its own, and has no bound

          # C, an output
          for k in range(i ^ 1):  # reduce
              for i in range(4):
    -->           C[i] = sum(A[k], axis=[k])

    hint: put the loops of i outside of those of k, and do not fuse them
    """
    a = te.placeholder((9,), "int32", name="A")

    def row(i):
        k = te.reduce_axis((0, i ^ 1), name="k")
        return te.sum(a[k], axis=k)

    c = te.compute((4,), row, name="C")
    s = te.create_schedule(c.op)
    s[c].reorder(c.op.reduce_axis[0], c.op.axis[0])
    lower(s, [a, c])


@refused
def the_name_of_the_function_is_a_number():
    """
    arguments: the name of the function is 3

    hint: give a string
    """
    a, a1, _ = copies((8,))
    lower(te.create_schedule(a1.op), [a, a1], 3)


@refused
def pitfall_7_two_extents_on_one_thread_axis_of_a_kernel():
    """
    thread lengths: i0_outer has 32 iterations on threadIdx.x, which has 16 in the same kernel

          # A1, in shared, at A2's loop i0_outer
    -->   for i0_outer in bind[threadIdx.x](32):
              for i0_inner in range(2):
                  A1[i0] = A[i0] + 1

    hint: split i0_outer so that a loop of 16 is bound
    """
    a, a1, a2 = copies((64,))
    s = te.create_schedule(a2.op)
    bx, tx = s[a2].split(a2.op.axis[0], 16)
    bind(s[a2], bx, "blockIdx.x")
    bind(s[a2], tx, "threadIdx.x")
    s[a1].set_scope("shared")
    s[a1].compute_at(s[a2], bx)
    outer, _ = s[a1].split(s[a1].op.axis[0], nparts=32)
    bind(s[a1], outer, "threadIdx.x")
    lower(s, [a, a2])


def row_sums():
    a, k = te.placeholder((4, 16), "int32", name="A"), te.reduce_axis((0, 16), "k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    return a, c, te.create_schedule(c.op)


@refused
def data_within_the_loops_of_a_reduction_across_threads():
    """
    thread reductions: i runs over data, within the reduction's loop k_outer, and C is reduced across threads

          # C, an output
          for k_outer in range(4):  # reduce
    -->       for i in range(4):
                  for k_inner in bind[threadIdx.x](4):  # reduce
                      C[i] = sum(A[i, k], axis=[k])

    hint: put the loops of the reduction innermost: reorder(i, k_outer)
    """
    a, c, s = row_sums()
    outer, inner = s[c].split("k", 4)
    bind(s[c], inner, "threadIdx.x")
    s[c].reorder(outer, "i", inner)
    lower(s, [a, c])


@refused
def a_loop_over_data_and_terms_across_threads():
    """
    thread reductions: i_k_fused_outer takes both data and terms, and C is reduced across threads

          # C, an output
    -->   for i_k_fused_outer in range(16):  # reduce
              for i_k_fused_inner in bind[threadIdx.x](4):  # reduce
                  C[i] = sum(A[i, k], axis=[k])

    hint: do not fuse axes of the reduction with others, or reduce in one thread
    """
    a, c, s = row_sums()
    _, inner = s[c].split(s[c].fuse("i", "k"), 4)
    bind(s[c], inner, "threadIdx.x")
    lower(s, [a, c])


@refused
def a_state_that_no_compute_makes():
    """
    states: first makes a state of the scan scan but is no compute

          # first
    -->   extern(A)

    hint: copy its result with a te.compute, and give that to the scan
    """
    a = te.placeholder((4, 8), "int32", name="A")
    first = te.extern((1, 8), [a], call, name="first", dtype="int32")
    state = te.placeholder((4, 8), "int32", name="state")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + a[t, i], name="next")
    out = te.scan(first, update, state, name="scan")
    lower(te.create_schedule(out.op), [a, out])


@refused
def first_rows_that_are_not_where_their_scan_is():
    """
    places: first makes the first rows of scan, and is not computed where that is

    -->   # first
          for t in range(1):
              for i in range(8):
                  first[t, i] = A[t, i]

          # C, an output
    -->   for t in range(4):
              for i in range(8):
                  C[t, i] = scan[t, i]

    hint: compute both at one loop, or both at the root
    """
    a, state = (te.placeholder((4, 8), "int32", name=name) for name in ("A", "state"))
    first = te.compute((1, 8), lambda t, i: a[t, i], name="first")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + a[t, i], name="next")
    out = te.scan(first, update, state, name="scan")
    c = te.compute((4, 8), lambda t, i: out[t, i], name="C")
    s = te.create_schedule(c.op)
    s[out].compute_at(s[c], c.op.axis[0])
    lower(s, [a, c])


@refused
def a_buffer_of_another_shape():
    """
    arguments: binds of 'main' gives A1, int32[4, 4], the buffer half, int32[2, 2]

    hint: declare the buffer with te.decl_buffer(A1.shape, A1.dtype, …)
    """
    a, a1 = copies((4, 4), 1)
    lower(te.create_schedule(a1.op), [a, a1], binds={a1: te.decl_buffer((2, 2), "int32", "half")})


@refused
def a_buffer_of_another_rank():
    """
    arguments: binds of 'main' gives A1, int32[4, 4], the buffer flat, int32[16]

    hint: declare the buffer with te.decl_buffer(A1.shape, A1.dtype, …)
    """
    a, a1 = copies((4, 4), 1)
    lower(te.create_schedule(a1.op), [a, a1], binds={a1: te.decl_buffer((16,), "int32", "flat")})


@refused
def a_buffer_of_another_type():
    """
    arguments: binds of 'main' gives A, int32[n], the buffer wide, float64[n]

    hint: declare the buffer with te.decl_buffer(A.shape, A.dtype, …)
    """
    n = te.size_var("n")
    a, a1 = copies((n,), 1)
    lower(te.create_schedule(a1.op), [a, a1], binds={a: te.decl_buffer((n,), "float64", "wide")})


@refused
def a_buffer_of_another_symbolic_size():
    """
    arguments: binds of 'main' gives A, int32[n], the buffer other, int32[m]

    hint: declare the buffer with te.decl_buffer(A.shape, A.dtype, …)
    """
    n, m = te.size_var("n"), te.size_var("m")
    a, a1 = copies((n,), 1)
    lower(te.create_schedule(a1.op), [a, a1], binds={a: te.decl_buffer((m,), "int32", "other")})


@refused
def a_tensor_bound_to_no_buffer():
    """
    arguments: binds of 'main' holds A: int32[8]: 'somewhere'

    hint: give each tensor a buffer made by te.decl_buffer
    """
    a, a1 = copies((8,), 1)
    lower(te.create_schedule(a1.op), [a, a1], binds={a: "somewhere"})


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_the_message(make):
    with pytest.raises(LowerError) as error:
        make()
    assert str(error.value) == inspect.cleandoc(make.__doc__).replace("LIMIT", str(MOST_CALLS))
    assert error.value.rule in LOWER_RULES


def test_every_rule_but_that_of_tensorize_has_a_message_here():
    """test_tensorize_match.py has those."""
    shown = {inspect.cleandoc(make.__doc__).split(":")[0] for make in REFUSED}
    assert shown == LOWER_RULES.keys() - {"tensorize"}


def test_the_document_lists_the_rules():
    page = (Path(__file__).parents[3] / "docs" / "lowering.md").read_text()
    table = page.split("## What lowering refuses")[1].split("##")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
    assert rows[2:] == [*LOWER_RULES]
