"""Compiled functions in a process: Python called and calling, errors, Ctrl-C, threads, forks, time."""

import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
from codegen_cases import buffer, compiled, loop
from support import raises

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, dtype
from vtakit.compiler.ir.values import cast, const
from vtakit.runtime.cpu import openmp, packed
from vtakit.runtime.cpu.function import CheckError, build
from vtakit.runtime.cpu.packed import PackedError
from vtakit.runtime.cpu.timing import Timing, measure

PARALLEL = st.LoopKind.PARALLEL
i = ir.Var("i")
ZERO = ir.IntImm(0)


def test_python_functions_are_called_with_arrays_and_numbers():
    """Statement 8: an extern that calls a packed Python function, with several outputs."""
    a, b, c = buffer("A", 2, 3), buffer("B", 6, kind="int32"), buffer("C", 1)
    seen = []

    def function(x, y, number, half, yes, big):
        seen.append((number, half, yes, big, x.shape, x.flags.writeable, y.flags.writeable))
        y[:] = x.ravel()[: len(y)]
        return 2.5

    numbers = (ir.IntImm(-7), const(0.5, "float16"), ir.IntImm(1, dtype("bool")), ir.IntImm(2**64 - 1, dtype("uint64")))
    call = effect("call_packed", "f", a.access_ptr("r"), b.access_ptr("w", 2), *numbers, returns=FLOAT32)
    f = compiled("f_", (a, b, c), st.Store(c, (ZERO,), call), packed={"f": function})
    x, y, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.full(6, -1, np.int32), np.zeros(1, np.float32)
    f(x, y, z)
    assert y.tolist() == [-1, -1, 0, 1, 2, 3]
    assert z[0] == 2.5
    assert seen == [(-7, 0.5, True, 2**64 - 1, (2, 3), False, True)]


def test_registered_functions_are_found():
    calls = []
    packed.register("tests.registered", lambda: calls.append(1))
    compiled("f", (), loop(i, 3, st.Evaluate(effect("call_packed", "tests.registered"))))()
    assert calls == [1, 1, 1]


def test_a_python_function_that_nobody_gave_is_named():
    with raises(PackedError, "f calls the Python function 'no.such', which is not known: give build(packed={'no.such': …}), or "
                             "register it with vtakit.runtime.cpu.packed.register"):
        compiled("f", (), st.Evaluate(effect("call_packed", "no.such")))


def test_a_packed_function_is_a_function():
    with raises(PackedError, "packed['cb'] of f is 3, which is no function: give a Python function"):
        build(st.Function("f", (), st.NOTHING), packed={"cb": 3})


@pytest.mark.parametrize("kind", [st.LoopKind.SERIAL, PARALLEL])
def test_exceptions_pass_through_and_memory_is_freed(kind):
    a, t = buffer("A", 8, kind="int32"), buffer("T", 1 << 20)

    class Mine(Exception):
        pass

    error = Mine("from Python")

    def function(number):
        if number == 3:
            raise error
        return number

    body = loop(i, 8, st.Allocate(t, st.seq(
        st.Store(t, (i,), const(1.0, FLOAT32)), st.Store(a, (i,), effect("call_packed", "f", i)))), kind=kind)
    f = compiled("f_", (a,), body, packed={"f": function})
    with pytest.raises(Mine) as caught:
        f(np.zeros(8, np.int32))
    assert caught.value is error
    assert f.compiled.text.count("@free(") >= 3  # declared, at the end, and on the way out


@pytest.mark.parametrize("kind", [st.LoopKind.SERIAL, PARALLEL])
def test_a_condition_that_does_not_hold_is_an_error(kind):
    a = buffer("A", 8, kind="int32")
    check = st.Evaluate(effect("assert_that", ir.LT(a[i], ir.IntImm(5)), "every element is under 5"))
    f = compiled("f", (a,), st.Evaluate(effect("assert_that", ir.LE(ir.IntImm(0), a[0]), "the first is not negative")),
                 loop(i, 8, check, kind=kind))
    f(np.zeros(8, np.int32))
    with raises(CheckError, "f: every element is under 5"):
        f(np.arange(8, dtype=np.int32))
    with raises(CheckError, "f: the first is not negative"):
        f(np.full(8, -1, np.int32))


def test_ctrl_c_in_a_python_function_passes_through():
    def function():
        raise KeyboardInterrupt

    f = compiled("f", (), st.Evaluate(effect("call_packed", "f_", returns=INT32)), packed={"f_": function})
    with pytest.raises(KeyboardInterrupt):
        f()


