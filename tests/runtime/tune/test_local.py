"""`vtakit.tune.run`: small and odd arrays, and mistakes of users, each one sentence."""

import numpy as np
import pytest
from support import raises

from vtakit import te, tune
from vtakit.compiler.tune.task import TuneError

A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
K = te.reduce_axis((0, 8), "k")
C = te.compute((8, 8), lambda i, j: te.sum(A[i, K] * B[K, j], axis=K), name="C")


@tune.template
def fails(cfg):
    """A template with a mistake in one of its candidates."""
    _ = 1 // cfg.define_knob("a", [1, 0]).val
    return te.create_schedule(C.op), [A, B, C]


@tune.template
def silent(cfg):
    """A template that does not give its result."""
    cfg.define_knob("a", [1, 0])
    return te.create_schedule(C.op), [A, B]


@pytest.mark.parametrize(("call", "told"), [
    (lambda: tune.expression(C, [A, B]), "task 'C': 'C' is computed, but is not among the tensors … add it at their end"),
    (lambda: silent.task(), "task 'silent()': 'C' is computed, but is not among the tensors … add it at their end"),
    (lambda: tune.expression(C, [A, B, C], threads="2"), "task 'C' is to run on '2' threads: give a number, at least 1"),
    (lambda: tune.run(tune.expression(C, [A, B, C]), 0), "trials=0: give a number over 0, or None for no limit"),
    (lambda: tune.run(tune.expression(C, [A, B, C]), "3"), "trials='3': give a number over 0, or None for no limit"),
    (lambda: tune.run(tune.expression(C, [A, B, C]), seconds=-1), "seconds=-1: give a number over 0, or None for no limit"),
    (lambda: tune.run("C"), "'C' is no task: give what `tune.expression` or `task` of a template returns"),
    (lambda: tune.run(fails.task(), 4, search="grid"), "template 'fails' fails with the decisions {'a': 0}: ZeroDivisionError …"),
])
def test_mistakes_are_sentences(call, told):
    with raises(TuneError, told):
        call()


@pytest.mark.parametrize(("shape", "dtype"), [
    ((), "float32"), ((), "int8"), ((0, 4), "float32"), ((3,), "bool"), ((5,), "bfloat16")])
def test_small_arrays(shape, dtype):
    x, zero = te.placeholder(shape, dtype, name="x"), te.const(0, dtype)
    either = te.any if dtype == "bool" else lambda a, b: te.if_then_else(a > zero, b, zero)
    y = te.compute(shape, lambda *i: either(x(*i), x(*i)), name="y")
    found = tune.run(tune.expression(y, [x, y]), 2, search="random")
    assert found.cost > 0
    if dtype != "bfloat16":
        a = np.ones(shape, dtype)
        b = np.empty_like(a)
        found.build()(a, b)
        np.testing.assert_array_equal(a, b)
