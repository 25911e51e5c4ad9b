"""Bodies of one's own that keep numbers: a counter as an index is known as well as a loop's variable, and nothing is silent."""

import numpy as np
import pytest

from vtakit import build, te
from vtakit.compiler.lower import VerifyError, lower
from vtakit.compiler.lower.interpreter import OutOfBoundsError, interpret

N, M = te.size_var("n"), te.size_var("m")
A, AN, BM = te.placeholder((8,), name="a"), te.placeholder((N,), name="a"), te.placeholder((M,), name="b")
AT = te.placeholder((8,), "int32", name="at")


# -- outside -------------------------------------------------------------------------------------------------------------

@te.hybrid.script
def counter(a):
    c = output_tensor((8,), "float32")
    j = 0
    for i in range(12):
        c[j] = a[0]
        j += 1
    return c


@te.hybrid.script
def counter_of_one(a):
    c = output_tensor((8,), "float32")
    t = allocate((1,), "int32")
    t[0] = 0
    while t[0] < 20:
        c[t[0]] = a[0]
        t[0] += 1
    return c


@te.hybrid.script
def counted_first(a):
    c = output_tensor((8,), "float32")
    c[0] = a[0]
    j = 0
    for i in range(8):
        j += 1
        c[j] = a[i]
    return c


@te.hybrid.script
def after_the_loop(a):
    c = output_tensor((8,), "float32")
    j = 0
    for i in range(8):
        c[j] = a[i]
        j += 1
    c[j] = a[0]
    return c


@te.hybrid.script
def nested(a):
    c = output_tensor((8,), "float32")
    j = 0
    for i in range(3):
        for k in range(3):
            c[j] = a[i + k]
            j += 1
    return c


@te.hybrid.script
def growing(a):
    c = output_tensor((8,), "float32")
    j = 0
    for i in range(8):
        c[j] = a[i]
        j += i
    return c


@te.hybrid.script
def downward(a):
    c = output_tensor((8,), "float32")
    j = 6
    c[7] = a[7]
    for i in range(8):
        c[j] = a[i]
        j -= 1
    return c


@te.hybrid.script
def some_of_them(a):
    c = output_tensor((7,), "float32")
    for i in range(7):
        c[i] = 0.0
    j = 0
    for i in range(8):
        if a[i] >= 0.0:
            c[j] = a[i]
            j += 1
    return c


@te.hybrid.script
def doubled(a):
    c = output_tensor((8,), "float32")
    j = 1
    c[0] = a[0]
    for i in range(8):
        c[j] = a[i]
        j = j * 2
    return c


@te.hybrid.script
def table(a):
    c = output_tensor((8,), "float32")
    t = allocate((9,), "int32")
    for i in range(9):
        t[i] = i
    for i in range(9):
        c[t[i]] = a[0]
    return c


