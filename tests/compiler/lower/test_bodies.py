"""Bodies of one's own (`te.hybrid`): the rules "inside", "reads" and "outputs" look at each access; what they accept is right."""

import numpy as np
import pytest

from vtakit import build, te
from vtakit.compiler.lower import VerifyError, lower
from vtakit.compiler.lower.interpreter import OutOfBoundsError, UndefinedValueError, interpret
from vtakit.runtime.cpu.arguments import ArgumentError

N, M = te.size_var("n"), te.size_var("m")
A, B = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
AN, BM = te.placeholder((N,), name="a"), te.placeholder((M,), name="b")


@te.hybrid.script
def too_many(a):
    c = output_tensor((8,), "float32")
    for i in range(9):
        c[i] = a[0]
    return c


@te.hybrid.script
def shifted(a):
    c = output_tensor((8,), "float32")
    c[0] = a[0]
    for i in range(8):
        c[i + 1] = a[i]
    return c


@te.hybrid.script
def negative(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = a[i]
    c[0 - 3] = a[0]
    return c


@te.hybrid.script
def beyond_the_input(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = a[i + 5]
    return c


@te.hybrid.script
def short_temporary(a):
    c = output_tensor((8,), "float32")
    t = allocate((4,), "float32")
    for i in range(8):
        t[i] = a[i]
        c[i] = t[i]
    return c


@te.hybrid.script
def by_data(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = 0.0
        if a[i] >= 0.0:
            c[i + 1] = a[i]
    return c


@te.hybrid.script
def corner(a):
    c = output_tensor((8, 8), "float32")
    for i in range(8):
        for j in range(i + 2):
            c[i, j] = a[0]
    return c


@te.hybrid.script
def alone(a):
    c = output_tensor((1,), "float32")
    c[0] = a[7]
    c[0 - 1] = a[0]
    return c


@te.hybrid.script
def never_written(a):
    c = output_tensor((8,), "float32")
    t = allocate((8,), "float32")
    for i in range(8):
        c[i] = t[i] + a[i]
    return c


@te.hybrid.script
def written_later(a):
    c = output_tensor((8,), "float32")
    t = allocate((8,), "float32")
    for i in range(8):
        c[i] = t[i]
        t[i] = a[i]
    return c


@te.hybrid.script
def half_written(a):
    c = output_tensor((8,), "float32")
    t = allocate((8,), "float32")
    for i in range(4):
        t[i] = a[i]
    for i in range(8):
        c[i] = t[i]
    return c


@te.hybrid.script
def not_begun(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] += a[i]
    return c


@te.hybrid.script
def first_left_out(a):
    c = output_tensor((8,), "float32")
    for i in range(1, 8):
        c[i] = a[i]
    return c


@te.hybrid.script
def last_left_out(a):
    c = output_tensor((a.shape[0], 2), "float32")
    for i in range(a.shape[0] - 1):
        for j in range(2):
            c[i, j] = a[i]
    return c


@te.hybrid.script
def every_other(a):
    c = output_tensor((8,), "float32")
    for i in range(4):
        c[i * 2] = a[i]
    return c


@te.hybrid.script
def nothing(a):
    c = output_tensor((8,), "float32")
    t = allocate((1,), "float32")
    t[0] = a[0]
    return c


@pytest.mark.parametrize(("function", "found", "seen"), [
    (too_many, "inside: index 0 of too_many[i] takes the value 8, and too_many has 8 elements there", OutOfBoundsError),
    (shifted, "inside: index 0 of shifted[i + 1] takes the value 8, and shifted has 8 elements there", OutOfBoundsError),
    (negative, "inside: index 0 of negative[-3] takes the value -3, and negative has 8 elements there", OutOfBoundsError),
    (beyond_the_input, "inside: index 0 of a[i + 5] takes the value 12, and a has 8 elements there", OutOfBoundsError),
    (short_temporary, "inside: index 0 of t[i] takes the value 7, and t has 4 elements there", OutOfBoundsError),
    (by_data, "inside: index 0 of by_data[i + 1] is not certain to be within the 8 elements of by_data there", OutOfBoundsError),
    (alone, "inside: index 0 of alone[-1] takes the value -1, and alone has 1 elements there", OutOfBoundsError),
    (corner, "inside: index 1 of corner[i, j] is not certain to be within the 8 elements of corner there", OutOfBoundsError),
    (never_written, "reads: t[i] is read, and nothing wrote t before", UndefinedValueError),
    (written_later, "reads: t[i] is read, and nothing wrote t before", UndefinedValueError),
    (half_written, "reads: t[i] is read, and nothing wrote it before where index 0 is 7", UndefinedValueError),
    (not_begun, "reads: not_begun[i] is read, and nothing wrote not_begun before", None),
    (first_left_out, "outputs: nothing writes first_left_out[0] of the output first_left_out", None),
    (last_left_out, "outputs: nothing writes last_left_out[7, :] of the output last_left_out", None),
    (every_other, "outputs: nothing writes every_other[7] of the output every_other", None),
    (nothing, "outputs: nothing writes the output nothing", None),
], ids=lambda item: getattr(item, "__name__", ""))
def test_what_is_certainly_wrong_is_refused(function, found, seen):
    """`seen`: what the interpreter says of it; of an output's elements it takes those that the caller gave."""
    c = function(A)
    s = te.create_schedule(c.op)
    with pytest.raises(VerifyError) as error:
        build(s, [A, c])
    assert str(error.value).splitlines()[0] == found
    if seen is not None:
        out = np.zeros([int(str(extent)) for extent in c.shape], "float32")
        with pytest.raises(seen):
            interpret(lower(s, [A, c], check=False), [np.zeros(8, "float32"), out])


def test_the_message_shows_the_store_and_a_cure():
    c = shifted(A)
    with pytest.raises(VerifyError) as error:
        lower(te.create_schedule(c.op), [A, c])
    assert str(error.value) == """\
inside: index 0 of shifted[i + 1] takes the value 8, and shifted has 8 elements there

      def main(a: float32[8], shifted: float32[8]):
          block shifted():
              shifted[0] = a[0]
              for i in range(8):
-->               shifted[i + 1] = a[i]

hint: touch it only under an if that keeps the index from 0 to below 8, or change the shape of shifted"""


# -- what is right -------------------------------------------------------------------------------------------------------

@te.hybrid.script
def neighbours(a):
    c = output_tensor((a.shape[0],), "float32")
    for i in range(a.shape[0]):
        c[i] = 0.0
        if i > 0:
            c[i] = a[i - 1]
        if i + 1 < a.shape[0]:
            c[i] += a[i + 1]
        c[i] += a[i - 2] if i >= 2 else 0.0
    return c


@te.hybrid.script
def convolved(a, b):
    c = output_tensor((a.shape[0] - b.shape[0] + 1,), "float32")
    for i in range(a.shape[0] - b.shape[0] + 1):
        c[i] = 0.0
        for k in range(b.shape[0]):
            c[i] += a[i + k] * b[k]
    return c


@te.hybrid.script
def products(a, b):
    c = output_tensor((a.shape[0] * b.shape[0],), "float32")
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i * b.shape[0] + j] = a[i] * b[j]
    return c


@te.hybrid.script
def pairs(a):
    c = output_tensor((8,), "float32")
    for i in range(4):
        c[i * 2] = a[i]
        c[i * 2 + 1] = a[7 - i]
    return c


@te.hybrid.script
def running(a):
    c = output_tensor((8,), "float32")
    t = allocate((9,), "float32")
    t[0] = 0.0
    for i in range(8):
        t[i + 1] = t[i] + a[i]
        c[i] = t[i + 1]
    return c


@te.hybrid.script
def counted(a):
    c = output_tensor((8,), "float32")
    at = 0
    while at < 8:
        c[at] = a[at] * 2.0
        at += 1
    return c


@pytest.mark.parametrize(("function", "args", "sizes"), [
    (neighbours, [A], [8]), (neighbours, [AN], [5]), (neighbours, [AN], [1]), (neighbours, [AN], [0]),
    (convolved, [AN, BM], [7, 3]), (convolved, [AN, BM], [3, 3]), (products, [AN, BM], [3, 4]), (products, [AN, BM], [3, 0]),
    (pairs, [A], [8]), (running, [A], [8]), (counted, [A], [8]),
])
def test_what_is_right_computes_what_python_does(function, args, sizes):
    c = function(*args)
    s = te.create_schedule(c.op)
    arrays = [np.random.default_rng(at).integers(-9, 9, size).astype("float32") for at, size in enumerate(sizes)]
    want = function(*arrays)
    for way in (lambda *a: interpret(lower(s, [*args, c]), a), build(s, [*args, c])):
        got = np.full(want.shape, np.nan, "float32")
        way(*arrays, got)
        np.testing.assert_array_equal(got, want)


# -- what the caller or the data decide ----------------------------------------------------------------------------------

@te.hybrid.script
def copied(a, b):
    c = output_tensor((a.shape[0],), "float32")
    for i in range(a.shape[0]):
        c[i] = 0.0
    for i in range(b.shape[0]):
        c[i] = b[i]
    return c


@te.hybrid.script
def the_last(a):
    c = output_tensor((1,), "float32")
    c[0] = a[a.shape[0] - 1]
    return c


def test_sizes_are_required_of_the_caller():
    c = copied(AN, BM)
    f = build(te.create_schedule(c.op), [AN, BM, c])
    around = np.zeros(10, "float32")
    with pytest.raises(ArgumentError, match=r"^main needs m <= n, since index 0 of copied\[i\] takes the value m - 1, and copied "
                                            r"has n elements there; here m = 10 and n = 5$"):
        f(np.zeros(5, "float32"), np.ones(10, "float32"), around[:5])
    assert not around.any()
    f(np.zeros(5, "float32"), np.ones(3, "float32"), around[:5])
    assert around.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]


def test_an_element_that_an_empty_array_lacks_is_required():
    c = the_last(AN)
    f = build(te.create_schedule(c.op), [AN, c])
    with pytest.raises(ArgumentError, match=r"^main needs 1 <= n, since index 0 of a\[n - 1\] takes the value n - 1, and a has n "
                                            r"elements there; here n = 0$"):
        f(np.zeros(0, "float32"), np.zeros(1, "float32"))


@te.hybrid.script
def scattered(a, at):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = 0.0
    for i in range(8):
        c[at[i]] = a[i]
    return c


def test_an_index_that_is_data_is_believed_and_seen_by_the_interpreter():
    at = te.placeholder((8,), "int32", name="at")
    c = scattered(A, at)
    made = lower(te.create_schedule(c.op), [A, at, c])
    x, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpret(made, [x, np.arange(8, dtype="int32")[::-1].copy(), out])
    assert out.tolist() == x[::-1].tolist()
    with pytest.raises(OutOfBoundsError):
        interpret(made, [x, np.full(8, 8, "int32"), out])
