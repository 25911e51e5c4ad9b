"""Rules about names and types: what a program refers to exists where it does so."""

from collections.abc import Iterator

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.lower.verify.program import Program, parts
from vtakit.compiler.lower.verify.report import Broken

UNSET = ("if it is a parameter, give it among the arguments; if it is an axis of a reduction, use it within the reduction over "
         "it, as in te.sum(…, axis=k); otherwise use it within the loop or let that sets it")


def check_names(program: Program) -> Iterator[Broken]:
    """Each variable is set, and each buffer allocated, by what encloses its use, and each only once."""
    known, buffers = set(program.sizes), set(program.params)
    yield from _Names(set(known)).stmt(program.function.body, known, buffers)


class _Names:
    def __init__(self, bound: set[ir.Var]) -> None:
        self.bound = bound  # every variable that anything binds, to find one bound twice
        self.checked: set[tuple[int, frozenset[int]]] = set()

    def bind(self, var: ir.Var, at: st.Stmt) -> Iterator[Broken]:
        if var in self.bound:
            yield Broken(f"the variable {var} is set twice", at, "make a new variable for each loop, let and block iterator")
        self.bound.add(var)

    def stmt(self, s: st.Stmt, known: set[ir.Var], buffers: set[Buffer]) -> Iterator[Broken]:
        match s:
            case st.Block():
                yield from self.block(s, known, buffers)
                return
            case st.Store():
                yield from self.store(s, buffers)
        for e in _expressions(s):
            yield from self.expr(e, s, known, buffers)
        match s:
            case st.For():
                yield from self.bind(s.var, s)
                known = known | {s.var}
            case st.LetStmt():
                yield from self.bind(s.var, s)
                known = known | {s.var}
            case st.Allocate():
                if s.buffer in buffers:
                    yield Broken(f"the buffer {s.buffer.name} is allocated within its own allocation", s, "allocate it once")
                buffers = buffers | {s.buffer}
        for part in parts(s):
            yield from self.stmt(part, known, buffers)

    def block(self, block: st.Block, known: set[ir.Var], buffers: set[Buffer]) -> Iterator[Broken]:
        for it in block.iters:
            yield from self.expr(it.binding, block, known, buffers)
        for it in block.iters:
            yield from self.bind(it.var, block)
        inside = known | {it.var for it in block.iters}
        yield from self.expr(block.predicate, block, inside, buffers)
        for region in (*block.reads, *block.writes):
            if region.buffer not in buffers:
                yield self.unknown(region.buffer, block)
            if len(region.ranges) != len(region.buffer.shape):
                yield _count(region.buffer, len(region.ranges), block)
            for r in region.ranges:
                yield from self.expr(r.min, block, inside, buffers)
                yield from self.expr(r.extent, block, inside, buffers)
        for s in (block.init, block.body):
            if s is not None:
                yield from self.stmt(s, inside, buffers)

    def store(self, s: st.Store, buffers: set[Buffer]) -> Iterator[Broken]:
        if s.buffer not in buffers:
            yield self.unknown(s.buffer, s)
        if len(s.indices) != len(s.buffer.shape):
            yield _count(s.buffer, len(s.indices), s)
        if s.value.dtype.scalar is not s.buffer.dtype.scalar:
            yield Broken(
                f"a value of {s.value.dtype} is stored in {s.buffer.name}, which holds {s.buffer.dtype}", s,
                f"convert it with .astype({str(s.buffer.dtype)!r})",
            )

    def expr(self, e: ir.Expr, at: st.Stmt, known: set[ir.Var], buffers: set[Buffer]) -> Iterator[Broken]:
        if isinstance(e, ir.IntImm) or (isinstance(e, ir.Var) and e in known):
            return
        inner: set[ir.Var] = set()
        for node in subexpressions(e):
            match node:
                case ir.Let():
                    inner.add(node.var)
                case ir.Var() if node not in known and node not in inner and node.dtype.code != "handle":
                    yield Broken(f"nothing sets the variable {node}", at, UNSET)
                case ir.Load() if node.buffer not in buffers:
                    yield self.unknown(node.buffer, at)
                case ir.Load() if len(node.indices) != len(node.buffer.shape):
                    yield _count(node.buffer, len(node.indices), at)
                case ir.ProducerLoad() | ir.Reduce():
                    yield Broken(
                        f"{node} belongs to tensor expressions, not to a lowered program", at, "lower the tensor expression",
                    )

    def unknown(self, buffer: Buffer, at: st.Stmt) -> Broken:
        return Broken(
            f"nothing allocates the buffer {buffer.name} here", at, "use it within its allocation, or make it a parameter",
        )


def _count(buffer: Buffer, given: int, at: st.Stmt) -> Broken:
    found = f"the buffer {buffer.name} has {len(buffer.shape)} dimensions, used with {given} indices"
    return Broken(found, at, "give one index a dimension")


def _expressions(s: st.Stmt) -> Iterator[ir.Expr]:
    """Yield the expressions that stand directly in a statement other than a block."""
    for field in s.fields:
        value = getattr(s, field)
        if isinstance(value, ir.Expr) and field != "var":
            yield value
        elif type(value) is tuple:
            for item in value:
                if isinstance(item, ir.Expr):
                    yield item
    if isinstance(s, st.Allocate):
        yield from s.buffer.shape
        yield from s.buffer.strides
