"""Expressions in which one object stands in many places: all that is done with them takes as long as there are objects."""

import random
import sys

import numpy as np
import pytest

from vtakit import te
from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import MOST_CALLS, deep
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Call, Expr, Let, Load
from vtakit.compiler.ir.sharing import named_values, with_names
from vtakit.compiler.ir.stmt import For, Function, If, LetStmt, Store
from vtakit.compiler.ir.walk import map_expr, statements, subexpressions, substitute
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.function import build

SIZE = 16
DEPTH = 64  # the tree of the expression has 3 ** DEPTH leaves: nothing that goes over it comes to an end


def run(schedule, args, inputs):
    """What the interpreter and the machine code compute, which is the same."""
    function = lower(schedule, args)
    found = []
    for runner in (interpret, lambda f, arrays: build(lower_late(f))(*arrays)):
        arrays = [x.copy() for x in inputs] + [np.full(SIZE, 77, np.int32)]
        runner(function, arrays)
        found.append(arrays[-1])
    np.testing.assert_array_equal(*found)
    return found[0]


def doubled(e, depth=DEPTH):
    for _ in range(depth):
        e = e * e + e
    return e


@pytest.mark.parametrize("mark", ["", "vectorize"])
def test_a_value_needed_many_times_is_computed_once(mark):
    A = te.placeholder((SIZE,), "int32", name="A")
    C = te.compute((SIZE,), lambda i: doubled(A[i]), name="C")
    s = te.create_schedule(C)
    if mark:
        getattr(s[C], mark)(C.op.axis[0])
    a = np.arange(SIZE, dtype=np.int32)
    np.testing.assert_array_equal(run(s, [A, C], [a]), doubled(a))
    assert len(str(lower(s, [A, C]))) < 100 * DEPTH
    assert len(te.nest_text(s[C])) < 100 * DEPTH


def test_in_a_reduction():
    A = te.placeholder((SIZE,), "int32", name="A")
    k = te.reduce_axis((0, SIZE), name="k")
    C = te.compute((SIZE,), lambda i: te.sum(doubled(A[k] + i), axis=k), name="C")
    a = np.arange(SIZE, dtype=np.int32)
    want = doubled(a[None, :] + np.arange(SIZE, dtype=np.int32)[:, None]).sum(axis=1, dtype=np.int32)
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), want)


def test_in_a_body_of_ones_own():
    """Statements of an extern operation: loops in them, and conditions, come before what is named within."""
    A, C, i = Buffer("A", (SIZE,), INT32), Buffer("C", (SIZE,), INT32), te.var("i")
    body = For(i, te.const(SIZE, "int32"), If(Load(A, (i,)) > 3, Store(C, (i,), doubled(Load(A, (i,)))), Store(C, (i,), i)))
    named = named_values(body)
    assert isinstance(named.body.then, LetStmt)
    assert named.body.otherwise is body.body.otherwise
    a, c = np.arange(SIZE, dtype=np.int32), np.zeros(SIZE, np.int32)
    interpret(Function("main", (A, C), named), [a, c])
    np.testing.assert_array_equal(c, np.where(a > 3, doubled(a), a))


def test_stages_that_read_the_one_before_twice_inlined():
    A = te.placeholder((SIZE,), "int32", name="A")
    stages = [A]
    for at in range(DEPTH):
        stages.append(te.compute((SIZE,), lambda i, b=stages[-1]: b[i] * b[i] + b[i], name=f"B{at}"))
    s = te.create_schedule(stages[-1])
    for stage in stages[1:-1]:
        s[stage].compute_inline()
    a = np.arange(SIZE, dtype=np.int32)
    np.testing.assert_array_equal(run(s, [A, stages[-1]], [a]), doubled(a))


def test_in_an_index_and_of_index_arithmetic():
    A = te.placeholder((SIZE,), "int32", name="A")

    def body(i):
        e = i
        for _ in range(DEPTH):
            e = (e + e) % SIZE
        value = i
        for _ in range(20):
            value = value * value + value
        return A[(i + e) % SIZE] + value

    C = te.compute((SIZE,), body, name="C")
    a, i = np.arange(SIZE, dtype=np.int32) * 3, np.arange(SIZE, dtype=np.int32)
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), a + doubled(i, 20))


def test_what_only_one_case_reads_is_read_in_that_case():
    """A[i - 1] is outside of A where i is 0: the interpreter refuses to read it, so it was not named before the condition."""
    A = te.placeholder((SIZE,), "int32", name="A")
    C = te.compute((SIZE,), lambda i: te.if_then_else(i >= 1, doubled(A[i - 1]), doubled(A[i])), name="C")
    a = np.arange(SIZE, dtype=np.int32)
    want = doubled(np.concatenate([a[:1], a[:-1]]))
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), want)


