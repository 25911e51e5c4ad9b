"""Affine maps: whether bindings are splits and fuses of loop variables, each used once, and the way back.

Each binding is a sum of digits. A digit is ``source // lower % extent`` of a source, which is a loop variable or itself a sum
of digits without gaps (a fused loop). The map is one to one if the digits of every source make up all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.detect import conjuncts
from vtakit.compiler.arith.linear import Atom, Leaf, Linear, Quotient, constant, mentions
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import TRUE, unify, wrap
from vtakit.compiler.ir.walk import substitute


@dataclass(frozen=True, slots=True)
class Digit:
    """``scale * (source // lower % extent)``: part of the steps of a source."""

    source: "Var | Sum"
    lower: Expr
    extent: Expr
    scale: Expr


@dataclass(frozen=True, slots=True)
class Sum:
    """``base + sum of digits``, the digit of the largest scale first: it takes `extent` values, equally far apart."""

    digits: tuple[Digit, ...]
    base: Expr
    extent: Expr


@dataclass(frozen=True, slots=True)
class IterMap:
    """Bindings as sums of digits.

    sums       : one a binding
    one_to_one : whether every point of the loops has values of its own (no loop variable left out, none in part)
    predicates : what of the predicate is not expressed by an extent: conditions that the caller must still check
    """

    sums: tuple[Sum, ...]
    one_to_one: bool
    predicates: tuple[Expr, ...]
    ranges: Mapping[Var, Range]

    def inverse(self, outputs: Sequence[Expr | int], analyzer: Analyzer) -> dict[Var, Expr]:
        """The loop variables at which the bindings have the given values; a variable that no binding uses is left out.

        Raises ValueError if there is not one output a binding.
        """
        if len(outputs) != len(self.sums):
            raise ValueError(f"the map has {len(self.sums)} bindings, got {len(outputs)} outputs")
        parts: dict[Var | Sum, Expr] = {}
        for one, output in zip(self.sums, outputs, strict=True):
            self._spread(one, wrap(output), parts)
        pending = [source for source in parts if isinstance(source, Sum)]
        while pending:  # sums within sums, outermost first
            source = pending.pop()
            before = set(parts)
            self._spread(source, parts[source], parts)
            pending += [new for new in parts if new not in before and isinstance(new, Sum)]
        return {
            var: analyzer.simplify(e + self.ranges[var].min) for var, e in parts.items() if isinstance(var, Var)
        }

    def _spread(self, one: Sum, value: Expr, parts: "dict[Var | Sum, Expr]") -> None:
        """Adds what each digit of a sum's value says of its source."""
        rest, _ = unify(value, one.base)
        rest = rest - one.base
        for at, digit in enumerate(one.digits):
            found = rest // digit.scale
            if at:
                found = found % digit.extent
            found = found * digit.lower
            parts[digit.source] = parts[digit.source] + found if digit.source in parts else found


class _NotAffine(Exception):
    """Why it is no affine map."""


def iter_map(
    bindings: Sequence[Expr], loops: Mapping[Var, Range], predicate: Expr, analyzer: Analyzer, *, whole: bool = False,
) -> IterMap | str:
    """The affine map that bindings are of loop variables, or a sentence that says why they are none.

    predicate : where the loops' body runs; ``i * 8 + j < n`` makes n the extent of the fused loop
    whole     : whether it must be one to one as well
    """
    try:
        return _Detector(loops, analyzer).detect(bindings, predicate, whole)
    except _NotAffine as reason:
        return str(reason)


class _Detector:
    def __init__(self, loops: Mapping[Var, Range], analyzer: Analyzer) -> None:
        self.loops, self.analyzer = loops, analyzer
        self.steps: dict[Var, Expr] = {}  # variable -> itself counted from its minimum
        self.extents: dict[Atom, Linear] = {}
        self.names: dict[Atom, Var] = {}
        for var, dom in loops.items():
            if analyzer.prove_equal(dom.extent, 1):
                self.steps[var] = dom.min
                continue
            own = var
            if not analyzer.prove_equal(dom.min, 0):
                own = Var(var.name, var.dtype)
                analyzer.bind(own, Range(wrap(0), dom.extent))
                self.steps[var] = own + dom.min
            atom = analyzer.leaf(own)
            self.extents[atom] = analyzer.linear(dom.extent)
            self.names[atom] = var
        self.limits: list[tuple[dict[Atom, int], Linear, Expr]] = []  # sums of variables that are below something
        self.used: dict[object, list[tuple[Linear, Linear]]] = {}  # source -> digits taken, as (lower, extent)
        self.sources: dict[object, tuple[Var | Sum, Linear]] = {}

    def text(self, x: Linear) -> str:
        return str(self.back(self.analyzer.emit(x, INT32)))

    def back(self, e: Expr) -> Expr:
        return substitute(e, {
            atom.expr: var - self.loops[var].min
            for atom, var in self.names.items() if isinstance(atom, Leaf) and isinstance(atom.expr, Var) and atom.expr is not var
        })

    def detect(self, bindings: Sequence[Expr], predicate: Expr, whole: bool) -> IterMap:
        a = self.analyzer
        left: list[Expr] = []
        for part in conjuncts(a.simplify(substitute(predicate, self.steps))):
            self._take_limit(part, left)
        sums: list[Sum] = []
        for binding in bindings:
            if not is_index(binding.dtype):
                raise _NotAffine(f"the binding {binding} is of {binding.dtype}, no index type")
            sums.append(self._sum(a.linear(substitute(binding, self.steps)), exact=False))
        complete = self._check_sources()
        if whole and not complete:
            raise _NotAffine(self._missing())
        unused = [e for terms, _, e in self.limits if not any(key == ("sum", frozenset(terms.items())) for key in self.sources)]
        return IterMap(tuple(sums), complete and not unused, tuple(map(self.back, [*left, *unused])), dict(self.loops))

    def _take_limit(self, part: Expr, left: list[Expr]) -> None:
        """A conjunct as a limit of a sum of variables, or among those left."""
        if part is TRUE or (isinstance(part, ir.IntImm) and part.value):
            return
        if isinstance(part, ir.LT | ir.LE) and is_index(part.a.dtype):
            gap = self.analyzer.linear(part.b).plus(self.analyzer.linear(part.a), -1)
            gap = gap.shifted(-1) if isinstance(part, ir.LT) else gap
            terms = {atom: -value for atom, value in gap.terms.items() if mentions(atom, self.extents)}
            if terms and all(atom in self.extents and value > 0 for atom, value in terms.items()):
                rest = Linear({atom: value for atom, value in gap.terms.items() if atom not in terms}, gap.const)
                if len(terms) == 1 and 1 in terms.values():
                    atom = next(iter(terms))
                    self.extents[atom] = self._least(self.extents[atom], rest.shifted(1))
                else:
                    self.limits.append((terms, rest.shifted(1), part))
                return
        left.append(part)

    def _least(self, a: Linear, b: Linear) -> Linear:
        return self.analyzer.extreme([a, b], False)

    def _sum(self, x: Linear, *, exact: bool) -> Sum:
        """A combination as a sum of digits without gaps; `exact` if it must also start at 0 in steps of 1."""
        a = self.analyzer
        base = Linear({atom: value for atom, value in x.terms.items() if not mentions(atom, self.extents)}, x.const)
        moving = x.plus(base, -1)
        found: list[tuple[Linear, Linear, Linear, Var | Sum]] = []  # scale, extent, lower, source
        for terms, extent, _ in sorted(self.limits, key=lambda limit: -len(limit[0])):
            scale = _multiple(moving, terms)
            if scale and len(moving.terms) > len(terms):
                inner = Linear(dict(terms), 0)
                moving = moving.plus(inner, -scale)
                found.append((constant(scale), *self._digit(inner, constant(1), None)))
            del extent
        groups, rest = a.residues(moving)
        if rest.terms and not found and not groups and all(atom in self.extents for atom in rest.terms):
            for atom, value in rest.terms.items():
                found.append((constant(value), *self._digit(Linear({atom: 1}, 0), constant(1), None)))
        else:
            for atom, value in rest.terms.items():
                found.append((*self._scaled(atom, value),))
            for k, dividend, by in groups:
                inner, lower = dividend, constant(1)
                single = dividend.single()
                if isinstance(single, Quotient):
                    inner, lower = single.dividend, single.divisor
                found.append((constant(k), *self._digit(inner, lower, by)))
        return self._ordered(found, base, x, exact)

    def _scaled(self, atom: Atom, value: int) -> tuple[Linear, Linear, Linear, Var | Sum]:
        """One term as a digit and its scale: a variable or quotient, times what does not move."""
        scale = constant(value)
        parts = [atom] if not hasattr(atom, "factors") else list(atom.factors)
        moving = [part for part in parts if mentions(part, self.extents)]
        for part in parts:
            if part not in moving:
                scale = self.analyzer.multiply(scale, Linear({part: 1}, 0))
        if len(moving) == 1:
            if moving[0] in self.extents:
                return scale, *self._digit(Linear({moving[0]: 1}, 0), constant(1), None)
            if isinstance(moving[0], Quotient):
                return scale, *self._digit(moving[0].dividend, moving[0].divisor, None)
        raise _NotAffine(f"{self.text(Linear({atom: 1}, 0))} is no split or fuse of loop variables")

    def _digit(self, inner: Linear, lower: Linear, by: Linear | None) -> tuple[Linear, Linear, Var | Sum]:
        """The extent, lower and source of ``inner // lower % by``."""
        a = self.analyzer
        single = inner.single()
        if single in self.extents:
            key: object = single
            source: Var | Sum = self.names[single]
            whole = self.extents[single]
        else:
            key = ("sum", inner.key[1])
            if key not in self.sources:
                made = self._sum(inner, exact=True)
                self.sources[key] = made, a.linear(made.extent)
            source, whole = self.sources[key]
        self.sources.setdefault(key, (source, whole))
        extent = by
        if extent is None:
            extent = whole if lower.same(constant(1)) else a.divide(whole.plus(lower).shifted(-1), lower)
        self.used.setdefault(key, []).append((lower, extent))
        return extent, lower, source

    def _ordered(
        self, found: list[tuple[Linear, Linear, Linear, Var | Sum]], base: Linear, x: Linear, exact: bool,
    ) -> Sum:
        """Digits from the smallest scale up: each scale is the one before times its extent."""
        a = self.analyzer
        left, ordered, step = list(found), [], None
        while left:
            at = self._next(left, step)
            if at is None:
                raise _NotAffine(
                    f"{self.text(x)} leaves values out or takes some twice: "
                    f"no loop variable in it has the scale {self.text(step) if step is not None else 1}"
                )
            ordered.append(left.pop(at))
            step = a.multiply(ordered[-1][0], ordered[-1][1])
        total = constant(1)
        for _, extent, _, _ in ordered:
            total = a.multiply(total, extent)
        if exact and ordered and not (ordered[0][0].same(constant(1)) and base.same(constant(0))):
            raise _NotAffine(f"{self.text(x)} does not run over 0, 1, 2 …, so it cannot be split")
        for terms, extent, _ in self.limits:
            if moving_terms(x, self.extents) == terms:
                total = self._least(total, extent)
                self.sources.setdefault(("sum", frozenset(terms.items())), (self.names[next(iter(terms))], total))
        digits = tuple(
            Digit(source, a.emit(lower, INT32), a.emit(extent, INT32), a.emit(scale, INT32))
            for scale, extent, lower, source in reversed(ordered)
        )
        return Sum(digits, a.emit(base, INT32), a.emit(total, INT32))

    def _next(self, left: list[tuple[Linear, Linear, Linear, Var | Sum]], step: Linear | None) -> int | None:
        a = self.analyzer
        if step is not None:
            return next((at for at, one in enumerate(left) if a.is_zero(one[0].plus(step, -1))), None)
        for at, one in enumerate(left):  # the first: no other's scale is smaller
            if all(a.at_most(one[0], other[0]) for other in left) and a.at_most(constant(1), one[0]):
                return at
        return None

    def _check_sources(self) -> bool:
        """Whether the digits of every source make up all of it; overlapping ones are no map."""
        return all([self._check_source(key) for key in self.used]) and all(atom in self.used for atom in self.extents)

    def _check_source(self, key: object) -> bool:
        a = self.analyzer
        source, whole = self.sources[key]
        name = source.name if isinstance(source, Var) else "the fused loop"
        left, expected, complete = list(self.used[key]), constant(1), True
        while left:
            at = next((at for at, one in enumerate(left) if a.is_zero(one[0].plus(expected, -1))), None)
            if at is None:
                lower = min(left, key=lambda one: one[0].const)
                if not lower[0].terms and not expected.terms and lower[0].const % expected.const == 0 and lower[0].const > 0 \
                        and lower[0].const > expected.const:
                    at, complete = left.index(lower), False
                else:
                    raise _NotAffine(f"the bindings use {name} more than once, so they are not independent")
            lower_, extent = left.pop(at)
            expected = a.multiply(lower_, extent)
        if a.is_zero(expected.plus(whole, -1)):
            return complete
        if a.at_most(expected, whole) and not whole.terms and not expected.terms and whole.const % expected.const == 0:
            return False
        raise _NotAffine(f"the splits of {name} cover {self.text(expected)} steps, but it has {self.text(whole)}")

    def _missing(self) -> str:
        names = [self.names[atom].name for atom in self.extents if atom not in self.used]
        if names:
            return f"no binding uses {', '.join(names)}, so several points of the loops have the same values"
        return "a binding uses part of a loop variable only, so several points of the loops have the same values"


def moving_terms(x: Linear, variables: Mapping[Atom, Linear]) -> dict[Atom, int]:
    return {atom: value for atom, value in x.terms.items() if mentions(atom, variables)}


def _multiple(x: Linear, terms: Mapping[Atom, int]) -> int:
    """The k > 0 for which x has k times each of the terms; else 0."""
    scale = 0
    for atom, value in terms.items():
        k, odd = divmod(x.terms.get(atom, 0), value)
        if odd or k <= 0 or (scale and k != scale):
            return 0
        scale = k
    return scale
