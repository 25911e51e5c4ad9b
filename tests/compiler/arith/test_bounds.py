"""Statement 51: intervals and residues, proofs, and facts."""

import itertools
import math

import pytest

from vtakit.compiler.arith import Analyzer, Bounds, Modular
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import ops
from vtakit.compiler.ir.dtypes import INT32, dtype
from vtakit.compiler.ir.expr import Call, Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import cast, wrap

INF = float("inf")
i, j, s, x, y = (Var(name) for name in "ijsxy")  # s is signed
n, m = Var("n", size=True), Var("m", size=True)
u8, i8 = Var("u8", dtype("uint8")), Var("i8", dtype("int8"))
k, t, o, p = (Var(name) for name in "ktop")


def real(e: Expr) -> Expr:
    return cast(e, dtype("float64"))


def floor(e: Expr) -> Expr:
    return Call(e.dtype, "floor", (e,))


def ceil(e: Expr) -> Expr:
    return Call(e.dtype, "ceil", (e,))


@pytest.fixture
def a() -> Analyzer:
    found = Analyzer()
    for var, low, extent in ((i, 0, 16), (j, 2, 4), (s, -3, 8)):
        found.bind(var, Range(wrap(low), wrap(extent)))
    return found


@pytest.mark.parametrize(("e", "lo", "hi"), [
    (wrap(7), 7, 7), (x, -INF, INF), (n, 0, INF), (n - 1, -1, INF), (i + j, 2, 20), (i - j, -5, 13), (i * j, 0, 75),
    (s * s, 0, 16), (s * i, -45, 60), (i * -2 + 1, -29, 1), (i // 3, 0, 5), (s // 2, -2, 2), (s // -2, -2, 1), (i // -4, -4, 0),
    (100 // j, 20, 50), (s % 5, 0, 4), (s % -5, -4, 0), (i % 32, 0, 15), (j % 4, 0, 3), ((i * 4 + 1) % 8, 1, 5), (x % 8, 0, 7),
    (x % 8 * 2 + i, 0, 29), (ops.truncdiv(s, 2), -1, 2), (ops.truncdiv(s, -2), -2, 1),
    (ops.truncmod(s, 3), -2, 2), (ops.minimum(i, j), 0, 5), (ops.maximum(i, j), 2, 15),
    (ops.minimum(x, 3), -INF, 3), (ops.select(x < 3, i, j + 20), 0, 25), (i << 2, 0, 60), (i >> 1, 0, 7), (i & 3, 0, 3),
    (x & 12, 0, 12), (cast(i, dtype("int8")), 0, 15), (cast(i * 20, dtype("int8")), -128, 127),
    (u8, 0, 255), (cast(u8, INT32) - 1, -1, 254),
    (u8 + u8, 0, 255), (i8 // 2, -64, 63), (ops.minimum(u8, 7), 0, 7), (Call(INT32, "abs", (s,)), 0, 4),
    ((x % 2 * 49 + i) // 14, 0, 4), ((x % 2 * 49 + i) // 14 * -2, -8, 0),
    (cast(ops.maximum(ops.minimum(floor(real(x) / 2.0), 4.0), 0.0), INT32), 0, 4), (cast(floor(real(i) / 2.0), INT32), 0, 7),
    (cast(ceil((real(i) + 0.5) * -1.5 + 0.25), INT32), -23, 0), (cast(real(i) / real(j), INT32), -INF, INF),
    (cast(real(s) * 1e308 * 10.0, INT32), -INF, INF), (cast(ops.minimum(real(i), math.inf), INT32), -INF, INF),
    (cast(ops.maximum(Call(dtype("float64"), "sqrt", (real(s),)), 0.0), INT32), -INF, INF),
    (cast(x < 3, INT32), 0, 1), (i < 99, 1, 1), ((i * 8 + 7) // 5 - i * 8 // 5, 1, 2), (n - n // 8 * 8, 0, 7),
])
def test_bounds(a: Analyzer, e: Expr, lo: float, hi: float) -> None:
    assert a.bounds(e) == Bounds(lo, hi)


@pytest.mark.parametrize(("e", "coeff", "base"), [
    (wrap(7), 0, 7), (x, 1, 0), (x * 8 + 3, 8, 3), (x * 8 + y * 12 + 5, 4, 1), (x * 4 * (y * 6), 24, 0), ((x * 8 + 3) % 4, 0, 3),
    (x * 8 // 4, 2, 0), ((x * 8 + 2) % 16, 8, 2), (ops.minimum(x * 4, y * 4 + 2), 2, 0), ((x * 4 + 1) * (y * 4 + 3), 4, 3),
    (x - 1, 1, 0),
])
def test_residues(a: Analyzer, e: Expr, coeff: int, base: int) -> None:
    assert a.modular(e) == Modular(coeff, base)


@pytest.mark.parametrize(("given", "claim", "certain"), [
    (x <= y, x // n <= y // n, True),
    (x < n * m, x // n < m, True),
    (x >= n * m, x // n >= m, True),
    (x + n <= y, x // n + 1 <= y // n, True),
    (x + n <= y, x // n + 2 <= y // n, False),
    (x < y, x // n < y // n, False),
    (x <= n * m, x // n < m, False),
    (x <= y, x // k <= y // k, False),  # k may be negative
    (x <= y, x // n <= y // m, False),
])
def test_quotients_by_a_size(given: Expr, claim: Expr, certain: bool) -> None:
    """What is claimed is so for all small numbers that the condition allows; what is not, is not for some."""
    a = Analyzer()
    with a.given(given):
        assert a.prove(claim) == certain
    names = ("x", "y", "n", "m", "k")
    truth = [
        eval(str(claim), values) for numbers in itertools.product(range(-4, 7), range(-4, 7), (1, 2, 3), (1, 2), (-2, 1))
        if eval(str(given), values := dict(zip(names, numbers, strict=True)))
    ]
    assert all(truth) == certain


def test_a_size_known_to_be_a_multiple(a: Analyzer) -> None:
    """Statements 23, 51: divisibility facts serve splits."""
    a.learn(ir.EQ(n % 8, wrap(0)))
    assert a.modular(n) == Modular(8, 0)
    for e, want in (
        (n // 8 * 8, n), (n % 4, wrap(0)), ((n + 7) // 8, n // 8), ((n + 3) // 4, n // 4), (n, n), (n * 3 // 8, n // 8 * 3),
    ):
        assert ir.same(a.simplify(e), want)
    assert a.prove((n + 7) // 8 * 8 <= n)
    a.bind(o, Range(wrap(0), n // 8))
    a.bind(p, Range(wrap(0), wrap(8)))
    assert a.prove(o * 8 + p < n)


def test_a_size_known_to_leave_a_rest(a: Analyzer) -> None:
    a.learn(ir.EQ(n % 4, wrap(1)))
    assert a.modular(n) == Modular(4, 1)
    assert str(a.simplify(n // 4 * 4)) == "n - 1"
    assert a.prove(n >= 1)


@pytest.mark.parametrize(("e", "certain"), [
    (t < n, True), (t < n - 1, False), (t * 8 + 7 < n * 8, True), (t * m + m <= n * m, True), (t * m <= n * m - 1, False),
    (o * 8 < n, True), (o * 8 + p < n, False), (o * 8 + p < n + 7, True), (o <= n // 8, True), (n // 8 * 8 <= n, True),
    (ops.minimum(n - o * 8, 8) >= 1, True), (o * 8 + ops.minimum(n - o * 8, 8) <= n, True), (ops.maximum(t, p) >= t, True),
    ((n + 7) // 8 <= n + 1, True), ((n + 7) // 8 <= n, True), (t + p <= n + 7, True), (t + p <= n + 5, False),
    (k <= t, True), (k < n, True),
    ((t * m + k) // m >= 0, True),
])
def test_proofs_with_symbolic_ranges(a: Analyzer, e: Expr, certain: bool) -> None:
    a.bind(t, Range(wrap(0), n))
    a.bind(o, Range(wrap(0), (n + 7) // 8))
    a.bind(p, Range(wrap(0), wrap(8)))
    a.bind(k, Range(wrap(0), t + 1))  # a triangle
    assert a.prove(e) == certain
    assert not a.prove(ops.negate(e))


@pytest.mark.parametrize(("e", "certain"), [
    (t // m * 2 < n, True), (t // m * 2 + 1 < n, True), (t // m * 2 + 2 < n, False), (t // m * 2 < n - 1, True),
    (n - t // m * 3 > 0, False),
])
def test_proofs_about_multiples_of_quotients(a: Analyzer, e: Expr, certain: bool) -> None:
    """Every second row of m x n elements, fused: ``2 * q <= r`` is ``q <= r // 2``, and only so are no remainders lost."""
    a.bind(t, Range(wrap(0), n // 2 * m))
    assert a.prove(e) == certain
    holds = [
        eval(str(e), {"n": rows, "m": width, "t": first})
        for rows in range(7) for width in (1, 2, 3) for first in range(rows // 2 * width)
    ]
    assert all(holds) == certain


def test_facts_hold_inside_alone(a: Analyzer) -> None:
    assert not a.prove(x < 8)
    with a.given(ops.all_of(x < 4, y >= x)):
        assert a.bounds(x) == Bounds(-INF, 3)
        assert a.prove(x < 8)
        assert a.prove(y - x >= 0)
        assert str(a.simplify(ops.minimum(x, 5) + ops.maximum(y, x))) == "x + y"
        with a.given(y < 10):
            assert a.prove(x + y < 13)
        assert not a.prove(y < 10)
    assert not a.prove(x < 8)


def test_facts_about_several_variables(a: Analyzer) -> None:
    with a.given(x * 8 + i < n):
        assert a.prove(x < (n + 7) // 8)
        assert a.prove(x * 8 < n)
        assert a.bounds(n - x * 8 - i).lo == 1
    with a.given(ir.EQ(x, y * 4)):
        assert str(a.simplify(x % 4)) == "0"
    with a.given(ops.negate(ops.any_of(x < 2, y < 3))):
        assert a.prove(x + y >= 5)
    with a.given(ir.NE(i, wrap(0))):
        assert a.bounds(i) == Bounds(1, 15)


def test_a_condition_of_no_arithmetic_is_a_fact_too(a: Analyzer) -> None:
    flag = Var("flag", dtype("bool"))
    with a.given(flag):
        assert a.prove(flag)
        assert str(a.simplify(ops.select(flag, x, y))) == "x"
    with a.given(ops.negate(flag)):
        assert str(a.simplify(ops.select(flag, x, y))) == "y"


def test_what_was_worked_out_before_a_binding_is_forgotten() -> None:
    a, v = Analyzer(), Var("v")
    e = v % 8
    assert str(a.simplify(e)) == "v % 8"
    a.bind(v, Range(wrap(0), wrap(8)))
    assert str(a.simplify(e)) == "v"
    a.bind(v, wrap(3))
    assert str(a.simplify(e)) == "3"


def test_a_loop_of_one_step_is_its_start(a: Analyzer) -> None:
    a.bind(x, Range(y * 2, wrap(1)))
    assert str(a.simplify(x // 2)) == "y"


def test_equality_beyond_the_normal_form(a: Analyzer) -> None:
    assert a.prove_equal(ops.maximum(x, y) + ops.minimum(x, y), x + y)
    assert a.prove_equal(ops.maximum(0 - x, 0 - y), 0 - ops.minimum(x, y))
    assert a.prove_equal((n + 7) // 8 * 8, n + 7 - (n + 7) % 8)
    assert not a.prove_equal(x, y)