@pytest.mark.parametrize("choice", [te.if_then_else, te.select])
def test_what_all_cases_need_is_computed_before_them(choice):
    A = te.placeholder((SIZE,), "int32", name="A")

    def body(i):
        e = A[i]
        for at in range(DEPTH):
            e = choice(i > at, e, e * 2) + 1
        return e

    want = np.arange(SIZE, dtype=np.int32)
    a = want.copy()
    for at in range(DEPTH):
        want = np.where(np.arange(SIZE) > at, want, want * 2) + np.int32(1)
    C = te.compute((SIZE,), body, name="C")
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), want)


def test_long_sums_are_parted():
    A = te.placeholder((SIZE,), "int32", name="A")

    def body(i):
        e = A[i]
        for at in range(140):
            e = e * 3 + at
        return e

    C = te.compute((SIZE,), body, name="C")
    a = np.arange(SIZE, dtype=np.int32)
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), body_of(a))


def body_of(e):
    for at in range(140):
        e = e * np.int32(3) + np.int32(at)
    return e


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed):
    """Values built from earlier ones at random, beside the same in NumPy; guards keep reads inside."""
    rng = random.Random(seed)
    A = te.placeholder((SIZE,), "int32", name="A")
    a = np.random.default_rng(seed).integers(-9, 9, SIZE).astype(np.int32)
    at = np.arange(SIZE)

    def body(i):
        made = [(A[i], a), (i, at.astype(np.int32))]
        for _ in range(24):
            (x, u), (y, v) = rng.choice(made[-4:]), rng.choice(made[-4:])
            n = rng.randrange(SIZE)
            match rng.randrange(6):
                case 0:
                    made.append((x + y, u + v))
                case 1:
                    made.append((x * y, u * v))
                case 2:
                    made.append((te.select(x < y, y, x + 1), np.where(u < v, v, u + np.int32(1))))
                case 3:
                    made.append((te.if_then_else(x > n, x + y, y * 3), np.where(u > n, u + v, v * np.int32(3))))
                case 4:
                    read = te.if_then_else(i >= n, x + A[i - n] * y, y)
                    made.append((read, np.where(at >= n, u + a[at - n] * v, v)))
                case 5:
                    read = te.if_then_else(te.all(i >= n, A[i - n] > 0), x, y)
                    made.append((read, np.where((at >= n) & (a[at - n] > 0), u, v)))
        want.append(made[-1][1])
        return made[-1][0]

    want = []
    C = te.compute((SIZE,), body, name="C")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), want[0])


LEVELS = 24  # of branches beside each other, in each of which stand those of the level below
BESIDE = {
    "read in any case": lambda i, x, e, at: te.if_then_else(x > at, e, 1) + te.if_then_else(x < 2 * at, e * 3, 2),
    "inside wherever it is": lambda i, x, e, at: te.if_then_else(i > at, e, 1) + te.if_then_else(i < 2 * at, e * 3, 2),
    "one in a branch of the other": lambda i, x, e, at: te.if_then_else(i > at, e, te.if_then_else(i < 2 * at, e * 3, 2)),
    "in a condition": lambda i, x, e, at: te.if_then_else(te.all(x > at, e > 3), e * 2, te.if_then_else(x > 3, e, 2)),
    "selects": lambda i, x, e, at: te.select(te.any(i > at, e > 3), e * 2, te.select(x > 3, e, e + 2)),
}


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("step", BESIDE.values(), ids=BESIDE)
def test_a_value_that_branches_beside_each_other_need(step, guarded):
    A = te.placeholder((SIZE,), "int32", name="A")

    def body(i):
        value = te.if_then_else(i > 0, A[i - 1], 3) if guarded else A[i]
        for at in range(LEVELS):
            value = step(i, A[i], value, at)
        return value

    def evaluated(i, x, values):
        value = (x[i - 1] if i > 0 else 3) if guarded else x[i]
        for at in range(LEVELS):
            value = values(i, x[i], value, at)
        return value

    python = {
        "read in any case": lambda i, x, e, at: (e if x > at else 1) + (e * 3 if x < 2 * at else 2),
        "inside wherever it is": lambda i, x, e, at: (e if i > at else 1) + (e * 3 if i < 2 * at else 2),
        "one in a branch of the other": lambda i, x, e, at: e if i > at else e * 3 if i < 2 * at else 2,
        "in a condition": lambda i, x, e, at: e * 2 if x > at and _wrapped(e) > 3 else e if x > 3 else 2,
        "selects": lambda i, x, e, at: e * 2 if i > at or _wrapped(e) > 3 else e if x > 3 else e + 2,
    }
    C = te.compute((SIZE,), body, name="C")
    a = np.random.default_rng(LEVELS).integers(-9, 40, SIZE).astype(np.int32)
    of = python[next(name for name, way in BESIDE.items() if way is step)]
    want = [_wrapped(evaluated(i, a.tolist(), of)) for i in range(SIZE)]
    np.testing.assert_array_equal(run(te.create_schedule(C), [A, C], [a]), want)
    assert len(str(C.op.body[0])) < 400 * LEVELS


