"""Translation of effects to lines of Python: calls, barriers, reductions across threads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.warp_calls import WARP_CALLS
from vtakit.compiler.lower.interpreter.errors import InterpretError
from vtakit.compiler.lower.interpreter.expressions import Expressions
from vtakit.compiler.lower.interpreter.support import CALLED, views
from vtakit.compiler.lower.interpreter.warps import ASYNCHRONOUS, COLLECTIVE


class Effects:
    """The lines that a translator writes, and what it has met on its way: loops over threads, reducers."""

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

    def _arrival(self, kind: str, payload: str = "()") -> str:
        """A thread's arrival at a barrier of its own number."""
        self._sites += 1
        return f"[Arrival({self._sites}, {kind!r}, position.path, {payload})]"

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
        elif e.name in WARP_CALLS and e.name not in self.packed:
            self._warp_call(e)
        elif e.name in ASYNCHRONOUS:
            self.line(f"{e.name}(position, [{', '.join(map(text, e.args))}])")
        else:
            self.line(self.exprs.vector(e))

    def _warp_call(self, e: ir.Call) -> None:
        """A call that lanes make together: each arrives with its arguments, and goes on when the call is done."""
        args = f"({e.name!r}, [{', '.join(map(self.exprs.text, e.args))}])"
        self.line(f"yield {self._arrival(COLLECTIVE, args)}" if self._threads else f"alone{args}")

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
