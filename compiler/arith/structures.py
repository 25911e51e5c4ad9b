"""Normal forms of what is no index arithmetic: lets, reductions, vectors, types that wrap around."""

from functools import lru_cache

from vtakit.compiler.arith.linear import Atom, Leaf, Linear, mentions
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.arith.reader import Reader
from vtakit.compiler.arith.state import Frame
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import CommReducer, Expr, IntImm, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import binary
from vtakit.compiler.ir.values import TRUE, value_of
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute

_ELEMENTWISE = (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)


class Structures(Reader):
    """Expressions that hold index arithmetic without being it."""

    def other(self, e: Expr) -> Expr:
        """The normal form of an expression that is neither index arithmetic nor made of conditions."""
        if isinstance(e, ir.Select | ir.IfThenElse) and e.condition.dtype.lanes == 1:
            return self.choose(e)
        if isinstance(e, ir.Let):
            return self.let(e)
        if isinstance(e, ir.Reduce):
            return self.reduction(e)
        if e.dtype.lanes > 1:
            return self._vector(e)
        new = e.rebuild(self.simplify)
        return self._wrapping(new) if isinstance(new, ir.Binary) and new.dtype.is_int else new

    def _wrapping(self, e: ir.Binary) -> Expr:
        """An operation of a type that wraps around: what its interval decides, and what is right in any ring."""
        if isinstance(e, ir.Min | ir.Max):
            a, b = self.bounds(e.a), self.bounds(e.b)
            if a.hi <= b.lo or b.hi <= a.lo:
                return e.a if (a.hi <= b.lo) == isinstance(e, ir.Min) else e.b
        if isinstance(e, ir.FloorDiv | ir.FloorMod | ir.TruncDiv | ir.TruncMod) and isinstance(e.b, IntImm):
            a = self.bounds(e.a)
            if a.lo >= 0 and a.hi < e.b.value:
                return IntImm(0, e.dtype) if isinstance(e, ir.FloorDiv | ir.TruncDiv) else e.a
            if e.b.value == 0:
                return e
        if isinstance(e, ir.Sub) and ir.same(e.a, e.b):
            return IntImm(0, e.dtype)
        if isinstance(e, ir.ShiftLeft | ir.ShiftRight) and isinstance(e.b, IntImm) and not 0 <= e.b.value < e.dtype.bits:
            return e
        return binary(type(e), e.a, e.b)

    def let(self, e: ir.Let) -> Expr:
        """The body with the value in its place if that is index arithmetic, a constant or a variable; else with its interval."""
        value = self.simplify(e.value)
        if is_index(e.var.dtype):
            whole = self.linear(value)
            if all(isinstance(atom, Leaf) and isinstance(atom.expr, Var) for atom in whole.terms) or _pure(value):
                before = self.frame
                self.frame = Frame(before)
                self.frame.values[e.var] = whole
                try:
                    return self.simplify(e.body)
                finally:
                    self.frame = before
        if isinstance(value, Var) or value_of(value) is not None:
            return self.simplify(substitute(e.body, {e.var: value}))
        limit = self.bounds(value)
        before = self.frame
        self.frame = Frame(before)
        self.frame.limits[self.leaf(e.var)] = limit
        try:
            body = self.simplify(e.body)
        finally:
            self.frame = before
        return ir.Let(e.var, value, body) if e.var in free_vars(body) else body

    def reduction(self, e: ir.Reduce) -> Expr:
        """With the axes' ranges known inside, and without values that the one asked for does not depend on."""
        before = self.frame
        self.frame = Frame(before)
        try:
            for axis in e.axes:
                if axis.dom is not None:
                    self.bind(axis.var, Range(self.simplify(axis.dom.min), self.simplify(axis.dom.extent)))
                    self.frame.values.pop(axis.var, None)  # an axis stays, even of one step
            condition = self.condition(e.condition)
            if condition is not TRUE:
                self.assume(condition)
            source = tuple(map(self.simplify, e.source))
        finally:
            self.frame = before
        init = tuple(map(self.simplify, e.init))
        return pruned(e.replace(source=source, condition=condition, init=init))

    # ---- vectors

    def _vector(self, e: Expr) -> Expr:
        """A vector of index arithmetic as a combination in which the lane is one more variable."""
        if is_index(e.dtype.scalar):
            lane = self._lane(e.dtype.lanes, e)
            scalar = _one_lane(e, lane)
            if scalar is not None:
                x = self.linear(scalar)
                atom = self.leaf(lane)
                stride = x.terms.get(atom, 0)
                base = Linear({other: value for other, value in x.terms.items() if other is not atom}, x.const)
                found = self._as_ramp(base, stride, atom, e)
                if found is not None:
                    return found
        new = e.rebuild(self.simplify)
        if isinstance(new, ir.Binary) and new.compares and is_index(new.a.dtype.scalar):
            return self._vector_comparison(new)
        return new

    def _as_ramp(self, base: Linear, stride: int, lane: Atom, e: Expr) -> Expr | None:
        steps = Linear({}, stride)
        rest = Linear({}, base.const)
        for atom, value in base.terms.items():
            factors = list(getattr(atom, "factors", (atom,)))
            if lane in factors:  # a symbolic stride
                factors.remove(lane)
                part = Linear({}, value)
                for factor in factors:
                    part = self.multiply(part, Linear({factor: 1}, 0))
                steps = steps.plus(part)
            else:
                rest = rest.plus(Linear({atom: value}, 0))
        if any(mentions(atom, (lane,)) for atom in (*rest.terms, *steps.terms)):
            return None
        kind, lanes = e.dtype.scalar, e.dtype.lanes
        first = self.emit(rest, kind)
        if not steps.terms and not steps.const:
            return ir.Broadcast(first, lanes)
        return ir.Ramp(first, self.emit(steps, kind), lanes)

    def _vector_comparison(self, e: ir.Binary) -> Expr:
        lane = self._lane(e.dtype.lanes, e.a)
        a, b = _one_lane(e.a, lane), _one_lane(e.b, lane)
        if a is None or b is None:
            return e
        found = self.condition(type(e)(a, b))
        return e if lane in free_vars(found) else ir.Broadcast(found, e.dtype.lanes)

    def _lane(self, lanes: int, e: Expr) -> Var:
        kind = e.dtype.scalar
        lane = _lane_variable(lanes, str(kind))
        if self.leaf(lane) not in self.frame.limits:
            self.bind(lane, Range(IntImm(0, kind), IntImm(lanes, kind)))
        return lane


