"""Pitfall 14: a select that guards a read evaluates only the side that it chooses; one that guards nothing stays a select."""

import numpy as np
import pytest
from lower_support import ints

from vtakit import te
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.walk import expressions, subexpressions
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.function import build

N = 8
A, AT = te.placeholder((N,), "int32", name="A"), te.placeholder((N,), "int32", name="at")


def case(name, value, want):
    return pytest.param(value, want, id=name)


UNSAFE = [
    case("before the first", lambda i: te.select(i >= 1, A[i - 1], -5), lambda a, at: np.r_[-5, a[:-1]]),
    case("behind the last", lambda i: te.select(i > 5, 7, A[i + 2]), lambda a, at: np.r_[a[2:], 7, 7]),
    case("where data say", lambda i: te.select(AT[i] >= 0, A[AT[i]], 0), lambda a, at: np.where(at >= 0, a[at], 0)),
    case("a divisor of 0", lambda i: te.select(AT[i] > 0, te.floordiv(A[i], AT[i]), 0),
         lambda a, at: np.where(at > 0, a // np.maximum(at, 1), 0)),
    case("within another", lambda i: te.select(i >= 1, te.select(i < 7, A[i - 1] + A[i + 1], 1), 2),
         lambda a, at: np.r_[2, a[:-2] + a[2:], 1]),
]
SAFE = [
    case("what it tests", lambda i: te.select(A[i] > 0, A[i], 0), lambda a, at: np.maximum(a, 0)),
    case("a window", lambda i: te.select(i > 3, A[i - i % 2], A[i // 2]),
         lambda a, at: np.where(np.arange(N) > 3, a[np.arange(N) & ~1], a[np.arange(N) // 2])),
    case("guarded itself", lambda i: te.select(A[i] > 0, te.if_then_else(i >= 1, A[i - 1], 3), 4),
         lambda a, at: np.where(a > 0, np.r_[3, a[:-1]], 4)),
    case("divided by a number", lambda i: te.select(A[i] > 0, te.floordiv(A[i], 3), 0), lambda a, at: np.where(a > 0, a // 3, 0)),
]


def check(value, want, vectorised):
    c = te.compute((N,), value, name="C")
    s = te.create_schedule(c.op)
    if vectorised:
        s[c].vectorize(c.op.axis[0])
    function = lower(s, [A, AT, c]) if AT.op in [t.op for t in c.op.input_tensors] else lower(s, [A, c])
    a, at = ints(N), np.array([0, -1, 7, 3, -1, 2, 6, 1], np.int32)
    given = [a, at] if len(function.params) == 3 else [a]
    results = []
    for run in (interpret, lambda f, arrays: build(lower_late(f))(*arrays)):
        out = np.full(N, 77, np.int32)
        run(function, [*given, out])
        results.append(out)
    for out in results:
        np.testing.assert_array_equal(out, want(a, at))
    nodes = [node for e in expressions(lower_late(function).body) for node in subexpressions(e)]
    return any(isinstance(node, ir.Select) for node in nodes)


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize(("value", "want"), UNSAFE)
def test_what_may_not_be_evaluated_is_not(value, want, vectorised):
    assert not check(value, want, vectorised)


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize(("value", "want"), SAFE)
def test_what_may_be_evaluated_stays_a_select(value, want, vectorised):
    assert check(value, want, vectorised)
