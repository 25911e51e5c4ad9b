"""Statements of one kernel as lines of text."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.codegen.clike.accesses import pieces
from vtakit.compiler.codegen.clike.dialect import Memory
from vtakit.compiler.codegen.clike.expressions import Expressions
from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.clike.text import bare
from vtakit.compiler.codegen.lanes import lanes_of
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.ir.walk import subexpressions


class Statements(Expressions):
    """The translator of a kernel's body."""

    def run(self, s: st.Stmt) -> None:
        """Add the lines of a statement."""
        way = _RUNS.get(type(s))
        if way is None:
            raise CodegenError(f"{type(s).__name__} cannot be written in {self.dialect.name}: run "
                               'vtakit.compiler.passes.lower_late(f, "gpu") first')
        way(self, s)

    def _seq(self, s: st.Seq) -> None:
        for part in s.stmts:
            self.run(part)

    def _attr(self, s: st.Attr) -> None:
        self.run(s.body)

    # Memory

    def _store(self, s: st.Store) -> None:
        if isinstance(s.value, ir.Call) and s.value.name in ("shuffle", "shuffle_down"):
            self._shuffle(s, s.value)
            return
        index, place = s.indices[0], self.place(s.buffer)
        wanted = s.buffer.dtype.with_lanes(index.dtype.lanes * s.buffer.dtype.lanes)
        if len(s.indices) != 1 or s.value.dtype is not wanted:
            raise CodegenError(f"{s.buffer.name}[{', '.join(map(str, s.indices))}] = {s.value} stores {s.value.dtype} where the "
                               f"buffer and the index ask for {wanted}")
        with self.together(index, s.value):
            source = self._copied(s)
            if isinstance(s.value, ir.Load) and source is not None:
                place = place.cells() or place
                texts = [self.cell(s.value, lane, source) for lane in range(index.dtype.lanes)]
            else:
                texts = [self.text(s.value, lane) for lane in range(index.dtype.lanes)]
                texts = texts if place.direct else [self.to_element(text, s.buffer.dtype) for text in texts]
            if index.dtype.lanes == 1:
                self.line(place.write(self.index(index), bare(texts[0])))
            else:
                self._store_lanes(s, index, place, texts)

    def _copied(self, s: st.Store) -> Place | None:
        """Return the place whose elements a store copies as they are; None if it computes, or memory differs in its elements."""
        if not (isinstance(s.value, ir.Load) and s.value.buffer.dtype.scalar is s.buffer.dtype.scalar):
            return None
        return self.place(s.value.buffer).cells() if self.place(s.buffer).cells() else None

    def _store_lanes(self, s: st.Store, index: ir.Expr, place: Place, texts: list[str]) -> None:
        lanes, dtype = index.dtype.lanes, s.buffer.dtype
        run = lanes_of(index)
        contiguous = run is not None and value_of(run.stride) == 1
        parts = [*pieces(lanes, self.dialect.widths if contiguous and place.wide else ())]
        if len(parts) > 1 and any(isinstance(x, ir.Load) for x in subexpressions(s.value)):
            texts = [self._held(text, dtype, place) for text in texts]  # all lanes are read before the first is written
        if run is not None and contiguous:
            at = self.index(run.base)
            for first, width in parts:
                where = self.offset(at, first)
                values = [bare(text) for text in texts[first:first + width]]
                self.line(place.write(where, values[0]) if width == 1 else place.write_run(where, values))
            return
        places = [self.index(index, lane) for lane in range(lanes)]
        for where, text in zip(places, texts, strict=True):
            self.line(place.write(where, bare(text)))

    def _held(self, text: str, dtype: DType, place: Place) -> str:
        """Return a name for what is written to a place."""
        if place.direct:
            return self.named(text, dtype)
        if text.isidentifier():
            return text
        name = self.names.fresh("t")
        self.line(self.dialect.held(name, dtype, bare(text)))
        return name

    def _shuffle(self, s: st.Store, e: ir.Call) -> None:
        with self.together(s.indices[0], *e.args):
            width = value_of(e.args[2])
            assert isinstance(width, int), e
            value, by = self.text(e.args[0]), self.text(e.args[1])
            text = self.dialect.shuffle(e.name, value, by, width, e.args[0].dtype)
            place = self.place(s.buffer)
            text = text if place.direct else self.to_element(text, s.buffer.dtype)
            self.line(place.write(self.index(s.indices[0]), bare(text)))

    def _allocate(self, s: st.Allocate) -> None:
        """Add memory of the thread's own. That of a block is no statement: see `kernel`."""
        size = value_of(s.buffer.shape[0])
        assert isinstance(size, int), s  # launches have no other
        dtype = s.buffer.dtype.scalar
        memory = self.dialect.own(self.names.fresh(s.buffer.name), dtype, max(1, size * s.buffer.dtype.lanes))
        self.line(memory.declaration)
        self.hold(s.buffer.data, memory)
        self.run(s.body)

    def hold(self, data: ir.Var, memory: Memory) -> None:
        """Make memory known by a buffer's address."""
        for dtype, place in memory.places.items():
            self.places[data, dtype] = place

    # Control

    def _for(self, s: st.For) -> None:
        if s.kind not in (st.LoopKind.SERIAL, st.LoopKind.UNROLLED):
            raise CodegenError(f"the loop over {s.var.name} is {s.kind.value}, which no kernel has: split the function into "
                               "launches first, by vtakit.compiler.codegen.gpu.split")
        with self.together(s.extent):
            extent = self.text(s.extent)
            if value_of(s.extent) is None and not extent.isidentifier():
                extent = self.named(extent, s.extent.dtype, "extent")
        name = self.names.fresh(s.var.name)
        self.vars[s.var] = (name,)
        self.indices.add(s.var)
        self.line(self.dialect.loop(name, s.var.dtype, extent))
        with self.indent():
            self.run(s.body)
        self.line("}")

    def _while(self, s: st.While) -> None:
        self.line("while (true) {")
        with self.indent():
            with self.together(s.condition):
                condition = self.text(s.condition)
            self.line(f"if (!{condition}) {{")
            self.line("  break;")
            self.line("}")
            self.run(s.body)
        self.line("}")

    def _if(self, s: st.If) -> None:
        if s.condition.dtype.lanes > 1:
            raise CodegenError(f"the condition {s.condition} has {s.condition.dtype.lanes} lanes: run the vectorize pass first")
        with self.together(s.condition):
            condition = bare(self.text(s.condition))
        self.line(f"if ({condition}) {{")
        with self.indent():
            self.run(s.then)
        if s.otherwise is not None:
            self.line("} else {")
            with self.indent():
                self.run(s.otherwise)
        self.line("}")

    def _let_stmt(self, s: st.LetStmt) -> None:
        with self.together(s.value):
            self.bind(s.var, s.value)
        self.run(s.body)

    def _evaluate(self, s: st.Evaluate) -> None:
        e = s.value
        if not isinstance(e, ir.Call):
            return  # a value that nobody reads
        if e.name == "sync":
            scope = e.args[0]
            assert isinstance(scope, ir.StringImm)
            if scope.value != "shared":
                raise CodegenError(f"{e} waits for the threads of a {scope.value}: {self.dialect.name} has barriers of whole "
                                   "blocks")
            self.line(self.dialect.barrier())
        elif e.name == "prefetch":
            return
        elif e.kind == "effect" or e.kind == "extern":
            raise CodegenError(self.dialect.conversion(e))


_RUNS: dict[type[st.Stmt], Callable[[Statements, Any], None]] = {
    st.Seq: Statements._seq, st.Attr: Statements._attr, st.Store: Statements._store, st.Allocate: Statements._allocate,
    st.For: Statements._for, st.While: Statements._while, st.If: Statements._if, st.LetStmt: Statements._let_stmt,
    st.Evaluate: Statements._evaluate,
}