@lru_cache(maxsize=256)
def _lane_variable(lanes: int, kind: str) -> Var:
    """The number of a lane, as a variable; one object a length, so that an analyzer meets it again."""
    return Var(f"lane{lanes}", dtype(kind))


def _one_lane(e: Expr, lane: Var) -> Expr | None:
    """A vector's element in the lane; None if it is not made of ramps and broadcasts by elementwise operations."""
    if isinstance(e, ir.Broadcast):
        return e.value
    if isinstance(e, ir.Ramp):
        return binary(ir.Add, e.base, binary(ir.Mul, e.stride, lane))
    if isinstance(e, _ELEMENTWISE):
        a, b = _one_lane(e.a, lane), _one_lane(e.b, lane)
        return None if a is None or b is None else type(e)(a, b)
    return None


def _pure(e: Expr) -> bool:
    """Return whether an expression may be evaluated several times at no cost and without effect: no read, no call."""
    return not any(isinstance(node, ir.Load | ir.ProducerLoad | ir.Call | ir.Reduce) for node in subexpressions(e))


def pruned(e: ir.Reduce) -> ir.Reduce:
    """A reduction of the values alone that the one asked for depends on."""
    needed = _needed(e.combiner, e.value_index)
    if len(needed) == len(e.source):
        return e
    return e.replace(
        combiner=_part(e.combiner, needed), source=tuple(e.source[at] for at in needed), value_index=needed.index(e.value_index),
        init=tuple(e.init[at] for at in needed) if e.init else (),
    )


@lru_cache(maxsize=256)
def _needed(combiner: CommReducer, index: int) -> tuple[int, ...]:
    """The values of a combiner that one of its results depends on, itself included."""
    found, pending = {index}, [index]
    while pending:
        used = free_vars(combiner.result[pending.pop()])
        for at, pair in enumerate(zip(combiner.lhs, combiner.rhs, strict=True)):
            if at not in found and not used.isdisjoint(pair):
                found.add(at)
                pending.append(at)
    return tuple(sorted(found))


@lru_cache(maxsize=256)
def _part(combiner: CommReducer, kept: tuple[int, ...]) -> CommReducer:
    """A combiner of some of the values; the same object each time, as combiners are compared by identity."""
    lhs, rhs = tuple(combiner.lhs[at] for at in kept), tuple(combiner.rhs[at] for at in kept)
    result, identity = tuple(combiner.result[at] for at in kept), tuple(combiner.identity[at] for at in kept)
    return CommReducer(combiner.name, lhs, rhs, result, identity)
