"""From a Python function to statements: the part of Python that `te.hybrid` knows.

Loops over ``range`` (also with a start and a step) and over `LOOPS`, ``if``, ``while``, assignments to elements and to numbers of
one's own (which keep the type of their first value), ``+=`` and its like, arithmetic, comparisons, ``and``, ``or``, ``not``,
``a if c else b``, the functions of `vtakit.compiler.te.hybrid`, ``x.shape[d]``; numbers from outside the function. The last line
returns the output tensors.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vtakit.base.text import counted
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import ops
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.base import OPERATORS
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.values import cast, int_value, wrap
from vtakit.compiler.te import math as te_math
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.language import THREAD_TAGS
from vtakit.compiler.te.tensor import Tensor

LOOPS: dict[str, st.LoopKind] = {
    "range": st.LoopKind.SERIAL, "serial": st.LoopKind.SERIAL, "parallel": st.LoopKind.PARALLEL,
    "vectorize": st.LoopKind.VECTORIZED, "unroll": st.LoopKind.UNROLLED, "const_range": st.LoopKind.UNROLLED,
    "bind": st.LoopKind.THREAD,
}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Expr]] = {
    ast.Add: OPERATORS["+"], ast.Sub: OPERATORS["-"], ast.Mult: OPERATORS["*"], ast.Div: OPERATORS["/"],
    ast.FloorDiv: OPERATORS["//"], ast.Mod: OPERATORS["%"], ast.BitAnd: OPERATORS["&"], ast.BitOr: OPERATORS["|"],
    ast.BitXor: OPERATORS["^"], ast.LShift: OPERATORS["<<"], ast.RShift: OPERATORS[">>"], ast.Pow: te_math.power,
    ast.Eq: OPERATORS["=="], ast.NotEq: OPERATORS["!="], ast.Lt: OPERATORS["<"], ast.LtE: OPERATORS["<="],
    ast.Gt: lambda a, b: OPERATORS["<"](b, a), ast.GtE: lambda a, b: OPERATORS["<="](b, a),
}
MATH = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil", "power", "abs", "min", "max")
CASTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_FUNCTIONS: dict[str, Callable[..., Expr]] = {"min": ops.minimum, "max": ops.maximum}


class Parsed(NamedTuple):
    """Parsed form of a function."""

    inputs: tuple[Tensor, ...]
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: st.Stmt


def parse(function: Callable[..., Any], args: Sequence[Any]) -> Parsed:
    """The statements of a function applied to tensors and numbers; raises ExpressionError with the line that is not known."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise ExpressionError(f"hybrid {function.__name__!r}: its source cannot be read; define it in a file") from None
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef), source
    names = [arg.arg for arg in definition.args.args]
    if len(names) != len(args):
        raise ExpressionError(f"{function.__name__} takes {counted(len(names), 'argument')} ({', '.join(names)}), got "
                              f"{len(args)}")
    outside = inspect.getclosurevars(function)
    return _Parser(function.__name__, {**outside.globals, **outside.nonlocals}).run(definition, names, args)


