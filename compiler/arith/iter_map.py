"""Detection of affine maps: whether bindings are splits and fuses of loop variables, each used once.

The map is one to one if the digits of every loop make up all of it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vtakit.compiler.arith.affine import Digit, IterMap, Source, Sum
from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.linear import Atom, Linear, Quotient, constant, factors, mentions
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.arith.sets import conjuncts
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.ir.walk import substitute


def iter_map(
    bindings: Sequence[Expr], loops: Mapping[Var, Range], predicate: Expr, analyzer: Analyzer, *, whole: bool = False,
) -> IterMap | str:
    """The affine map that bindings are of loop variables, or a sentence that says why they are none.

    predicate : where the loops' body runs; ``i * 8 + j < n`` makes n the extent of the fused loop
    whole     : whether the map must be one to one
    """
    try:
        return _Detector(loops, analyzer).detect(bindings, predicate, whole)
    except _NotAffine as reason:
        return str(reason)


class _NotAffine(Exception):
    """Why it is no affine map."""


class _Taken(NamedTuple):
    """A digit while it is found."""

    scale: Linear
    extent: Linear
    lower: Linear
    source: Source


class _Limit(NamedTuple):
    """``sum of coefficient * variable < extent``."""

    terms: dict[Atom, int]
    extent: Linear
    condition: Expr


class _Detector:
    def __init__(self, loops: Mapping[Var, Range], analyzer: Analyzer) -> None:
        self.loops, self.analyzer = loops, analyzer
        self.kind = next((var.dtype for var in loops), INT32)
        self.from_zero: dict[Var, Expr] = {}  # a variable -> what it is in terms of one that starts at 0
        self.back: dict[Var, Expr] = {}
        self.extents: dict[Atom, Linear] = {}
        self.vars: dict[Atom, Var] = {}
        for var, dom in loops.items():
            if analyzer.prove_equal(dom.extent, 1):
                self.from_zero[var] = dom.min
                continue
            step = var
            if not analyzer.prove_equal(dom.min, 0):
                step = Var(var.name, var.dtype)
                analyzer.bind(step, Range(wrap(0), dom.extent))
                self.from_zero[var], self.back[step] = step + dom.min, var - dom.min
            atom = analyzer.leaf(step)
            self.extents[atom], self.vars[atom] = analyzer.linear(dom.extent), var
        self.limits: list[_Limit] = []
        self.sources: dict[object, Source] = {}
        self.digits: dict[Source, list[_Taken]] = {}
        self.fused_with: set[int] = set()  # limits, by address, that a fused loop's extent expresses

    def detect(self, bindings: Sequence[Expr], predicate: Expr, whole: bool) -> IterMap:
        a = self.analyzer
        parts = [part for part in conjuncts(a.simplify(substitute(predicate, self.from_zero))) if not is_true(part)]
        left = [part for part in parts if not self._take_limit(part)]
        self.limits.sort(key=lambda limit: -len(limit.terms))
        sums: list[Sum] = []
        for binding in bindings:
            if not is_index(binding.dtype):
                raise _NotAffine(f"the binding {binding} is of {binding.dtype}, which is no index type")
            x = a.linear(substitute(binding, self.from_zero))
            base = Linear({atom: value for atom, value in x.terms.items() if not self.moves(atom)}, x.const)
            ordered, total = self._ordered(x.plus(base, -1), self.limits)
            sums.append(Sum(self._made(ordered), a.emit(base, self.kind), a.emit(total, self.kind)))
        complete = all([self._makes_up(source) for source in self.digits])
        if whole and not complete:
            raise _NotAffine("the bindings use only a part of a loop variable, so several points have the same values")
        unused = [self.vars[atom].name for atom in self.extents if atom not in self.sources]
        if whole and unused:
            raise _NotAffine(f"no binding uses {', '.join(unused)}, so several points have the same values")
        left += [limit.condition for limit in self.limits if id(limit) not in self.fused_with]
        return IterMap(tuple(sums), complete and not unused, tuple(substitute(e, self.back) for e in left), dict(self.loops))

    def moves(self, atom: Atom) -> bool:
        return mentions(atom, self.extents)

    def text(self, x: Linear) -> str:
        return str(substitute(self.analyzer.emit(x, self.kind), self.back))

    def _take_limit(self, part: Expr) -> bool:
        """Takes a conjunct as a limit of a sum of variables, if it is one."""
        if not isinstance(part, ir.LT | ir.LE) or not is_index(part.a.dtype):
            return False
        gap = self.analyzer.linear(part.b).plus(self.analyzer.linear(part.a), -1)
        terms = {atom: -value for atom, value in gap.terms.items() if self.moves(atom)}
        if not terms or not all(atom in self.extents and value > 0 for atom, value in terms.items()):
            return False
        rest = Linear({atom: value for atom, value in gap.terms.items() if atom not in terms}, gap.const)
        extent = rest if isinstance(part, ir.LT) else rest.shifted(1)
        single = Linear(terms, 0).single()
        if single is not None:
            self.extents[single] = self.analyzer.extreme([self.extents[single], extent], False)
        else:
            self.limits.append(_Limit(terms, extent, part))
        return True

    def _ordered(self, x: Linear, limits: Sequence[_Limit]) -> tuple[list[_Taken], Linear]:
        """A combination of moving atoms as digits, the smallest scale first, each the one before times its extent."""
        a = self.analyzer
        taken = self._taken(x, limits)
        for first in taken:
            ordered, left = [first], [one for one in taken if one is not first]
            while left:
                step = a.multiply(ordered[-1].scale, ordered[-1].extent)
                found = next((one for one in left if a.is_zero(one.scale.plus(step, -1))), None)
                if found is None:
                    break
                left.remove(found)
                ordered.append(found)
            if not left:
                total = constant(1)
                for one in ordered:
                    total = a.multiply(total, one.extent)
                return ordered, total
        if taken:
            raise _NotAffine(f"{self.text(x)} leaves values out or takes some twice: its scales do not follow from its extents")
        return [], constant(1)

    def _taken(self, x: Linear, limits: Sequence[_Limit]) -> list[_Taken]:
        """The digits of a combination, in any order."""
        found: list[_Taken] = []
        for at, limit in enumerate(limits):
            scale = _multiple(x, limit.terms)
            if scale:
                x = x.plus(Linear(limit.terms, 0), -scale)
                found.append(self._digit(constant(scale), self._fused(Linear(limit.terms, 0), limits[at + 1:], limit)))
        groups, rest = self.analyzer.digits(x)
        for atom, value in rest.terms.items():
            scale_, moving = constant(value), [part for part in factors(atom) if self.moves(part)]
            for part in factors(atom):
                if part not in moving:
                    scale_ = self.analyzer.multiply(scale_, Linear({part: 1}, 0))
            if len(moving) != 1 or not (moving[0] in self.extents or isinstance(moving[0], Quotient)):
                raise _NotAffine(f"{self.text(Linear({atom: 1}, 0))} is no split or fuse of loop variables")
            if isinstance(moving[0], Quotient):
                found.append(self._digit(scale_, self._source(moving[0].dividend), moving[0].divisor))
            else:
                found.append(self._digit(scale_, self._source(Linear({moving[0]: 1}, 0))))
        for k, base, by in groups:
            single = base.single()
            inner, lower = (single.dividend, single.divisor) if isinstance(single, Quotient) else (base, constant(1))
            found.append(self._digit(constant(k), self._source(inner), lower, by))
        return found

    def _digit(self, scale: Linear, source: Source, lower: Linear | None = None, by: Linear | None = None) -> _Taken:
        """``scale * (source // lower % by)``, noted as taken from the source."""
        a, whole = self.analyzer, self.analyzer.linear(source.extent)
        lower = constant(1) if lower is None else lower
        extent = by if by is not None else a.divide(whole.plus(lower).shifted(-1), lower)
        taken = _Taken(scale, extent, lower, source)
        self.digits.setdefault(source, []).append(taken)
        return taken

    def _source(self, inner: Linear) -> Source:
        """The loop that a combination is."""
        atom = inner.single()
        if atom is None or atom not in self.extents:
            limit = next((limit for limit in self.limits if limit.terms == inner.terms), None)
            return self._fused(inner, [other for other in self.limits if other is not limit], limit)
        if atom not in self.sources:
            self.sources[atom] = Source(self.vars[atom], (), self.analyzer.emit(self.extents[atom], self.kind))
        return self.sources[atom]

    def _fused(self, inner: Linear, limits: Sequence[_Limit], limit: _Limit | None) -> Source:
        """A sum of digits that runs over 0, 1, 2 … as a loop of its own, up to a limit."""
        key = inner.key
        if key not in self.sources:
            if inner.const or not all(self.moves(atom) for atom in inner.terms):
                raise _NotAffine(f"{self.text(inner)} does not start at 0, so a split of it is no split of loop variables")
            ordered, total = self._ordered(inner, limits)
            if not ordered[0].scale.same(constant(1)):
                raise _NotAffine(f"{self.text(inner)} runs in steps of {self.text(ordered[0].scale)}, so it is no fused loop")
            if limit is not None:
                total = self.analyzer.extreme([total, limit.extent], False)
                self.fused_with.add(id(limit))
            self.sources[key] = Source(None, self._made(ordered), self.analyzer.emit(total, self.kind))
        return self.sources[key]

    def _made(self, ordered: list[_Taken]) -> tuple[Digit, ...]:
        emit = self.analyzer.emit
        return tuple(
            Digit(one.source, emit(one.lower, self.kind), emit(one.extent, self.kind), emit(one.scale, self.kind))
            for one in reversed(ordered)
        )

    def _makes_up(self, source: Source) -> bool:
        """Return whether the digits taken from a source cover all of it.

        Raises _NotAffine for digits that overlap or leave a rest.
        """
        a, whole = self.analyzer, self.analyzer.linear(source.extent)
        name = source.var.name if source.var is not None else "a fused loop"
        left, reached, complete = list(self.digits[source]), constant(1), True
        while left:
            found = next((one for one in left if a.is_zero(one.lower.plus(reached, -1))), None)
            if found is None:  # digits between that no binding uses are allowed
                found = min(left, key=lambda one: (bool(one.lower.terms), one.lower.const))
                if not _divides(reached, found.lower):
                    raise _NotAffine(f"the bindings use {name} more than once, so they are not independent")
                complete = False
            left.remove(found)
            reached = a.multiply(found.lower, found.extent)
        if a.is_zero(reached.plus(whole, -1)):
            return complete
        if not _divides(reached, whole):
            raise _NotAffine(f"the splits of {name} make {self.text(reached)} steps of its {self.text(whole)}")
        return False


def is_true(e: Expr) -> bool:
    return isinstance(e, ir.IntImm) and bool(e.value)


def _divides(a: Linear, b: Linear) -> bool:
    """Return whether a constant is a proper divisor of another."""
    return not a.terms and not b.terms and 0 < a.const < b.const and b.const % a.const == 0


def _multiple(x: Linear, terms: Mapping[Atom, int]) -> int:
    """The k > 0 for which x has k times each of the terms; else 0."""
    scale = 0
    for atom, value in terms.items():
        k, odd = divmod(x.terms.get(atom, 0), value)
        if odd or k <= 0 or (scale and k != scale):
            return 0
        scale = k
    return scale
