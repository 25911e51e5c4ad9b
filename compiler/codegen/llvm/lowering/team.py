"""Parallel loops within one launch: the threads start once, and wait for each other behind each of the loops.

A loop that a schedule marks ``pragma(axis, "parallel_launch_point")`` becomes a function that all threads run. Of each parallel
loop in it a thread takes its part: a contiguous one, or every so many-th iteration where the loop is marked
"parallel_stride_pattern", as suits iterations of different lengths. Behind the loop it waits for the others, whether or not the
loop is marked "parallel_barrier_when_finish": what comes next may read what the others wrote.
"""

from vtakit.compiler.codegen.llvm.lowering.context import Body, Team
from vtakit.compiler.codegen.llvm.lowering.parallel import Captured, body_of, note_failure, record_of
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import free_vars, subexpressions
from vtakit.compiler.passes.pragmas import LAUNCH, STRIDED


def is_launch(s: st.For) -> bool:
    """Return whether a loop is marked as a launch and does all in parallel loops, so that every thread may run the rest."""
    return LAUNCH in s.notes and s.kind is st.LoopKind.SERIAL and _in_parts(s.body)


def _in_parts(s: st.Stmt) -> bool:
    match s:
        case st.For(kind=st.LoopKind.PARALLEL):
            return _same_everywhere(s.extent)
        case st.For():
            return _same_everywhere(s.extent) and _in_parts(s.body)
        case st.Seq():
            return all(map(_in_parts, s.stmts))
        case st.Allocate() | st.Attr():
            return _in_parts(s.body)
    return False


def _same_everywhere(e: ir.Expr) -> bool:
    return not any(isinstance(node, ir.Load | ir.Call) for node in subexpressions(e))


def launch(x: Body, s: st.For) -> None:
    """Write a loop that all threads run, with the memory that they share around it."""
    if isinstance(s.body, st.Allocate) and not any(s.var in free_vars(extent) for extent in s.body.buffer.shape):
        x.allocate(s.body.replace(body=s.replace(body=s.body.body)))
        return
    b, captured = x.b, Captured(x, s)
    record, closure = record_of(x, captured, int_constant("i64", 0))
    function = Value(f"@{_run(x, s, captured, record)}", "ptr")
    threads = b.call("omp_get_max_threads", "i32")
    alone, many, after = b.block("alone"), b.block("many"), b.block("joined")
    b.branch(b.icmp("sle", threads, int_constant("i32", 1)), alone, many)
    b.place(alone)
    b.call(function.ref.removeprefix("@"), "void", closure)
    b.jump(after)
    b.place(many)
    b.call("GOMP_parallel", "void", function, closure, threads, int_constant("i32", 0))
    b.jump(after)
    b.place(after)
    status = b.load("i32", b.field(closure, record, 0), 4)
    good, bad = b.block("good"), b.block("bad")
    b.branch(b.icmp("eq", status, int_constant("i32", 0)), good, bad, likely=True)
    b.place(bad)
    x.fail(status)
    b.place(good)


def _run(x: Body, s: st.For, captured: Captured, record: str) -> str:
    """Write the function that each thread runs, the loop with the thread's parts of the parallel ones; return its name."""
    name = x.module.unique("launch")
    b: Builder = x.module.function(name, "void", ["ptr %closure"], internal=True)
    closure = Value("%closure", "ptr")
    number, size = (b.convert("sext", b.call(f"omp_get_{what}", "i32"), "i64") for what in ("thread_num", "num_threads"))
    inner = x.another(b, team=Team(number, size, b.field(closure, record, 0)))
    captured.bind(inner, [b.load(type_, b.field(closure, record, field), 1) for field, type_ in enumerate(captured.types, 2)])
    inner.count(s.var, int_constant("i64", 0), inner.index(s.extent), s.body, runs=False)
    b.ret()
    x.module.finish(b)
    return name


def part(x: Body, s: st.For, team: Team) -> None:
    """Write a thread's part of a parallel loop, behind which it waits for the others."""
    b, captured = x.b, Captured(x, s.body)
    extent, one = x.index(s.extent), int_constant("i64", 1)
    body = body_of(x, s, captured)
    if STRIDED not in s.notes:
        first = b.op("sdiv", b.op("mul", team.number, extent), team.size)
        end = b.op("sdiv", b.op("mul", b.op("add", team.number, one), extent), team.size)
        note_failure(b, b.call(body, "i32", *captured.given, first, end), team.status)
    else:
        before, inside, after = b.at, b.block("mine"), b.block("done")
        b.branch(b.icmp("slt", team.number, extent), inside, after)
        b.place(inside)
        at = b.phi("i64")
        at.add(team.number, before)
        note_failure(b, b.call(body, "i32", *captured.given, at.value, b.op("add", at.value, one)), team.status)
        following = b.op("add", at.value, team.size)
        at.add(following, b.at)
        b.branch(b.icmp("slt", following, extent), inside, after)
        b.place(after)
    b.call("GOMP_barrier", "void")
