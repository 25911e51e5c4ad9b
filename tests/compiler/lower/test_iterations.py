"""The verifier's rule "iterations": loops of hybrid functions that run at once give what they give one after another."""

import numpy as np
import pytest
from schedule_support import run

from vtakit import te
from vtakit.compiler.lower import VerifyError, lower

A = te.placeholder((8,), name="A")


@te.hybrid.script
def one_cell(a):
    c = output_tensor((8,), "float32")
    t = allocate((1,), "float32")
    for i in vectorize(8):
        t[0] = a[i]
        c[i] = t[0] * 2.0
    return c


@te.hybrid.script
def carried(a):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = a[i]
    for i in parallel(7):
        c[i + 1] = c[i] + 1.0
    return c


@te.hybrid.script
def rows_that_overlap(a):
    c = output_tensor((9,), "float32")
    for i in range(9):
        c[i] = 0.0
    for i in parallel(4):
        for j in range(3):
            c[i * 2 + j] = a[i]
    return c


@te.hybrid.script
def rows(a):
    c = output_tensor((8,), "float32")
    for i in parallel(4):
        t = allocate((2,), "float32", "local")
        for j in range(2):
            t[j] = a[i * 2 + j]
        for j in range(2):
            c[i * 2 + j] = t[1 - j] + a[0]
    return c


@te.hybrid.script
def columns(a):
    c = output_tensor((4, 8), "float32")
    for i in vectorize(8):
        c[0, i] = a[i]
    for j in range(3):
        for i in vectorize(8):
            c[j + 1, i] = c[j, i] * 2.0
    return c


@te.hybrid.script
def scattered(a, at):
    c = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = 0.0
    for i in parallel(8):
        c[at[i]] = a[i]
    return c


@pytest.mark.parametrize(("function", "found"), [
    (one_cell, "the vectorised loop i write elements of t that others of them read or write"),
    (carried, "the parallel loop i write elements of one_cell that others of them read or write"),
    (rows_that_overlap, "the parallel loop i write elements of one_cell that others of them read or write"),
], ids=lambda item: getattr(item, "__name__", ""))
def test_what_depends_on_the_order_is_refused(function, found):
    C = function(A)
    with pytest.raises(VerifyError) as error:
        lower(te.create_schedule(C.op), [A, C])
    assert error.value.rule == "iterations"
    assert error.value.found == f"iterations of {found}".replace("one_cell", C.name)


@pytest.mark.parametrize("function", [rows, columns], ids=lambda function: function.__name__)
def test_what_does_not_runs(function):
    C = function(A)
    x = np.random.default_rng(0).standard_normal(8).astype("float32")
    [got] = run(te.create_schedule(C.op), [A, C], [x])
    np.testing.assert_array_equal(got, function(x))


def test_where_data_decide_the_function_is_believed():
    at = te.placeholder((8,), "int32", "at")
    C = scattered(A, at)
    x, order = np.arange(8, dtype="float32"), np.random.default_rng(0).permutation(8).astype("int32")
    [got] = run(te.create_schedule(C.op), [A, at, C], [x, order])
    np.testing.assert_array_equal(got, scattered(x, order))


def test_a_function_without_source_is_refused():
    made: dict = {}
    exec("def f(a):\n    return a", made)
    with pytest.raises(te.ExpressionError, match=r"^hybrid 'f': its source cannot be read; define it in a file$"):
        te.hybrid.script(made["f"])(A)
