"""The body of one launch: thread loops become indices, shared allocations become offsets."""


from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.layouts import ALIGNMENT
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_expr, map_stmt, statements, subexpressions, substitute_stmt

THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
ALIGN = 16  # bytes, of a shared allocation: the widest access of a thread
_SHARED, _OWN = "shared", ("local", "global")


def is_thread_loop(s: Stmt) -> bool:
    """Return whether a statement is a loop over blocks or threads of a GPU."""
    return isinstance(s, st.For) and s.kind is LoopKind.THREAD


class Kernel:
    """The body that one thread runs.

    extents : of the loops over each tag
    indices : variables of loops over threads and blocks -> tag
    shared  : shared memory as (buffer, offset, bytes)
    """

    def __init__(self, function: Function, s: Stmt) -> None:
        self.function = function
        self.extents: dict[str, list[Expr]] = {}
        self.indices: dict[Var, str] = {}
        self.shared: list[tuple[Buffer, int, int]] = []
        for loop in statements(s):
            if isinstance(loop, st.For) and loop.kind is LoopKind.THREAD:
                self._known(loop)
                found = self.extents.setdefault(loop.thread, [])
                if all(str(loop.extent) != str(extent) for extent in found):
                    found.append(loop.extent)
        self.varying: set[Expr] = {x.var for x in statements(s) if isinstance(x, st.LetStmt)}
        self.varying |= {x.var for x in statements(s) if isinstance(x, st.For) and not x.thread.startswith("blockIdx")}
        self.threads = {tag for tag in self.extents if tag in THREADS and any(int_value(e) != 1 for e in self.extents[tag])}
        body = _settled(map_stmt(self._block(s, frozenset()), _serial))
        self.body = self._allocated(body, 0)[0]

    def _known(self, loop: st.For) -> None:
        if not loop.thread.startswith(("blockIdx.", "threadIdx.")) or loop.thread[-1] not in "xyz":
            raise CodegenError(f"the loop over {loop.var.name} of {self.function.name} is bound to {loop.thread}, which no "
                               "kernel has: run vtakit.compiler.passes.lower_late(f, 'gpu') first")

    # Loops

    def _block(self, s: Stmt, inside: frozenset[str]) -> Stmt:
        """Return a statement that runs once a block, outside of all its thread loops: its parts are kept apart by barriers."""
        if isinstance(s, st.For) and s.kind is LoopKind.THREAD:
            if s.thread in THREADS:
                return self._thread(s, inside)
            return self._index(s, self._block(s.body, inside))
        if not self.threads:
            return s.rebuild(lambda part: self._block(part, inside), lambda e: e) if _has_loops(s) else s
        if not _has_loops(s):
            return self._first(s, inside) if _acts(s) else s
        if isinstance(s, st.Seq):
            done: list[Stmt] = []
            acted = False
            for part in s.stmts:
                acts = _acts(part)
                if acts and acted:
                    done.append(barrier())
                done.append(self._block(part, inside))
                acted = acted or acts
            return st.seq(*done)
        if isinstance(s, st.For | st.While):
            test = s.extent if isinstance(s, st.For) else s.condition
            self._uniform(test)
            return s.replace(body=st.seq(self._block(s.body, inside), barrier()))
        if isinstance(s, st.If | st.LetStmt):
            self._uniform(s.condition if isinstance(s, st.If) else s.value)
        return s.rebuild(lambda part: self._block(part, inside), lambda e: e)

    def _uniform(self, e: Expr) -> None:
        read = next((x.buffer.name for x in subexpressions(e) if isinstance(x, Load)), None)
        if read is not None:
            raise CodegenError(f"a block of {self.function.name} decides by {e}, which reads {read}, outside of its threads: "
                               "bind the axis of that stage to threadIdx too")

    def _thread(self, s: st.For, inside: frozenset[str]) -> Stmt:
        """Return the body of a loop over threads, in which thread loops of other tags may be."""
        return self._index(s, self._threaded(s.body, inside | {s.thread}))

    def _threaded(self, s: Stmt, inside: frozenset[str]) -> Stmt:
        if isinstance(s, st.For) and s.kind is LoopKind.THREAD:
            return self._thread(s, inside) if s.thread in THREADS else self._index(s, self._threaded(s.body, inside))
        if not _has_loops(s):
            return s if self.threads <= inside or not _acts(s) else self._first(s, inside)
        return s.rebuild(lambda part: self._threaded(part, inside), lambda e: e)

    def _index(self, s: st.For, body: Stmt) -> Stmt:
        """Return the body of a loop with its variable as an index, where the loop has an iteration for the thread."""
        if all(int_value(extent) == 1 for extent in self.extents[s.thread]):
            return substitute_stmt(body, {s.var: IntImm(0, s.var.dtype)})
        var = next((v for v, tag in self.indices.items() if tag == s.thread and v.dtype is s.var.dtype), None)
        if var is None:
            self.indices[s.var] = s.thread
            var = s.var
        else:
            body = substitute_stmt(body, {s.var: var})
        if len(self.extents[s.thread]) == 1:
            return body
        sizes = [int_value(extent) for extent in self.extents[s.thread]]
        own = int_value(s.extent)
        if own is not None and None not in sizes and own == max(size for size in sizes if size is not None):
            return body
        if s.thread in THREADS and any(map(is_barrier, statements(body))):
            raise CodegenError(f"{s.thread} of {self.function.name} has {own} threads in one place and more in another, and "
                               "those synchronise: split the axes by the same factor")
        return st.If(var < s.extent, body)

    def _first(self, s: Stmt, inside: frozenset[str]) -> Stmt:
        """Return a statement as the first thread of each missing index runs it."""
        if any(map(is_barrier, statements(s))):
            raise CodegenError(f"{self.function.name} has a barrier outside of its thread loops: {s}")
        return st.If(all_of(*(self._var(tag) == 0 for tag in sorted(self.threads - inside))), s)

    def _var(self, tag: str) -> Var:
        found = next((var for var, known in self.indices.items() if known == tag), None)
        if found is None:
            found = Var(tag, self.extents[tag][0].dtype)
            self.indices[found] = tag
        return found

    # Memory

    def _allocated(self, s: Stmt, base: int) -> tuple[Stmt, int]:
        """Return a statement without its shared allocations, which begin at `base`, and the end of the last."""
        if isinstance(s, st.Allocate):
            if s.buffer.scope == _SHARED:
                align = ALIGNMENT if s.buffer.swizzle else ALIGN
                start = -(-base // align) * align
                size = self._constant(s.buffer) * s.buffer.dtype.bytes
                self.shared.append((s.buffer, start, size))
                return self._allocated(s.body, start + size)
            if s.buffer.scope not in _OWN:
                raise CodegenError(f"{s.buffer.name} of {self.function.name} is in {s.buffer.scope} memory, which kernels have "
                                   "not: use set_scope with 'shared' or 'local'")
            self._constant(s.buffer)
            body, end = self._allocated(s.body, base)
            return s.replace(body=body), end
        if isinstance(s, st.If) and s.otherwise is not None and self._same_for_all(s.condition):
            then, first = self._allocated(s.then, base)
            otherwise, second = self._allocated(s.otherwise, base)
            return s.replace(then=then, otherwise=otherwise), max(first, second)
        end = base

        def visit(part: Stmt) -> Stmt:
            nonlocal end
            new, end = self._allocated(part, end)
            return new
        return s.rebuild(visit, lambda e: e), end

    def _constant(self, buffer: Buffer) -> int:
        size = int_value(buffer.shape[0]) if len(buffer.shape) == 1 else None
        if size is None:
            shape = ", ".join(map(str, buffer.shape))
            raise CodegenError(f"{buffer.name} of {self.function.name} has the shape [{shape}] within a launch, where memory has "
                               "a constant size: compute it at the root, or split its axes by constants")
        return size

    def _same_for_all(self, condition: Expr) -> bool:
        """Return whether a condition is certain to be the same for all threads of a block in a launch."""
        return not any(isinstance(x, Load | Call) or x in self.varying for x in subexpressions(condition))


def _serial(s: Stmt) -> Stmt:
    """Return a parallel loop as a serial one: a thread runs its iterations in order."""
    return s.replace(kind=LoopKind.SERIAL) if isinstance(s, st.For) and s.kind is LoopKind.PARALLEL else s


def _settled(s: Stmt) -> Stmt:
    """Return a body with the index 0 for accesses that fill a thread's own array: no other is within it.

    A constant index keeps the array in registers.
    """
    sizes = {x.buffer.data: (int_value(x.buffer.shape[0]), x.buffer.dtype.bits) for x in statements(s)
             if isinstance(x, st.Allocate) and x.buffer.scope in _OWN and len(x.buffer.shape) == 1}

    def at(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        (index,) = indices
        if (index.dtype.lanes, buffer.dtype.bits) != sizes[buffer.data]:
            return indices
        if index.dtype.lanes == 1:
            return (IntImm(0, index.dtype),)
        if isinstance(index, Ramp) and int_value(index.stride) == 1:
            return (index.replace(base=IntImm(0, index.base.dtype)),)
        return indices

    def on_load(e: Expr) -> Expr:
        return e.replace(indices=at(e.buffer, e.indices)) if isinstance(e, Load) and e.buffer.data in sizes else e

    def on_store(x: Stmt) -> Stmt:
        return x.replace(indices=at(x.buffer, x.indices)) if isinstance(x, st.Store) and x.buffer.data in sizes else x
    return map_stmt(s, on_store, lambda e: map_expr(e, on_load))


def barrier() -> Stmt:
    """Return a barrier of a block."""
    return st.Evaluate(effect("sync", "shared"))


def is_barrier(s: Stmt) -> bool:
    """Return whether a statement is a barrier, or moves values between threads, so that all must get there."""
    e = s.value if isinstance(s, st.Evaluate | st.Store) else None
    return isinstance(e, Call) and e.name in ("sync", "shuffle", "shuffle_down")


def _has_loops(s: Stmt) -> bool:
    return any(map(is_thread_loop, statements(s)))


def _acts(s: Stmt) -> bool:
    """Return whether a statement writes memory, or does something else than compute."""
    return any(isinstance(node, st.Store) or _effect(node) for node in statements(s))


def _effect(s: Stmt) -> bool:
    return isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.kind == "effect"
