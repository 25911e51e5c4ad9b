"""compute_at, compute_inline and the primitives of memory misused, with the whole messages."""

from collections.abc import Callable

import pytest
from schedule_support import Program, message_of, program

from vtakit import te

MISUSES: list[Callable[[Program], object]] = []


def misuse(function: Callable[[Program], object]) -> Callable[[Program], object]:
    MISUSES.append(function)
    return function


@misuse
def compute_at_itself(p):
    """
    C.compute_at(C, i): a stage cannot stand within itself

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a stage that reads C
    """
    p.s[p.C].compute_at(p.s[p.C], "i")


@misuse
def compute_at_of_an_output(p):
    """
    D.compute_at(C, i): D is an output: the caller has its memory, and it is computed on its own

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: use cache_write(D, scope) and compute_at of that
    """
    p.s[p.D].compute_at(p.s[p.C], "i")


@misuse
def compute_at_of_an_input(p):
    """
    A.compute_at(B, i): A is an input: it is not computed

          # A
    -->   A: float32[30, 16] is given by the caller

    hint: use cache_read(A, scope) and compute_at of that
    """
    p.s[p.A].compute_at(p.s[p.B], "i")


@misuse
def compute_at_no_reader(p):
    """
    C.compute_at(B, i): B does not need C

          # B
          for i in range(30):
              for j in range(16):
    -->           B[i, j] = A[i, j] + 1.0

    hint: C is read by D
    """
    p.s[p.C].compute_at(p.s[p.B], "i")


@misuse
def compute_at_in_a_circle(p):
    """
    C.compute_at(B, i): B already stands within C

    -->   # B, at C's loop i
          for i in range(30):
              for j in range(16):
                  B[i, j] = A[i, j] + 1.0

    hint: compute B elsewhere first
    """
    p.s[p.B].compute_at(p.s[p.C], "i")
    p.s[p.C].compute_at(p.s[p.B], "i")


@misuse
def compute_at_of_a_group_within_its_own_member(p):
    """
    group_1.compute_at(C, i): C is in group_1

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a stage outside of group_1 that reads it
    """
    p.s.create_group(p.C, p.B, include_inputs=True)
    p.s.create_group(p.C, p.C, include_inputs=True).compute_at(p.s[p.C], "i")


@misuse
def set_scope_of_an_input(p):
    """
    A.set_scope('shared'): A is an input: it is not computed

          # A
    -->   A: float32[30, 16] is given by the caller

    hint: use cache_read(A, scope) and set_scope of that
    """
    p.s[p.A].set_scope("shared")


@misuse
def compute_at_an_inlined_stage(p):
    """
    A_shared.compute_at(B, i): B is inlined, so it has no loops

    -->   # B, inlined
          for i in range(30):
              for j in range(16):
                  B[i, j] = A_shared[i, j] + 1.0

    hint: attach to a stage that it is inlined into
    """
    E = p.s.cache_read(p.A, "shared")
    p.s[p.B].compute_inline()
    p.s[E].compute_at(p.s[p.B], "i")


@misuse
def compute_at_no_loop(p):
    """
    C.compute_at(D, i): i is an axis of C, not of D

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: the loops of D are i, j
    """
    p.s[p.C].compute_at(p.s[p.D], p.C.op.axis[0])


@misuse
def compute_at_of_another_schedule(p):
    """
    C.compute_at(D, i): D belongs to another schedule

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use the stage of D in the same schedule
    """
    p.s[p.C].compute_at(p.s.copy()[p.D], "i")


@misuse
def inline_a_reduction(p):
    """
    C.compute_inline(): C is a reduction, whose value is not one expression

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use compute_at
    """
    p.s[p.C].compute_inline()


@misuse
def inline_an_output(p):
    """
    D.compute_inline(): D is an output: the caller has its memory, and it is computed on its own

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: use cache_write(D, scope) and compute_inline of that
    """
    p.s[p.D].compute_inline()


