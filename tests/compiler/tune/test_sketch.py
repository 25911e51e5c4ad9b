"""Generated schedules of expressions that no operator knows: every candidate computes what NumPy does."""

import numpy as np
import pytest
from expression_truths import TRUTHS
from expressions import EXPRESSIONS, SMALL
from support import raises

import vtakit
from vtakit import te, tune
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune.sketch_sizes import blocks, heights, room, widths
from vtakit.compiler.tune.space import drawn, mutated
from vtakit.compiler.tune.task import Task, TuneError, decided
from vtakit.runtime.tune.binary import Port, random_array
from vtakit.runtime.tune.subject import difference


def small(name, threads=1):
    args = EXPRESSIONS[name](**SMALL[name])
    return tune.expression(args[-1], args, name=name, threads=threads)


def arrays_of(task, seed):
    ports = [Port(str(arg.dtype), tuple(extent.value for extent in arg.shape), False) for arg in task.args]
    return [random_array(port, (seed, at)) for at, port in enumerate(ports)]


def check(task, given):
    *inputs, result = arrays_of(task, 5)
    wanted = TRUTHS[task.name](*inputs).astype(result.dtype)
    made = task.program(Decisions(given))
    result[...] = 77
    vtakit.build(made.schedule, [*made.args])(*inputs, result)
    off, most = difference(wanted, result)
    assert off <= most, (task.name, given)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_default_computes_what_numpy_does(name):
    task = small(name)
    assert isinstance(task, Task)
    check(task, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_random_candidates_compute_what_numpy_does(name):
    task, rng = small(name, threads=1 + len(name) % 2), np.random.default_rng([*name.encode()])
    first = drawn(task, rng)
    for given in (first, mutated(task, first, rng), *[drawn(task, rng) for _ in range(4)]):
        check(task, given)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_spaces_are_large_and_defaults_are_legal(name):
    task, rng = small(name), np.random.default_rng(1)
    found = {repr(drawn(task, rng)) for _ in range(60)}
    assert len(found) > 20
    assert decided(task, decided(task)) == decided(task)


def test_tiles_fit_the_registers():
    args = EXPRESSIONS["min_plus"]()
    task, rng = tune.expression(args[-1], args), np.random.default_rng(2)
    lanes, registers = task.machine.lanes(args[-1].dtype), task.machine.vector_registers
    for _ in range(100):
        given = drawn(task, rng)
        tile = [value for name, value in given.items() if ".tile." in name]
        assert np.prod(tile) <= registers * lanes


@pytest.mark.parametrize(("extent", "most"), [(7, 16), (16, 4), (31, 8), (1, 3), (96, 1)])
def test_sizes(extent, most):
    found = heights(extent, most)
    assert found[0] == 1
    assert found == sorted(set(found))
    assert found[-1] <= min(most, extent)
    assert {1, *[size for size in (2, 4) if size <= min(most, extent)]} <= {*found, *range(1, found[-1] + 1)}
    assert blocks(extent)[0] == 1
    assert all(size < max(extent, 2) for size in blocks(extent))
    assert all(size <= extent for size in widths(extent, 16))
    assert extent >= 16 or extent in widths(extent, 16)


def test_room_is_that_of_a_search():
    machine = small("min_plus").machine
    for vectors in range(1, 5):
        rows = max([r for r in range(1, 99) if r * vectors + vectors + 1 <= machine.vector_registers], default=1)
        assert room(machine, 16 * vectors, 16) == rows


def test_a_reduction_to_one_number_and_sizes_of_zero_have_a_schedule():
    A = te.placeholder((40,), name="A")
    k = te.reduce_axis((0, 40), "k")
    S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
    task = tune.expression(S, [A, S])
    given = np.arange(40, dtype=np.float32)
    out = np.zeros((), np.float32)
    made = task.program(Decisions())
    vtakit.build(made.schedule, [*made.args])(given, out)
    assert out == given.sum()
    B = te.placeholder((0, 3), name="B")
    C = te.compute((0, 3), lambda i, j: B[i, j] + 1, name="C")
    assert decided(tune.expression(C, [B, C])) == {}


def test_what_is_no_expression_is_refused():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    with raises(TuneError, "task 'B': A: float32[n] has a size that is known when the program runs: give a number for each"):
        tune.expression(B, [A, B])
    with raises(TuneError, "task 'expression': give the tensors that it computes, and those that its function takes"):
        tune.expression([], [A])
    with raises(TuneError, "task 'B' is to run on 0 threads: give a number, at least 1"):
        tune.expression(B, [A, B], threads=0)


def test_scans_and_externs_stay_as_they_are():
    n = 12
    X = te.placeholder((n, 8), name="X")
    state = te.placeholder((n, 8), name="state")
    init = te.compute((1, 8), lambda _, i: X[0, i], name="init")
    update = te.compute((n, 8), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, inputs=[X])
    E = te.extern((n, 8), [X], lambda ins, outs: te.call_extern(
        "int32", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), te.const(n * 32, "int64")), name="E")
    k = te.reduce_axis((0, n), "k")
    S = te.compute((8,), lambda i: te.sum(E[k, i] * total[k, i], axis=k), name="S")
    task, rng = tune.expression(S, [X, S]), np.random.default_rng(0)
    x = rng.standard_normal((n, 8)).astype(np.float32)
    for given in ({}, *[drawn(task, rng) for _ in range(3)]):
        out = np.zeros(8, np.float32)
        made = task.program(Decisions(given))
        vtakit.build(made.schedule, [*made.args])(x, out)
        np.testing.assert_allclose(out, (x * x.cumsum(0)).sum(0), rtol=1e-4, atol=1e-4)
