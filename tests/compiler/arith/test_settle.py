"""Values of variables after a fact was learnt, against working out every one anew."""

import random

import pytest

from vtakit.compiler.arith import facts
from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.linear import constant, mentions
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const


def settle(self: facts.Facts) -> None:
    """The definition: the normal form of every value."""
    for _ in range(3):
        changed = False
        for var, value in list(self.frame.values.items()):
            lo, hi = self.linear_bounds(value)
            if lo == hi and not isinstance(lo, float):
                new = constant(lo)
            elif value.terms:
                new = self.linear(self.emit(value, var.dtype))
            else:
                continue
            if not new.same(value) and not any(mentions(atom, (self.leaf(var),)) for atom in new.terms):
                self.frame.values[var] = new
                changed = True
        if not changed:
            return
        self.frame.forget()


def combination(pick: random.Random, variables: list[Var]) -> Expr:
    """A sum of a few multiples, quotients and remainders, or a number."""
    found: Expr = const(pick.randint(-4, 9), INT32)
    for var in pick.sample(variables, pick.choice((0, 1, 1, 2, 2, 3))):
        by = pick.randint(2, 5)
        found = found + pick.choice((lambda v=var: v, lambda v=var, k=by: v * k, lambda v=var, k=by: v // k,
                                     lambda v=var, k=by: v % k))()
    return found


def fact(pick: random.Random, variables: list[Var]) -> Expr:
    a, b = combination(pick, variables), combination(pick, variables)
    return pick.choice((lambda: a < b, lambda: a <= b, lambda: all_of(a <= b, b <= a), lambda: a.equal(b)))()


@pytest.mark.parametrize("seed", range(150))
def test_random_facts_leave_the_same_values(seed, monkeypatch):
    def values(how) -> list[str]:
        with monkeypatch.context() as patch:
            if how is not None:
                patch.setattr(facts.Facts, "settle", how)
            pick, a = random.Random(seed), Analyzer()
            free = [Var(f"i{n}", INT32) for n in range(4)]
            known = [Var(f"v{n}", INT32) for n in range(5)]
            for var in free:
                a.bind(var, Range(const(pick.randint(-2, 3), INT32), const(pick.choice((1, 2, 4, 12)), INT32)))
            for n, var in enumerate(known):
                a.bind(var, combination(pick, free + known[:n]))
            said = []
            for _ in range(4):
                a.learn(fact(pick, free + known))
                said += [str(a.simplify(var)) for var in (*free, *known)]
            return said
    assert values(None) == values(settle)


def test_facts_of_a_whole_sum_leave_it_one_value():
    """Neither variable has one."""
    i, j, v, a = Var("i", INT32), Var("j", INT32), Var("v", INT32), Analyzer()
    for var in (i, j):
        a.bind(var, Range(const(0, INT32), const(10, INT32)))
    a.bind(v, i + j)
    a.learn(i + j <= 7)
    assert str(a.simplify(v)) == "i + j"
    a.learn(i + j >= 7)
    assert str(a.simplify(v)) == "7"
