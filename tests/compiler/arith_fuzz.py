"""Random index expressions against brute force: does the normal form have the same value at every point?

    python tests/compiler/arith_fuzz.py [--seed N] [--count N] [--verbose]

For each: the normal form has the expression's value at every point of the variables' domain where the facts hold and no
divisor is 0; simplifying it again changes nothing; bounds and residues hold. A failure prints the case and its seed.
"""

import argparse
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import ops
from vtakit.compiler.ir.dtypes import INT32, INT64, DType, dtype
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import cast, const, wrap

Array = npt.NDArray[Any]
LARGE = 1 << 30  # beyond, int32 would overflow: such points are left out


@dataclass
class Point:
    """The points of a domain, one element each, and the value of every variable there."""

    values: dict[Var, Array]
    valid: Array = field(default_factory=lambda: np.array(True))


def _fold(value: Array, kind: DType) -> Array:
    """As the type leaves it."""
    if kind.bits == 64:
        return value
    mask = (1 << kind.bits) - 1
    value = value & mask
    return np.where(value > kind.max, value - mask - 1, value) if kind.code == "int" else value


_VALUE: dict[type[Expr], Callable[[Any, Any], Any]] = {
    ir.Add: np.add, ir.Sub: np.subtract, ir.Mul: np.multiply, ir.Min: np.minimum, ir.Max: np.maximum,
    ir.EQ: np.equal, ir.NE: np.not_equal, ir.LT: np.less, ir.LE: np.less_equal, ir.FloorDiv: np.floor_divide, ir.FloorMod: np.mod,
    ir.TruncDiv: lambda a, b: np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b), ir.TruncMod: np.fmod,
    ir.BitAnd: np.bitwise_and, ir.BitOr: np.bitwise_or, ir.BitXor: np.bitwise_xor,
    ir.ShiftLeft: np.left_shift, ir.ShiftRight: np.right_shift, ir.And: np.logical_and, ir.Or: np.logical_or,
}
_DIVISION = (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)


def value(e: Expr, at: Point) -> tuple[Array, Array]:
    """An expression's value at every point, and where it has one."""
    if isinstance(e, Var):
        return at.values[e], at.valid
    if isinstance(e, ir.IntImm):
        return np.full_like(at.valid, e.value, dtype=np.int64), at.valid
    if isinstance(e, ir.Not):
        a, fine = value(e.a, at)
        return ~a.astype(bool), fine
    if isinstance(e, ir.Cast):
        a, fine = value(e.value, at)
        return (a.astype(bool) if e.dtype.is_bool else _fold(a.astype(np.int64), e.dtype)), fine
    if isinstance(e, ir.Select | ir.IfThenElse):
        c, fine = value(e.condition, at)
        (x, x_fine), (y, y_fine) = value(e.true, at), value(e.false, at)
        c = c.astype(bool)
        if isinstance(e, ir.Select):
            return np.where(c, x, y), fine & x_fine & y_fine
        return np.where(c, x, y), fine & np.where(c, x_fine, y_fine)
    if isinstance(e, ir.Let):
        bound, fine = value(e.value, at)
        a, inner = value(e.body, Point(at.values | {e.var: bound}, at.valid))
        return a, fine & inner
    assert isinstance(e, ir.Binary), type(e)
    (a, a_fine), (b, b_fine) = value(e.a, at), value(e.b, at)
    fine = a_fine & b_fine
    if isinstance(e, ir.And | ir.Or):
        other = a.astype(bool) if isinstance(e, ir.And) else ~a.astype(bool)
        fine = a_fine & (b_fine | ~other)
    if isinstance(e, _DIVISION):
        fine = fine & (b != 0)
        b = np.where(b == 0, 1, b)
    if isinstance(e, ir.ShiftLeft | ir.ShiftRight):
        fine = fine & (b >= 0) & (b < e.dtype.bits)
        b = np.where(fine, b, 0)
    with np.errstate(over="ignore"):
        found = _VALUE[type(e)](a, b)
    if e.dtype.is_int:
        if e.dtype.bits >= 32 and e.dtype.code == "int":
            fine = fine & (np.abs(found.astype(np.float64)) < LARGE)
            found = np.where(fine, found, 0)
        else:
            found = _fold(found, e.dtype)
    return found, fine