@pytest.fixture
def hears_ctrl_c():
    """SIGINT raises KeyboardInterrupt, also where it is ignored, as under `nohup`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_while_code_runs_is_seen_when_it_returns():
    a = buffer("A", 1)
    started = threading.Event()
    j = ir.Var("j")
    work = loop(j, 300_000_000, st.Store(a, (ZERO,), a[0] * 1.0000001 + 1.0))
    f = compiled("f", (a,), st.Evaluate(effect("call_packed", "started")), work, packed={"started": started.set})
    x = np.zeros(1, np.float32)

    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        f(x)
    sender.join()
    assert x[0] > 1e6  # the work was done


def test_python_goes_on_while_code_runs():
    """The lock is released: another thread answers the Python function that the code waits for."""
    asked, answered = threading.Event(), threading.Event()

    def answer():
        asked.wait()
        answered.set()

    thread = threading.Thread(target=answer)
    thread.start()
    f = compiled("f", (), st.Evaluate(effect("call_packed", "ask")), packed={"ask": lambda: (asked.set(), answered.wait(60))[1]})
    f()
    thread.join()


def sum_of(n):
    a = buffer("A", n)
    return compiled("count", (a,), loop(i, n, st.Store(a, (i,), cast(i, FLOAT32)), kind=PARALLEL))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads):
    before = openmp.threads()
    openmp.set_threads(threads)
    try:
        assert openmp.threads() == threads
        for n in (1, 2, 3, 1000):
            x = np.zeros(n, np.float32)
            sum_of(n)(x)
            assert np.array_equal(x, np.arange(n))
    finally:
        openmp.set_threads(before)


def test_threads_are_at_least_one():
    with raises(ValueError, "0 threads: a parallel loop needs at least 1"):
        openmp.set_threads(0)


def _in_child(queue):
    x = np.zeros(1000, np.float32)
    _FUNCTION(x)
    queue.put((openmp.threads(), bool(np.array_equal(x, np.arange(1000)))))


_FUNCTION = None


def test_parallel_loops_work_after_a_fork():
    """The runtime's threads do not exist in the child: its loops are serial there, and end."""
    global _FUNCTION
    before = openmp.threads()
    openmp.set_threads(4)
    _FUNCTION = sum_of(1000)
    _FUNCTION(np.zeros(1000, np.float32))  # the parent has threads
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == (1, True)
    assert openmp.threads() == 4
    openmp.set_threads(before)


def test_without_an_openmp_runtime_loops_are_serial(monkeypatch):
    monkeypatch.setattr(openmp, "library", lambda: None)
    says = "count: parallel loops run on one thread, because there is no OpenMP runtime: apt install libgomp1"
    with pytest.warns(RuntimeWarning, match=f"^{says}$"):
        f = sum_of(10)
    x = np.zeros(10, np.float32)
    f(x)
    assert np.array_equal(x, np.arange(10))
    assert not f.compiled.parallel
    assert openmp.threads() == 1


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "wasm32-unknown-unknown", "x86_64-pc-windows-msvc"])
def test_code_for_another_machine_can_be_saved_and_is_not_run_here(triple, tmp_path):
    x = buffer("x", 10)
    f = build(st.Function("f", (x,), st.Store(x, (ZERO,), const(1, FLOAT32))), Target(triple))
    f.compiled.save_object(tmp_path / "f.o")
    assert (tmp_path / "f.o").read_bytes() == f.compiled.code
    for use in (f, f.time):
        with raises(CodegenError, f"f: code for {triple} cannot run in this process on {Target.host()}: save it, with "
                                  "compiled.save_object or compiled.save_library"):
            use(np.zeros(10, np.float32))


def test_code_for_a_processor_with_more_features_can_be_saved_and_is_not_run_here():
    host = Target.host()
    lacks = next(name for name in ("xop", "sse4a", "amx-complex") if f"+{name}" not in host.features)  # no processor has all
    f = build(st.Function("f", (), st.NOTHING), Target(host.triple, features=(f"+{lacks}",)))
    assert f.compiled.code
    with raises(CodegenError, f"f: this machine lacks {lacks}: save it, with compiled.save_object or compiled.save_library"):
        f()


def test_time():
    f = sum_of(100)
    found = f.time(np.zeros(100, np.float32), repeat=3, min_repeat_ms=1)
    assert len(found.seconds) == 3
    assert 0 < found.min <= found.median <= max(found.seconds)
    assert f.time(np.zeros(100, np.float32), number=2).number == 2
    assert str(Timing((0.001, 0.003, 0.002), 5)) == "2 ms (median of 3 x 5 runs; least 1 ms)"
    assert Timing((0.001, 0.003, 0.002), 5).mean == pytest.approx(0.002)
    for repeat, number in ((0, None), (5, -1), (2.5, None), (5, "10")):
        with raises(ValueError, f"time(repeat={repeat!r}, number={number!r}): both are whole numbers of at least 1"):
            f.time(np.zeros(100, np.float32), repeat=repeat, number=number)


def test_as_many_runs_as_take_the_least_time(monkeypatch):
    now = [0.0]

    def run():
        now[0] += 0.003
    monkeypatch.setattr("vtakit.runtime.cpu.timing.time.perf_counter", lambda: now[0])
    found = measure(run, 2, None, 20)
    assert found.number * 3 >= 20
    assert found.number <= 8
    assert found.seconds == pytest.approx((0.003, 0.003))


def test_a_function_says_what_it_is():
    f = sum_of(10)
    assert f.name == "count"
    assert repr(f) == f"<function count for {Target.host()}>"
