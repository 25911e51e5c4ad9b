"""Statement 52: affine maps with inverse and predicates."""

import itertools
import random

import pytest

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.affine import IterMap
from vtakit.compiler.arith.iter_map import iter_map
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import TRUE, int_value, wrap
from vtakit.compiler.ir.walk import substitute

i, j, k, f = (Var(name) for name in "ijkf")
n, m = Var("n", size=True), Var("m", size=True)


def loop(extent: Expr | int, low: int = 0) -> Range:
    return Range(wrap(low), wrap(extent))


def found(
    bindings: list[Expr], loops: dict[Var, Range], predicate: Expr = TRUE, *, whole: bool = False
) -> tuple[IterMap | str, Analyzer]:
    a = Analyzer()
    for var, dom in loops.items():
        a.bind(var, dom)
    return iter_map(bindings, loops, predicate, a, whole=whole), a


@pytest.mark.parametrize(("bindings", "loops", "predicate", "extents", "inverse"), [
    ([i * 8 + j], {i: loop(4), j: loop(8)}, TRUE, "32", "i = y0 // 8, j = y0 % 8"),
    ([f // 8, f % 8], {f: loop(32)}, TRUE, "4 8", "f = y0 * 8 + y1"),
    ([(i * 6 + j) // 4, (i * 6 + j) % 4], {i: loop(4), j: loop(6)}, TRUE, "6 4", "i = (y0 * 4 + y1) // 6, j = (y0 * 4 + y1) % 6"),
    ([(f * 8 + i) // 6, (f * 8 + i) % 6], {f: loop(3), i: loop(8)}, TRUE, "4 6", "f = (y0 * 6 + y1) // 8, i = (y0 * 6 + y1) % 8"),
    ([j + 3, i - 2], {i: loop(4, 2), j: loop(8)}, TRUE, "8 4", "i = y1 + 2, j = y0 - 3"),
    ([i, wrap(0) + k], {i: loop(4), k: loop(1, 5)}, TRUE, "4 1", "i = y0"),
    # a blocked layout: digits in another order, others between
    ([(f // 256 * 8 + f // 8 % 8) * 4 + f // 64 % 4, f % 8], {f: loop(1024)}, TRUE, "128 8",
     "f = y0 // 32 * 256 + y0 % 4 * 64 + y0 // 4 % 8 * 8 + y1"),
    ([f // 4 * 8 + j * 4 + f % 4], {f: loop(16), j: loop(2)}, TRUE, "32", "f = y0 // 8 * 4 + y0 % 4, j = y0 // 4 % 2"),
    # predicates: the tail of an uneven split, also within a longer sum
    ([i * 8 + j], {i: loop(4), j: loop(8)}, i * 8 + j < 30, "30", "i = y0 // 8, j = y0 % 8"),
    ([(i * 8 + j) * 4 + k], {i: loop(4), j: loop(8), k: loop(4)}, i * 8 + j < 30, "120",
     "i = y0 // 32, j = y0 // 4 % 8, k = y0 % 4"),
    ([i, j], {i: loop(4), j: loop(8)}, all_of(i < 3, j < 5), "3 5", "i = y0, j = y1"),
    # symbolic
    ([i * 8 + j], {i: loop((n + 7) // 8), j: loop(8)}, i * 8 + j < n, "n", "i = y0 // 8, j = y0 % 8"),
    ([i * m + j], {i: loop(n), j: loop(m)}, TRUE, "n * m", "i = y0 // m, j = y0 % m"),
    ([f // m, f % m], {f: loop(n * m)}, TRUE, "n m", "f = m * y0 + y1"),
])
def test_maps(bindings: list[Expr], loops: dict[Var, Range], predicate: Expr, extents: str, inverse: str) -> None:
    got, a = found(bindings, loops, predicate, whole=True)
    assert isinstance(got, IterMap), got
    assert got.one_to_one
    assert got.predicates == ()
    assert " ".join(str(one.extent) for one in got.sums) == extents
    back = got.inverse([Var(f"y{at}") for at in range(len(bindings))], a)
    assert ", ".join(f"{var.name} = {back[var]}" for var in loops if var in back) == inverse


@pytest.mark.parametrize(("bindings", "loops", "message"), [
    ([i + j], {i: loop(4), j: loop(8)}, "i + j leaves values out or takes some twice: its scales do not follow from its extents"),
    ([i * 16 + j], {i: loop(4), j: loop(8)},
     "i * 16 + j leaves values out or takes some twice: its scales do not follow from its extents"),
    ([i, i * 4 + j], {i: loop(4), j: loop(4)}, "the bindings use i more than once, so they are not independent"),
    ([i], {i: loop(4), j: loop(4)}, "no binding uses j, so several points have the same values"),
    ([f // 8], {f: loop(32)}, "the bindings use only a part of a loop variable, so several points have the same values"),
    ([f // 8, f % 8], {f: loop(30)}, "the splits of f make 32 steps of its 30"),
    ([i * j], {i: loop(4), j: loop(4)}, "i * j is no split or fuse of loop variables"),
    ([(i * 2 + j) // 2], {i: loop(4), j: loop(4)},
     "i + j // 2 leaves values out or takes some twice: its scales do not follow from its extents"),
    ([(f + 3) // 8, f % 8], {f: loop(32)}, "f + 3 does not start at 0, so a split of it is no split of loop variables"),
    ([wrap(1.5)], {f: loop(32)}, "the binding 1.5 is of float32, which is no index type"),
])
def test_what_is_no_map(bindings: list[Expr], loops: dict[Var, Range], message: str) -> None:
    assert found(bindings, loops, whole=True)[0] == message


def test_a_predicate_that_no_extent_expresses_is_left() -> None:
    got, _ = found([i, j], {i: loop(4, 1), j: loop(8)}, i + j * 2 < 9)
    assert isinstance(got, IterMap)
    assert [str(e) for e in got.predicates] == ["j * 2 + (i - 1) < 8"]


def test_parts_and_unused_loops_are_allowed_unless_the_whole_is_asked_for() -> None:
    got, a = found([f // 8], {f: loop(32), i: loop(4)})
    assert isinstance(got, IterMap)
    assert not got.one_to_one
    assert str(got.inverse([Var("y")], a)) == "{f: y * 8}"
    with pytest.raises(ValueError) as error:
        got.inverse([], a)
    assert str(error.value) == "the map has 1 bindings, got 0 outputs"


@pytest.mark.parametrize("seed", range(150))
def test_random_splits_and_fuses(seed: int) -> None:
    """Bindings made by splits and fuses of axes: at each point of the loops they differ, and the inverse leads back."""
    r, a = random.Random(seed), Analyzer()
    loops: dict[Var, Range] = {}
    values: list[tuple[Expr, int]] = []
    for name in "abc"[: r.randint(1, 3)]:
        var, extent = Var(name), r.choice((1, 2, 3, 4, 6, 8))
        loops[var] = loop(extent, r.choice((0, 0, 2)))
        a.bind(var, loops[var])
        values.append((var - loops[var].min, extent))
    for _ in range(r.randint(1, 4)):
        if len(values) > 1 and r.random() < 0.5:
            (e, extent), (other, inner) = (values.pop(r.randrange(len(values))) for _ in range(2))
            values.append((e * inner + other, extent * inner))
        else:
            e, extent = values.pop(r.randrange(len(values)))
            factor = r.choice([d for d in range(1, extent + 1) if extent % d == 0])
            values += [(e // factor, extent // factor), (e % factor, factor)]
    bindings = [a.simplify(e) if r.random() < 0.5 else e for e, _ in values]
    got = iter_map(bindings, loops, TRUE, a, whole=True)
    assert isinstance(got, IterMap), f"{bindings}: {got}"
    seen = set()
    for point in itertools.product(*(range(d.min.value, d.min.value + d.extent.value) for d in loops.values())):
        at = dict(zip(loops, map(wrap, point), strict=True))
        outputs = tuple(int_value(Analyzer().simplify(substitute(e, at))) for e in bindings)
        seen.add(outputs)
        if r.random() < 0.1:
            for var, e in got.inverse([wrap(number) for number in outputs], a).items():
                assert int_value(e) == int_value(at[var])
    assert len(seen) == int_value(a.simplify(_product([one.extent for one in got.sums])))


def _product(factors: list[Expr]) -> Expr:
    total: Expr = wrap(1)
    for factor in factors:
        total = total * factor
    return total
