"""The body of a kernel: indices in their own width, registers for a thread's arrays, 16-byte accesses."""

from math import gcd
from typing import Any

from vtakit.compiler.codegen.gpu import Launch
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import arithmetic as ar
from vtakit.compiler.codegen.llvm.lowering.statements import Statements
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant, lane_constants
from vtakit.compiler.codegen.nvptx import calls
from vtakit.compiler.codegen.nvptx.arch import MOST_BLOCKS, VECTOR_BYTES
from vtakit.compiler.codegen.nvptx.builder import KernelBuilder
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.values import int_value, value_of
from vtakit.compiler.ir.walk import expressions, statements, subexpressions

_DIVISIONS = (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)
_LINEAR = (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max)
SHORT = 16  # leaves of a loop that LLVM unrolls so that its loads begin together
MOST_UNROLLED = 4096  # leaves of a loop that LLVM unrolls so that a thread's array becomes registers
WHOLE_BYTES = 256  # alignment of buffers in the device's memory (CUDA programming guide, "Device Memory Accesses")


class Kernel(Statements):
    """One kernel. Indices have the width of their expressions, in which they do not overflow."""

    def __init__(self, module: Module, b: Builder, launch: Launch) -> None:
        super().__init__(module, b, threaded=True)
        self.launch = launch
        if isinstance(b, KernelBuilder):
            b.has_products = any(isinstance(s, st.Evaluate) and getattr(s.value, "name", "") == "wgmma"
                                 for s in statements(launch.body))
        self.own = {s.buffer.data for s in statements(launch.body) if isinstance(s, st.Allocate)}

    def read_indices(self) -> None:
        """Make the variables of blocks and threads stand for their registers."""
        assert isinstance(self.b, KernelBuilder)
        sizes = dict(zip((f"threadIdx.{axis}" for axis in "xyz"), self.launch.block, strict=True))
        for var, tag in self.launch.indices.items():
            end = sizes.get(tag) or MOST_BLOCKS[tag]
            found = int_constant("i32", 0) if end == 1 else self.b.special(tag, end)
            self.indices[var] = ar.resize(self.b, found, ty.value_type(var.dtype), signed=False)

    # Indices

    def value(self, e: ir.Expr) -> Value:
        """Return the value of an expression."""
        return calls.call(self, e) if isinstance(e, ir.Call) else super().value(e)

    def index(self, e: ir.Expr) -> Value:
        """Return an integer expression in its own width, of at least 32 bits; a vector of them for a vector."""
        if isinstance(e, ir.Var) and e in self.indices:
            return self.indices[e]
        if e.dtype.code == "int" and e.dtype.bits >= 32:
            if isinstance(e, ir.IntImm):
                return int_constant(ty.value_type(e.dtype), e.value)
            if isinstance(e, _LINEAR):
                return ar.integer(self.b, type(e), e.dtype.scalar, self.index(e.a), self.index(e.b), ar.Operand(), "nsw")
            if isinstance(e, _DIVISIONS) and int_value(_scalar(e.b)):
                known = ar.Operand(int_value(_scalar(e.b)), non_negative=self.non_negative(e.a) and self.non_negative(e.b))
                return ar.integer(self.b, type(e), e.dtype.scalar, self.index(e.a), self.index(e.b), known)
            if isinstance(e, ir.Ramp):
                base, stride = (self.b.splat(self.index(part), e.lanes) for part in (e.base, e.stride))
                steps = lane_constants(ty.scalar(base.type), range(e.lanes))
                return self.b.op("add", base, self.b.op("mul", stride, steps, "nsw"), "nsw")
            if isinstance(e, ir.Broadcast):
                return self.b.splat(self.index(e.value), e.lanes)
            if isinstance(e, ir.Cast) and e.value.dtype.code == "int" and 32 <= e.value.dtype.bits <= e.dtype.bits:
                return ar.resize(self.b, self.index(e.value), ty.value_type(e.dtype), signed=True)
        value = self.value(e)
        wide = ty.like("i32", value.type) if ty.bits(value.type) < 32 else value.type
        return ar.resize(self.b, value, wide, signed=e.dtype.code == "int")

    def alignment(self, buffer: Buffer, first: ir.Expr) -> int:
        """Return the alignment in bytes of the element at an index, as far as it is certain."""
        each = buffer.dtype.scalar.bytes
        return gcd(multiple(first) * each, WHOLE_BYTES)

    # Statements

    def run(self, s: st.Stmt) -> None:
        """Add a statement's instructions."""
        if isinstance(s, st.For):
            self.loop(s)
        elif isinstance(s, st.Allocate):
            self.allocate(s)
        else:
            super().run(s)

    def loop(self, s: st.For) -> None:
        """Add a serial loop; LLVM unrolls it if it runs over elements of a thread's own arrays."""
        if s.kind is not st.LoopKind.SERIAL:
            raise CodegenError(f"the loop over {s.var.name} is {s.kind.value}, which is no loop of a kernel: run "
                               "vtakit.compiler.passes.lower_late(f, 'gpu') first")
        kind, extent = ty.value_type(s.var.dtype), value_of(s.extent)
        end = ar.resize(self.b, self.index(s.extent), kind, signed=True)
        whole = isinstance(extent, int) and (_leaves(s) <= SHORT or self._indexes_own(s))
        self._count(s, int_constant(kind, 0), end, whole=whole)

    def _count(self, s: st.For, first: Value, end: Value, *, whole: bool) -> None:
        b, var = self.b, s.var
        inside, after, before = b.block("for"), b.block("end"), b.at
        if (value_of(s.extent) or 0) > 0:
            b.jump(inside)
        else:
            b.branch(b.icmp("slt", first, end), inside, after)
        b.place(inside)
        phi = b.phi(first.type)
        phi.add(first, before)
        self.indices[var] = phi.value
        self.run(s.body)
        del self.indices[var]
        following = b.op("add", phi.value, int_constant(first.type, 1), "nuw nsw")
        phi.add(following, b.at)
        b.branch(b.icmp("slt", following, end), inside, after, loop=self.module.unrolled_loop() if whole else "")
        b.place(after)

    def _indexes_own(self, s: st.For) -> bool:
        """Return whether the loop's variable is in indices of a thread's own arrays, which only then can be registers."""
        if _leaves(s) > MOST_UNROLLED:
            return False
        moving = {s.var}
        for node in statements(s.body):
            if isinstance(node, st.LetStmt) and _reads(node.value, moving):
                moving.add(node.var)
            if isinstance(node, st.Store) and node.buffer.data in self.own and _reads(node.indices[0], moving):
                return True
        loads = (x for e in expressions(s.body) for x in subexpressions(e) if isinstance(x, ir.Load))
        return any(load.buffer.data in self.own and _reads(load.indices[0], moving) for load in loads)

    def allocate(self, s: st.Allocate) -> None:
        """Add an array of the thread's own, in its frame: registers once its indices are constants."""
        count = value_of(s.buffer.shape[0])
        assert isinstance(count, int), s
        kind, lanes = ty.memory_type(s.buffer.dtype.scalar), s.buffer.dtype.lanes
        self.memory[s.buffer.data] = self.b.alloca(kind, VECTOR_BYTES, max(1, count * lanes))
        self.run(s.body)
        del self.memory[s.buffer.data]

    def fail(self, code: Value) -> None:
        raise CodegenError("a kernel cannot fail: an assertion inside of threads has to be on the host")


