"""split, fuse, reorder and tile misused: the message shows the loops, the culprit, the rule and a cure.

Statement 11: `split_by_both`; statement 12: `fuse_of_distant_axes`, `reorder_of_one_axis_twice`.
"""

from collections.abc import Callable

import pytest
from schedule_support import Program, message_of, program

from vtakit import te

MISUSES: list[Callable[[Program], object]] = []


def misuse(function: Callable[[Program], object]) -> Callable[[Program], object]:
    MISUSES.append(function)
    return function


@misuse
def split_without_a_number(p):
    """
    C.split(i): neither factor nor nparts is given

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give one: factor, the extent of the inner loop, or nparts, that of the outer
    """
    p.s[p.C].split(p.C.op.axis[0])


@misuse
def split_by_both(p):
    """
    C.split(i, factor=4, nparts=2): both factor and nparts are given

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give one: factor, the extent of the inner loop, or nparts, that of the outer
    """
    p.s[p.C].split(p.C.op.axis[0], factor=4, nparts=2)


@misuse
def split_by_zero(p):
    """
    C.split(i, factor=0): the factor is 0, but a loop has at least one iteration

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1: a number, or an expression of sizes
    """
    p.s[p.C].split(p.C.op.axis[0], 0)


@misuse
def split_by_a_float(p):
    """
    C.split(i, factor=2.5): the factor 2.5 is a float32

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1: a number, or an expression of sizes
    """
    p.s[p.C].split(p.C.op.axis[0], 2.5)


@misuse
def split_by_a_word(p):
    """
    C.split(i, factor='4'): the factor '4' is no number

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1: a number, or an expression of sizes
    """
    p.s[p.C].split(p.C.op.axis[0], factor="4")


@misuse
def split_by_more_than_a_loop_can_count(p):
    """
    C.split(i, factor=1099511627776): the factor 1099511627776 is no int32, which counts the loop

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a smaller factor
    """
    p.s[p.C].split(p.C.op.axis[0], 2**40)


@misuse
def split_by_a_tensor(p):
    """
    C.split(i, factor=A: float32[30, 16]): the factor A: float32[30, 16] is no number

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1: a number, or an expression of sizes
    """
    p.s[p.C].split(p.C.op.axis[0], p.A)


@misuse
def split_of_a_split_axis(p):
    """
    C.split(i, factor=2): i is a loop no more: it was split into i_outer and i_inner

    -->   # C
          for i_outer in range(8):
              for i_inner in range(4):
                  for j in range(12):
                      for k in range(16):  # reduce
                          C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use i_outer and i_inner
    """
    p.s[p.C].split("i", 4)
    p.s[p.C].split(p.C.op.axis[0], 2)


@misuse
def split_of_a_fused_axis(p):
    """
    C.split(j, factor=2): j is a loop no more: it was fused into i_j_fused

    -->   # C
          for i_j_fused in range(360):
              for k in range(16):  # reduce
                  C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use i_j_fused
    """
    p.s[p.C].fuse("i", "j")
    p.s[p.C].split("j", 2)


@misuse
def split_of_another_stage(p):
    """
    C.split(i, factor=2): i is an axis of D, not of C

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: the loops of C are i, j, k
    """
    p.s[p.C].split(p.D.op.axis[0], 2)


@misuse
def split_of_no_axis(p):
    """
    C.split(3, factor=2): 3 is no axis

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give an axis such as C.op.axis[0], or the name of a loop
    """
    p.s[p.C].split(3, 2)


@misuse
def split_of_an_unknown_name(p):
    """
    C.split(l, factor=2): C has no loop 'l'

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: known: i, j, k
    """
    p.s[p.C].split("l", 2)


@misuse
def split_of_a_marked_axis(p):
    """
    C.split(i, factor=2): i is already parallel

          # C
    -->   for i in parallel(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: split it first, then mark its parts
    """
    p.s[p.C].parallel("i")
    p.s[p.C].split("i", 2)


@misuse
def split_of_a_foreign_axis(p):
    """
    C.split(r, factor=2): r is no axis of C

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: the loops of C are i, j, k
    """
    p.s[p.C].split(te.reduce_axis((0, 4), "r"), 2)


@misuse
def split_of_an_input(p):
    """
    A.split(i, factor=2): A has no loop 'i'

    -->   # A
          A: float32[30, 16] is given by the caller

    hint: it has no loops
    """
    p.s[p.A].split("i", 2)


@misuse
def fuse_of_distant_axes(p):
    """
    C.fuse(i, k): i and k are not adjacent: other loops are between them

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: bring them together first with reorder(i, k, …)
    """
    p.s[p.C].fuse("i", "k")


@misuse
def fuse_in_the_wrong_order(p):
    """
    C.fuse(j, i): i is outside of j

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give them outermost first: i, j
    """
    p.s[p.C].fuse("j", "i")


@misuse
def fuse_of_one_axis_twice(p):
    """
    C.fuse(i, i): i is given twice

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give each axis once
    """
    p.s[p.C].fuse("i", "i")


@misuse
def fuse_of_nothing(p):
    """
    C.fuse(): no axes are given

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give the loops to fuse; only an operation of rank 0 needs none
    """
    p.s[p.C].fuse()


@misuse
def fuse_of_a_bound_axis(p):
    """
    C.fuse(i, j): j is already bound to threadIdx.x

          # C
          for i in range(30):
    -->       for j in bind[threadIdx.x](12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: fuse it first, then mark its parts
    """
    p.s[p.C].bind("j", te.thread_axis("threadIdx.x"))
    p.s[p.C].fuse("i", "j")


@misuse
def reorder_of_one_axis_twice(p):
    """
    C.reorder(j, i, j): j is given twice

          # C
          for i in range(30):
    -->       for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give each axis once
    """
    p.s[p.C].reorder("j", "i", "j")


@misuse
def reorder_of_a_gone_axis(p):
    """
    C.reorder(j, i): i is a loop no more: it was split into i_outer and i_inner

    -->   # C
          for i_outer in range(8):
              for i_inner in range(4):
                  for j in range(12):
                      for k in range(16):  # reduce
                          C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use i_outer and i_inner
    """
    p.s[p.C].split("i", 4)
    p.s[p.C].reorder("j", p.C.op.axis[0])


@misuse
def tile_without_factors(p):
    """
    C.tile(i, j, 8): axes given: 2; factors given: 1

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give the axes, then one factor for each: tile(y, x, 8, 8)
    """
    p.s[p.C].tile("i", "j", 8)


@misuse
def tile_by_zero(p):
    """
    C.tile(i, j, 8, 0): the factor is 0, but a loop has at least one iteration

          # C
          for i in range(30):
    -->       for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give a factor of at least 1: a number, or an expression of sizes
    """
    p.s[p.C].tile("i", "j", 8, 0)


@misuse
def tile_of_one_axis_twice(p):
    """
    C.tile(i, i, 8, 4): i is given twice

          # C
    -->   for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give each axis once
    """
    p.s[p.C].tile("i", "i", 8, 4)


@pytest.mark.parametrize("function", MISUSES, ids=lambda function: function.__name__)
def test_misuse_says_what_where_and_how_instead(function):
    p = program()
    with pytest.raises(te.ScheduleError) as error:
        function(p)
    assert str(error.value) == message_of(function)