def _wrapped(value):
    """An integer as 32 bits hold it."""
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("count", [120, 500])
def test_a_chain_of_stages_is_no_nest(count):
    A = te.placeholder((4,), "int32", name="A")
    last = A
    for at in range(count):
        last = te.compute((4,), lambda i, b=last: b[i] + 1, name=f"B{at}")
    function = lower(te.create_schedule(last), [A, last])
    arrays = [np.arange(4, dtype=np.int32), np.zeros(4, np.int32)]
    interpret(lower_late(function), arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0] + count)
    assert len(str(function).splitlines()) == 4 * count


@pytest.mark.parametrize("choose", [te.if_then_else, te.select])
def test_many_tensors_one_after_another_as_choices_within_choices(choose):
    parts = [te.placeholder((1,), "int32", name=f"A{at}") for at in range(300)]

    def body(i):
        value = parts[-1][0]
        for at, part in reversed([*enumerate(parts[:-1])]):
            value = choose(i == at, part[0], value)
        return value

    C = te.compute((300,), body, name="C")
    function = lower(te.create_schedule(C), [*parts, C])
    given = [np.array([at * 7], np.int32) for at in range(300)]
    got = np.zeros(300, np.int32)
    build(lower_late(function))(*given, got)
    np.testing.assert_array_equal(got, np.arange(300) * 7)


def test_python_s_limit_is_as_it_was():
    before = sys.getrecursionlimit()
    with deep():
        assert sys.getrecursionlimit() == max(before, MOST_CALLS)
        with deep():
            pass
        assert sys.getrecursionlimit() == max(before, MOST_CALLS)
    assert sys.getrecursionlimit() == before


def test_small_expressions_stay_as_they_are():
    A = te.placeholder((SIZE,), "int32", name="A")
    C = te.compute((SIZE,), lambda i: doubled(A[i], 3), name="C")
    (e,) = C.op.body
    assert with_names(e) is e
    assert not any(isinstance(s, LetStmt) for s in statements(lower(te.create_schedule(C), [A, C]).body))


def test_effects_stay_as_many_as_they_are():
    call = te.call_extern("int32", "tick", te.var("x") + 1)
    e = with_names(doubled(call, 9))
    assert not any(isinstance(node, Let) and _calls(node.value) for node in subexpressions(e))
    assert _occurrences(e, lambda node: isinstance(node, Call)) == 3 ** 9


def _calls(e: Expr) -> bool:
    return any(isinstance(node, Call) for node in subexpressions(e))


def _occurrences(e, wanted):
    return wanted(e) + sum(_occurrences(child, wanted) for child in e.children())


def test_walks_keep_one_object_one():
    x, y = te.var("x"), te.var("y")
    e = doubled(x + 1)
    found = map_expr(substitute(e, {x: y}), lambda node: node)
    assert len([*subexpressions(found)]) == len([*subexpressions(e)]) == 2 * DEPTH + 3
    assert found == substitute(e, {x: y}), "they are compared in as many steps"


def test_the_normal_form_of_products_of_products_is_found():
    x, a = te.var("x"), Analyzer()
    a.learn(x >= 2)
    a.learn(x < 9)
    e = doubled(x)
    assert a.simplify(e) == a.simplify(a.simplify(e))
    assert a.prove(e >= 6)
    assert a.bounds(doubled(x, 2)) == (42, 5256)
    twice = x
    for _ in range(DEPTH):
        twice = twice + twice
    assert a.bounds(twice) == (2 << DEPTH, 8 << DEPTH)
    assert str(a.simplify(x * x * x + x * 2)) == "x * 2 + x * x * x"


def test_a_long_program_is_saved():
    stages = [te.placeholder((SIZE,), "int32", name="A")]
    for at in range(500):
        stages.append(te.compute((SIZE,), lambda i, b=stages[-1]: b[i] * b[i] + b[i], name=f"B{at}"))
    text = te.save_json(stages[-1])
    back = te.load_json(text)
    assert te.save_json(back) == text
    assert INT32 is back.dtype
