"""Statements: loops, typed blocks and stores.

Like expressions they are values. Between lowering and the late passes the leaves are `Block`s, which say what they
iterate over, read and write; a late pass (`vtakit.compiler.passes`) turns each into its body. All loops start at 0.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Self

from vtakit.compiler.ir.base import PRINTERS, changed
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.statement import Alone, Around, Stmt

__all__ = [
    "AUTO_STEPS", "LAUNCHES", "NOTHING", "NO_NOTES", "PARTITION", "PREFETCH_AHEAD", "WHOLE", "Allocate", "Attr", "Block",
    "BlockIter", "Evaluate", "For", "Function", "If", "LetStmt", "LoopKind", "Region", "Requirement", "Seq", "Stmt",
    "Store", "While", "seq",
]

NO_NOTES: Mapping[str, Any] = {}
PARTITION = "loop_partition_hint"  # note on a loop: it is split also where what if_then_else asks begins or ceases to hold
LAUNCHES = "launch_each"  # note on the loop of a scan: the host runs it, and each stage in it is a launch of its own
WHOLE = "keep_whole"  # note on a loop: it is not split where a guard begins or ceases to hold
AUTO_STEPS = "auto_unroll_max_step"  # note on a loop: within it, serial loops of at most so many leaves are unrolled
PREFETCH_AHEAD = "prefetch_ahead"  # note on a loop: what it reads row after row is asked for so many bytes ahead


class LoopKind(Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"  # all iterations at once, one a thread; `For.thread` says which index


class Store(Alone):
    """``buffer[indices] = value``; a vector value goes with a vector index."""

    __slots__ = ("buffer", "indices", "value")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        self.buffer, self.indices, self.value = buffer, indices, value

    def rebuild(self, on_stmt: Callable[[Stmt], Stmt], on_expr: Callable[[Expr], Expr]) -> Self:
        """Return the same store with its expressions changed; itself if none was."""
        indices, value = changed(self.indices, on_expr), on_expr(self.value)
        return self if indices is self.indices and value is self.value else self.replace(indices=indices, value=value)

    def operands(self) -> tuple[Expr, ...]:
        """Return the indices and the value."""
        return (*self.indices, self.value)


class Evaluate(Alone):
    """A call for its effect."""

    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def operands(self) -> tuple[Expr, ...]:
        """Return the call."""
        return (self.value,)


class Seq(Stmt):
    """Statements one after another; none is itself a `Seq` (make one with `seq`)."""

    __slots__ = ("stmts",)

    def __init__(self, stmts: tuple[Stmt, ...]) -> None:
        self.stmts = stmts

    def rebuild(self, on_stmt: Callable[[Stmt], Stmt], on_expr: Callable[[Expr], Expr]) -> Self:
        """Return the same statements, each changed; itself if none was."""
        stmts = changed(self.stmts, on_stmt)
        return self if stmts is self.stmts else self.replace(stmts=stmts)

    def inner(self) -> tuple[Stmt, ...]:
        """Return the statements."""
        return self.stmts

    def operands(self) -> tuple[Expr, ...]:
        """Return an empty tuple."""
        return ()


class For(Around):
    """``for var in range(extent): body``.

    thread : for a `LoopKind.THREAD` loop its tag (``blockIdx.x``, ``threadIdx.x``, ``vthread``, ``cthread``), else ""
    notes  : pragmas and other annotations: key -> int, str or Expr
    """

    __slots__ = ("var", "extent", "body", "kind", "thread", "notes")

    def __init__(
        self, var: Var, extent: Expr, body: Stmt, kind: LoopKind = LoopKind.SERIAL, thread: str = "",
        notes: Mapping[str, Any] = NO_NOTES,
    ) -> None:
        self.var, self.extent, self.body, self.kind, self.thread, self.notes = var, extent, body, kind, thread, notes

    def operands(self) -> tuple[Expr, ...]:
        """Return the variable and the extent."""
        return self.var, self.extent


class While(Around):
    """``while condition: body``."""

    __slots__ = ("condition", "body")

    def __init__(self, condition: Expr, body: Stmt) -> None:
        self.condition, self.body = condition, body


class If(Stmt):
    """``if condition: then else: otherwise``."""

    __slots__ = ("condition", "then", "otherwise")

    def __init__(self, condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> None:
        self.condition, self.then, self.otherwise = condition, then, otherwise

    def inner(self) -> tuple[Stmt, ...]:
        """Return one statement or both."""
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)


class LetStmt(Around):
    """`body` with `var` standing for `value`."""

    __slots__ = ("var", "value", "body")

    def __init__(self, var: Var, value: Expr, body: Stmt) -> None:
        self.var, self.value, self.body = var, value, body


class Allocate(Around):
    """Memory for `buffer` while `body` runs; its elements start undefined.

    notes : ``double_buffer``, ``storage_align`` as (axis, factor, offset) …
    """

    __slots__ = ("buffer", "body", "notes")

    def __init__(self, buffer: Buffer, body: Stmt, notes: Mapping[str, Any] = NO_NOTES) -> None:
        self.buffer, self.body, self.notes = buffer, body, notes

    def operands(self) -> tuple[Expr, ...]:
        """Return an empty tuple."""
        return ()


class Attr(Around):
    """A fact about `body`: ``key = value``, about `node` (a buffer, a variable, or None).

    A pass that does not know the key keeps it.
    """

    __slots__ = ("key", "node", "value", "body")

    def __init__(self, key: str, node: Any, value: Expr | str | int, body: Stmt) -> None:
        self.key, self.node, self.value, self.body = key, node, value, body


class BlockIter(NamedTuple):
    """One iterator of a block: ``var`` in ``dom``, which the loops around set to ``binding``."""

    var: Var
    dom: Range
    kind: IterKind
    binding: Expr


class Region(NamedTuple):
    """A box of a buffer's elements: one range a dimension, in terms of the block's iterators."""

    buffer: Buffer
    ranges: tuple[Range, ...]


class Block(Stmt):
    """A leaf: what one stage computes at one point of its iteration space.

    name      : the stage's
    iters     : its iterators; body, init, reads, writes refer to their variables, and to those of the loops around only for
                where a buffer begins that holds a part of a tensor
    reads, writes : the elements that it touches, at most
    predicate : over the iterators and loop variables; the block runs only where it holds (an uneven split)
    init      : what to do first when all reduce iterators are at their start, or None
    body      : stores, or a tensor intrinsic's calls
    notes     : ``tensorize``: the intrinsic's name …
    """

    __slots__ = ("name", "iters", "reads", "writes", "predicate", "init", "body", "notes")

    def __init__(
        self, name: str, iters: tuple[BlockIter, ...], reads: tuple[Region, ...], writes: tuple[Region, ...], predicate: Expr,
        init: Stmt | None, body: Stmt, notes: Mapping[str, Any] = NO_NOTES,
    ) -> None:
        self.name, self.iters, self.reads, self.writes = name, iters, reads, writes
        self.predicate, self.init, self.body, self.notes = predicate, init, body, notes


class Requirement(NamedTuple):
    """A condition on the sizes of a call, without which the function would leave its memory: checked before anything else.

    condition : over the function's scalar parameters and sizes
    reason    : the condition and what rests on it, in words
    assumed   : whether the body's correctness may rest on it; not if it was found in the body itself, whose faults it would hide
    """

    condition: Expr
    reason: str
    assumed: bool = True


class Function(NamedTuple):
    """A lowered function.

    params   : buffers and scalar variables, in the order of the arguments; symbolic sizes are read off the buffers' shapes
    notes    : ``target`` …
    requires : of every call
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    notes: Mapping[str, Any] = NO_NOTES
    requires: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return PRINTERS[Function](self)


NOTHING = Seq(())


def seq(*stmts: Stmt | None) -> Stmt:
    """Return the statements one after another, without empty ones; the one itself if there is only one."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat += stmt.stmts
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
