"""Vectorised loops as operations on vectors."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS, OTHER_MATH
from vtakit.compiler.ir.expr import Broadcast, Call, Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import loads, map_stmt, statements, subexpressions, substitute_stmt
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.copying import renewed

_LANEWISE = {*FLOAT_MATH, *FLOAT_PAIRS, *FLOAT_TESTS, *OTHER_MATH}


def vectorize(function: Function) -> Function:
    """Each vectorised loop becomes its body on vectors, one lane an iteration.

    ``for i in vectorized(8): B[i] = A[i] * 2``  ->  ``B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] * broadcast(2, 8)``

    A condition that all lanes share stays. What cannot be done by lanes (a condition that differs, a call with effects) runs
    as a serial loop over the lanes. Raises PassError for an extent that is not constant and for a `while`.
    """
    def on_stmt(s: Stmt) -> Stmt:
        if not (isinstance(s, st.For) and s.kind is LoopKind.VECTORIZED):
            return s
        lanes = int_value(s.extent)
        if lanes is None:
            raise PassError(
                f"loop {s.var.name!r} is to be vectorised but its extent {s.extent} is no constant: split it by one first",
                function, s,
            )
        whiles = [inner for inner in statements(s.body) if isinstance(inner, st.While)]
        if whiles:
            raise PassError(f"loop {s.var.name!r} is to be vectorised but contains a while", function, whiles[0])
        if lanes == 1:
            return substitute_stmt(s.body, {s.var: IntImm(0, s.var.dtype)})
        private = {inner.buffer for inner in statements(s.body) if isinstance(inner, st.Allocate)}
        return _Vectorizer(s.var, lanes).stmt(_per_lane(s.body, private, s.var, lanes))
    return function._replace(body=map_stmt(function.body, on_stmt))


def _per_lane(body: Stmt, private: set[Buffer], var: Var, lanes: int) -> Stmt:
    """Return the body with each buffer that is allocated in the loop once for each lane, the lanes next to each other."""
    if not private:
        return body
    wide: dict[Var, Buffer] = {}
    for buffer in private:
        wide[buffer.data] = Buffer(buffer.name, (buffer.shape[0] * lanes,), buffer.dtype, buffer.scope, align=buffer.align)

    def on_expr(e: Expr) -> Expr:
        e = e.rebuild(on_expr)
        if isinstance(e, Load) and e.buffer.data in wide:
            return Load(wide[e.buffer.data], (e.indices[0] * lanes + var,))
        return e

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, st.Store) and s.buffer.data in wide:
            return s.replace(buffer=wide[s.buffer.data], indices=(s.indices[0] * lanes + var,))
        if isinstance(s, st.Allocate) and s.buffer.data in wide:
            return s.replace(buffer=wide[s.buffer.data])
        return s
    return map_stmt(body, on_stmt, on_expr)


class _NotByLanes(Exception):
    """The statement has to run lane after lane."""


class _Vectorizer:
    def __init__(self, var: Var, lanes: int) -> None:
        self.var, self.lanes = var, lanes
        self.vectors: dict[Var, Expr] = {var: Ramp(IntImm(0, var.dtype), IntImm(1, var.dtype), lanes)}

    # Statements

    def stmt(self, s: Stmt) -> Stmt:
        """The statement for all lanes; serial where that cannot be."""
        if isinstance(s, st.Seq):
            return st.seq(*map(self.stmt, s.stmts))
        try:
            return self._stmt(s)
        except _NotByLanes:
            if len(self.vectors) > 1:  # within a widened let, which then is serial as a whole
                raise
            var = Var(self.var.name, self.var.dtype)
            return st.For(var, IntImm(self.lanes, var.dtype), substitute_stmt(renewed(s), {self.var: var}))

    def _stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.Store):
            return self._store(s)
        if isinstance(s, st.If):
            condition = self._uniform(s.condition)
            return st.If(condition, self.stmt(s.then), None if s.otherwise is None else self.stmt(s.otherwise))
        if isinstance(s, st.For) and s.kind is not LoopKind.THREAD:
            return s.replace(extent=self._uniform(s.extent), body=self.stmt(s.body))
        if isinstance(s, st.Allocate):
            return s.replace(body=self.stmt(s.body))
        if isinstance(s, st.Attr) and not isinstance(s.value, Expr):
            return s.replace(body=self.stmt(s.body))
        if isinstance(s, st.LetStmt):
            value = self.expr(s.value)
            if value.dtype.lanes == s.value.dtype.lanes:
                return s.replace(value=value, body=self.stmt(s.body))
            wide = Var(s.var.name, value.dtype)
            self.vectors[s.var] = wide
            try:
                return st.LetStmt(wide, value, self.stmt(s.body))
            finally:
                del self.vectors[s.var]
        raise _NotByLanes

    def _store(self, s: st.Store) -> Stmt:
        index, value = self.expr(s.indices[0]), self.expr(s.value)
        if index.dtype.lanes == s.indices[0].dtype.lanes:  # every lane writes there; the last one counts
            if value.dtype.lanes == s.value.dtype.lanes and all(load.buffer.data is not s.buffer.data for load in loads(value)):
                return s
            raise _NotByLanes
        if s.indices[0].dtype.lanes != 1 or s.value.dtype.lanes != 1:
            raise _NotByLanes
        return s.replace(indices=(index,), value=self._wide(value))

    def _uniform(self, e: Expr) -> Expr:
        found = self.expr(e)
        if found.dtype.lanes != e.dtype.lanes:
            raise _NotByLanes
        return found

    # Expressions

    def _wide(self, e: Expr) -> Expr:
        return e if e.dtype.lanes == self.lanes else Broadcast(e, self.lanes)

    def expr(self, e: Expr) -> Expr:
        """The expression for all lanes: a vector if it differs between them, else itself."""
        if isinstance(e, Var):
            return self.vectors.get(e, e)
        parts = [self.expr(child) for child in e.children()]
        if all(new is old for new, old in zip(parts, e.children(), strict=True)):
            return e
        if e.dtype.lanes > 1 or any(child.dtype.lanes > 1 for child in e.children()):
            raise _NotByLanes  # vectors of vectors
        return self._vector(e, parts)

    def _vector(self, e: Expr, parts: list[Expr]) -> Expr:
        if isinstance(e, ir.And | ir.Or):
            if not _is_safe(e.b):
                raise _NotByLanes
            return (ir.BitAnd if isinstance(e, ir.And) else ir.BitOr)(*map(self._wide, parts))
        if isinstance(e, ir.Binary):
            ramp = ramp_operation(type(e), parts[0], parts[1])
            return type(e)(*map(self._wide, parts)) if ramp is None else ramp
        if isinstance(e, ir.Not):
            return ir.Not(parts[0])
        if isinstance(e, ir.Cast):
            return _cast(e, parts[0])
        if isinstance(e, ir.Select):
            return ir.Select(*map(self._wide, parts))
        if isinstance(e, ir.IfThenElse) and parts[0].dtype.lanes == 1:
            return ir.IfThenElse(parts[0], self._wide(parts[1]), self._wide(parts[2]))
        if isinstance(e, Load):
            return Load(e.buffer, (parts[0],))
        if isinstance(e, Call) and e.kind == "pure" and e.name in _LANEWISE:
            return Call(e.dtype.with_lanes(self.lanes), e.name, tuple(map(self._wide, parts)), e.kind)
        if isinstance(e, ir.Let):
            return self._let(e)
        raise _NotByLanes

    def _let(self, e: ir.Let) -> Expr:
        value = self.expr(e.value)
        if value.dtype.lanes == 1:
            return ir.Let(e.var, value, self.expr(e.body))
        wide = Var(e.var.name, value.dtype)
        self.vectors[e.var] = wide
        body = self._wide(self.expr(e.body))
        del self.vectors[e.var]
        return ir.Let(wide, value, body)


def ramp_operation(kind: type[ir.Binary], a: Expr, b: Expr) -> Expr | None:
    """An integer operation of a ramp and a scalar (or broadcast) or of two ramps, as a ramp; None where it is none."""
    a, b = (x.value if isinstance(x, Broadcast) else x for x in (a, b))
    if isinstance(a, Ramp) and isinstance(b, Ramp) and kind in (ir.Add, ir.Sub):
        base, stride = (a.base + b.base, a.stride + b.stride) if kind is ir.Add else (a.base - b.base, a.stride - b.stride)
        return Broadcast(base, a.lanes) if int_value(stride) == 0 else Ramp(base, stride, a.lanes)
    if isinstance(a, Ramp) and b.dtype.lanes == 1:
        if kind is ir.Add:
            return Ramp(a.base + b, a.stride, a.lanes)
        if kind is ir.Sub:
            return Ramp(a.base - b, a.stride, a.lanes)
        return Ramp(a.base * b, a.stride * b, a.lanes) if kind is ir.Mul else None
    if isinstance(b, Ramp) and a.dtype.lanes == 1:
        if kind in (ir.Add, ir.Mul):
            return ramp_operation(kind, b, a)
        return Ramp(a - b.base, -b.stride, b.lanes) if kind is ir.Sub else None
    return None


def _cast(e: ir.Cast, value: Expr) -> Expr:
    kind = e.dtype.with_lanes(value.dtype.lanes)
    if isinstance(value, Ramp) and e.dtype.code == "int" and e.dtype.bits > value.dtype.bits:  # indices do not overflow
        return Ramp(ir.Cast(e.dtype, value.base), ir.Cast(e.dtype, value.stride) if int_value(value.stride) is None
                    else IntImm(int_value(value.stride) or 0, e.dtype), value.lanes)
    return ir.Cast(kind, value)


def _is_safe(e: Expr) -> bool:
    """Return whether an expression may be evaluated where its guard does not hold."""
    return not any(
        isinstance(x, Load | Call | ir.FloorDiv | ir.FloorMod | ir.TruncDiv | ir.TruncMod) for x in subexpressions(e)
    )