class _Parser:
    def __init__(self, name: str, outside: dict[str, Any]) -> None:
        self.name, self.outside = name, outside
        self.known: dict[str, Any] = {}  # a buffer, an expression, or a tuple of extents
        self.outputs: list[Buffer] = []
        self.returned: tuple[Buffer, ...] = ()

    def fail(self, node: ast.AST, what: str) -> ExpressionError:
        return ExpressionError(f"line {getattr(node, 'lineno', 0)} of {self.name}, {ast.unparse(node).splitlines()[0]!r}: {what}")

    def run(self, definition: ast.FunctionDef, names: Sequence[str], args: Sequence[Any]) -> Parsed:
        tensors = []
        buffers = []
        for name, arg in zip(names, args, strict=True):
            if isinstance(arg, Tensor):
                tensors.append(arg)
                buffers.append(Buffer(name, arg.shape, arg.dtype))
                self.known[name] = buffers[-1]
            else:
                self.known[name] = wrap(arg)
        body = self.block(definition.body)
        if not self.returned:
            raise self.fail(definition.body[-1], "the last line returns the output tensors")
        missing = [buffer.name for buffer in self.outputs if buffer not in self.returned]
        if missing:
            raise ExpressionError(f"{self.name} does not return its output tensor {missing[0]!r}: return it, or use allocate")
        return Parsed(tuple(tensors), tuple(buffers), self.returned, body)

    # Statements.

    def block(self, nodes: Sequence[ast.stmt]) -> st.Stmt:
        """A block: names that it makes are its own, and memory that it allocates lasts to its end."""
        outer = self.known
        self.known = dict(outer)
        found = self.rest(nodes)
        self.known = outer
        return found

    def rest(self, nodes: Sequence[ast.stmt]) -> st.Stmt:
        done: list[st.Stmt | None] = []
        for at, node in enumerate(nodes):
            made = self.new_name(node)
            if isinstance(made, Buffer):
                first = self.first_value
                return st.seq(*done, st.Allocate(made, st.seq(first, self.rest(nodes[at + 1:]))))
            done.append(made if isinstance(made, st.Stmt) else self.stmt(node))
        return st.seq(*done)

    def new_name(self, node: ast.stmt) -> Buffer | st.Stmt | None:
        """For an assignment to a new name: the memory that it needs, or nothing to do; None for other statements."""
        self.first_value: st.Stmt | None = None
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            return None
        name = node.targets[0].id
        call = node.value.func.id if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) else ""
        if call in ("output_tensor", "allocate"):
            assert isinstance(node.value, ast.Call)
            values = [self.plain(arg) for arg in node.value.args]
            named = {str(word.arg): self.plain(word.value) for word in node.value.keywords}
            buffer = self.known[name] = self.memory(node, call, name, values, named)
            if call == "allocate":
                return buffer
            self.outputs.append(buffer)
            return st.NOTHING
        if isinstance(self.known.get(name), Buffer):
            return None
        value = self.expr(node.value)
        buffer = self.known[name] = Buffer(name, (), value.dtype, "local")
        self.first_value = st.Store(buffer, (), value)
        return buffer

    def memory(self, node: ast.stmt, call: str, name: str, values: list[Any], named: dict[str, Any]) -> Buffer:
        try:
            given = dict(zip(("shape", "dtype", "scope"), values, strict=False)) | named
            return decl_buffer(given["shape"], given.get("dtype", "float32"), name, scope=given.get("scope", "global"))
        except (ValueError, TypeError, KeyError) as error:
            raise self.fail(node, f"{call} takes a shape and a type: {error}") from None

    def stmt(self, node: ast.stmt) -> st.Stmt:
        match node:
            case ast.Assign(targets=[target], value=value):
                return self.store(node, target, self.expr(value))
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _BINARY:
                return self.store(node, target, _BINARY[type(op)](self.expr(target), self.expr(value)))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id=kind), args=args), orelse=[]) if kind in LOOPS:
                return self.loop(node, name, kind, args)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.expr(test)
                if (sure := int_value(condition)) is not None:
                    return self.block(body if sure else orelse)
                return st.If(condition, self.block(body), self.block(orelse) if orelse else None)
            case ast.While(test=test, body=body, orelse=[]):
                return st.While(self.expr(test), self.block(body))
            case ast.Return(value=value) if value is not None:
                self.returned = self.results(node, value)
                return st.NOTHING
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return st.NOTHING
        raise self.fail(node, f"this statement ({type(node).__name__}) has no meaning for tensors")

    def results(self, node: ast.stmt, value: ast.expr) -> tuple[Buffer, ...]:
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        found = [self.known.get(item.id) if isinstance(item, ast.Name) else None for item in items]
        for buffer in found:
            if not isinstance(buffer, Buffer) or buffer not in self.outputs:
                raise self.fail(node, "only tensors made by output_tensor can be returned")
        return tuple([buffer for buffer in found if isinstance(buffer, Buffer)])

    def store(self, node: ast.stmt, target: ast.expr, value: Expr) -> st.Stmt:
        buffer, indices = self.element(target)
        if buffer.dtype.is_int and value.dtype.is_float:
            raise self.fail(node, f"{buffer.name} is of {buffer.dtype} and the value of {value.dtype}: convert one of them")
        return st.Store(buffer, indices, cast(value, buffer.dtype))

    def element(self, node: ast.expr) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer and indices of ``a[i, j]``, ``a[i][j]``, or the number that a name stands for."""
        indices: tuple[Expr, ...] = ()
        inner = node
        while isinstance(inner, ast.Subscript):
            items = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
            indices = (*[self.expr(item) for item in items], *indices)
            inner = inner.value
        buffer = self.known.get(inner.id) if isinstance(inner, ast.Name) else None
        if not isinstance(buffer, Buffer):
            raise self.fail(node, "this is no element of a tensor")
        if len(indices) != len(buffer.shape):
            raise self.fail(node, f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices")
        return buffer, indices

    def loop(self, node: ast.For, name: str, kind: str, args: list[ast.expr]) -> st.Stmt:
        thread = ""
        if kind == "bind":
            thread = str(self.plain(args[0])) if args else ""
            if thread not in THREAD_TAGS or len(args) != 2:
                raise self.fail(node, f"bind takes a thread index ({', '.join(THREAD_TAGS)}) and an extent")
            args = args[1:]
        ends = [self.expr(arg) for arg in args]
        if not 1 <= len(ends) <= 3:
            raise self.fail(node, f"{kind} takes an end, or a start and an end and a step")
        start, end = (wrap(0), ends[0]) if len(ends) == 1 else (ends[0], ends[1])
        step = int_value(ends[2]) if len(ends) == 3 else 1
        if step is None or step < 1:
            raise self.fail(node, "the step of a loop is a number of at least 1")
        extent = (end - start + (step - 1)) // step
        var = ir.Var(name, INT32)
        outer = self.known
        self.known = {**outer, name: start + var * step}
        body = self.block(node.body)
        self.known = outer
        return st.For(var, extent, body, LOOPS[kind], thread)

    # Expressions.

    def plain(self, node: ast.expr) -> Any:
        """A shape, a type or a string."""
        if isinstance(node, ast.Tuple | ast.List):
            return tuple([self.plain(item) for item in node.elts])
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="shape") if isinstance(self.known.get(name), Buffer):
                return self.known[name].shape
            case ast.Attribute(value=ast.Name(id=name), attr="dtype") if isinstance(self.known.get(name), Buffer):
                return self.known[name].dtype
        return self.expr(node)

    def expr(self, node: ast.expr) -> Expr:
        try:
            return self.value(node)
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, ExpressionError) else self.fail(node, str(error)) from None

    def value(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return wrap(number)
            case ast.Name(id=name):
                return self.named(node, name)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return _BINARY[type(op)](self.expr(a), self.expr(b))
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return -self.expr(a)
            case ast.UnaryOp(op=ast.Not(), operand=a):
                return ops.negate(self.expr(a))
            case ast.Compare(left=left, ops=symbols, comparators=rights) if all(type(s) in _BINARY for s in symbols):
                values = [self.expr(item) for item in (left, *rights)]
                pairs = zip(values, symbols, values[1:], strict=False)
                return ops.all_of(*[_BINARY[type(symbol)](a, b) for a, symbol, b in pairs])
            case ast.BoolOp(op=op, values=items):
                return (ops.all_of if isinstance(op, ast.And) else ops.any_of)(*[self.expr(item) for item in items])
            case ast.IfExp(test=test, body=true, orelse=false):
                return ops.if_then_else(self.expr(test), self.expr(true), self.expr(false))
            case ast.Subscript(value=ast.Attribute(attr="shape") as shape, slice=ast.Constant(value=int() as dim)):
                return wrap(self.plain(shape)[dim])
            case ast.Subscript():
                buffer, indices = self.element(node)
                return ir.Load(buffer, indices)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(node, name, [self.expr(arg) for arg in args])
        raise self.fail(node, f"this expression ({type(node).__name__}) has no meaning for tensors")

    def named(self, node: ast.expr, name: str) -> Expr:
        found = self.known.get(name, self.outside.get(name))
        if isinstance(found, Buffer):
            buffer, indices = self.element(node)
            return ir.Load(buffer, indices)
        if isinstance(found, Expr | bool | int | float):
            return wrap(found)
        raise self.fail(node, f"{name!r} is no number, tensor or loop variable")

    def call(self, node: ast.expr, name: str, args: list[Expr]) -> Expr:
        if name in CASTS and len(args) == 1:
            return cast(args[0], name)
        if name in MATH:
            function: Callable[..., Expr] = _FUNCTIONS.get(name) or getattr(te_math, name)
            return function(*args)
        raise self.fail(node, f"{name!r} is no function here: known are {', '.join(MATH + CASTS)}")