@misuse
def inline_a_holder(p):
    """
    C.compute_inline(): C_local is computed within its loop

    -->   # C, at D's loop i
          for i in range(30):
              for j in range(12):
                  C[i, j] = C_local[i, j]

    hint: compute C_local elsewhere first
    """
    p.s[p.C].compute_at(p.s[p.D], "i")
    E = p.s.cache_write(p.C, "local")
    p.s[p.B].compute_at(p.s[E], "i")
    p.s[E].compute_at(p.s[p.C], "j")
    p.s[p.C].compute_inline()


@misuse
def set_scope_of_an_output(p):
    """
    D.set_scope('shared'): D is an output: the caller has its memory, and it is computed on its own

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: use cache_write(D, scope) and set_scope of that
    """
    p.s[p.D].set_scope("shared")


@misuse
def set_scope_without_a_name(p):
    """
    C.set_scope(''): the scope has no name

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give one such as 'global', 'shared' or 'local', or a target's scope
    """
    p.s[p.C].set_scope("")


@misuse
def set_scope_to_a_number(p):
    """
    C.set_scope(7): 7 is no scope

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give one such as 'global', 'shared' or 'local', or a target's scope
    """
    p.s[p.C].set_scope(7)


@misuse
def storage_align_of_a_reduction(p):
    """
    C.storage_align(k, 32, 0): the axis is no dimension of the values

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: the dimensions are i, j
    """
    p.s[p.C].storage_align("k", 32)


@misuse
def whole_of_a_loop(p):
    """
    C.whole(k): the axis is no dimension of the values

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: the dimensions are i, j
    """
    p.s[p.C].whole("k")


@misuse
def storage_align_by_nothing(p):
    """
    C.storage_align(j, 8, 8): factor 8 and offset 8 do not go together

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1 and an offset from 0 to factor - 1
    """
    p.s[p.C].storage_align("j", 8, 8)


@misuse
def double_buffer_of_an_output(p):
    """
    D.double_buffer(): D is an output: the caller has its memory, and it is computed on its own

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: use cache_write(D, scope) and double_buffer of that
    """
    p.s[p.D].double_buffer()


@misuse
def env_threads_of_axes(p):
    """
    C.env_threads(i): 'i' is no thread axis

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: make one with te.thread_axis('threadIdx.x')
    """
    p.s[p.C].env_threads([p.C.op.axis[0]])


@misuse
def store_predicate_of_a_number(p):
    """
    C.set_store_predicate(3): 3 is no condition

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: compare two expressions
    """
    p.s[p.C].set_store_predicate(3)


@misuse
def threads_around_that_are_a_tensor(p):
    """
    C.env_threads(B): 'B' is no thread axis

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: make one with te.thread_axis('threadIdx.x')
    """
    p.s[p.C].env_threads(p.B)


@misuse
def a_store_predicate_that_is_a_tensor(p):
    """
    C.set_store_predicate(B: float32[30, 16]): B: float32[30, 16] is no condition

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: compare two expressions
    """
    p.s[p.C].set_store_predicate(p.B)


@misuse
def the_first_state_of_a_scan_within_its_steps(p):
    """
    first.compute_at(total, total_idx): first makes the first state of total, which all of its steps come after

          # total, an output
    -->   for total_idx in range(3):  # ordered
              for total_i1 in range(8):
                  scan of next

    hint: leave first at the root, or compute it at a loop around total
    """
    a, state = te.placeholder((4, 8), name="A"), te.placeholder((4, 8), name="state")
    first = te.compute((1, 8), lambda _, i: a[0, i], name="first")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + a[t, i], name="next")
    total = te.scan(first, update, state, name="total")
    s = te.create_schedule(total.op)
    s[first].compute_at(s[total], total.op.scan_axis)


@pytest.mark.parametrize("function", MISUSES, ids=lambda function: function.__name__)
def test_misuse_says_what_where_and_how_instead(function):
    p = program()
    with pytest.raises(te.ScheduleError) as error:
        function(p)
    assert str(error.value) == message_of(function)
