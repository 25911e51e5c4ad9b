"""cache_read, cache_write, rfactor, groups and schedules misused, with the whole messages."""

from collections.abc import Callable

import pytest
from schedule_support import Program, message_of, program

from vtakit import te

MISUSES: list[Callable[[Program], object]] = []


def misuse(function: Callable[[Program], object]) -> Callable[[Program], object]:
    MISUSES.append(function)
    return function


@misuse
def cache_read_of_what_is_not_read(p):
    """
    cache_read(D, 'shared'): no stage reads D

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: cache a tensor that is read, or use cache_write for an output
    """
    p.s.cache_read(p.D, "shared")


@misuse
def cache_read_for_no_reader(p):
    """
    cache_read(A, 'shared', [C]): C does not read A

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: A is read by B
    """
    p.s.cache_read(p.A, "shared", [p.C])


@misuse
def cache_read_into_a_number(p):
    """
    cache_read(A, 3): 3 is no scope

    -->   # A
          A: float32[30, 16] is given by the caller

    hint: give one such as 'global', 'shared' or 'local', or a target's scope
    """
    p.s.cache_read(p.A, 3)


@misuse
def cache_read_of_a_name(p):
    """
    cache_read('A', 'shared'): 'A' is no tensor: give one that stages read
    """
    p.s.cache_read("A", "shared")


@misuse
def cache_write_into_nothing(p):
    """
    cache_write(D, None): None is no scope

    -->   # D, an output
          for i in range(30):
              for j in range(12):
                  D[i, j] = C[i, j] * 2.0

    hint: give one such as 'global', 'shared' or 'local', or a target's scope
    """
    p.s.cache_write(p.D, None)


@misuse
def cache_write_of_an_input(p):
    """
    cache_write(A, 'local'): A is no compute

          # A
    -->   A: float32[30, 16] is given by the caller

    hint: cache what a te.compute makes
    """
    p.s.cache_write(p.A, "local")


@misuse
def cache_write_after_a_mark(p):
    """
    cache_write(C, 'local'): j is marked, but the cache takes the loops over

          # C
          for i in range(30):
    -->       for j in vectorized(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use cache_write first, then mark
    """
    p.s[p.C].vectorize("j")
    p.s.cache_write(p.C, "local")


@misuse
def cache_write_after_a_split_reduction(p):
    """
    cache_write(C, 'local'): k_outer comes from a reduction, so it cannot be a dimension of the cache

          # C
          for i in range(30):
              for j in range(12):
    -->           for k_outer in range(4):  # reduce
                      for k_inner in range(4):  # reduce
                          C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use cache_write before splitting or fusing an axis of the reduction
    """
    p.s[p.C].split("k", 4)
    p.s.cache_write(p.C, "local")


@misuse
def cache_write_under_an_attached_stage(p):
    """
    cache_write(C, 'local'): B is computed within a loop that the cache takes over

          # C
    -->   for i_outer in range(8):
              for i_inner in range(4):
                  for j in range(12):
                      for k in range(16):  # reduce
                          C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use cache_write first
    """
    io, _ = p.s[p.C].split("i", 4)
    p.s[p.B].compute_at(p.s[p.C], io)
    p.s.cache_write(p.C, "local")


@misuse
def rfactor_of_a_map(p):
    """
    rfactor(D, j): D is no reduction

          # D, an output
          for i in range(30):
              for j in range(12):
    -->           D[i, j] = C[i, j] * 2.0

    hint: factor a te.compute that is a te.sum or the like
    """
    p.s.rfactor(p.D, "j")


@misuse
def rfactor_of_a_data_axis(p):
    """
    rfactor(C, j): j is no axis of the reduction

          # C
          for i in range(30):
    -->       for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: choose a reduce axis, or a part of one
    """
    p.s.rfactor(p.C, "j")


@misuse
def rfactor_of_a_mixed_axis(p):
    """
    rfactor(C, j_k_fused): j_k_fused was fused from a data axis and one of the reduction

          # C
          for i in range(30):
    -->       for j_k_fused in range(192):  # reduce
                  C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use rfactor before fusing the two
    """
    p.s[p.C].fuse("j", "k")
    p.s.rfactor(p.C, "j_k_fused")


@misuse
def rfactor_of_a_marked_axis(p):
    """
    rfactor(C, k): k is marked, but its loop goes to the new stage

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in unrolled(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use rfactor first, then mark
    """
    p.s[p.C].unroll("k")
    p.s.rfactor(p.C, "k")


@misuse
def rfactor_to_no_dimension(p):
    """
    rfactor(C, k, factor_axis=5): the new tensor has 3 dimensions

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give factor_axis from 0 to 2
    """
    p.s.rfactor(p.C, "k", 5)


@misuse
def rfactor_to_a_word(p):
    """
    rfactor(C, k, factor_axis='i'): the new tensor has 3 dimensions

          # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
    -->               C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: give factor_axis from 0 to 2
    """
    p.s.rfactor(p.C, "k", "i")


@misuse
def rfactor_under_an_attached_stage(p):
    """
    rfactor(C, k): B is computed within k, whose loop goes to the new stage

          # C
          for i in range(30):
              for j in range(12):
    -->           for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: use rfactor first
    """
    p.s[p.B].compute_at(p.s[p.C], "k")
    p.s.rfactor(p.C, "k")


@misuse
def group_of_nothing(p):
    """
    create_group([B], [D]): no stage is on the way from the inputs to the outputs: give outputs that need the inputs
    """
    p.s.create_group(p.B, p.D)


@misuse
def group_that_cuts_another(p):
    """
    create_group([D], [B]): the group group would be cut: it also holds B

          # group
    -->   the group of B, C

    hint: choose ends so that all of group is in
    """
    p.s.create_group(p.C, p.A)
    p.s.create_group(p.D, p.B)


@misuse
def compute_at_out_of_a_group(p):
    """
    C.compute_at(D, i): C is in the group group, and D is not

    -->   # C
          for i in range(30):
              for j in range(12):
                  for k in range(16):  # reduce
                      C[i, j] = sum(B[i, k] * W[k, j], axis=[k])

    hint: attach the group, or choose a stage of the group
    """
    p.s.create_group(p.C, p.B, include_inputs=True)
    p.s[p.C].compute_at(p.s[p.D], "i")


@misuse
def a_stage_of_no_tensor(p):
    """
    'E' is no stage of this schedule: known: A, B, C, D, W
    """
    p.s["E"]


@misuse
def a_stage_of_what_names_none(p):
    """
    '{}' is no stage of this schedule: known: A, B, C, D, W
    """
    p.s[{}]


@misuse
def cache_write_of_a_number(p):
    """
    cache_write(8, 'local'): 8 is no tensor: give what a stage makes, all of its outputs
    """
    p.s.cache_write(8, "local")


@misuse
def a_stage_of_another_program(p):
    """
    'D' of another program is given: use the tensor that this schedule was created for
    """
    p.s[program().D]


@misuse
def a_schedule_of_nothing(p):
    """
    create_schedule of nothing: give the operations of the results, such as C.op
    """
    te.create_schedule([])


@misuse
def a_schedule_of_a_number(p):
    """
    create_schedule(3): give the operations of the results, such as C.op, or the tensors
    """
    te.create_schedule(3)


@pytest.mark.parametrize("function", MISUSES, ids=lambda function: function.__name__)
def test_misuse_says_what_where_and_how_instead(function):
    p = program()
    with pytest.raises(te.ScheduleError) as error:
        function(p)
    assert str(error.value) == message_of(function)
