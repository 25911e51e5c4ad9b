"""Statements as lines of Python, each line with the statement that it comes from, for messages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.fragments import is_fragment, lanes_of
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.lower.interpreter.effects import Effects
from vtakit.compiler.lower.interpreter.errors import InterpretError
from vtakit.compiler.lower.interpreter.support import NOT_SHARED, is_step, no_change
from vtakit.compiler.lower.interpreter.warps import holders

_DEEPEST = 15  # Python allows 20 nested loops in one function
_SHUFFLES = ("shuffle", "shuffle_down")


class Statements(Effects):
    """The translator of one function's body."""

    def stmt(self, s: st.Stmt) -> None:
        way = _WAYS.get(type(s))
        if way is None:
            raise InterpretError(f"the interpreter runs no {type(s).__name__}")
        around, self._source = self._source, s
        way(self, s)
        self._source = around
        if self.implicit and self._threads and is_step(s):
            self.line(f"yield {self._arrival('implicit')}")

    # Leaves

    def _store(self, s: st.Store) -> None:
        lanes = max([s.value.dtype.lanes, *[index.dtype.lanes for index in s.indices]])
        lanes = max(lanes, s.buffer.dtype.lanes)
        cells = self.exprs.cells(s.buffer)
        if isinstance(s.value, ir.Call) and s.value.kind == "effect" and s.value.name in _SHUFFLES:
            value, at, width = map(self.exprs.text, s.value.args)
            answer = f"(yield {self._arrival(s.value.name, f'({value}, {at}, {width})')}).answers[position.path]"
            self.line(f"{cells}[{self.exprs.cell(s.buffer, s.indices, '')}] = {answer}")
            return
        if self.exprs.mask and (lanes == 1 or all(index.dtype.lanes == 1 for index in s.indices)):
            raise InterpretError(f"a store to one element of {s.buffer.name} stands under a condition that differs between lanes")
        if lanes == 1:
            self.line(f"{cells}[{self.exprs.cell(s.buffer, s.indices, '')}] = {self.exprs.text(s.value)}")
            return
        values, lane = self.exprs.fresh("values"), self.exprs.fresh("lane")
        active = self.exprs.active(lane)
        self.line(f"{values} = {{{lane}: {self.exprs.text(s.value, lane)} for {lane} in range({lanes}){active}}}")
        self.line(f"for {lane} in {values}:")
        with self._indent():
            self.line(f"{cells}[{self.exprs.cell(s.buffer, s.indices, lane)}] = {values}[{lane}]")

    # Structure

    def _seq(self, s: st.Seq) -> None:
        for part in s.stmts:
            self.stmt(part)
        if not s.stmts:
            self.line("pass")

    def _for(self, s: st.For) -> None:
        extent = self.exprs.code(s.extent)
        if s.kind is st.LoopKind.THREAD and s.thread.startswith("threadIdx"):
            self._thread_loop(s, extent.text, extent.high)
            return
        blocks = s.thread.startswith("blockIdx") and not self._threads
        begins = (blocks or s.kind is st.LoopKind.PARALLEL) and not self._launch
        opens = blocks or begins
        with self._function():
            if begins:
                self._launch = True
                self.line("position.begin()")
            name = self.exprs.bind(s.var, 0, extent.high - 1)
            self.line(f"for {name} in range({extent.text}):")
            with self._indent():
                if opens:
                    self.line("position.next_block()")
                self.stmt(s.body)
            if begins:
                self._launch = False
                self.line("position.end()")

    @contextmanager
    def _function(self) -> Iterator[None]:
        """A loop's lines; in a function of their own where Python would allow no more nesting."""
        self._loops += 1
        if self._loops % _DEEPEST:
            yield
        else:
            name, thread = self.exprs.fresh("deeper"), bool(self._threads)
            self.line(f"def {name}():")
            with self._indent():
                if thread:
                    self.line("yield from ()")
                yield
            self.line(f"yield from {name}()" if thread else f"{name}()")
        self._loops -= 1

    def _thread_loop(self, s: st.For, extent: str, most: float) -> None:
        begins = not self._launch
        outermost = not self._threads
        if begins:
            self._launch = True
            self.line("position.begin()")
        body, index = self.exprs.fresh("thread"), self.exprs.bind(s.var, 0, most - 1)
        self._threads.append(s.var)
        self.line(f"def {body}({index}):")
        loops, self._loops = self._loops, 0
        with self._indent():
            self.line("yield from ()")
            self.stmt(s.body)
        self._loops = loops
        self._threads.pop()
        self.line(f"{'run' if outermost else 'yield from lockstep'}(position, {s.thread!r}, {body}, {extent})")
        if begins:
            self._launch = False
            self.line("position.end()")

    def _while(self, s: st.While) -> None:
        with self._function():
            self.line(f"while {self.exprs.text(s.condition)}:")
            with self._indent():
                self.stmt(s.body)

    def _if(self, s: st.If) -> None:
        if s.condition.dtype.lanes > 1:
            self._if_lanes(s)
            return
        self.line(f"if {self.exprs.text(s.condition)}:")
        with self._indent():
            self.stmt(s.then)
        if s.otherwise is not None:
            self.line("else:")
            with self._indent():
                self.stmt(s.otherwise)

    def _if_lanes(self, s: st.If) -> None:
        """Each branch in the lanes that it is for."""
        outer, condition = self.exprs.mask, self.exprs.fresh("mask")
        self.line(f"{condition} = {self.exprs.vector(s.condition)}")
        for branch, word in ((s.then, ""), (s.otherwise, "not ")):
            if branch is not None:
                self.exprs.mask = self.exprs.fresh("mask")
                around = f"{outer}[lane] and " if outer else ""
                self.line(f"{self.exprs.mask} = [{around}{word}{condition}[lane] for lane in range({s.condition.dtype.lanes})]")
                self.stmt(branch)
        self.exprs.mask = outer

    def _let(self, s: st.LetStmt) -> None:
        value = self.exprs.code(s.value) if s.value.dtype.lanes == 1 else None
        text = value.text if value else self.exprs.vector(s.value)
        name = self.exprs.bind(s.var, value.low, value.high) if value else self.exprs.bind(s.var)
        self.line(f"{name} = {text}")
        self.stmt(s.body)

    def _allocate(self, s: st.Allocate) -> None:
        buffer = s.buffer
        text = " * ".join([*(self.exprs.text(extent) for extent in buffer.shape), str(buffer.dtype.lanes)])
        if buffer.strides:
            steps = zip(buffer.shape, buffer.strides, strict=True)
            text = "1 + " + " + ".join(f"({self.exprs.text(e)} - 1) * {self.exprs.text(stride)}" for e, stride in steps)
        views = self.views[buffer.data]
        if len(views) > 1:  # read and written as several types: its cells are bytes
            text = f"({text}) * {buffer.dtype.scalar.bytes}"
        name = self.exprs.fresh(buffer.name)
        cells = f"[UNDEFINED] * ({text})"
        shared = f"Tracked({cells}, position, {buffer.name!r})"
        if self._threads and buffer.scope == "shared":
            self.line(f"{name} = position.of_block({id(s)}, lambda: {shared})")
        elif self._threads and is_fragment(buffer.scope):
            held = self.exprs.define("held", holders(buffer))
            lanes = lanes_of(buffer.scope)
            made = f"Held({cells}, position, {buffer.name!r}, {held}, {lanes})"
            self.line(f"{name} = position.of_warp({id(s)}, lambda: {made}, {lanes})")
        elif self._threads and buffer.scope == "warp":
            self.line(f"{name} = position.of_warp({id(s)}, lambda: {cells})")
        elif self._launch and not self._threads and buffer.scope in NOT_SHARED:
            self.line(f"{name} = Private({text}, position)")
        else:
            self.line(f"{name} = {shared if self.tracked and not self._threads else cells}")
        self.exprs.memory[buffer.data] = name
        for kind in views if len(views) > 1 else ():
            view = self.exprs.fresh(buffer.name)
            self.line(f"{view} = View({name}, {kind.bytes}, {str(kind)!r})")
            self.exprs.typed[buffer.data, kind] = view
        self.stmt(s.body)

    def _attr(self, s: st.Attr) -> None:
        if s.key == "reducer":
            self._reducers.append(s.node)
            self.stmt(s.body)
            self._reducers.pop()
        else:
            self.stmt(s.body)

    def _block(self, s: st.Block) -> None:
        for it in s.iters:
            value = self.exprs.code(it.binding)
            self.line(f"{self.exprs.bind(it.var, value.low, value.high)} = {value.text}")
        guarded = value_of(s.predicate) != 1
        if guarded:
            self.line(f"if {self.exprs.text(s.predicate)}:")
        with self._indent() if guarded else no_change():
            self._block_body(s)

    def _block_body(self, s: st.Block) -> None:
        firsts = []
        for it in s.iters:
            name = self.exprs.names[it.var]
            low, extent = self.exprs.code(it.dom.min), self.exprs.code(it.dom.extent)
            bounds = self.exprs.bounds[it.var]
            if not (low.high <= bounds[0] and bounds[1] < low.low + extent.low):
                self.line(f"if not {low.text} <= {name} < {low.text} + {extent.text}:")
                with self._indent():
                    self.line(f"block_outside({s.name!r}, {it.var.name!r}, {name}, {low.text}, {extent.text})")
            if it.kind is IterKind.REDUCE:
                firsts.append(f"{name} == {low.text}")
        if s.init is not None:
            if firsts:
                self.line(f"if {' and '.join(firsts)}:")
            with self._indent() if firsts else no_change():
                self.stmt(s.init)
        self.stmt(s.body)


_WAYS: dict[type[st.Stmt], Callable[[Statements, Any], None]] = {
    st.Store: Statements._store, st.Evaluate: Statements._evaluate, st.Seq: Statements._seq, st.For: Statements._for,
    st.While: Statements._while, st.If: Statements._if, st.LetStmt: Statements._let, st.Allocate: Statements._allocate,
    st.Attr: Statements._attr, st.Block: Statements._block,
}
