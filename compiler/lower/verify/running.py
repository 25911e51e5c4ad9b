"""Moving and fixed parts of an index while some loops run."""

from collections.abc import Iterator, Mapping

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Product, Quotient, Stride, constant, factors
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.walk import free_vars


class Running:
    """Loops that run, by the extents of their variables; every other variable stands still."""

    def __init__(self, analyzer: Analyzer, extents: Mapping[Var, Expr]) -> None:
        self.analyzer = analyzer
        self.extents: dict[Atom, Linear] = {analyzer.leaf(var): analyzer.linear(extent) for var, extent in extents.items()}
        self._moves: dict[Atom, bool] = {}

    def moves(self, atom: Atom) -> bool:
        known = self._moves.get(atom)
        if known is None:
            match atom:
                case Leaf():
                    known = atom in self.extents or (not isinstance(atom.expr, Var) and any(
                        self.analyzer.leaf(var) in self.extents for var in free_vars(atom.expr)))
                case Stride():
                    known = atom.var in self.extents
                case Quotient():
                    known = any(map(self.moves, (*atom.dividend.terms, *atom.divisor.terms)))
                case Product():
                    known = any(map(self.moves, atom.factors))
                case Extreme():
                    known = any(map(self.moves, (part for arg in atom.args for part in arg.terms)))
                case _:
                    known = True
            self._moves[atom] = known
        return known

    def parted(self, x: Linear) -> tuple[Linear, Linear]:
        """Return the moving part and the fixed part of a combination."""
        moving = {atom: k for atom, k in x.terms.items() if self.moves(atom)}
        if not moving:
            return constant(0), x
        return Linear(moving, 0), Linear({atom: k for atom, k in x.terms.items() if atom not in moving}, x.const)

    def by_factor(self, x: Linear) -> Iterator[tuple[Linear, Linear]]:
        """Yield each fixed factor that products in a combination share, with the moving terms that it multiplies."""
        found: dict[tuple[Atom, ...], Linear] = {}
        for atom, k in x.terms.items():
            moving = [factor for factor in factors(atom) if self.moves(factor)]
            left = tuple([factor for factor in factors(atom) if factor is not moving[0]]) if len(moving) == 1 else ()
            if left:
                found[left] = found.get(left, constant(0)).plus(Linear({moving[0]: k}, 0))
        for left, part in found.items():
            whole = constant(1)
            for factor in left:
                whole = self.analyzer.multiply(whole, Linear({factor: 1}, 0))
            yield whole, part

    def by_atom(self, terms: Mapping[Atom, int]) -> dict[Atom, Linear]:
        """Return the coefficient of each moving atom: ``n * i + i`` is ``(n + 1)`` times i."""
        found: dict[Atom, Linear] = {}
        for atom, k in terms.items():
            of, times = atom, constant(k)
            if isinstance(atom, Product):
                moving = [factor for factor in atom.factors if self.moves(factor)]
                if len(moving) == 1:
                    of = moving[0]
                    for factor in atom.factors:
                        if factor is not of:
                            times = self.analyzer.multiply(times, Linear({factor: 1}, 0))
            found[of] = times if of not in found else found[of].plus(times)
        return found

    def atoms(self, source: Linear) -> frozenset[Atom]:
        """The running loops' variables in a combination."""
        found: set[Atom] = set()
        stack: list[Atom] = [*source.terms]
        while stack:
            atom = stack.pop()
            if atom in self.extents:
                found.add(atom)
            elif isinstance(atom, Quotient):
                stack += [*atom.dividend.terms, *atom.divisor.terms]
            elif isinstance(atom, Product):
                stack += atom.factors
        return frozenset(found)
