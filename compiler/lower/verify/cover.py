"""Elements that a block certainly writes while some of the loops around it run."""

from collections.abc import Mapping, Sequence

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.linear import Linear
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.fragments import SCOPES as FRAGMENT_SCOPES
from vtakit.compiler.ir.fragments import threads_of
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import FALSE, const, int_value
from vtakit.compiler.ir.walk import free_vars, substitute
from vtakit.compiler.lower.verify.digit import ONE, Digit, NotAffineError
from vtakit.compiler.lower.verify.digits import Digits
from vtakit.compiler.lower.verify.independence import dependence
from vtakit.compiler.lower.verify.program import Access, Program, Site, conjuncts

# Which threads see memory of a scope, and so what the others wrote in it.
SEEN_BY = {"shared": ("threadIdx",), "warp": ("threadIdx.x",), "global": (),
           **{scope: threads_of(scope) for scope in FRAGMENT_SCOPES}}


class Covered:
    """Ranges of a block's iterators.

    reason : why that is not known, or ""
    incomplete : why the reduction iterators may not take all their values, or ""
    overlaps : whether the block may run more than once at a point
    runs : what must be at least 0 so that the block runs at all: loops whose iterations no data iterator counts have some
    """

    def __init__(self, program: Program, site: Site, depth: int, seen_by: tuple[str, ...], together: bool) -> None:
        self.program, self.site = program, site
        self.first: dict[Var, Expr] = {}
        self.last: dict[Var, Expr] = {}
        self.step: dict[Var, int] = {}
        self.ends: dict[Var, list[Expr]] = {}
        self.reason = self.incomplete = ""
        extents = {
            s.var: s.extent for at, (s, _) in enumerate(site.path) if isinstance(s, st.For)
            and (at >= depth or (seen_by and s.thread.startswith(seen_by)))
        }
        own = {it.var for it in site.block.iters}
        conditions = [c for whole in site.conditions() for c in conjuncts(whole)]
        self.of_iters = [c for c in conditions if own & free_vars(c)]
        a = program.analyzer
        of_loops = [c for c in conditions if not own & free_vars(c)]
        every = Digits(a, extents, of_loops)
        # a reduction over a domain that other iterators set is complete if it is for each of their values
        setting = _setting(site, extents)
        adding = {var: extent for var, extent in extents.items() if var not in setting}
        if together:
            adding |= {s.var: s.extent for s in site.loops if s.thread.startswith("threadIdx")}
        inner = Digits(a, adding, of_loops) if setting or together else every
        indices, data = [], []
        for it in site.block.iters:
            try:
                of = inner if it.kind is IterKind.REDUCE else every
                first, count, ends, digits, self.step[it.var] = of.values(it.binding)
            except NotAffineError as error:
                self.reason = f"{it.var} = {it.binding} has {error}"
                if it.kind is IterKind.REDUCE:
                    self.incomplete = self.reason
                continue
            indices.append(digits)
            if it.kind is not IterKind.REDUCE:
                data += digits
            self.ends[it.var] = [a.emit(end, it.var.dtype) for end in ends]
            self.first[it.var] = a.emit(first, it.var.dtype)
            self.last[it.var] = a.emit(first.plus(count.shifted(-1), self.step[it.var]), it.var.dtype)
            whole = self.step[it.var] == 1 and not ends and self._is_whole(it.dom.min, it.dom.extent, first, count)
            if it.kind is IterKind.REDUCE and not whole:
                self.incomplete = f"{it.var} takes {a.emit(count, it.var.dtype)} of its {it.dom.extent} values"
        if not self.reason:
            reason = dependence(a, indices, every.sums | inner.sums)
            if reason:
                self.reason = f"the iterators do not run independently: {reason}"
        self.overlaps = every.overlaps or inner.overlaps
        self.runs = _runs(a, extents, data) + [by.shifted(-1) for by in (*every.divisors, *inner.divisors)]
        self.reason = self.reason or self._left_over([c for c in every.left() if c in inner.left()], set(extents))

    def _is_whole(self, low: Expr, extent: Expr, first: Linear, count: Linear) -> bool:
        a = self.program.analyzer
        return a.is_zero(a.linear(low).plus(first, -1)) and a.is_zero(a.linear(extent).plus(count, -1))

    def _left_over(self, left: list[Expr], moving: set[Var]) -> str:
        """A condition on running loops that is not understood."""
        used = {var for it in self.site.block.iters for var in free_vars(it.binding)}
        self.still: list[Expr] = []
        idle = moving - used
        chosen: dict[Var, Expr] = {var: const(0, var.dtype) for var in idle}  # an iteration of the loops that change nothing
        for condition in left:
            match condition:
                case ir.EQ(a=Var() as var, b=ir.IntImm() as value) if var in idle:
                    chosen[var] = value
        for condition in left:
            variables = free_vars(condition) & moving
            if not variables:
                self.still.append(condition)
            elif not variables <= idle:
                return f"the condition {condition}"
            elif not self.program.analyzer.prove(fixed := substitute(condition, chosen)):
                self.still.append(fixed)
        return ""

    def holds(
        self, write: Access, box: Sequence[tuple[Expr, Expr]], holding: Sequence[Expr], some: Sequence[Expr],
    ) -> bool:
        """Return whether a write of the block covers a box (first and last index a dimension) where `holding` holds.

        some : what also holds because there is an element in the box; that the block runs may rest on it
        """
        if self.reason:
            return False
        a = self.program.analyzer
        goals: list[Expr] = []
        values: list[dict[Var, Expr]] = [{}, {}]
        for (first, last), range_ in zip(box, write.ranges, strict=True):
            found = self._place(range_.min)
            if found is None:
                return False
            var, times, offset = found
            if var is None:
                goals += [offset <= first, last <= offset + (range_.extent - 1)]
                continue
            step = self.step[var]
            if step > 1:
                one = int_value(times) == 1 and ir.same(first, last)
                if not one or not a.prove_equal((first - offset - self.first[var]) % step, 0):
                    return False
            elif not a.prove(times <= range_.extent):
                return False  # it leaves elements out
            goals += [self.first[var] * times + offset <= first, last <= self.last[var] * times + offset + (range_.extent - 1)]
            goals += [(last - offset) // times < end for end in self.ends[var]]
            for value, index in zip(values, (first, last), strict=True):
                value[var] = (index - offset) // times
        for condition in self.of_iters:
            if free_vars(condition) & {it.var for it in self.site.block.iters if it.kind is IterKind.REDUCE}:
                continue  # it chooses terms, not elements
            goals += [substitute(condition, value) for value in values]
        goals += self.still
        if not certain(a, goals, holding):
            return False
        if not all(map(a.nonnegative, self.runs)):
            with a.given(all_of(*holding, *some)):
                return all(map(a.nonnegative, self.runs))
        return True

    def along(self, write: Access, dimension: int) -> tuple[Expr, Expr] | None:
        """The first and last index that a write covers in a dimension."""
        found = self._place(write.ranges[dimension].min) if not self.reason and write.ranges else None
        if found is None:
            return None
        var, times, offset = found
        if var is not None and self.step[var] > 1:
            return None
        return (offset, offset) if var is None else (self.first[var] * times + offset, self.last[var] * times + offset)

    def _place(self, index: Expr) -> tuple[Var | None, Expr, Expr] | None:
        """An index as an iterator times a constant and what is added to it; None if it is no such thing."""
        own = {it.var for it in self.site.block.iters}
        one = const(1, index.dtype)
        match index:
            case Var() if index in own:
                return index, one, const(0, index.dtype)
            case ir.Mul(a=Var() as var, b=ir.IntImm() as times) if var in own:
                return var, times, const(0, index.dtype)
            case ir.Add(a=first, b=offset) if not own & free_vars(offset):
                inner = self._place(first)
                return (inner[0], inner[1], inner[2] + offset) if inner is not None else None
            case ir.Add(a=offset, b=first) if not own & free_vars(offset):
                inner = self._place(first)
                return (inner[0], inner[1], inner[2] + offset) if inner is not None else None
            case ir.Sub(a=first, b=offset) if not own & free_vars(offset):
                inner = self._place(first)
                return (inner[0], inner[1], inner[2] - offset) if inner is not None else None
            case _ if not own & free_vars(index):
                return None, one, index
        return None


def _runs(a: Analyzer, extents: Mapping[Var, Expr], digits: Sequence[Digit]) -> list[Linear]:
    """The extents less 1 of the loops that may have no iterations without any of the digits saying so.

    A digit that is all of its loops says so itself: it has no values then.
    """
    counted = {atom for d in digits if d.lower is ONE and a.is_zero(d.extent.plus(d.total, -1)) for atom in d.atoms}
    found = []
    for var, extent in extents.items():
        number = int_value(extent)
        if number == 0 or (number is None and a.leaf(var) not in counted):
            found.append(a.linear(extent).shifted(-1))
    return found


def certain(a: Analyzer, goals: Sequence[Expr], holding: Sequence[Expr]) -> bool:
    """Return whether all goals are certain, where all of `holding` holds.

    Equations are also taken last and first: what one says of a variable hides what was known of its quotients before, and with
    it known a condition may be certain, of which the analyzer then keeps nothing.
    """
    left = [goal for goal in goals if not a.prove(goal)]
    parts = [part for each in holding for part in conjuncts(each)]
    equations = [part for part in parts if isinstance(part, ir.EQ)]
    others = [part for part in parts if not isinstance(part, ir.EQ)]
    for known in ([*holding], *([[*others, *equations], [*equations, *others]] if equations else [])):
        if not left:
            break
        if ir.same(a.simplify(all_of(*known)), FALSE):
            return True  # they never hold together
        with a.given(all_of(*known)):
            left = [goal for goal in left if not a.prove(goal)]
    return not left


def _setting(site: Site, extents: Mapping[Var, Expr]) -> set[Var]:
    """The running loops on which the length of another running loop, or a reduction's domain, depends."""
    found = {var for extent in extents.values() for var in free_vars(extent)}
    for it in site.block.iters:
        if it.kind is IterKind.REDUCE:
            found |= free_vars(it.dom.min) | free_vars(it.dom.extent)
    return found & extents.keys()


def covered(program: Program, site: Site, depth: int, scope: str = "", *, together: bool = False) -> Covered:
    """Return the ranges of the block's iterators while the loops inside the first `depth` statements around it run.

    scope    : of the memory that is written; other threads see what is shared
    together : whether the parts of a reduction that the threads of a block add up count as one
    """
    key = (site.block, depth, scope, together)
    found = program.covers.get(key)
    if found is None:
        found = program.covers[key] = Covered(program, site, depth, SEEN_BY.get(scope, ()), together)
    return found
