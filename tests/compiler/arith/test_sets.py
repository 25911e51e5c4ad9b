"""Statement 52: regions of reads, unions, deduced bounds, linear forms."""

import random

import numpy as np
import pytest
from arith_fuzz import Generator, Point, value

from vtakit.compiler.arith import Analyzer, Interval, intersect, interval, region, union
from vtakit.compiler.arith.detect import Ends, clip_bounds, deduce_bound, linear_coefficients
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import ops
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import TRUE, int_value, wrap
from vtakit.compiler.ir.walk import free_vars

i, j, o, x, y = (Var(name) for name in "ijoxy")
n, m = Var("n", size=True), Var("m", size=True)


def loop(extent: Expr | int, low: Expr | int = 0) -> Range:
    return Range(wrap(low), wrap(extent))


@pytest.mark.parametrize(("e", "relax", "low", "extent"), [
    # statements 20, 25: tiles, windows, strides, dilation
    (o * 8 + i, {i: loop(8)}, "o * 8", "8"), (o + i, {i: loop(3)}, "o", "3"), (o * 2 + i, {o: loop(4), i: loop(3)}, "0", "9"),
    (o + i * 2, {i: loop(3)}, "o", "5"), (o - i, {i: loop(3)}, "o - 2", "3"), (i * 3, {i: loop(4, 2)}, "6", "10"),
    # symbolic
    (o * 8 + i, {o: loop((n + 7) // 8), i: loop(8)}, "0", "(n + 7) // 8 * 8"), (i * m + j, {j: loop(m)}, "m * i", "m"),
    (x + i, {i: loop(n, y)}, "y + x", "n"),
    # quotients and remainders
    (i // 4, {i: loop(16)}, "0", "4"), ((o * 4 + i) // 4, {i: loop(4)}, "o", "1"), (i % 4, {i: loop(16)}, "0", "4"),
    ((o * 4 + i) % 4, {i: loop(2)}, "0", "2"), (x % 8, {i: loop(2)}, "x % 8", "1"), ((x + i) % n, {i: loop(2)}, "0", "n"),
    # extremes, ranges within ranges
    (ops.minimum(i, 5), {i: loop(16)}, "0", "6"), (ops.maximum(o - i, 0), {i: loop(3)}, "max(o, 2) - 2", None),
    (i, {i: loop(o + 1), o: loop(4)}, "0", "4"), (j + i, {i: loop(2, j), j: loop(3)}, "0", "6"),
])
def test_regions(e: Expr, relax: dict[Var, Range], low: str, extent: str | None) -> None:
    a = Analyzer()
    for var, dom in relax.items():
        a.bind(var, dom)
    found = region(e, relax, a)
    assert found is not None
    assert str(found.min) == low
    if extent is not None:
        assert str(found.range(a).extent) == extent


def test_regions_of_guarded_reads() -> None:
    """Statement 52: a padded window touches no more than the image, a guarded tail no more than there is."""
    a, row = Analyzer(), o * 8 + i + j - 1
    relax = {i: loop(8), j: loop(3)}
    a.bind(o, loop(7))
    plain = region(row, relax, a)
    assert str(plain) == "Interval(min=o * 8 - 1, max=o * 8 + 8)"
    inside = region(row, relax, a, where=ops.all_of(row >= 0, row < 56))
    assert str(inside) == "Interval(min=max(o * 8, 1) - 1, max=min(o * 8, 47) + 8)"
    tail = region(x * 8 + i, {i: loop(8)}, a, where=x * 8 + i < n)
    assert str(tail) == "Interval(min=x * 8, max=x * 8 + min(n - x * 8, 8) - 1)"
    strided = region(i * 3, {i: loop(16)}, a, where=ops.all_of(i * 3 >= 4, i < y))
    assert strided is not None
    assert str(strided.min) == "6"
    assert str(strided.max) == "min(y, 16) * 3 - 3"


def test_fused_axis() -> None:
    """Statement 24: rows of a fused axis in blocks: exact if aligned, else as many as it may touch."""
    a, f = Analyzer(), Var("f")
    a.bind(f, loop(64))
    aligned = region((f * 8 + i) // 32, {i: loop(8)}, a)
    assert aligned is not None
    assert str(aligned.min) == "f // 4"
    assert str(aligned.extent(a)) == "1"
    crossing = region((f * 8 + i) // 5, {i: loop(8)}, a)
    assert crossing is not None
    assert a.bounds(crossing.extent(a)) == (2, 3)


def test_an_index_without_ends_has_no_region() -> None:
    a = Analyzer()
    assert region(i * x * y, {i: loop(4)}, a) is None
    assert region(x * y, {i: loop(4)}, a) == Interval(x * y, x * y)


def test_unions_and_intersections() -> None:
    a = Analyzer()
    first, second = interval(loop(8, o), a), interval(loop(8, o + 4), a)
    assert str(union(first, second, a)) == "Interval(min=o, max=o + 11)"
    assert str(intersect(first, second, a)) == "Interval(min=o + 4, max=o + 7)"


@pytest.mark.parametrize("seed", range(120))
def test_regions_hold_every_value(seed: int) -> None:
    """Any index, any relaxed variables: brute force finds no value outside."""
    g = Generator(f"region.{seed}")
    e = g.expr(3)
    relaxed = {var: r for var, r in _ranges(g).items() if g.random.random() < 0.6}
    where = g.condition(2) if seed % 2 else TRUE
    found = region(e, relaxed, g.analyzer, where)
    if found is None:
        return
    holds_there, defined = value(where, g.points)
    points = Point(g.points.values, defined & holds_there.astype(bool))
    want, fine = value(e, points)
    for name, end, holds in (("min", found.min, np.less_equal), ("max", found.max, np.greater_equal)):
        got, end_fine = value(end, points)
        assert not free_vars(end) & set(relaxed)
        assert np.all(holds(got, want) | ~(fine & end_fine)), f"{name} {end} of {e}"


def _ranges(g: Generator) -> dict[Var, Range]:
    return {
        var: Range(wrap(int(values[0])), wrap(len(values))) for var, values in g.domains if not var.size and var.dtype.bits == 32
        and var.dtype.code == "int"
    }


@pytest.mark.parametrize(("condition", "relax", "want"), [
    (x * 4 + 3 < n, {}, (None, "n // 4 - 1")), (x > 3, {}, ("4", None)), (0 - x >= y, {}, (None, "0 - y")),
    (ops.all_of(x >= y, x * 2 <= 9), {}, ("y", "4")), (x * 8 + i < n, {i: loop(8)}, (None, "n // 8 - 1")),
    (x * 8 - i >= 0, {i: loop(8)}, ("1", None)), (x // 4 < 3, {}, (None, "11")), (x // 4 >= y, {}, ("y * 4", None)),
    (ops.minimum(x, x + 3) >= 2, {}, ("2", None)), (ir.EQ(x * 2, y), {}, ("0 - (0 - y) // 2", "y // 2")),
])
def test_deduced_bounds(condition: Expr, relax: dict[Var, Range], want: tuple[str | None, str | None]) -> None:
    found = deduce_bound(x, condition, Analyzer(), relax)
    assert found is not None
    assert tuple(None if end is None else str(end) for end in found) == want


@pytest.mark.parametrize("condition", [x * x < 4, x % 4 < 2, ir.NE(x, wrap(3)), ops.any_of(x < 3, x > 5), y < 3])
def test_what_bounds_nothing(condition: Expr) -> None:
    assert deduce_bound(x, condition, Analyzer()) is None


@pytest.mark.parametrize("seed", range(40))
def test_deduced_bounds_are_exact(seed: int) -> None:
    """A random linear condition over x and a relaxed i: the interval is where it holds for all i."""
    r = random.Random(seed)
    p, q, c = r.choice([-5, -3, -2, -1, 1, 2, 4]), r.randint(-3, 3), r.randint(-20, 20)
    extent = r.randint(1, 6)
    e = x * p + i * q
    condition = r.choice((e < c, e <= c, e >= c))
    found = deduce_bound(x, condition, Analyzer(), {i: loop(extent)})
    assert found is not None

    least, most = (None if end is None else int_value(end) for end in found)
    for at in range(-60, 60):
        inside = (least is None or at >= least) and (most is None or at <= most)
        assert inside == all(_holds(condition, {x: at, i: step}) for step in range(extent)), f"{condition} at x={at}: {found}"


def _holds(condition: Expr, at: dict[Var, int]) -> bool:
    a = Analyzer()
    for var, number in at.items():
        a.bind(var, wrap(number))
    return a.prove(condition)


def test_clipped_bounds() -> None:
    a = Analyzer()
    found = clip_bounds(ops.all_of(x >= 2, x < n, y * 2 < 9), [x, y], a)
    assert found is not None
    assert str(found[x]) == "Ends(min=2, max=n - 1)"
    assert str(found[y]) == "Ends(min=None, max=4)"
    assert clip_bounds(x + y < 3, [x, y], a) is None
    assert clip_bounds(ops.all_of(x < 3), [x, y], a) == {x: Ends(None, wrap(2)), y: Ends(None, None)}


def test_linear_forms() -> None:
    a = Analyzer()
    found = linear_coefficients((x * n + y * 3 + 1) * 2 + i, [x, y], a)
    assert found is not None
    assert [str(e) for e in found.coefficients] == ["n * 2", "6"]
    assert str(found.base) == "i + 2"
    assert linear_coefficients(x * y, [x, y], a) is None
    assert linear_coefficients(x // 2, [x], a) is None
    absent = linear_coefficients(i + 1, [x], a)
    assert absent is not None
    assert str(absent.coefficients[0]) == "0"
