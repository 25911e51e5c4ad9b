"""Simplification of a whole function: expressions by ranges, statements without effect gone."""

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Broadcast, Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.stmt import NOTHING, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import cast, int_value, value_of
from vtakit.compiler.ir.walk import expressions, free_vars, loads, statements, subexpressions, substitute, substitute_stmt
from vtakit.compiler.passes.affine import Linear, linear
from vtakit.compiler.passes.vectorize import ramp_operation


def simplify(function: Function) -> Function:
    """Indices, extents and conditions in normal form; what has no effect is gone.

    ``for i in range(1): if i < 4: A[i + 0] = B[(i * 4 + 2) // 4]``  ->  ``A[0] = B[0]``

    Only indices and what decides control are taken not to overflow; other values keep their operations.
    """
    return function._replace(body=_Simplifier().stmt(function.body))


def simplified(s: Stmt, analyzer: Analyzer | None = None) -> Stmt:
    """A statement simplified as `simplify` does, with what the analyzer knows of its variables."""
    return _Simplifier(analyzer).stmt(s)


class _Simplifier:
    def __init__(self, analyzer: Analyzer | None = None) -> None:
        self.analyzer = analyzer or Analyzer()
        self.known: dict[Var, Expr] = {}  # variables that are gone, with what they stand for
        self.order: dict[Expr, int] = {}  # of loop variables, as they are bound

    # Expressions

    def index(self, e: Expr) -> Expr:
        """An index or extent in normal form."""
        if e.dtype.lanes == 1:
            form = linear(e)
            if all(type(atom) is Var for atom in form.terms):
                return self._sum(form, e.dtype)
            return self.analyzer.simplify(e.rebuild(self.value) if any(True for _ in loads(e)) else e)
        if isinstance(e, Ramp):
            return Ramp(self.index(e.base), self.index(e.stride), e.lanes)
        if isinstance(e, Broadcast):
            return Broadcast(self.index(e.value), e.lanes)
        if isinstance(e, ir.Binary) and not e.compares:
            new = e.replace(a=self.index(e.a), b=self.index(e.b))
            found = ramp_operation(type(new), new.a, new.b)
            if found is None:
                found = self._divided_ramp(new)
            return new if found is None else self.index(found)
        return e.rebuild(self.index) if isinstance(e, ir.Cast) else self.value(e)

    def _sum(self, form: Linear, kind: DType) -> Expr:
        """A linear combination of variables, outer loops' first, as most indices are: the same for the same form."""
        terms = sorted(form.terms.items(), key=lambda term: self.order.get(term[0], -1))
        rest = form.constant
        total: Expr | None = None
        if terms and terms[0][1] < 0:
            total, rest = IntImm(rest, kind), 0
        for atom, c in terms:
            term = cast(atom, kind) if abs(c) == 1 else ir.Mul(cast(atom, kind), IntImm(abs(c), kind))
            total = term if total is None else ir.Add(total, term) if c > 0 else ir.Sub(total, term)
        if total is None:
            return IntImm(rest, kind)
        if not rest:
            return total
        offset = IntImm(abs(rest), kind)
        return ir.Add(total, offset) if rest > 0 else ir.Sub(total, offset)

    def _divided_ramp(self, e: ir.Binary) -> Expr | None:
        """A ramp's quotient or remainder by a constant, where all lanes fall into one or are multiples apart."""
        by, ramp = value_of(e.b), e.a
        if not (isinstance(e, ir.FloorDiv | ir.FloorMod) and isinstance(ramp, Ramp) and isinstance(by, int) and by > 0):
            return None
        stride = int_value(ramp.stride)
        if stride is None:
            return None
        if stride % by == 0:
            quotient: Expr = Ramp(ramp.base // by, IntImm(stride // by, ramp.base.dtype), ramp.lanes)
            return quotient if isinstance(e, ir.FloorDiv) else Broadcast(ramp.base % by, ramp.lanes)
        first = self.analyzer.bounds(ramp.base % by)
        if stride > 0 and first.hi + stride * (ramp.lanes - 1) < by:
            return Broadcast(ramp.base // by, ramp.lanes) if isinstance(e, ir.FloorDiv) else ramp.replace(base=ramp.base % by)
        return None

    def condition(self, e: Expr) -> Expr:
        """A condition in normal form, unless it depends on what memory holds."""
        if e.dtype.lanes == 1 and not any(True for _ in loads(e)) and not _calls(e):
            return self.analyzer.simplify(e)
        return self.value(e)

    def value(self, e: Expr) -> Expr:
        """A value with its indices and conditions simplified; its own arithmetic stays."""
        if isinstance(e, Load):
            return e.rebuild(self.index)
        if isinstance(e, ir.Select | ir.IfThenElse) and e.condition.dtype.lanes == 1:
            condition = self.condition(e.condition)
            known = value_of(condition)
            if known is not None:
                return self.value(e.true if known else e.false)
            if isinstance(e, ir.Select) or _calls(condition) or any(True for _ in loads(condition)):
                return e.replace(condition=condition, true=self.value(e.true), false=self.value(e.false))
            with self.analyzer.given(condition):
                true = self.value(e.true)
            return e.replace(condition=condition, true=true, false=self.value(e.false))
        if is_address(e):
            assert isinstance(e, ir.Call)
            load, offset, mask = e.args
            return e.replace(args=(self.value(load), self.index(offset), mask))
        return e.rebuild(self.value)

    # Statements

    def stmt(self, s: Stmt) -> Stmt:
        if self.known:
            s = s.rebuild(lambda inner: inner, lambda e: substitute(e, self.known))
        if isinstance(s, st.Store):
            indices, value = tuple(map(self.index, s.indices)), self.value(s.value)
            itself = isinstance(value, Load) and value.buffer is s.buffer and all(map(ir.same, value.indices, indices))
            return NOTHING if itself else s.replace(indices=indices, value=value)
        if isinstance(s, st.Seq):
            return st.seq(*map(self.stmt, s.stmts))
        if isinstance(s, st.For):
            return self._for(s)
        if isinstance(s, st.If):
            return self._if(s)
        if isinstance(s, st.LetStmt):
            return self._let(s)
        if isinstance(s, st.Allocate):
            return self._allocate(s)
        if isinstance(s, st.Evaluate):
            return s.replace(value=self.value(s.value)) if _calls(s.value) else NOTHING
        if isinstance(s, st.Attr):
            body = self.stmt(s.body)
            return NOTHING if body is NOTHING else s.replace(body=body)
        return s.rebuild(self.stmt, self.value)

    def _for(self, s: st.For) -> Stmt:
        extent = self.index(s.extent)
        if self.analyzer.bounds(extent).hi <= 0:
            return NOTHING
        if value_of(extent) == 1 and s.kind is not LoopKind.THREAD and not s.notes:
            self.known[s.var] = IntImm(0, s.var.dtype)
            return self.stmt(s.body)
        self.order[s.var] = len(self.order)
        if self.analyzer.bounds(extent).lo > 0 or any(True for _ in loads(extent)):
            self.analyzer.bind(s.var, Range(IntImm(0, s.var.dtype), extent))
            body = self.stmt(s.body)
        else:
            with self.analyzer.given(ir.LT(IntImm(0, extent.dtype), extent)):
                self.analyzer.bind(s.var, Range(IntImm(0, s.var.dtype), extent))
                body = self.stmt(s.body)
        return NOTHING if _is_nothing(body) else s.replace(extent=extent, body=body)

    def _if(self, s: st.If) -> Stmt:
        condition = self.condition(s.condition)
        known = value_of(condition)
        if known is not None:
            chosen = s.then if known else s.otherwise
            return NOTHING if chosen is None else self.stmt(chosen)
        if any(True for _ in loads(condition)) or _calls(condition):
            then, otherwise = self.stmt(s.then), None if s.otherwise is None else self.stmt(s.otherwise)
        else:
            with self.analyzer.given(condition):
                then = self.stmt(s.then)
            with self.analyzer.given(negate(condition)):
                otherwise = None if s.otherwise is None else self.stmt(s.otherwise)
        if otherwise is not None and _is_nothing(otherwise):
            otherwise = None
        if _is_nothing(then):
            return NOTHING if otherwise is None else st.If(negate(condition), otherwise)
        return s.replace(condition=condition, then=then, otherwise=otherwise)

    def _let(self, s: st.LetStmt) -> Stmt:
        value = self.value(s.value)
        if isinstance(value, IntImm | Var):
            self.known[s.var] = value
            return self.stmt(s.body)
        if s.var.dtype.code == "int" and s.var.dtype.lanes == 1:
            bounds = self.analyzer.bounds(value)
            if isinstance(bounds.lo, int) and isinstance(bounds.hi, int):
                low, high = IntImm(bounds.lo, s.var.dtype), bounds.hi - bounds.lo + 1
                if high <= s.var.dtype.max:
                    self.analyzer.bind(s.var, Range(low, IntImm(high, s.var.dtype)))
        body = self.stmt(s.body)
        used = any(s.var in free_vars(e) for e in expressions(body))
        return s.replace(value=value, body=body) if used else body

    def _allocate(self, s: st.Allocate) -> Stmt:
        sizes = (*s.buffer.shape, *s.buffer.strides, s.buffer.offset)
        gone = {var: self.known[var] for size in sizes for var in free_vars(size) if var in self.known}
        if gone:
            resized = substitute_stmt(s, gone)
            assert isinstance(resized, st.Allocate)
            s = resized
        body = self.stmt(s.body)
        if not _is_used(s.buffer.data, body):
            body = self._without_stores(body, s.buffer.data)
        if _is_nothing(body):
            return NOTHING
        touched = any(isinstance(inner, st.Store) and inner.buffer.data is s.buffer.data for inner in statements(body))
        return s.replace(body=body) if touched or _is_used(s.buffer.data, body) else body

    def _without_stores(self, s: Stmt, data: Var) -> Stmt:
        """The statement without the stores to memory that nothing reads."""
        if isinstance(s, st.Store):
            return NOTHING if s.buffer.data is data else s
        if isinstance(s, st.Seq):
            return st.seq(*[self._without_stores(part, data) for part in s.stmts])
        new = s.rebuild(lambda inner: self._without_stores(inner, data), lambda e: e)
        if isinstance(new, st.If):
            return NOTHING if _is_nothing(new.then) and (new.otherwise is None or _is_nothing(new.otherwise)) else new
        return NOTHING if isinstance(new, st.For | st.LetStmt | st.Allocate | st.Attr) and _is_nothing(new.body) else new


def _is_nothing(s: Stmt) -> bool:
    return isinstance(s, st.Seq) and not s.stmts


def _calls(e: Expr) -> bool:
    """Return whether evaluating an expression may have an effect."""
    return any(isinstance(x, ir.Call) and x.kind != "pure" for x in subexpressions(e))


def _is_used(data: Var, s: Stmt) -> bool:
    """Return whether a statement reads the memory or takes its address."""
    return any(isinstance(x, Load) and x.buffer.data is data for e in expressions(s) for x in subexpressions(e))
