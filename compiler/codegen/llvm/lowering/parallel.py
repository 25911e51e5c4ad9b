"""Parallel loops: the body becomes a function of its own, which an OpenMP runtime calls on several threads.

The entry points are those that GCC's and LLVM's OpenMP runtimes share. Each thread takes one contiguous part of the iterations.
A thread that fails notes its status; the others finish their part.
"""

from vtakit.compiler.codegen.llvm.lowering.context import Body
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import expressions, statements, subexpressions


class Captured:
    """The outer variables that a loop, or its body, refers to, by how the function around it keeps them."""

    def __init__(self, x: Body, body: st.Stmt) -> None:
        nodes = {node: None for e in expressions(body) for node in _atoms(e)}
        nodes |= {s.buffer.data: None for s in statements(body) if isinstance(s, st.Store | st.Allocate)}
        self.memory = [var for var in nodes if var in x.memory]
        self.indices = [var for var in nodes if var in x.indices]
        self.values = [var for var in nodes if var in x.values]
        self.given = [
            *(x.memory[var] for var in self.memory), *(x.indices[var] for var in self.indices),
            *(x.values[var] for var in self.values),
        ]
        self.types = [value.type for value in self.given]

    def bind(self, x: Body, values: list[Value]) -> None:
        """Make the variables stand for `values` in the body's own function."""
        todo = iter(values)
        x.memory = {var: next(todo) for var in self.memory}
        x.indices = {var: next(todo) for var in self.indices}
        x.values = {var: next(todo) for var in self.values}


def _atoms(e: ir.Expr) -> list[ir.Var]:
    found = []
    for node in subexpressions(e):
        if isinstance(node, ir.Var):
            found.append(node)
        elif isinstance(node, ir.Load):
            found.append(node.buffer.data)
    return found


def loop(x: Body, s: st.For) -> None:
    """Write a parallel loop."""
    b, captured = x.b, Captured(x, s.body)
    extent = x.index(s.extent)
    body = body_of(x, s, captured)
    record, closure = record_of(x, captured, extent)
    threads = b.call("omp_get_max_threads", "i32")
    wanted = b.intrinsic("smin.i64", "i64", b.convert("sext", threads, "i64"), extent)
    alone, many, after = b.block("alone"), b.block("many"), b.block("joined")
    b.branch(b.icmp("sle", wanted, int_constant("i64", 1)), alone, many)
    b.place(alone)
    alone_status = b.call(body, "i32", *captured.given, int_constant("i64", 0), extent)
    alone = b.at
    b.jump(after)
    b.place(many)
    share = Value(f"@{_share(x, body, record, captured)}", "ptr")
    b.call("GOMP_parallel", "void", share, closure, b.convert("trunc", wanted, "i32"), int_constant("i32", 0))
    many_status = b.load("i32", b.field(closure, record, 0), 4)
    b.jump(after)
    b.place(after)
    status = b.phi("i32")
    status.add(alone_status, alone)
    status.add(many_status, many)
    good, bad = b.block("good"), b.block("bad")
    b.branch(b.icmp("eq", status.value, int_constant("i32", 0)), good, bad, likely=True)
    b.place(bad)
    x.fail(status.value)
    b.place(good)


def body_of(x: Body, s: st.For, captured: Captured) -> str:
    """Write ``status body(captured…, first, end)`` and return its name."""
    name = x.module.unique("body")
    params = [f"{type_}{' noalias' if type_ == 'ptr' else ''} %c{i}" for i, type_ in enumerate(captured.types)]
    builder = x.module.function(name, "i32", [*params, "i64 %first", "i64 %end"], internal=True)
    inner = x.another(builder, threaded=True)
    captured.bind(inner, [Value(f"%c{i}", type_) for i, type_ in enumerate(captured.types)])
    inner.count(s.var, Value("%first", "i64"), Value("%end", "i64"), s.body, runs=False)
    builder.ret(int_constant("i32", 0))
    x.module.finish(builder)
    return name


def _share(x: Body, body: str, record: str, captured: Captured) -> str:
    """Write the function that each thread runs, on its part of the iterations, and return its name."""
    name = x.module.unique("share")
    b: Builder = x.module.function(name, "void", ["ptr %closure"], internal=True)
    closure = Value("%closure", "ptr")
    thread = b.convert("sext", b.call("omp_get_thread_num", "i32"), "i64")
    threads = b.convert("sext", b.call("omp_get_num_threads", "i32"), "i64")
    extent = b.load("i64", b.field(closure, record, 1), 8)
    first = b.op("sdiv", b.op("mul", thread, extent), threads)
    end = b.op("sdiv", b.op("mul", b.op("add", thread, int_constant("i64", 1)), extent), threads)
    args = [b.load(type_, b.field(closure, record, field), 1) for field, type_ in enumerate(captured.types, 2)]
    status = b.call(body, "i32", *args, first, end)
    note_failure(b, status, b.field(closure, record, 0))
    b.ret()
    x.module.finish(b)
    return name


def record_of(x: Body, captured: Captured, extent: Value) -> tuple[str, Value]:
    """Return the type and the address of the record that threads get: a status, an extent, and what the loop refers to."""
    record = "{ " + ", ".join(["i32", "i64", *captured.types]) + " }"
    closure = x.b.alloca(record, 64)
    for field, value in enumerate([int_constant("i32", 0), extent, *captured.given]):
        x.b.store(value, x.b.field(closure, record, field), 4 if field == 0 else 8 if field == 1 else 1)
    return record, closure


def note_failure(b: Builder, status: Value, address: Value) -> None:
    """Keep the status of a thread that failed, for the one that started it."""
    bad, good = b.block("bad"), b.block("good")
    b.branch(b.icmp("eq", status, int_constant("i32", 0)), good, bad, likely=True)
    b.place(bad)
    b.raise_flag(status, address)
    b.jump(good)
    b.place(good)


def has_loops(body: st.Stmt) -> bool:
    """Return whether there is a parallel loop in a statement."""
    return any(isinstance(s, st.For) and s.kind is st.LoopKind.PARALLEL for s in statements(body))


def uses_threads(text: str) -> bool:
    """Return whether a module calls an OpenMP runtime."""
    return "@GOMP_parallel(" in text
