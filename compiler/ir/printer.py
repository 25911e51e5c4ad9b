"""The IR as text for people: Python-like, with a mark where a message points.

Variables and buffers that share a name are told apart by a number, in the order in which they appear.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.dtypes import BOOL, FLOAT32, INT32, DType
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.sharing import with_names
from vtakit.compiler.ir.values import rounded, value_of

_LEVEL: dict[type[ir.Expr], int] = {
    ir.Or: 1, ir.And: 2, ir.Not: 3, ir.EQ: 4, ir.NE: 4, ir.LT: 4, ir.LE: 4, ir.BitOr: 5, ir.BitXor: 6, ir.BitAnd: 7,
    ir.ShiftLeft: 8, ir.ShiftRight: 8, ir.Add: 9, ir.Sub: 9, ir.Mul: 10, ir.Div: 10, ir.FloorDiv: 10, ir.FloorMod: 10,
}
_TOP, _TIGHT = 0, 12
_LOOP_WORD = {
    st.LoopKind.SERIAL: "range", st.LoopKind.PARALLEL: "parallel", st.LoopKind.VECTORIZED: "vectorized",
    st.LoopKind.UNROLLED: "unrolled",
}


class Names:
    """Distinct names of variables and buffers; buffers of one type over the same memory share theirs."""

    def __init__(self) -> None:
        self._of: dict[object, tuple[object, str]] = {}  # the object is kept, so that its id stays its own
        self._taken: set[str] = set()

    def __call__(self, thing: ir.Var | Buffer) -> str:
        key = (id(thing.data), thing.dtype) if isinstance(thing, Buffer) else id(thing)
        found = self._of.get(key)
        if found is None:
            name, count = thing.name or "v", 0
            while name in self._taken:
                count += 1
                name = f"{thing.name}_{count}"
            self._taken.add(name)
            found = self._of[key] = thing, name
        return found[1]


@deep()
def expr_text(e: ir.Expr, names: "Names | None" = None) -> str:
    """Return an expression on one line."""
    return _Exprs(names or Names()).whole(e)


class _Exprs:
    def __init__(self, names: Names) -> None:
        self.names = names

    def whole(self, e: ir.Expr) -> str:
        """Return an expression that is no operand as text; a large one has what it needs in several places written once."""
        return self.text(with_names(e, lambda read, where: True), _TOP)

    def many(self, items: "tuple[ir.Expr, ...]") -> str:
        return ", ".join(self.text(item, _TOP) for item in items)

    def text(self, e: ir.Expr, level: int) -> str:
        own = _LEVEL.get(type(e))
        if own is None:
            make = _WAYS.get(type(e))
            return make(self, e) if make else self.other(e)
        if isinstance(e, ir.Not):
            found = f"not {self.text(e.a, own)}"
        else:
            assert isinstance(e, ir.Binary)
            found = f"{self.text(e.a, own)} {e.symbol} {self.text(e.b, own + 1)}"
        return f"({found})" if own < level else found

    def other(self, e: ir.Expr) -> str:
        if isinstance(e, ir.Binary):
            return f"{e.symbol}({self.text(e.a, _TOP)}, {self.text(e.b, _TOP)})"
        return f"{type(e).__name__}({self.many(e.children())})"

    def integer(self, e: ir.IntImm) -> str:
        if e.dtype is BOOL:
            return "True" if e.value else "False"
        return str(e.value) if e.dtype is INT32 else f"{e.dtype}({e.value})"

    def floating(self, e: ir.FloatImm) -> str:
        number = repr(_shortest(e.value, e.dtype))
        return number if e.dtype is FLOAT32 else f"{e.dtype}({number})"

    def call(self, e: ir.Call) -> str:
        return f"{e.name}({self.many(e.args)})"

    def load(self, e: ir.Load) -> str:
        return f"{self.names(e.buffer)}[{self.many(e.indices)}]"

    def producer_load(self, e: ir.ProducerLoad) -> str:
        return f"{e.tensor.name}[{self.many(e.indices)}]"

    def let(self, e: ir.Let) -> str:
        return f"(let {self.names(e.var)} = {self.text(e.value, _TOP)} in {self.text(e.body, _TOP)})"

    def reduce(self, e: ir.Reduce) -> str:
        axes = ", ".join(self.names(axis.var) for axis in e.axes)
        source = self.text(e.source[0], _TOP) if len(e.source) == 1 else f"({self.many(e.source)})"
        condition = "" if value_of(e.condition) == 1 else f", where={self.text(e.condition, _TOP)}"
        init = f", init={self.many(e.init)}" if e.init else ""
        index = f"[{e.value_index}]" if len(e.source) > 1 else ""
        return f"{e.combiner.name}({source}, axis=[{axes}]{condition}{init}){index}"


_WAYS: dict[type[ir.Expr], Callable[[_Exprs, Any], str]] = {
    ir.Var: lambda p, e: p.names(e),
    ir.IntImm: _Exprs.integer,
    ir.FloatImm: _Exprs.floating,
    ir.StringImm: lambda p, e: repr(e.value),
    ir.Cast: lambda p, e: f"{e.dtype}({p.text(e.value, _TOP)})",
    ir.Select: lambda p, e: f"select({p.many((e.condition, e.true, e.false))})",
    ir.IfThenElse: lambda p, e: f"if_then_else({p.many((e.condition, e.true, e.false))})",
    ir.Ramp: lambda p, e: f"ramp({p.text(e.base, _TOP)}, {p.text(e.stride, _TOP)}, {e.lanes})",
    ir.Broadcast: lambda p, e: f"broadcast({p.text(e.value, _TOP)}, {e.lanes})",
    ir.Let: _Exprs.let,
    ir.Call: _Exprs.call,
    ir.Load: _Exprs.load,
    ir.ProducerLoad: _Exprs.producer_load,
    ir.Reduce: _Exprs.reduce,
}


class _Stmts:
    def __init__(self, names: Names, mark: object, blocks: bool) -> None:
        self.exprs, self.mark, self.blocks = _Exprs(names), mark, blocks
        self.names = names
        self.lines: list[str] = []

    def line(self, depth: int, text: str, node: object) -> None:
        head = "-->   " if node is not None and node is self.mark else "      " if self.mark is not None else ""
        self.lines.append(f"{head}{'    ' * depth}{text}".rstrip())

    def e(self, value: ir.Expr) -> str:
        return self.exprs.whole(value)

    def stmt(self, s: st.Stmt, depth: int) -> None:
        getattr(self, f"_{type(s).__name__.lower()}")(s, depth)

    def _notes(self, notes: Mapping[str, Any]) -> str:
        return "  # " + ", ".join(f"{key}={value}" for key, value in notes.items()) if notes else ""

    def _store(self, s: st.Store, depth: int) -> None:
        indices = self.exprs.many(s.indices)
        self.line(depth, f"{self.names(s.buffer)}[{indices}] = {self.e(s.value)}", s)

    def _evaluate(self, s: st.Evaluate, depth: int) -> None:
        self.line(depth, self.e(s.value), s)

    def _seq(self, s: st.Seq, depth: int) -> None:
        for part in s.stmts:
            self.stmt(part, depth)
        if not s.stmts:
            self.line(depth, "pass", s)

    def _for(self, s: st.For, depth: int) -> None:
        word = _LOOP_WORD.get(s.kind) or f"bind[{s.thread}]"
        self.line(depth, f"for {self.names(s.var)} in {word}({self.e(s.extent)}):{self._notes(s.notes)}", s)
        self.stmt(s.body, depth + 1)

    def _while(self, s: st.While, depth: int) -> None:
        self.line(depth, f"while {self.e(s.condition)}:", s)
        self.stmt(s.body, depth + 1)

    def _if(self, s: st.If, depth: int) -> None:
        self.line(depth, f"if {self.e(s.condition)}:", s)
        self.stmt(s.then, depth + 1)
        if s.otherwise is not None:
            self.line(depth, "else:", None)
            self.stmt(s.otherwise, depth + 1)

    def _letstmt(self, s: st.LetStmt, depth: int) -> None:
        self.line(depth, f"{self.names(s.var)} = {self.e(s.value)}", s)
        self.stmt(s.body, depth)

    def _allocate(self, s: st.Allocate, depth: int) -> None:
        self.line(depth, f"{self.names(s.buffer)} = allocate({_buffer_type(s.buffer, self.e)}){self._notes(s.notes)}", s)
        self.stmt(s.body, depth)

    def _attr(self, s: st.Attr, depth: int) -> None:
        about = f"{self.names(s.node)}." if isinstance(s.node, ir.Var | Buffer) else ""
        value = self.e(s.value) if isinstance(s.value, ir.Expr) else s.value
        self.line(depth, f"# {about}{s.key} = {value}", s)
        self.stmt(s.body, depth)

    def _block(self, s: st.Block, depth: int) -> None:
        names = ", ".join(f"{self.names(i.var)} = {self.e(i.binding)}" for i in s.iters)
        where = "" if value_of(s.predicate) == 1 else f" where {self.e(s.predicate)}"
        self.line(depth, f"block {s.name}({names}){where}:{self._notes(s.notes)}", s)
        if self.blocks:
            domains = "; ".join(f"{self.names(i.var)}: {i.kind.value} {self._range(i.dom)}" for i in s.iters)
            self.line(depth + 1, f"# {domains}", None)
            for word, regions in (("reads", s.reads), ("writes", s.writes)):
                self.line(depth + 1, f"# {word} " + ", ".join(map(self._region, regions)), None)
        if s.init is not None:
            self.line(depth + 1, "init:", None)
            self.stmt(s.init, depth + 2)
        self.stmt(s.body, depth + 1)

    def _range(self, r: Range) -> str:
        end = value_of(r.min + r.extent)
        if value_of(r.extent) == 1:
            return self.e(r.min)
        return f"{self.e(r.min)}:{end if end is not None else self.e(r.min + r.extent)}"

    def _region(self, r: st.Region) -> str:
        return f"{self.names(r.buffer)}[{', '.join(map(self._range, r.ranges))}]"


def _shortest(value: float, dtype: DType) -> float:
    """Return a number of few digits that a type rounds to the same value."""
    exact = rounded(value, dtype)
    if dtype.bits == 64 or not math.isfinite(exact) or len(repr(exact)) < 10:
        return value
    short = (float(f"{exact:.{digits}g}") for digits in range(1, 10))
    return next(number for number in short if rounded(number, dtype) == exact)


def _buffer_type(buffer: Buffer, e: Callable[[ir.Expr], str]) -> str:
    shape = ", ".join(map(e, buffer.shape))
    return f"{buffer.dtype}[{shape}]" + (f", {buffer.scope}" if buffer.scope != "global" else "")


@deep()
def stmt_text(s: st.Stmt, mark: object = None, names: Names | None = None, *, blocks: bool = False) -> str:
    """Return a statement as lines of text.

    mark   : the statement that an arrow points at
    blocks : whether blocks show the domains of their iterators and what they read and write
    """
    printer = _Stmts(names or Names(), mark, blocks)
    printer.stmt(s, 0)
    return "\n".join(printer.lines)


@deep()
def function_text(f: st.Function, mark: object = None, *, blocks: bool = False) -> str:
    """Return a function as lines of text."""
    names = Names()
    exprs = _Exprs(names)
    params = ", ".join(
        f"{names(p)}: {_buffer_type(p, lambda e: exprs.text(e, _TOP)) if isinstance(p, Buffer) else p.dtype}" for p in f.params
    )
    printer = _Stmts(names, mark, blocks)
    where = f" where {exprs.text(all_of(*[r.condition for r in f.requires]), _TOP)}" if f.requires else ""
    printer.line(0, f"def {f.name}({params}){where}:", None)
    printer.stmt(f.body, 1)
    return "\n".join(printer.lines)
