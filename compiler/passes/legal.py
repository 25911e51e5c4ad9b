"""Rules that every program must keep, and those of the low form: checked between passes in tests."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.passes.base import PassError

_SCALAR_ONLY = (ir.And, ir.Or, ir.IfThenElse)


def check(function: Function, *, low: bool = False) -> None:
    """Raises PassError if a variable or buffer is used where nothing defines it, or if types or lanes do not fit.

    low : whether the function must also be in the low form of `vtakit.compiler.passes`
    """
    _Checker(function, low=low).run()


class _Checker:
    def __init__(self, function: Function, *, low: bool) -> None:
        self.function, self.low = function, low
        self.known: set[Var] = set()
        self.here: Stmt | None = None

    def fail(self, what: str) -> PassError:
        return PassError(what, self.function, self.here)

    def run(self) -> None:
        for param in self.function.params:
            if isinstance(param, Var):
                self.known.add(param)
                continue
            self.known.add(param.data)
            for e in (*param.shape, *param.strides, param.offset):
                if isinstance(e, Var):
                    self.known.add(e)
        self.stmt(self.function.body)

    def stmt(self, s: Stmt) -> None:
        around, self.here = self.here, s
        if isinstance(s, st.Block):
            self._block(s)
        elif isinstance(s, st.For | st.LetStmt):
            self.expr(s.extent if isinstance(s, st.For) else s.value)
            if self.low and isinstance(s, st.For):
                self._low_loop(s)
            self.binding(s.var, s.body)
        elif isinstance(s, st.Allocate):
            for e in (*s.buffer.shape, *s.buffer.strides):
                self.expr(e)
            if self.low and len(s.buffer.shape) != 1:
                raise self.fail(f"{s.buffer.name} is allocated with {len(s.buffer.shape)} dimensions")
            self.binding(s.buffer.data, s.body)
        else:
            if isinstance(s, st.Store):
                self._store(s)
            for name in s.fields:
                value = getattr(s, name)
                for part in value if isinstance(value, tuple) else (value,):
                    if isinstance(part, Expr):
                        self.expr(part)
                    elif isinstance(part, Stmt):
                        self.stmt(part)
        self.here = around

    def binding(self, var: Var, body: Stmt) -> None:
        """The body, with a variable defined in it; one variable is not bound twice on a path."""
        if var in self.known:
            raise self.fail(f"{var.name!r} is defined again where it is defined already")
        self.known.add(var)
        self.stmt(body)
        self.known.discard(var)

    def _block(self, s: st.Block) -> None:
        if self.low:
            raise self.fail(f"block {s.name} in the low form")
        for it in s.iters:
            self.expr(it.binding)
        own = {it.var for it in s.iters}
        self.known |= own
        self.expr(s.predicate)
        for part in (s.init, s.body):
            if part is not None:
                self.stmt(part)
        self.known -= own

    def _low_loop(self, s: st.For) -> None:
        if s.kind in (LoopKind.VECTORIZED, LoopKind.UNROLLED):
            raise self.fail(f"a loop of kind {s.kind.value} in the low form")
        if s.kind is LoopKind.THREAD and not s.thread.startswith(("blockIdx", "threadIdx")):
            raise self.fail(f"a loop over {s.thread} in the low form")

    def _store(self, s: st.Store) -> None:
        self._access(s.buffer, s.indices)
        lanes = max([s.buffer.dtype.lanes, *[index.dtype.lanes for index in s.indices]])
        if s.value.dtype != s.buffer.dtype.scalar.with_lanes(lanes):
            raise self.fail(f"a value of {s.value.dtype} is stored to {lanes} elements of {s.buffer.dtype}")

    def _access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        if buffer.data not in self.known:
            raise self.fail(f"buffer {buffer.name!r} is used where it is not defined")
        if len(indices) != len(buffer.shape):
            raise self.fail(f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices")
        if self.low and (len(indices) != 1 or buffer.strides or buffer.dtype.lanes != 1 or int_value(buffer.offset) != 0):
            raise self.fail(f"{buffer.name} is not flat")

    def expr(self, e: Expr) -> None:
        if isinstance(e, Var):
            if e not in self.known:
                raise self.fail(f"{e.name!r} is used where it is not defined")
            return
        if isinstance(e, ir.Let):
            self.expr(e.value)
            if e.var in self.known:
                raise self.fail(f"{e.var.name!r} is defined again where it is defined already")
            self.known.add(e.var)
            self.expr(e.body)
            self.known.discard(e.var)
            return
        if isinstance(e, ir.Call) and e.name == "call_packed":
            return  # names buffers as they were declared
        for child in e.children():
            self.expr(child)
        if isinstance(e, Load):
            self._access(e.buffer, e.indices)
        if isinstance(e, ir.Binary) and e.a.dtype != e.b.dtype:
            raise self.fail(f"{e} has operands of {e.a.dtype} and {e.b.dtype}")
        if isinstance(e, ir.Select | ir.IfThenElse) and e.true.dtype != e.false.dtype:
            raise self.fail(f"{e} has branches of {e.true.dtype} and {e.false.dtype}")
        if self.low and isinstance(e, _SCALAR_ONLY) and e.children()[0].dtype.lanes != 1:
            raise self.fail(f"{e} decides by a vector")
