"""Launches of functions: grids, arguments, shared memory, steps of the host; and the meaning, by the interpreter."""

from typing import Any

import numpy as np
import pytest
from launch_support import joined
from lower_support import ints
from passes_fuzz import drawn, run
from schedule_fuzz import fuzz

from vtakit import te
from vtakit.compiler.codegen.gpu import Check, Repeat, Run, split
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import FLOAT32, INT32
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.ir.stmt import Function, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import PassError, late_passes, lower_late
from vtakit.compiler.passes.base import run_passes

BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
ZERO = IntImm(0, INT32)


def thread(tag: str, extent: int, body: Any) -> st.For:
    """A loop over a tag; `body` takes its variable."""
    var = Var(tag, INT32)
    return st.For(var, IntImm(extent, INT32), body(var), LoopKind.THREAD, tag)


def check(function: Function, given: list[Any], wanted: list[Any]) -> Any:
    """The program of a function in low form makes `wanted`, its last arguments; returns the program."""
    program = split(function)
    found = [np.full(w.shape, 77, w.dtype) for w in wanted]
    interpret(joined(program), [*given, *found])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return program


def two_stages():
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    for stage in (b, c):
        outer, inner = s[stage].split(stage.op.axis[0], 16)
        s[stage].bind(outer, BX)
        s[stage].bind(inner, TX)
    return lower_late(lower(s, [a, c], "f"), "gpu")


@pytest.mark.parametrize("size", [0, 1, 16, 50])
def test_stages_at_the_root_are_launches_with_a_workspace_between(size):
    x = ints(size)
    program = check(two_stages(), [x], [(x + 1) * 2])
    assert [launch.name for launch in program.launches] == ["f_kernel0", "f_kernel1"]
    assert [str(launch.grid[0]) for launch in program.launches] == ["(n + 15) // 16"] * 2
    assert [launch.block for launch in program.launches] == [(16, 1, 1)] * 2
    assert [[param.name for param in launch.params] for launch in program.launches] == [["A", "B", "n"], ["C", "B", "n"]]
    first, second = program.launches
    assert (first.writes, second.writes) == ({first.params[1].data}, {second.params[0].data})
    assert [buffer.name for buffer in program.workspaces] == ["B"]
    assert [var.name for var in program.sizes] == ["n"]
    assert [step.launch for step in program.steps if isinstance(step, Run)] == [0, 1]
    assert not any(isinstance(s, st.For) and s.kind is LoopKind.THREAD for f in program.launches for s in statements(f.body))


def test_shared_tiles_lie_one_after_another_and_branches_share_their_place():
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] * 3, name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    outer, inner = s[b].split(b.op.axis[0], 24)
    s[b].bind(outer, BX)
    s[b].bind(inner, TX)
    s[shared].compute_at(s[b], outer)
    s[shared].bind(s[shared].op.axis[0], TX)
    x = ints(50)
    (launch,) = check(lower_late(lower(s, [a, b]), "gpu"), [x], [x * 3]).launches
    assert {(each.offset, each.bytes) for each in launch.shared} == {(0, 96)}
    assert launch.shared_bytes == 96
    assert launch.threads == 24


def test_work_of_a_block_outside_of_its_thread_loops_is_done_by_its_first_thread_between_barriers():
    a, c = Buffer("A", (4, 8), INT32), Buffer("C", (4, 8), INT32)
    flat_a, flat_c, held = Buffer("A", (32,), INT32), Buffer("C", (32,), INT32), Buffer("S", (1,), INT32, "shared")
    flat_a.data, flat_c.data = a.data, c.data
    body = thread("blockIdx.x", 4, lambda bx: st.Allocate(held, st.seq(
        st.Store(held, (ZERO,), flat_a[bx * 8]),
        thread("threadIdx.x", 8, lambda tx: st.Store(flat_c, (bx * 8 + tx,), flat_a[bx * 8 + tx] + held[0])),
    )))
    x = ints(4, 8)
    program = check(Function("f", (a, c), body), [x], [x + x[:, :1]])
    (launch,) = program.launches
    kinds = [type(s).__name__ for s in launch.body.stmts]
    assert kinds == ["If", "Evaluate", "Store"], launch.body
    assert [(each.buffer.name, each.offset, each.bytes) for each in launch.shared] == [("S", 0, 4)]


def test_a_loop_of_the_host_around_launches_passes_its_variable():
    c = Buffer("C", (3, 5), INT32)
    flat = Buffer("C", (15,), INT32)
    flat.data = c.data
    t = Var("t", INT32)
    body = st.For(t, IntImm(3, INT32), thread("threadIdx.x", 5, lambda tx: st.Store(flat, (t * 5 + tx,), t * 10 + tx)))
    program = check(Function("f", (c,), body), [], [np.arange(3, dtype="int32")[:, None] * 10 + np.arange(5, dtype="int32")])
    (step,) = program.steps
    assert isinstance(step, Repeat)
    assert step.steps == (Run(0),)
    assert [param.name for param in program.launches[0].params] == ["C", "t"]


