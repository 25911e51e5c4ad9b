"""Copies of statements that stand beside each other, each with loops, lets and buffers of its own."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Let, Load, Var
from vtakit.compiler.ir.stmt import Stmt


def renewed(s: Stmt) -> Stmt:
    """Return the statement with a new variable for each that it binds and a new buffer for each that it allocates."""
    return _Renewer().stmt(s)


class _Renewer:
    def __init__(self) -> None:
        self.vars: dict[Var, Expr] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def var(self, var: Var) -> Var:
        new = Var(var.name, var.dtype)
        self.vars[var] = new
        return new

    def buffer(self, buffer: Buffer) -> Buffer:
        """The new buffer; a view of a renewed address is renewed with it."""
        found = self.buffers.get(buffer)
        if found is None:
            data = self.vars.get(buffer.data)
            if data is None:
                return buffer
            assert isinstance(data, Var)
            found = Buffer(
                buffer.name, tuple(map(self.expr, buffer.shape)), buffer.dtype, buffer.scope,
                strides=tuple(map(self.expr, buffer.strides)), align=buffer.align, offset=self.expr(buffer.offset),
                swizzle=buffer.swizzle,
            )
            found.data = data
            self.buffers[buffer] = found
        return found

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.vars.get(e, e)
        if isinstance(e, Let):
            value = self.expr(e.value)
            return Let(self.var(e.var), value, self.expr(e.body))
        e = e.rebuild(self.expr)
        if isinstance(e, Load):
            buffer = self.buffer(e.buffer)
            return e if buffer is e.buffer else e.replace(buffer=buffer)
        return e

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.For):
            extent = self.expr(s.extent)
            return s.replace(extent=extent, var=self.var(s.var), body=self.stmt(s.body))
        if isinstance(s, st.LetStmt):
            value = self.expr(s.value)
            return s.replace(value=value, var=self.var(s.var), body=self.stmt(s.body))
        if isinstance(s, st.Allocate):
            self.var(s.buffer.data)
            return s.replace(buffer=self.buffer(s.buffer), body=self.stmt(s.body))
        if isinstance(s, st.Store):
            s = s.replace(buffer=self.buffer(s.buffer))
        if isinstance(s, st.Attr) and isinstance(s.node, Buffer):
            s = s.replace(node=self.buffer(s.node))
        if isinstance(s, st.Attr) and isinstance(s.node, Var):
            s = s.replace(node=self.vars.get(s.node, s.node))
        if isinstance(s, st.Block):
            iters = tuple(it._replace(binding=self.expr(it.binding), var=self.var(it.var)) for it in s.iters)
            s = s.replace(iters=iters)
        return s.rebuild(self.stmt, self.expr)