class Generator:
    """Random expressions over a few variables."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))
        r = self.random
        self.analyzer = Analyzer()
        self.index: list[Expr] = []
        self.narrow: dict[str, list[Expr]] = {"uint8": [], "int8": [], "uint32": []}
        self.domains: list[tuple[Var, Array]] = []
        self.ranges: list[str] = []
        for name in "ijk"[: r.randint(1, 3)]:
            var, low, extent = Var(name), r.choice((0, 0, 0, 1, -3)), r.choice((1, 2, 3, 4, 5, 8, 12))
            self.analyzer.bind(var, Range(wrap(low), wrap(extent)))
            self.index.append(var)
            self.domains.append((var, np.arange(low, low + extent)))
            self.ranges.append(f"{name} in {low}..{low + extent - 1}")
        self.sizes: list[Var] = []
        for name in "nm"[: r.randint(0, 2)]:
            var = Var(name, size=True)
            self.sizes.append(var)
            self.domains.append((var, np.arange(0, 10)))
            self.ranges.append(f"{name} size")
        self.index += self.sizes
        for kind, vars_ in self.narrow.items():
            if r.random() < 0.1:
                narrow = Var(f"v_{kind}", dtype(kind))
                vars_.append(narrow)
                edge = np.array([dtype(kind).min, dtype(kind).max, 0, 1, 7])
                self.domains.append((narrow, edge))
        grids = np.meshgrid(*[values for _, values in self.domains], indexing="ij")
        points = {var: grid.reshape(-1).astype(np.int64) for (var, _), grid in zip(self.domains, grids, strict=True)}
        if self.sizes and r.random() < 0.5:  # a loop up to a symbolic extent
            t, n = Var("t"), self.sizes[0]
            extent_of = r.choice((lambda x: x, lambda x: (x + 3) // 4, lambda x: x * 2))
            self.analyzer.bind(t, Range(wrap(0), wrap(extent_of(n))))
            self.ranges.append(f"t in 0..{extent_of(n)} - 1")
            steps = np.arange(0, 18)
            points = {var: np.repeat(grid, len(steps)) for var, grid in points.items()}
            points[t] = np.tile(steps, len(points[n]) // len(steps))
            fits = points[t] < extent_of(points[n])
            points = {var: grid[fits] for var, grid in points.items()}
            self.index.append(t)
        count = len(next(iter(points.values())))
        self.points = Point(points, np.ones(count, bool))

    def expr(self, depth: int) -> Expr:
        """An index expression."""
        r = self.random
        if depth <= 0 or r.random() < 0.1:
            return r.choice(self.index) if r.random() < 0.75 else const(r.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, -1, -4)), INT32)
        pick = r.random()
        if pick < 0.22:
            return self.expr(depth - 1) + self.expr(depth - 1)
        if pick < 0.32:
            return self.expr(depth - 1) - self.expr(depth - 1)
        if pick < 0.47:
            return self.expr(depth - 1) * self.factor()
        if pick < 0.64:
            return self.expr(depth - 1) // self.divisor(depth)
        if pick < 0.80:
            return self.expr(depth - 1) % self.divisor(depth)
        if pick < 0.86:
            return r.choice((ops.minimum, ops.maximum))(self.expr(depth - 1), self.expr(depth - 1))
        if pick < 0.90:
            choose = r.choice((ops.select, ops.if_then_else))
            return choose(self.condition(depth - 1), self.expr(depth - 1), self.expr(depth - 1))
        if pick < 0.93:
            return r.choice((ops.truncdiv, ops.truncmod))(self.expr(depth - 1), self.divisor(depth))
        if pick < 0.95:
            e = self.expr(depth - 1)
            return r.choice((e << r.randint(0, 3), e >> r.randint(0, 3), e & r.choice((1, 3, 7, 5)), e ^ 3, e | 4))
        if pick < 0.97:
            return cast(cast(self.expr(depth - 1), r.choice((INT64, dtype("int8"), dtype("uint8")))), INT32)
        if pick < 0.98:
            x = Var("x")
            return ir.Let(x, self.expr(depth - 2), x * self.factor() + self.expr(depth - 2) + x % 4)
        kinds = [kind for kind, vars_ in self.narrow.items() if vars_]
        return cast(self.narrow_expr(r.choice(kinds), depth - 1), INT32) if kinds else self.expr(depth - 1)

    def factor(self) -> Expr:
        r = self.random
        if self.sizes and r.random() < 0.15:
            return r.choice(self.index)
        return const(r.choice((2, 3, 4, 8, 8, 16, -1, -2)), INT32)

    def divisor(self, depth: int) -> Expr:
        r = self.random
        if self.sizes and r.random() < 0.15:
            n: Expr = r.choice(self.sizes)
            return r.choice((n, n + 1, n * 4, n * r.choice(self.sizes)))
        return const(r.choice((2, 3, 4, 4, 5, 8, 8, 16, 1, -2, -4)), INT32)

    def narrow_expr(self, kind: str, depth: int) -> Expr:
        """An expression of a type that wraps around."""
        r = self.random
        if depth <= 0 or r.random() < 0.2:
            if r.random() < 0.3:
                return const(r.choice((0, 1, 3, 100, 127)), kind)
            return cast(self.expr(depth - 1), kind) if r.random() < 0.3 else r.choice(self.narrow[kind])
        a, b = self.narrow_expr(kind, depth - 1), self.narrow_expr(kind, depth - 1)
        pick = r.randrange(9)
        if pick < 5:
            return (a + b, a - b, a * b, ops.minimum(a, b), ops.maximum(a, b))[pick]
        c = const(r.choice((1, 2, 4, 7)), kind)
        return (a // c, a % c, ops.select(a < b, a, b), a >> (c & 3))[pick - 5]

    def condition(self, depth: int) -> Expr:
        """A condition."""
        r = self.random
        pick = r.random()
        if depth <= 0 or pick < 0.7:
            a, b = self.expr(depth - 1), self.expr(depth - 2)
            kinds = [kind for kind, vars_ in self.narrow.items() if vars_]
            if kinds and r.random() < 0.2:
                kind = r.choice(kinds)
                a, b = self.narrow_expr(kind, 2), self.narrow_expr(kind, 1)
            return r.choice((a < b, a <= b, a > b, ir.EQ(a, b), ir.NE(a, b), a >= b))
        if pick < 0.8:
            return ops.all_of(self.condition(depth - 1), self.condition(depth - 1))
        if pick < 0.9:
            return ops.any_of(self.condition(depth - 1), self.condition(depth - 1))
        return ops.negate(self.condition(depth - 1))


class Wrong(AssertionError):
    """A normal form that is none."""


def check(seed: object, verbose: bool = False) -> None:
    """One case. Raises Wrong, which says the expression, what came of it and where it differs."""
    g = Generator(seed)
    r, analyzer, points = g.random, g.analyzer, g.points
    facts = []
    if r.random() < 0.4:
        facts = [g.condition(r.randint(0, 2)) for _ in range(r.randint(1, 2))]
        if g.sizes and r.random() < 0.3:
            facts.append(ir.EQ(g.sizes[0] % r.choice((2, 4, 8)), wrap(r.choice((0, 0, 1)))))
    valid = points.valid
    for fact in facts:
        holds, fine = value(fact, points)
        valid = valid & fine & holds.astype(bool)
    points = Point(points.values, valid)
    e = g.expr(r.randint(2, 5)) if r.random() < 0.8 else g.condition(r.randint(1, 4))
    with ExitStack() as stack:
        for fact in facts:
            if r.random() < 0.5:
                stack.enter_context(analyzer.given(fact))
            else:
                analyzer.learn(fact)
        try:
            simple = analyzer.simplify(e)
            again = analyzer.simplify(simple)
            lo, hi = analyzer.bounds(e)
            coeff, base = analyzer.modular(e)
        except ZeroDivisionError:
            return
        except Exception as error:
            raise Wrong(f"seed {seed}: {type(error).__name__}: {error}\n  {_case(g, facts, e)}") from error
    if verbose:
        print(f"{e}  ->  {simple}")
    told = f"\n  {_case(g, facts, e)}\n  -> {simple}"
    want, fine = value(e, points)
    if not fine.any():
        return
    got, got_fine = value(simple, Point(points.values, points.valid))
    bad = fine & (~got_fine | (want != got))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        where = ", ".join(f"{var.name}={grid[at]}" for var, grid in points.values.items())
        result = got[at] if got_fine[at] else "no value"
        raise Wrong(f"seed {seed}: at {where} want {want[at]}, got {result}{told}")
    if not ir.same(simple, again):
        raise Wrong(f"seed {seed}: not idempotent{told}\n  -> {again}")
    values = want[fine].astype(np.int64)
    if values.min() < lo or values.max() > hi:
        raise Wrong(f"seed {seed}: bounds {lo}..{hi}, values {values.min()}..{values.max()}{told}")
    if np.any((values - base) % coeff if coeff else values != base):
        raise Wrong(f"seed {seed}: not {coeff} * k + {base}{told}")


def _case(g: Generator, facts: list[Expr], e: Expr) -> str:
    return f"{e}\n  with {'; '.join(g.ranges)}" + "".join(f"\n  given {fact}" for fact in facts)


def fuzz(seed: int, count: int, verbose: bool = False, keep_going: bool = False) -> int:
    """Checks `count` cases from `seed` on; returns the number that failed (raises at the first unless `keep_going`)."""
    failed = 0
    for number in range(count):
        try:
            check(f"{seed}.{number}", verbose)
        except Wrong as wrong:
            if not keep_going:
                raise
            failed += 1
            print(wrong)
    return failed


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first case (default 0)")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="cases (default 1000)")
    parser.add_argument("--case", metavar="SEED", help="one case, as a failure names it")
    parser.add_argument("--verbose", action="store_true", help="print each expression and its normal form")
    args = parser.parse_args()
    if args.case:
        check(args.case, True)
        return
    failed = fuzz(args.seed, args.count, args.verbose, keep_going=True)
    print(f"{args.count} cases from seed {args.seed}: {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()


