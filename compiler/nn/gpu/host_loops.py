"""Loops of extern operations as launches: those whose iterations are independent are threads, the others run in each thread.

Schedules cannot bind the loops of an extern body, which an operator writes itself.
"""

from collections.abc import Sequence
from math import prod

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import Allocate, Block, For, Function, LoopKind, Seq, Stmt, Store
from vtakit.compiler.ir.values import int_value, wrap
from vtakit.compiler.ir.walk import expressions, free_vars, replace_buffers, statements, subexpressions, substitute_stmt
from vtakit.compiler.nn.common import unflattened
from vtakit.compiler.nn.gpu.elements import THREADS
from vtakit.compiler.nn.gpu.machine import GpuMachine
from vtakit.compiler.passes.affine import linear
from vtakit.compiler.passes.base import PassError

MOST_STEPS = 1 << 16  # iterations in one thread: some milliseconds; more belong on a processor


def launch_host_loops(function: Function, machine: GpuMachine) -> Function:
    """Return a function in block form in which threads do what loops of the host would do to arrays.

    ``for i: for j: B[i, j] = A[j, i]``  ->  one launch with a thread for each pair
    ``for i: for j: B[i, I[i, j]] = …``  ->  one launch with a thread for each i, in which j runs in order

    Raises PassError for loops of too many iterations in one thread.
    """
    return function._replace(body=_Launcher(function, min(THREADS, machine.threads_per_block)).outside(function.body))


class _Launcher:
    def __init__(self, function: Function, threads: int) -> None:
        self.function, self.threads = function, threads

    def outside(self, s: Stmt) -> Stmt:
        """Return a statement around launches."""
        if isinstance(s, For) and s.kind is LoopKind.THREAD:
            return s
        if isinstance(s, Block):
            return s.replace(body=self.launches(s.body)) if _touches(s.body) and not s.iters else s
        return s.rebuild(self.outside, lambda e: e)

    def launches(self, s: Stmt, around: tuple[For, ...] = ()) -> Stmt:
        """Return the body of an extern operation as launches, within loops whose iterations are independent."""
        if isinstance(s, Seq):
            return st.seq(*[self.launches(part, around) for part in s.stmts])
        nest, body = [*around], s
        while isinstance(body, For):
            nest.append(body)
            body = body.body
        apart = _independent(nest, body)
        if len(apart) == len(nest) and isinstance(body, Seq):  # each part for all iterations, then the next one
            return st.seq(*[self.launches(part, tuple(nest)) for part in body.stmts])
        serial = [loop for loop in nest if loop not in apart]
        steps = prod([int_value(loop.extent) or 1 for loop in serial]) * _steps(body)
        if steps > MOST_STEPS:
            raise PassError(
                f"{steps:,} iterations of function {self.function.name!r} follow each other, each after the one before: one "
                f"thread of a GPU would take too long, at most {MOST_STEPS:,} are one thread's. Run it on a processor",
                self.function, s)
        for loop in reversed(serial):
            body = loop.replace(body=body, kind=LoopKind.SERIAL)
        return self._launch(apart, _private(body))

    def _launch(self, loops: Sequence[For], body: Stmt) -> Stmt:
        sizes = [int_value(loop.extent) or 0 for loop in loops]
        count = prod(sizes)
        if not count:
            return st.NOTHING
        # Where data say which element is written, a barrier would have to order the threads of a block: each has one.
        threads = 1 if _writes_by_data(body) else min(self.threads, count)
        block, thread = Var("blockIdx.x"), Var("threadIdx.x")
        place = block * threads + thread
        body = substitute_stmt(body, dict(zip([loop.var for loop in loops], unflattened(place, sizes), strict=True)))
        if count % threads:
            body = st.If(all_of(place < count), body)
        if threads > 1 or count == 1:
            body = For(thread, wrap(threads), body, LoopKind.THREAD, "threadIdx.x")
        else:
            body = substitute_stmt(body, {thread: wrap(0)})
        return For(block, wrap(-(-count // threads)), body, LoopKind.THREAD, "blockIdx.x")


def _touches(s: Stmt) -> bool:
    return any(isinstance(x, For) for x in statements(s)) or isinstance(s, Store)


def _writes_by_data(body: Stmt) -> bool:
    return any(isinstance(x, Store) and any(isinstance(node, Load) for index in x.indices for node in subexpressions(index))
               for x in statements(body))


def _steps(s: Stmt) -> int:
    """Return the iterations of the loops in a statement; a while loop counts as one."""
    own = (int_value(s.extent) or 1) if isinstance(s, For) else 1
    inner = [_steps(part) for part in s.inner()]
    return own * max(sum(inner), 1)


def _independent(nest: Sequence[For], body: Stmt) -> list[For]:
    """Return the loops of a nest whose iterations touch different elements of all that the body writes.

    An index of each such buffer, the same one in all accesses, is a number in a mixed radix of them.
    """
    own = {x.buffer.data for x in statements(body) if isinstance(x, Allocate)}
    accesses: dict[Var, list[tuple[Expr, ...]]] = {}
    written: set[Var] = set()
    for x in statements(body):
        if isinstance(x, Store):
            written.add(x.buffer.data)
            accesses.setdefault(x.buffer.data, []).append(x.indices)
    for e in expressions(body):
        for node in subexpressions(e):
            if isinstance(node, Load):
                accesses.setdefault(node.buffer.data, []).append(node.indices)
    apart = [loop for loop in nest if int_value(loop.extent) is not None]
    for data in written - own:
        apart = _apart(apart, accesses[data], {loop.var for loop in nest})
    return apart


def _apart(loops: list[For], indices: Sequence[tuple[Expr, ...]], around: set[Var]) -> list[For]:
    """Return those of the loops in whose iterations accesses at these indices of one buffer touch different elements."""
    found: set[Var] = set()
    extents = {loop.var: int_value(loop.extent) or 0 for loop in loops}
    for column in zip(*indices, strict=True):
        forms = [linear(e) for e in column]
        if any(form.terms != forms[0].terms or form.constant != forms[0].constant for form in forms):
            continue
        inner = free_vars(column[0]) - around
        terms = sorted(((abs(times), atom) for atom, times in forms[0].terms.items()), key=lambda term: term[0])
        reach = 0
        for times, atom in terms:
            if not isinstance(atom, Var) or atom not in extents or inner or times <= reach:
                break
            reach += times * (extents[atom] - 1)
        else:
            found |= {atom for _, atom in terms if isinstance(atom, Var)}
    return [loop for loop in loops if loop.var in found]


def _private(body: Stmt) -> Stmt:
    """Return what a thread runs with its allocations in memory of its own."""
    new = {x.buffer: Buffer(x.buffer.name, x.buffer.shape, x.buffer.dtype, "local")
           for x in statements(body) if isinstance(x, Allocate) and x.buffer.scope == "global"}
    return replace_buffers(body, new) if new else body
