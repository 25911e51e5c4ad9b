"""Programs of launches as functions again, for the interpreter."""

from collections.abc import Sequence

from vtakit.compiler.codegen.gpu import Bind, Check, Choose, Launch, Program, Repeat, Run, Step
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.walk import substitute_stmt
from vtakit.compiler.passes.copying import renewed

TAGS = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "zyx")


def launch_loops(launch: Launch) -> Stmt:
    """Return a launch as loops over its blocks and threads, with all shared memory around its body."""
    body = launch.body
    for shared in reversed(launch.shared):
        body = st.Allocate(shared.buffer, body)
    extents = dict(zip(TAGS, (*launch.grid[::-1], *[IntImm(size, INT32) for size in launch.block[::-1]]), strict=True))
    for tag in reversed(TAGS):
        var = Var(tag, INT32)
        body = substitute_stmt(body, {index: var for index, of in launch.indices.items() if of == tag})
        body = st.For(var, extents[tag], body, LoopKind.THREAD, tag)
    return renewed(body)


def joined(program: Program) -> Function:
    """Return a program as one function: steps of the host as statements, launches as loops."""
    body = _steps(program, program.steps)
    for buffer in reversed(program.workspaces):
        body = st.Allocate(buffer, body)
    return program.function._replace(body=body, requires=(), notes={"synchronised": 1})


def _steps(program: Program, steps: Sequence[Step]) -> Stmt:
    return st.seq(*[_step(program, step) for step in steps])


def _step(program: Program, step: Step) -> Stmt:
    match step:
        case Run():
            return launch_loops(program.launches[step.launch])
        case Repeat():
            return st.For(step.var, step.extent, _steps(program, step.steps))
        case Bind():
            return st.LetStmt(step.var, step.value, _steps(program, step.steps))
        case Choose():
            return st.If(step.condition, _steps(program, step.then), _steps(program, step.otherwise))
        case Check():
            return st.Evaluate(effect("assert_that", step.condition, step.reason))