def test_loops_over_one_tag_of_different_lengths_are_guarded():
    c = Buffer("C", (12,), INT32)
    body = thread("blockIdx.x", 1, lambda _: st.seq(
        thread("threadIdx.x", 8, lambda tx: st.Store(c, (tx,), tx)),
        thread("threadIdx.x", 4, lambda tx: st.Store(c, (tx + 8,), tx * 2)),
    ))
    program = check(Function("f", (c,), body), [], [np.array([0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6], "int32")])
    assert program.launches[0].block == (8, 1, 1)


def test_requirements_and_assertions_are_checks_before_the_launches():
    n, c = Var("n", INT32), Buffer("C", (8,), INT32)
    body = st.seq(
        st.Evaluate(effect("assert_that", n < 9, "n is below 9")),
        thread("threadIdx.x", 8, lambda tx: st.Store(c, (tx,), n)),
    )
    program = split(Function("f", (n, c), body, requires=(st.Requirement(n > 0, "n is positive"),)))
    assert [step.reason for step in program.steps if isinstance(step, Check)] == ["n is positive", "n is below 9"]


def test_a_store_without_threads_is_a_launch_of_one_thread():
    c = Buffer("C", (1,), INT32)
    function = Function("f", (c,), st.Store(c, (ZERO,), IntImm(5, INT32)))
    (launch,) = check(function, [], [np.array([5], "int32")]).launches
    assert launch.block == (1, 1, 1)
    assert [str(extent) for extent in launch.grid] == ["1", "1", "1"]


def _refused():
    c, d, n = Buffer("C", (8,), INT32), Buffer("D", (8,), FLOAT32, "shared"), Var("n", INT32)
    wide = Buffer("W", (n,), INT32, "local")
    warp = Buffer("W", (8,), INT32, "warp")

    def fill(buffer):
        return thread("threadIdx.x", 8, lambda tx: st.Store(buffer, (tx,), tx.astype(buffer.dtype)))
    yield "two launches touch it", st.Allocate(d, st.seq(fill(d), fill(d)))
    yield "which no kernel has", st.For(Var("v", INT32), IntImm(2, INT32), st.Store(c, (ZERO,), ZERO), LoopKind.THREAD, "vthread")
    yield "is no constant", st.For(Var("t", INT32), n, st.Store(c, (ZERO,), ZERO), LoopKind.THREAD, "threadIdx.x")
    yield "kernels have not", thread("threadIdx.x", 8, lambda tx: st.Allocate(warp, st.Store(warp, (tx,), tx)))
    yield "constant size", thread("threadIdx.x", 8, lambda tx: st.Allocate(wide, st.Store(wide, (tx,), tx)))
    yield "outside of any thread", st.If(c[0] < 3, fill(c))
    yield "is not known before the launch", thread("threadIdx.x", 8, lambda tx: st.For(
        Var("b", INT32), tx + 1, st.Store(c, (ZERO,), ZERO), LoopKind.THREAD, "blockIdx.x"))
    yield "decides by", thread("blockIdx.x", 8, lambda _: st.If(c[0] < 3, fill(c)))


@pytest.mark.parametrize(("words", "body"), [*_refused()], ids=lambda value: value if isinstance(value, str) else "")
def test_what_neither_host_nor_threads_can_do_is_refused(words, body):
    c = next((s.buffer for s in statements(body) if isinstance(s, st.Store) and s.buffer.name == "C"), Buffer("C", (8,), INT32))
    with pytest.raises(CodegenError) as caught:
        split(Function("f", (c,), body))
    assert words in str(caught.value).replace("\n", " ")


def run_launches(function: Function, arrays: list[Any]) -> None:
    """Run a function by the interpreter, and the program of its launches too."""
    want = [array.copy() for array in arrays]
    interpret(function, want)
    try:
        low = lower_late(function, "gpu")
    except PassError as error:
        if "the host touches" not in str(error):
            raise
        interpret(function, arrays)
        return
    interpret(joined(split(low)), arrays)
    for x, y in zip(want, arrays, strict=True):
        assert np.array_equal(x, y), "splitting into launches changes what the function computes"


@pytest.mark.parametrize("seed", range(0, 240, 40))
def test_programs_of_random_schedules_compute_what_the_functions_do(seed):
    fuzz(seed, 40, run_launches)


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_programs_of_random_kernels_compute_what_the_functions_do(seed):
    """Stages without threads among them, which become launches of one thread."""
    for at in range(seed, seed + 50):
        function, a, _ = drawn(at)
        want = run(function, a, len(a))
        low = run_passes(function, [step for step in late_passes("gpu") if step.name != "check_memory"])
        np.testing.assert_array_equal(run(joined(split(low)), a, len(a)), want, f"seed {at}")
