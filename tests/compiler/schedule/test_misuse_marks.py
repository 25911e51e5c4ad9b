"""vectorize, parallel, unroll, bind, pragma, prefetch and tensorize misused, with whole messages.

Statement 14: reductions vectorised, in parallel, bound to blockIdx. Statement 37: `tensorize_twice`, which the original ignored.
"""

from collections.abc import Callable

import pytest
from schedule_support import Program, gemm, message_of, program

from vtakit import te

MISUSES: list[Callable[[Program], object]] = []


def misuse(function: Callable[[Program], object]) -> Callable[[Program], object]:
    MISUSES.append(function)
    return function


@misuse
def vectorize_a_reduction(p):
    """
    C.vectorize(k): k cannot run at once (vectorize): its iterations add to the same elements

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a data axis; to reduce in parallel, split the axis and make a part of it a data axis with rfactor
    """
    p.s[p.C].vectorize("k")


@misuse
def parallel_over_a_reduction(p):
    """
    C.parallel(k): k cannot run at once (parallel): its iterations add to the same elements

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a data axis; to reduce in parallel, split the axis and make a part of it a data axis with rfactor
    """
    p.s[p.C].parallel("k")


@misuse
def parallel_over_a_fused_reduction(p):
    """
    C.parallel(j_k_fused): j_k_fused cannot run at once (parallel): its iterations add to the same elements

          # C
          for i in range(30):
    -->       for j_k_fused in range(192):  # reduce
                  C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a data axis; to reduce in parallel, split the axis and make a part of it a data axis with rfactor
    """
    p.s[p.C].parallel(p.s[p.C].fuse("j", "k"))


@misuse
def bind_a_reduction_to_blocks(p):
    """
    C.bind(k, blockIdx.x): k cannot run at once (bind to blockIdx.x): its iterations add to the same elements

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a data axis; to reduce in parallel, split the axis and make a part of it a data axis with rfactor
    """
    p.s[p.C].bind("k", te.thread_axis("blockIdx.x"))


@misuse
def bind_a_reduction_to_virtual_threads(p):
    """
    C.bind(k, vthread): k cannot run at once (bind to vthread): its iterations add to the same elements

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a data axis; to reduce in parallel, split the axis and make a part of it a data axis with rfactor
    """
    p.s[p.C].bind("k", te.thread_axis("vthread"))


@misuse
def bind_to_no_thread(p):
    """
    C.bind(i, j): 'j' is no thread axis

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: make one with te.thread_axis('threadIdx.x')
    """
    p.s[p.C].bind("i", p.C.op.axis[1])


@misuse
def bind_twice(p):
    """
    C.bind(i, threadIdx.y): i is already bound to threadIdx.x

          # C
    -->   for i in bind[threadIdx.x](30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: mark a loop once; split it to mark its parts
    """
    p.s[p.C].bind("i", te.thread_axis("threadIdx.x"))
    p.s[p.C].bind("i", te.thread_axis("threadIdx.y"))


@misuse
def bind_two_loops_to_one_index(p):
    """
    C.bind(j, threadIdx.x): threadIdx.x is bound to i already

          # C
    -->   for i in bind[threadIdx.x](30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: bind each loop to an index of its own, or fuse the two loops first
    """
    p.s[p.C].bind("i", te.thread_axis("threadIdx.x"))
    p.s[p.C].bind("j", te.thread_axis("threadIdx.x"))


@misuse
def unroll_a_vectorized_loop(p):
    """
    C.unroll(j): j is already vectorized

          # C
          for i in range(30):
    -->       for j in vectorized(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: mark a loop once; split it to mark its parts
    """
    p.s[p.C].vectorize("j")
    p.s[p.C].unroll("j")


@misuse
def pragma_without_a_name(p):
    """
    C.pragma(i, ''): the key is ''

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give the pragma's name as a string
    """
    p.s[p.C].pragma("i", "")


@misuse
def pragma_of_a_list(p):
    """
    C.pragma(i, 'unit', [1]): the value [1] is of type list

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a number, a string or an expression
    """
    p.s[p.C].pragma("i", "unit", [1])


@misuse
def pragma_of_steps_without_a_number(p):
    """
    C.pragma(i, 'auto_unroll_max_step', 'many'): auto_unroll_max_step is a number of steps

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a whole number, such as 16
    """
    p.s[p.C].pragma("i", "auto_unroll_max_step", "many")


@misuse
def prefetch_what_is_not_read(p):
    """
    C.prefetch(A, i, 1): C does not read it

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: prefetch what it reads: B, W
    """
    p.s[p.C].prefetch(p.A, "i", 1)


@misuse
def tensorize_by_a_word(p):
    """
    C.tensorize(j, 'gemm'): 'gemm' is no tensor intrinsic

          # C
          for i in range(30):
    -->       for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: make one with te.decl_tensor_intrin
    """
    p.s[p.C].tensorize("j", "gemm")


@misuse
def tensorize_a_marked_loop(p):
    """
    C.tensorize(i, gemm): j is marked, but the intrinsic takes the place of that loop

          # C
          for i in range(30):
    -->       for j in vectorized(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: tensorize a loop inside of it, or leave it unmarked
    """
    p.s[p.C].vectorize("j")
    p.s[p.C].tensorize("i", gemm(p.C))


@misuse
def tensorize_twice(p):
    """
    C.tensorize(k, gemm): j is tensorized already by gemm

          # C
          for i in range(30):
    -->       for j in tensorized(12):  # by gemm
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: tensorize one loop of a stage
    """
    p.s[p.C].tensorize("j", gemm(p.C))
    p.s[p.C].tensorize("k", gemm(p.C))


@misuse
def tensorize_by_a_tensor(p):
    """
    C.tensorize(j, B): B: float32[30, 16] is no tensor intrinsic

          # C
          for i in range(30):
    -->       for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: make one with te.decl_tensor_intrin
    """
    p.s[p.C].tensorize("j", p.B)


@misuse
def prefetch_by_part_of_an_iteration(p):
    """
    C.prefetch(B, i, 1.5): the offset 1.5 is no number of iterations

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a whole number, or an expression of sizes
    """
    p.s[p.C].prefetch(p.B, "i", 1.5)


@misuse
def prefetch_in_a_scan(p):
    """
    scan.prefetch(init, scan_idx, 1): scan is no compute

          # scan, an output
          for scan_idx in range(3):  # ordered
              for scan_i1 in range(5):
    -->           scan of update

    hint: prefetch in the stage of a te.compute
    """
    state = te.placeholder((4, 5))
    init = te.compute((1, 5), lambda t, i: 0.0, name="init")
    scan = te.scan(init, te.compute((4, 5), lambda t, i: state[t - 1, i], name="update"), state)
    s = te.create_schedule(scan.op)
    s[scan].prefetch(init, scan.op.scan_axis)


@pytest.mark.parametrize("function", MISUSES, ids=lambda function: function.__name__)
def test_misuse_says_what_where_and_how_instead(function):
    p = program()
    with pytest.raises(te.ScheduleError) as error:
        function(p)
    assert str(error.value) == message_of(function)