@te.hybrid.script
def by_an_old_condition(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = a[i]
    j = 0
    for i in range(20):
        if j < 8:
            j += 1
            c[j] = a[0]
    return c


@te.hybrid.script
def as_long_as_it_was(a):
    c = output_tensor((8,), "float32")
    t = allocate((1,), "int32")
    t[0] = 8
    if t[0] <= 8:
        t[0] = 9
        for k in range(t[0]):
            c[k] = a[0]
    return c


@te.hybrid.script
def by_an_output(a):
    c = output_tensor((8,), "float32")
    d = output_tensor((1,), "int32")
    d[0] = 3
    for i in range(8):
        c[i] = a[i]
    for i in range(8):
        c[d[0]] = a[i]
        d[0] += 1
    return c, d


@te.hybrid.script
def by_a_float(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[int32(floor(i * 2.0))] = a[i]
    return c


@te.hybrid.script
def one_of_two(a):
    c = output_tensor((8,), "float32")
    j = 0
    if a[0] > 0.0:
        j = 8
    for i in range(8):
        c[i] = 0.0
    c[j] = a[0]
    return c


@te.hybrid.script
def chosen(a):
    c = output_tensor((8,), "float32")
    for i in range(20):
        c[i - 8 if i < 17 else 0] = a[0]
    return c


NOT_CERTAIN = "is not certain to be within the"


@pytest.mark.parametrize(("function", "found"), [
    (counter, "index 0 of counter[j[]] takes the value 11, and counter has 8 elements there"),
    (counter_of_one, f"index 0 of counter_of_one[t[0]] {NOT_CERTAIN} 8 elements of counter_of_one there"),
    (counted_first, "index 0 of counted_first[j[]] takes the value 8, and counted_first has 8 elements there"),
    (after_the_loop, "index 0 of after_the_loop[j[]] takes the value 8, and after_the_loop has 8 elements there"),
    (nested, "index 0 of nested[j[]] takes the value 8, and nested has 8 elements there"),
    (growing, f"index 0 of growing[j[]] {NOT_CERTAIN} 8 elements of growing there"),
    (downward, "index 0 of downward[j[]] takes the value -1, and downward has 8 elements there"),
    (some_of_them, f"index 0 of some_of_them[j[]] {NOT_CERTAIN} 7 elements of some_of_them there"),
    (doubled, f"index 0 of doubled[j[]] {NOT_CERTAIN} 8 elements of doubled there"),
    (table, f"index 0 of table[t[i]] {NOT_CERTAIN} 8 elements of table there"),
    (by_an_old_condition, f"index 0 of by_an_old_condition[j[]] {NOT_CERTAIN} 8 elements of by_an_old_condition there"),
    (as_long_as_it_was, f"index 0 of as_long_as_it_was[k] {NOT_CERTAIN} 8 elements of as_long_as_it_was there"),
    (by_an_output, "index 0 of by_an_output.v0[by_an_output.v1[0]] takes the value 10, and by_an_output.v0 has 8 elements there"),
    (by_a_float, f"index 0 of by_a_float[int32(floor(float32(i) * 2.0))] {NOT_CERTAIN} 8 elements of by_a_float there"),
    (one_of_two, f"index 0 of one_of_two[j[]] {NOT_CERTAIN} 8 elements of one_of_two there"),
    (chosen, f"index 0 of chosen[if_then_else(i < 17, i - 8, 0)] {NOT_CERTAIN} 8 elements of chosen there"),
], ids=lambda item: getattr(item, "__name__", ""))
def test_a_number_of_the_body_s_own_that_leads_outside_is_refused(function, found):
    c = function(A)
    outs = list(c) if isinstance(c, list | tuple) else [c]
    s = te.create_schedule([t.op for t in outs])
    with pytest.raises(VerifyError) as error:
        build(s, [A, *outs])
    assert str(error.value).splitlines()[0] == f"inside: {found}"
    assert "hint: touch it only under an if that keeps the index from 0 to below" in str(error.value)
    arrays = [np.zeros([int(str(extent)) for extent in t.shape], str(t.dtype)) for t in outs]
    with pytest.raises(OutOfBoundsError):
        interpret(lower(s, [A, *outs], check=False), [np.ones(8, "float32"), *arrays])


# -- inside --------------------------------------------------------------------------------------------------------------

@te.hybrid.script
def packed(a):
    c = output_tensor((a.shape[0],), "float32")
    count = output_tensor((1,), "int32")
    for i in range(a.shape[0]):
        c[i] = -1.0
    count[0] = 0
    for i in range(a.shape[0]):
        if a[i] >= 0.0:
            c[count[0]] = a[i]
            count[0] += 1
    return c, count


@te.hybrid.script
def rows(a, b):
    c = output_tensor((a.shape[0] * b.shape[0],), "float32")
    j = 0
    for i in range(a.shape[0]):
        for k in range(b.shape[0]):
            c[j] = a[i] + b[k]
            j += 1
    return c


@te.hybrid.script
def joined(a, b):
    c = output_tensor((a.shape[0] + b.shape[0],), "float32")
    j = 0
    for i in range(a.shape[0]):
        c[j] = a[i]
        j += 1
    for i in range(b.shape[0]):
        c[j] = b[i]
        j += 1
    return c


@te.hybrid.script
def stopped(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = 0.0
    j = 0
    for i in range(30):
        if j < 8:
            c[j] = a[0] + i
            j += 2
    return c


@te.hybrid.script
def turned(a):
    c = output_tensor((8,), "float32")
    j = 3
    for i in range(16):
        c[j] = a[i % 8]
        j = (j + 1) % 8
    return c


@te.hybrid.script
def sorted_places(a):
    c = output_tensor((a.shape[0],), "float32")
    at = allocate((a.shape[0],), "int32")
    for i in range(a.shape[0]):
        at[i] = i
    for i in range(a.shape[0]):
        for j in range(a.shape[0] - 1):
            if a[at[j]] > a[at[j + 1]]:
                other = at[j]
                at[j] = at[j + 1]
                at[j + 1] = other
    for i in range(a.shape[0]):
        c[i] = a[at[i]]
    return c


@te.hybrid.script
def searched(a, b):
    c = output_tensor((b.shape[0],), "int32")
    for i in range(b.shape[0]):
        low = 0
        high = a.shape[0]
        while low < high:
            middle = (low + high) // 2
            if a[middle] < b[i]:
                low = middle + 1
            else:
                high = middle
        c[i] = low
    return c


@te.hybrid.script
def chosen_inside(a):
    c = output_tensor((8,), "float32")
    for i in range(20):
        if i < 8:
            c[i] = a[i]
        else:
            c[i - 8 if i < 16 else 0] = a[0]
    return c


@te.hybrid.script
def reset(a):
    c = output_tensor((8,), "float32")
    for i in range(2):
        j = 0
        for k in range(4):
            c[i * 4 + j] = a[j]
            j += 1
    return c


@te.hybrid.script
def least_of(a):
    c = output_tensor((8,), "float32")
    j = 0
    for i in range(20):
        c[j] = a[j] + i
        j = min(j + 1, 7)
    return c


@te.hybrid.script
def best_first(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = 0.0
        j = i
        while j > 0 and c[max(j - 1, 0)] < a[i]:
            c[j] = c[j - 1]
            j -= 1
        c[j] = a[i]
    return c


@pytest.mark.parametrize(("function", "args", "sizes"), [
    (best_first, [A], [8]),
    (packed, [A], [8]), (packed, [AN], [5]), (packed, [AN], [0]), (rows, [AN, BM], [3, 4]), (rows, [AN, BM], [0, 4]),
    (rows, [AN, BM], [4, 0]), (joined, [AN, BM], [3, 2]), (joined, [AN, BM], [0, 2]), (stopped, [A], [8]), (turned, [A], [8]),
    (sorted_places, [A], [8]), (sorted_places, [AN], [5]), (sorted_places, [AN], [1]), (searched, [AN, BM], [9, 5]),
    (searched, [AN, BM], [0, 2]), (chosen_inside, [A], [8]), (reset, [A], [8]), (least_of, [A], [8]),
])
def test_numbers_that_stay_inside_compute_what_python_does(function, args, sizes):
    c = function(*args)
    outs = list(c) if isinstance(c, list | tuple) else [c]
    s = te.create_schedule([t.op for t in outs])
    arrays = [np.random.default_rng(at).integers(-9, 9, size).astype("float32") for at, size in enumerate(sizes)]
    if function is searched:
        arrays[0].sort()
    want = function(*arrays)
    want = want if isinstance(want, tuple) else (want,)
    for way in (lambda *a: interpret(lower(s, [*args, *outs]), a), build(s, [*args, *outs])):
        got = [np.full(w.shape, -77, w.dtype) for w in want]
        way(*arrays, *got)
        for w, g in zip(want, got, strict=True):
            np.testing.assert_array_equal(g, w)


# -- data ----------------------------------------------------------------------------------------------------------------

@te.hybrid.script
def by_a_copy_of_data(a, at):
    c = output_tensor((8,), "float32")
    t = allocate((8,), "int32")
    for i in range(8):
        c[i] = 0.0
        t[i] = at[i] + 1
    j = 0
    k = 0
    for i in range(8):
        k = j
        c[t[i] - 1] = a[i]
        c[k] = a[i]
        j += at[i] - at[i]
    return c


def test_what_comes_from_a_tensor_is_data_wherever_it_is_kept():
    c = by_a_copy_of_data(A, AT)
    f = build(te.create_schedule(c.op), [A, AT, c])
    x, at, out = np.arange(8, dtype="float32"), np.arange(8, dtype="int32")[::-1].copy(), np.zeros(8, "float32")
    f(x, at, out)
    assert out.tolist() == by_a_copy_of_data(x, at).tolist()
