"""The state of a function while its instructions are written, and what its parts ask of each other.

`Expressions` and `Statements` derive from these classes; memory accesses, calls, kernels and parallel loops are functions that
take one.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

from vtakit.compiler.codegen.llvm.text.builder import Block, Builder
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.llvm.text.operands import Value
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer


class Context(ABC):
    """The expressions of one function: what its variables stand for, and where its instructions go.

    values  : scalar and vector variables
    indices : loop variables and sizes, as i64; both are at least 0
    memory  : the address of each buffer's first element, by the buffer's `data`
    mask    : the lanes that are active where a condition has lanes, or None
    held    : what tile registers hold of operands, by register, and the place in the code up to which they do
    """

    def __init__(self, module: Module, b: Builder) -> None:
        self.module, self.b, self.target = module, b, module.target
        self.values: dict[ir.Var, Value] = {}
        self.indices: dict[ir.Var, Value] = {}
        self.memory: dict[ir.Var, Value] = {}
        self.mask: Value | None = None
        self.held: tuple[tuple[Block, int], dict[int, tuple[ir.Expr, ...]]] | None = None

    @abstractmethod
    def value(self, e: ir.Expr) -> Value:
        """Return the value of an expression. Raises CodegenError for one that machine code cannot compute."""

    @abstractmethod
    def index(self, e: ir.Expr) -> Value:
        """Return an integer expression in 64 bits; a vector of them for a vector."""

    def alignment(self, buffer: Buffer, first: ir.Expr) -> int:
        """Return the alignment in bytes of a run of elements from an index on: an element's, as processors ask for no more."""
        return buffer.dtype.scalar.bytes

    @abstractmethod
    def fail(self, code: Value) -> None:
        """Free what the function has allocated, and leave it with a status."""


class Team(NamedTuple):
    """A thread's number in its team, the number of threads, and the address where a failure is noted."""

    number: Value
    size: Value
    status: Value


class Body(Context):
    """The statements of one function, as its parallel loops need them."""

    @abstractmethod
    def count(self, var: Any, first: Value, end: Value, body: st.Stmt, *, runs: bool) -> None:
        """Add the loop ``for var in range(first, end): body``.

        runs : whether it is certain that first < end
        """

    @abstractmethod
    def allocate(self, s: st.Allocate) -> None:
        """Add an allocation and the statements that use it."""

    @abstractmethod
    def another(self, b: Builder, *, threaded: bool = False, team: Team | None = None) -> Self:
        """Return the state of a further function of the module, in which no variable has a value yet.

        threaded : whether several threads run it, so that loops within are serial
        team     : of threads that run it and part its parallel loops among them
        """
