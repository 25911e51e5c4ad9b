"""The verifier's rule "inside": inputs are read within their shapes, as the interpreter finds when it runs the program."""

import numpy as np
import pytest

from vtakit import te
from vtakit.compiler.lower import VerifyError, lower
from vtakit.compiler.lower.interpreter import OutOfBoundsError, interpret

K = te.reduce_axis((0, 3), "k")
A = te.placeholder((4, 5), name="A")
N = te.var("n")
B = te.placeholder((N,), name="B")


def test_the_message_shows_the_read():
    C = te.compute((4,), lambda i: A[i - 1, 0] * 2, name="C")
    with pytest.raises(VerifyError) as error:
        lower(te.create_schedule(C.op), [A, C])
    assert str(error.value) == """\
inside: index 0 of A[vi - 1, 0] takes the value -1, and A has 4 elements there

      def main(A: float32[4, 5], C: float32[4]):
          for i in range(4):
              block C(vi = i):
-->               C[vi] = A[vi - 1, 0] * 2.0

hint: read it only where te.if_then_else finds the index inside, or change the shape"""


@pytest.mark.parametrize("split", [None, 2, 3])
@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("read", [
    lambda i: A[i, 0], lambda i: A[3 - i, 1], lambda i: A[0, i * 2], lambda i: A[i - 1, 0], lambda i: A[1, 6 - i * 2],
    lambda i: te.sum(A[0, i + K], axis=K), lambda i: te.sum(A[0, 4 - i - K], axis=K), lambda i: A[i, 4], lambda i: A[i, 5],
])
def test_it_agrees_with_the_interpreter(read, n, split):
    C = te.compute((n,), read, name="C")
    s = te.create_schedule(C.op)
    if split is not None:
        s[C].split(C.op.axis[0], split)
    arrays = [np.zeros((4, 5), "float32"), np.zeros(n, "float32")]
    try:
        interpret(lower(s, [A, C], check=False), arrays)
    except OutOfBoundsError:
        with pytest.raises(VerifyError, match=r"^inside: "):
            lower(s, [A, C])
    else:
        lower(s, [A, C])


@pytest.mark.parametrize(("shape", "read", "outside"), [
    ((N,), lambda i: B[i], ""), ((N + 1,), lambda i: B[i], "n"), ((N + 1,), lambda i: B[i - 1], "-1"),
    ((N + 1,), lambda i: B[N], "n"), ((N,), lambda i: B[N - 1], ""), ((2 * N + 2,), lambda i: B[i], "n * 2 + 1"),
    ((N,), lambda i: B[2 * i], ""),  # right for n of 0 and 1
    ((0,), lambda i: B[i + N], ""),  # never runs
])
def test_sizes_that_are_not_known(shape, read, outside):
    C = te.compute(shape, read, name="C")
    s = te.create_schedule(C.op)
    if outside:
        with pytest.raises(VerifyError, match=f" takes the value {outside.replace('*', '.').replace('+', '.')}, and B has n "):
            lower(s, [B, C, N])
    else:
        lower(s, [B, C, N])


def test_what_may_be_right_is_not_refused():
    index = te.placeholder((4,), "int32", "index")
    for read in (
        lambda i: te.if_then_else(i > 0, A[i - 1, 0], 0.0), lambda i: te.select(i > 0, A[i - 1, 0], 0.0),
        lambda i: te.sum(A[0, i * 2 + K], axis=K, where=i * 2 + K < 5), lambda i: A[index[i], 0],
        lambda i: A[te.min(i * 2, 3), 0],
    ):
        C = te.compute((4,), read, name="C")
        lower(te.create_schedule(C.op), [A, index, C] if index in C.op.input_tensors else [A, C])


def test_what_is_written_of_a_buffer_has_room(monkeypatch):
    """Here 12 elements of 11, as a lowering makes it that forgets guards."""
    monkeypatch.setattr("vtakit.compiler.lower.loops.guards", lambda *args: [])
    first = te.placeholder((11,), name="first")
    C = te.compute((11,), lambda i: first[i], name="C")
    s = te.create_schedule(C.op)
    s[C].split("i", nparts=8)
    made = s.cache_write(C, "global")
    s[made].split("i_outer", 5)
    with pytest.raises(VerifyError, match=r"^inside: block C_global writes C_global, and index 0, vi_outer, is not certain to"):
        lower(s, [first, C])


def test_both_values_of_a_reduction_are_looked_at():
    smallest = te.comm_reducer(lambda x, y: (x[0] + y[0], te.min(x[1], y[1])), lambda s, t: (te.const(0, s), te.max_value(t)))
    C = te.compute((4,), lambda i: smallest((A[i, K], A[i, K + 3]), axis=K), name="C")
    with pytest.raises(VerifyError, match=r"^inside: index 1 of A\[vi, vk \+ 3\] takes the value 5, and A has 5 elements there"):
        lower(te.create_schedule(C[0].op), [A, *C])