def _scalar(e: ir.Expr) -> ir.Expr:
    return e.value if isinstance(e, ir.Broadcast) else e


def _reads(e: ir.Expr, variables: Any) -> bool:
    return any(x in variables for x in subexpressions(e) if isinstance(x, ir.Var))


def _leaves(s: st.Stmt) -> int:
    """Return the stores that a statement makes when all its loops of constant extents are unrolled."""
    match s:
        case st.For():
            return (int_value(s.extent) or 1) * _leaves(s.body)
        case st.Seq():
            return sum(map(_leaves, s.stmts))
        case st.If():
            return _leaves(s.then) + (0 if s.otherwise is None else _leaves(s.otherwise))
        case st.LetStmt() | st.Allocate() | st.Attr() | st.While():
            return _leaves(s.body)
    return 1


def multiple(e: ir.Expr) -> int:
    """Return an integer that certainly divides an index; 0 for the index 0."""
    match e:
        case ir.IntImm():
            return abs(e.value)
        case ir.Add() | ir.Sub() | ir.Min() | ir.Max():
            return gcd(multiple(e.a), multiple(e.b))
        case ir.Mul():
            return multiple(e.a) * multiple(e.b)
        case ir.FloorMod():
            return gcd(multiple(e.a), multiple(e.b))
        case ir.FloorDiv() if (by := int_value(e.b)) and multiple(e.a) % by == 0:
            return multiple(e.a) // abs(by)
        case ir.Cast() if e.value.dtype.is_int and e.value.dtype.bits <= e.dtype.bits:
            return multiple(e.value)
        case ir.Ramp():
            return multiple(e.base)
        case ir.Broadcast():
            return multiple(e.value)
        case ir.Select() | ir.IfThenElse():
            return gcd(multiple(e.true), multiple(e.false))
    return 1
