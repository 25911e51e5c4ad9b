"""Statements as lines of Python, each line with the statement that it comes from, for messages."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.values import int_value, value_of
from vtakit.compiler.lower.interpreter.errors import InterpretError
from vtakit.compiler.lower.interpreter.expressions import Expressions
from vtakit.compiler.lower.interpreter.support import CALLED, NOT_SHARED, is_step, no_change, views

_DEEPEST = 15  # Python allows 20 nested loops in one function
_SHUFFLES = ("shuffle", "shuffle_down")


class Statements:
    """The translator of one function's body."""

    def __init__(
        self, body: st.Stmt, packed: Mapping[str, Callable[..., Any]], *, implicit_barriers: bool, tracked: bool
    ) -> None:
        self.packed = packed
        self.views = views(body)
        self.exprs = Expressions(packed)
        self.implicit, self.tracked = implicit_barriers, tracked
        self.lines: list[str] = []
        self.sources: list[st.Stmt | None] = []
        self._depth, self._loops = 1, 0
        self._launch = False  # within parallel, block or thread loops
        self._threads: list[ir.Var] = []  # of the thread loops around
        self._sites = 0
        self._reducers: list[Any] = []
        self._source: st.Stmt | None = None
        self.exprs.globals |= CALLED

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)
        self.sources.append(self._source)

    @contextmanager
    def _indent(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def stmt(self, s: st.Stmt) -> None:
        way = _WAYS.get(type(s))
        if way is None:
            raise InterpretError(f"the interpreter runs no {type(s).__name__}")
        around, self._source = self._source, s
        way(self, s)
        self._source = around
        if self.implicit and self._threads and is_step(s):
            self.line(f"yield {self._arrival('implicit')}")

    def _arrival(self, kind: str, payload: str = "()") -> str:
        """A thread's arrival at a barrier of its own number."""
        self._sites += 1
        return f"[Arrival({self._sites}, {kind!r}, position.path, {payload})]"

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

    def _evaluate(self, s: st.Evaluate) -> None:
        e = s.value
        if self.exprs.mask:
            raise InterpretError(f"{e} stands under a condition that differs between lanes")
        if not (isinstance(e, ir.Call) and e.kind == "effect"):
            self.line(self.exprs.vector(e))
            return
        text = self.exprs.text
        if e.name == "sync":
            scope = e.args[0]
            assert isinstance(scope, ir.StringImm)
            if self._threads:
                self.line(f"yield {self._arrival(scope.value)}")
        elif e.name == "assert_that":
            self.line(f"check_that({text(e.args[0])}, {text(e.args[1])})")
        elif e.name == "call_packed":
            self._packed_call(e)
        elif e.name == "allreduce":
            self._all_reduce(s, e)
        elif e.name == "prefetch":
            self.line("pass")
        else:
            self.line(self.exprs.vector(e))

    def _packed_call(self, e: ir.Call) -> None:
        name = e.args[0]
        assert isinstance(name, ir.StringImm)
        if name.value not in self.packed:
            raise InterpretError(
                f"call_packed of {name.value!r}: give interpret(…, packed={{{name.value!r}: a Python function}})"
            )
        function = self.exprs.define(name.value, self.packed[name.value])
        self.line(f"call_packed({function}, [{', '.join(map(self.exprs.text, e.args[1:]))}])")

    def _all_reduce(self, s: st.Stmt, e: ir.Call) -> None:
        """``allreduce(number, values…, condition, addresses…, threads…)`` within an Attr "reducer"."""
        if not self._reducers:
            raise InterpretError('allreduce stands in no Attr("reducer", combiner, …), which says how values are combined')
        number = int_value(e.args[0])
        assert number is not None
        values, condition = e.args[1 : 1 + number], e.args[1 + number]
        results, threads = e.args[2 + number : 2 + 2 * number], e.args[2 + 2 * number :]
        combiner = self._reducers[-1]
        combine = self._combiner(combiner)
        text = self.exprs.text
        group = "".join(f"{self.exprs.names[var]}, " for var in self._threads if var not in threads)
        given = "".join(f"{text(value)}, " for value in values)
        identity = "".join(f"{text(value)}, " for value in combiner.identity)
        payload = f"(({group}), ({given}) if {text(condition)} else None, {combine}, ({identity}))"
        answer = self.exprs.fresh("answer")
        self.line(f"{answer} = (yield {self._arrival('allreduce', payload)}).answers[position.path]")
        for i, result in enumerate(results):
            self.line(f"{text(result)}[0] = {answer}[{i}]")

    def _combiner(self, combiner: Any) -> str:
        """A global function of two partial results."""
        names = [self.exprs.bind(var) for var in (*combiner.lhs, *combiner.rhs)]
        result = "".join(f"{self.exprs.text(value)}, " for value in combiner.result)
        found = eval(f"lambda {', '.join(names)}: ({result})", self.exprs.globals)  # text of our own making
        return self.exprs.define("combine", found)

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
