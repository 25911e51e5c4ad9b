"""Swizzled buffers: the place of each element, written out in its index."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load
from vtakit.compiler.ir.layouts import CHUNK, swizzled
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.passes.base import PassError


def swizzle(function: Function) -> Function:
    """Put the elements of swizzled buffers where the layout has them.

    ``S[i]`` of a buffer of bfloat16 with rows of 128 bytes  ->  ``S[i ^ ((i >> 6 & 7) << 3)]``

    Calls that describe a tile to the hardware get the layout instead. It runs last: until then indices are linear, which barriers
    are placed by. Raises PassError for an access to more than the 16
    bytes that stay together.
    """
    if not any(isinstance(s, st.Allocate) and s.buffer.swizzle for s in statements(function.body)):
        return function
    return function._replace(body=_Swizzle(function).stmt(function.body))


class _Swizzle:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.here: Stmt | None = None

    def index(self, buffer: Buffer, index: Expr) -> Expr:
        try:
            return swizzled(index, buffer.swizzle, buffer.dtype.bytes)
        except ValueError as error:
            raise PassError(f"{buffer.name} is swizzled: {error}; vectorise by {CHUNK // buffer.dtype.bytes}", self.function,
                            self.here) from None

    def stmt(self, s: Stmt) -> Stmt:
        self.here = s
        if isinstance(s, st.Store) and s.buffer.swizzle:
            return s.replace(indices=(self.index(s.buffer, self.expr(s.indices[0])),), value=self.expr(s.value))
        return s.rebuild(self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Call) and e.name in ("async_wait", "wgmma_wait"):
            return e
        if isinstance(e, Call) and e.name == "wgmma":
            layouts = [address.args[0].buffer.swizzle for address in e.args[2:4] if isinstance(address, Call)
                       and isinstance(address.args[0], Load)]
            return e.replace(args=(*e.args[:8], *map(IntImm, layouts)))
        e = e.rebuild(self.expr)
        return e.replace(indices=(self.index(e.buffer, e.indices[0]),)) if isinstance(e, Load) and e.buffer.swizzle else e
