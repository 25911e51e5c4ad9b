"""Statement 50: the normal form of index expressions, conditions, selects, casts, reductions and vectors."""

import pytest

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import ops
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, INT64, dtype
from vtakit.compiler.ir.expr import CommReducer, Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.values import TRUE, cast, const, wrap

i, j, k, f, x, y = (Var(name) for name in "ijkfxy")
n, m = Var("n", size=True), Var("m", size=True)
t = Var("t")


@pytest.fixture
def a() -> Analyzer:
    found = Analyzer()
    for var, extent in ((i, 16), (j, 4), (k, 64), (f, 4096)):
        found.bind(var, Range(wrap(0), wrap(extent)))
    found.bind(t, Range(wrap(0), n))
    return found


@pytest.mark.parametrize(("e", "want"), [
    # grouping of coefficients
    (x * 3 + y - x - y, x * 2), ((x + y) * 2 - y * 2, x * 2), ((x - 1) * (x + 1), x * x - 1), (x - x, wrap(0)),
    # a split, then a fuse
    ((i * 4 + j) // 4, i), ((i * 4 + j) % 4, j), (x // 8 * 8 + x % 8, x), (x - x % 4, x // 4 * 4), (x - x // 4 * 4, x % 4),
    (x // 64 * 64 + x % 64 // 8 * 8 + x % 8, x), ((f * 8 + j) // 64 * 64 + (f * 8 + j) % 64, f * 8 + j),
    ((i * 4 + j + 5) // 4, i + (j + 1) // 4 + 1), ((k * 16 + i) // 32, k // 2),
    # nested divisions
    (x // 4 // 8, x // 32), (x % 16 % 4, x % 4), (x % 16 // 4, x // 4 % 4), ((x // 4 + y) // 2, (y * 4 + x) // 8),
    (x * 8 % 12, x * 2 % 3 * 4),
    ((x * 5 + x % 4 + x % 2) % 3, (x // 4 * 20 + x % 2 * 7) % 3),
    # negative divisors and dividends
    (x // -4, (0 - x) // 4), ((0 - i) // 16, (0 - i) // 16), ((0 - j) % 4, (0 - j) % 4), (ops.truncdiv(i, 4), i // 4),
    (ops.truncdiv(0 - i, 4), 0 - i // 4), (ops.truncmod(0 - i, 4), 0 - i % 4),
    # symbolic sizes
    ((8 * m + 7) // 8, m), (8 * m // 8, m), ((x * m + m) // m, x + 1), ((t + x * n) // n, x), ((t + x * n) % n, t),
    (x % (n * 3) // n, x // n % 3), (x % (n * m) // n, x // n % m), (x % (n * (n + 1)) // (n + 1), x // (n + 1) % n),
    (x % (n * 2) // 2 - y * 2, x // 2 % n - y * 2),
    # extremes
    (ops.minimum(i, 20), i), (ops.maximum(i + 3, i), i + 3), (ops.minimum(x + 1, x + 3), x + 1),
    (ops.minimum(ops.minimum(x, 5), 7), ops.minimum(x, 5)), (ops.maximum(x + y, x), x + ops.maximum(y, 0)),
    (ops.minimum(x * 4, y * 4), ops.minimum(x, y) * 4), (ops.maximum(n, 0), n), (ops.minimum(t, n), t),
    # shifts and masks
    (x << 3, x * 8), (x >> 2, x // 4), (x & 7, x % 8), ((x << 3) & 7, wrap(0)),
    # conditions that are known
    (ops.if_then_else(i < 16, x, y), x), (ops.select(j > 3, x, y), y), (ops.select(x < 3, y, y), y),
    (ops.select(x < 3, ops.minimum(x, 3), y), ops.select(x < 3, x, y)),
    # casts between index types
    (cast(cast(x, INT64), INT32), x), (cast(cast(i, dtype("int8")), INT32), cast(cast(i, dtype("int8")), INT32)),
    (ir.Let(y, x + 1, y * 2 - x), x + 2),
])
def test_expressions(a: Analyzer, e: Expr, want: Expr) -> None:
    got = a.simplify(e)
    assert str(got) == str(want)
    assert ir.same(a.simplify(got), got)
    assert a.prove_equal(e, want)


@pytest.mark.parametrize(("e", "want"), [
    (i < 16, "True"), (j >= 4, "False"), (t < n, "True"), (x < x + 1, "True"), (n >= 0, "True"),
    (ir.EQ(x * 2, y * 4 + 1), "False"),
    (ir.NE(i, wrap(16)), "True"), (i * 4 + j < 32, "i < 8"), (x * 4 <= y * 4 + 3, "x < y + 1"), (x >= 3, "3 <= x"),
    (x > y, "y < x"),
    (ops.negate(x < y), "y < x + 1"), (8 * t + j * 2 < 8 * n, "True"), (ir.EQ(x, x), "True"), (ir.EQ(x + y, y + 3), "x == 3"),
    (ops.all_of(i < 8, i < 4), "i < 4"), (ops.all_of(x < 4, x < 8), "x < 4"), (ops.any_of(x < 4, x < 8), "x < 8"),
    (ops.all_of(x < 4, x > 6), "False"), (ops.any_of(x < 4, x >= 4), "True"), (ops.all_of(x < 4, i < 99), "x < 4"),
    (ops.negate(ops.all_of(x < 4, y < 4)), "4 <= x or 4 <= y"), (ops.all_of(x < 4, ops.minimum(x, 5) < y), "x < 4 and x < y"),
    (x % 8 < 8, "True"), (x // 4 * 4 <= x, "True"), ((n + 7) // 8 * 8 >= n, "True"),
])
def test_conditions(a: Analyzer, e: Expr, want: str) -> None:
    got = a.simplify(e)
    assert str(got) == want
    assert ir.same(a.simplify(got), got)


def test_a_guarded_read_keeps_its_guard(a: Analyzer) -> None:
    """The second part implies the first, but is evaluated only where that holds."""
    b = Buffer("B", (8,), INT32)
    e = ops.all_of(x < 8, b[x] > 3, x < 8)
    assert str(a.simplify(e)) == "x < 8 and 4 <= B[x]"
    load = b[ops.minimum(x, 7)]
    assert str(a.simplify(ops.if_then_else(x < 8, load, 0))) == "if_then_else(x < 8, B[x], 0)"
    assert str(a.simplify(ops.select(x < 8, load, 0))) == "select(x < 8, B[min(x, 7)], 0)"  # a select evaluates both


def test_wide_and_narrow_index_types() -> None:
    """int32 within int64: sums are made in 64 bits; a narrowing cast stays unless nothing is lost."""
    a, wide = Analyzer(), Var("w", INT64)
    e = a.simplify(cast(x * 4 + y, INT64) * 1000 + wide)
    assert e.dtype is INT64
    assert str(e) == "int64(x) * int64(4000) + int64(y) * int64(1000) + w"
    assert str(a.simplify(cast(wide + 1, INT32))) == "int32(w + int64(1))"
    assert str(a.simplify(cast(cast(x + y, INT64), INT32))) == "int32(int64(x) + int64(y))"  # the sum may be too large
    a.bind(y, Range(wrap(0), wrap(8)))
    assert str(a.simplify(cast(cast(y, INT64) * 4, INT32))) == "y * 4"


@pytest.mark.parametrize("kind", ["uint8", "uint32", "int8"])
def test_types_that_wrap_keep_their_meaning(kind: str) -> None:
    """Pitfall 4: ``a - b + b < c`` and ``(a - 1) // 2`` are not what they are of integers."""
    a, u, v = Analyzer(), Var("u", dtype(kind)), Var("v", dtype(kind))
    for e in ((u - 1) // 2, u - v, u * 2 // 2, u + 1 > u):
        assert ir.same(a.simplify(e), e)
    assert str(a.simplify(u - u)) == str(const(0, kind))
    limited = ops.minimum(u, const(3, kind))
    assert ir.same(a.simplify(ops.minimum(limited, const(5, kind))), limited)


def test_reductions_lose_values_that_nothing_uses() -> None:
    """Statement 50: of (sum, count) asked for the count, the sum goes; argmax needs both."""
    a = Analyzer()
    lhs, rhs = (Var("a0"), Var("a1")), (Var("b0"), Var("b1"))
    axis = IterVar(Var("r"), Range(wrap(0), wrap(8)), IterKind.REDUCE)
    both = CommReducer("pair", lhs, rhs, (lhs[0] + rhs[0], lhs[1] + rhs[1]), (wrap(0), wrap(0)))
    e = ir.Reduce(both, ((axis.var * 4 + j) // 4, wrap(1)), (axis,), axis.var < 8, 1)
    got = a.simplify(e)
    assert isinstance(got, ir.Reduce)
    assert (len(got.source), got.value_index, len(got.combiner.result)) == (1, 0, 1)
    assert ir.same(got.condition, TRUE)
    assert ir.same(a.simplify(got), got)
    greater = lhs[1] >= rhs[1]
    argmax = CommReducer(
        "argmax", lhs, rhs, (ops.select(greater, lhs[0], rhs[0]), ops.select(greater, lhs[1], rhs[1])), (wrap(-1), wrap(-9)),
    )
    kept = a.simplify(ir.Reduce(argmax, (axis.var, axis.var * 2), (axis,), TRUE, 0))
    assert isinstance(kept, ir.Reduce)
    assert kept.combiner is argmax
    only = a.simplify(ir.Reduce(argmax, (axis.var, axis.var * 2), (axis,), TRUE, 1))
    assert isinstance(only, ir.Reduce)
    assert (len(only.source), only.value_index) == (1, 0)


@pytest.mark.parametrize(("e", "want"), [
    (ir.Ramp(i * 4, wrap(1), 8) + ir.Broadcast(j, 8), "ramp(i * 4 + j, 1, 8)"),
    (ir.Ramp(i * 4, wrap(1), 4) // 4, "broadcast(i, 4)"),
    (ir.Ramp(i * 4, wrap(1), 4) % 4, "ramp(0, 1, 4)"),
    (ir.Ramp(t, n, 4) + ir.Broadcast(t, 4), "ramp(t * 2, n, 4)"),
    (ir.Ramp(i * 4, wrap(1), 4) < 64, "broadcast(True, 4)"),
    (ir.Ramp(i * 4, wrap(1), 4) < 60, "broadcast(i < 15, 4)"),
    (ir.Ramp(x, wrap(1), 4) // 3, "ramp(x, 1, 4) // broadcast(3, 4)"),
])
def test_vectors(a: Analyzer, e: Expr, want: str) -> None:
    got = a.simplify(e)
    assert str(got) == want
    assert ir.same(a.simplify(got), got)


def test_floats_are_left_to_the_machine(a: Analyzer) -> None:
    """No term of a float is moved; index arithmetic within is simplified."""
    u, b = Var("u", FLOAT32), Buffer("B", (64,), FLOAT32)
    e = (u + b[(i * 4 + j) // 4]) - u
    assert str(a.simplify(e)) == "u + B[i] - u"


def test_order_of_terms_does_not_matter(a: Analyzer) -> None:
    forms = [x * 4 + y + n, n + y + x * 4, y - 0 + (n + x * 2) + x * 2, (x * 8 + y * 2 + n * 2) // 2]
    assert len({str(a.simplify(e)) for e in forms}) == 1


def test_a_quotient_from_which_a_multiple_came_out_is_divided_as_if_it_had_never_been_in():
    """Found by arith_fuzz, case 2000000.21963: the multiple hid a remainder of the rest, which the next call then saw."""
    a, i = Analyzer(), Var("i")
    a.bind(i, Range(const(-3, INT32), const(4, INT32)))
    once = a.simplify((i * 17 + i % 4 - i // 6) // 4)
    assert str(once) == "(i // 6 * 107 + i * 18) // 4 - i // 6 * 27 - i // 4"
    assert str(a.simplify(once)) == str(once)


def test_a_common_factor_does_not_weaken_a_proof():
    """Found by arith_fuzz, case 603.774."""
    a, n = Analyzer(), Var("n", size=True)
    for times in (1, 2, 16):
        assert str(a.simplify(ops.minimum((n // -2 + n * 2) * times, 0))) == "0"
