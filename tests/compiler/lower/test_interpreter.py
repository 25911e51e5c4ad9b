"""The interpreter: exact types, and every fault that it must find."""

import math

import ml_dtypes
import numpy as np
import pytest
from ir_support import SYNC, allocate, buffer, function, loop, numbers, run, store, threads, vectorized

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_MATH, effect, math_call
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Call, IntImm, Load, StringImm, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.ops import if_then_else, maximum, minimum, select, truncdiv, truncmod
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import TRUE
from vtakit.compiler.lower.interpreter import (
    ArgumentError,
    DivergenceError,
    InterpretError,
    OutOfBoundsError,
    RaceError,
    UndefinedValueError,
    interpret,
)

i, j, k, t, b = (Var(name) for name in "ijktb")
n, m = Var("n", size=True), Var("m", size=True)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def whole_range(kind, seed):
    """Values over all of an integer type, its ends among them."""
    info = np.iinfo(kind)
    found = np.random.default_rng(seed).integers(info.min, info.max, 64, dtype=kind, endpoint=True)
    found[:4] = info.min, info.max, 0, 1
    return found


def elementwise(kind, make, *arrays, result=None):
    """``Out[i] = make(A[i], B[i], …)``"""
    params = [buffer(name, len(arrays[0]), kind=str(array.dtype)) for name, array in zip("ABCD", arrays, strict=False)]
    out = buffer("Out", len(arrays[0]), kind=result or kind)
    value = make(*[param[i] for param in params])
    return run(function([*params, out], loop(i, len(arrays[0]), st.Store(out, (i,), value))), *arrays)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize(("ours", "numpy"), [
    (lambda a, b: a + b, np.add), (lambda a, b: a - b, np.subtract), (lambda a, b: a * b, np.multiply),
    (minimum, np.minimum), (maximum, np.maximum), (lambda a, b: a & b, np.bitwise_and), (lambda a, b: a ^ b, np.bitwise_xor),
    (lambda a, b: a | b, np.bitwise_or),
], ids=["add", "sub", "mul", "min", "max", "and", "xor", "or"])
def test_integers_wrap_as_the_machine_does(kind, ours, numpy):
    a, c = whole_range(kind, 1), whole_range(kind, 2)[::-1].copy()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(elementwise(kind, ours, a, c), numpy(a, c))


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_and_shifts(kind):
    a, c = whole_range(kind, 3), whole_range(kind, 4)
    c[c == 0] = 3
    if kind.startswith("int"):
        c[(a == np.iinfo(kind).min) & (c == -1)] = 2
    np.testing.assert_array_equal(elementwise(kind, lambda a, c: a // c, a, c), a // c)
    np.testing.assert_array_equal(elementwise(kind, lambda a, c: a % c, a, c), a % c)
    exact = [(abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)) for x, y in zip(a, c, strict=True)]
    np.testing.assert_array_equal(elementwise(kind, truncdiv, a, c), np.array(exact, kind))
    rest = [int(x) - q * int(y) for x, y, q in zip(a, c, exact, strict=True)]
    np.testing.assert_array_equal(elementwise(kind, truncmod, a, c), np.array(rest, kind))
    counts = np.array([int(x) % dtype(kind).bits for x in c], kind)
    np.testing.assert_array_equal(elementwise(kind, lambda a, c: a << c, a, counts), a << counts)
    np.testing.assert_array_equal(elementwise(kind, lambda a, c: a >> c, a, counts), a >> counts)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", INTEGERS)
def test_integer_casts_keep_the_low_bits(source, to):
    a = whole_range(source, 5)
    np.testing.assert_array_equal(elementwise(to, lambda a: a.astype(to), a), a.astype(to))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_floats_round_once_to_their_type(kind):
    numpy_kind = np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)
    rng = np.random.default_rng(6)
    a, c = (rng.normal(0, 30, 64).astype(numpy_kind) for _ in range(2))
    for ours, numpy in [
        (lambda a, c: a + c, np.add), (lambda a, c: a - c, np.subtract), (lambda a, c: a * c, np.multiply),
        (lambda a, c: a / c, np.divide),
    ]:
        np.testing.assert_array_equal(elementwise(kind, ours, a, c), numpy(a, c))
    want = a.astype("float64") * c.astype("float64") + a.astype("float64")
    if kind != "float64":  # two halves' exact product and sum fit a double, so that rounding it once is exact
        got = elementwise(kind, lambda a, c: Call(dtype(kind), "fma", (a, c, a)), a, c)
        np.testing.assert_array_equal(got, want.astype(numpy_kind))


def test_special_floats():
    a = np.array([math.nan, 1, math.inf, -math.inf, 0], np.float32)
    c = np.array([1, math.nan, 1, -math.inf, -0.0], np.float32)
    np.testing.assert_array_equal(elementwise("float32", minimum, a, c), np.minimum(a, c))
    np.testing.assert_array_equal(elementwise("float32", maximum, a, c), np.maximum(a, c))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise("float32", lambda a, c: a / c, a, c), a / c)
        np.testing.assert_array_equal(elementwise("float32", lambda a: a * 3e38, a), a * np.float32(3e38))
    flags = elementwise("bool", lambda a: math_call("isnan", a), a)
    np.testing.assert_array_equal(flags, np.isnan(a))


@pytest.mark.parametrize("name", FLOAT_MATH)
def test_math_functions_exist_and_round_the_doubles_value(name):
    a = np.array([0.25, 0.5, 0.75], np.float32)
    if name == "acosh":
        a += 1
    got = elementwise("float32", lambda a: math_call(name, a), a)
    own = {
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "rsqrt": lambda x: 1 / math.sqrt(x), "exp10": lambda x: 10**x,
        "nearbyint": round, "round": lambda x: math.floor(x + 0.5),
    }
    want = [np.float32(own.get(name, getattr(math, name, None))(float(x))) for x in a]
    np.testing.assert_allclose(got, want, rtol=6e-8)


def test_lanes_are_all_computed_before_the_first_is_stored():
    A = buffer("A", 8, kind="int32")
    up, down = ir.Ramp(IntImm(0), IntImm(1), 8), ir.Ramp(IntImm(7), IntImm(-1), 8)
    data = np.arange(8, dtype=np.int32)
    interpret(function([A], st.Store(A, (up,), Load(A, (down,)))), [data])
    np.testing.assert_array_equal(data, np.arange(8)[::-1])


def test_symbolic_sizes_strides_and_scalars():
    row = Var("row", size=True)
    A = Buffer("A", (n, m), dtype("float32"), strides=(row, IntImm(1)))
    B = buffer("B", m, n)
    x = Var("x", dtype("float32"))
    f = function([A, x, B], loop(i, n, loop(j, m, store(B, (j, i), A[i, j] * x))))
    base, out = numbers(4, 9), np.zeros((5, 4), np.float32)
    interpret(f, {"A": base[:, 2:7], "x": 2.0, "B": out})
    np.testing.assert_array_equal(out, base[:, 2:7].T * 2)


def test_many_loops_deep():
    """Python allows twenty in one function."""
    A, out = buffer("A", 1, kind="int32"), buffer("Out", 1, kind="int32")
    body = store(out, 0, out[0] + A[0])
    for depth in range(40):
        body = loop(Var(f"i{depth}"), 2 if depth < 5 else 1, body)
    assert run(function([A, out], body), np.array([3], np.int32))[0] == 96


def test_packed_and_intrinsic_calls():
    A, B = buffer("A", 2, 3), buffer("B", 2, 3)
    f = function([A, B], st.Evaluate(effect("call_packed", "double", A.access_ptr("r"), B.access_ptr("w"))),
                 st.Evaluate(effect("bump", B.access_ptr("rw", 4), 7)))
    seen = []

    def double(source, target):
        seen.append(source.shape)
        target[...] = source * 2

    def bump(pointer, by):
        pointer[1] += by
    a, out = numbers(2, 3), np.zeros((2, 3), np.float32)
    interpret(f, [a, out], packed={"double": double, "bump": bump})
    want = a * 2
    want[1, 2] += 7
    np.testing.assert_array_equal(out, want)
    assert seen == [(2, 3)]
    with pytest.raises(InterpretError, match=r"call_packed of 'double': give interpret\(…, packed="):
        interpret(f, [a, out])


# Faults


def fault(kind, first_line, f, *inputs, **sizes):
    with pytest.raises(kind) as caught:
        run(f, *inputs, **sizes)
    assert str(caught.value).split("\n")[0] == first_line
    return str(caught.value)


A, B = buffer("A", 8), buffer("B", 8)


def test_an_index_outside_its_buffer_with_the_program():
    f = function([A, B], loop(i, 8, store(B, i, A[i + 1])))
    text = fault(OutOfBoundsError, "A[8] is outside its shape [8], at i = 7", f, numbers(8))
    assert text == """\
A[8] is outside its shape [8], at i = 7

      def main(A: float32[8], B: float32[8]):
          for i in range(8):
-->           B[i] = A[i + 1]"""


def test_a_column_outside_is_found_though_the_element_exists():
    M = buffer("M", 4, 4)
    fault(OutOfBoundsError, "M[0, 4] is outside its shape [4, 4], at i = 0, j = 4",
          function([M], loop(i, 4, loop(j, 5, store(M, (i, j), 0)))))


def test_select_evaluates_both_sides_and_if_then_else_one():
    """Pitfall 14."""
    fault(OutOfBoundsError, "A[-1] is outside its shape [8], at i = 0",
          function([A, B], loop(i, 8, store(B, i, select(i > 0, A[i - 1], 0.0)))), numbers(8))
    run(function([A, B], loop(i, 8, store(B, i, if_then_else(i > 0, A[i - 1], 0.0)))), numbers(8))


def test_an_undefined_element_may_be_copied_but_not_used():
    S, T = buffer("S", 8), buffer("T", 8)
    copied = function([A, B], allocate(S, allocate(T, loop(i, 8, store(T, i, S[i])), loop(j, 8, store(B, j, A[j])))))
    np.testing.assert_array_equal(run(copied, numbers(8)), numbers(8))
    fault(UndefinedValueError, "an element that was never written is computed with, at i = 0",
          function([A, B], allocate(S, loop(i, 8, store(B, i, S[i] + A[i])))), numbers(8))
    fault(UndefinedValueError, "main leaves B[3] undefined", function([B], allocate(S, store(B, 3, S[0]))))


def test_memory_is_undefined_again_in_each_iteration():
    S = buffer("S", 1)
    f = function([A, B], loop(i, 8, allocate(S, st.If(i < 1, store(S, 0, 1)), store(B, i, S[0] + 1))))
    fault(UndefinedValueError, "an element that was never written is computed with, at i = 1", f, numbers(8))


@pytest.mark.parametrize(("value", "text"), [
    (lambda x: (IntImm(5) // x.astype("int32")).astype("float32"), "integer division or modulo by zero, at i = 0"),
    (lambda x: (x + 3e9).astype("int32").astype("float32"),
     "3000000000.0 becomes an integer of a type that holds -2147483648 to 2147483647, at i = 0"),
    (lambda x: (IntImm(1) << (x.astype("int32") + 40)).astype("float32"),
     "a shift of 32 bits by 40: the count is within 0 to 31, at i = 0"),
])
def test_undefined_operations(value, text):
    fault(UndefinedValueError, text, function([A, B], loop(i, 8, store(B, i, value(A[i])))), np.zeros(8, np.float32))


def test_a_block_outside_its_domain():
    v = Var("v")
    block = st.Block("B", (st.BlockIter(v, Range(IntImm(0), IntImm(6)), IterKind.DATA, i),), (), (), TRUE, None, store(B, v, 1))
    fault(InterpretError, "block B runs with v = 6, outside its domain 0 to 5, at i = 6, v = 6", function([B], loop(i, 8, block)))


def test_two_iterations_of_a_parallel_loop_must_not_meet():
    meeting = function([A, B], loop(i, 8, store(B, 0, B[0] + A[i]), kind=LoopKind.PARALLEL))
    text = "element 0 of B is written and read by two iterations of a parallel or block loop, which nothing orders, at i = 1"
    fault(RaceError, text, meeting, numbers(8))
    run(function([A, B], loop(i, 8, store(B, i, A[0]), kind=LoopKind.PARALLEL)), numbers(8))


def test_races_between_barriers():
    S = buffer("S", 8, scope="shared")

    def kernel(*body):
        return function([A, B], threads("threadIdx.x", t, 8, allocate(S, *body)), synchronised=1)

    fine = kernel(store(S, t, A[t]), SYNC, store(B, t, S[7 - t]))
    np.testing.assert_array_equal(run(fine, numbers(8)), numbers(8)[::-1])
    one, other = "threadIdx.x = 1", "threadIdx.x = 0"
    text = f"element 0 of S is written twice by thread {one} and by thread {other} with no barrier between, at t = 1"
    fault(RaceError, text, kernel(store(S, 0, A[t])), numbers(8))
    again = kernel(loop(k, 2, store(S, t, A[t]), SYNC, store(B, t, S[7 - t])))  # the next write does not wait for the reads
    with pytest.raises(RaceError, match=r"element 3 of S is written and read by thread threadIdx\.x = 4"):
        run(again, numbers(8))


def test_without_barriers_statements_are_done_by_all_threads_in_turn():
    S = buffer("S", 8, scope="shared")
    f = function([A, B], threads("threadIdx.x", t, 8, allocate(
        S, loop(k, 2, st.If(t < 6, st.seq(store(S, t, A[t] + k.astype("float32")), store(B, t, S[5 - t])))))))
    want = np.zeros(8, np.float32)
    want[:6] = numbers(8)[:6][::-1] + 1
    np.testing.assert_array_equal(run(f, numbers(8)), want)


def test_threads_at_different_barriers():
    shape = r"thread threadIdx\.y = 0, threadIdx\.x = 0 and thread threadIdx\.y = 0, threadIdx\.x = 2 wait at different barriers"
    f = function([A], threads("threadIdx.y", t, 2, threads("threadIdx.x", k, 4, st.If(k < 2, SYNC, SYNC))))
    with pytest.raises(DivergenceError, match=shape):
        run(f)


def test_scopes_of_memory():
    """Local memory is a thread's own, wherever it is allocated; shared memory is one for a block."""
    L, S = buffer("L", 1, scope="local"), buffer("S", 4, scope="shared")
    C = buffer("C", 2, 4)
    f = function([C], threads("blockIdx.x", b, 2, allocate(L, threads("threadIdx.x", t, 4, allocate(
        S, store(L, 0, b * 10 + t), store(S, t, L[0]), store(C, (b, t), S[3 - t]))))))
    np.testing.assert_array_equal(run(f), [[3, 2, 1, 0], [13, 12, 11, 10]])


@pytest.mark.parametrize(("args", "text"), [
    ([np.zeros(8, np.float32)], "main takes 2 arguments (A, B), got 1"),
    ([np.zeros(8, np.float64), np.zeros(8, np.float32)], "main: A is A: float32[8], got float64[8]"),
    ([np.zeros(9, np.float32), np.zeros(8, np.float32)], "main: A has extent 8 in dimension 0, got 9"),
    ({"A": np.zeros(8, np.float32)}, "main lacks the argument 'B': it takes A, B"),
])
def test_arguments_that_do_not_fit(args, text):
    with pytest.raises(ArgumentError) as caught:
        interpret(function([A, B], store(B, 0, A[0])), args)
    assert str(caught.value) == text


def test_views_of_one_memory_as_two_types():
    """What a wider type's element overwrote is gone."""
    wide = Buffer("W", (IntImm(2),), dtype("int32"))
    bytes_ = Buffer("Y", (IntImm(8),), dtype("int8"))
    bytes_.data = wide.data
    out = buffer("Out", 1, kind="int32")
    good = function([out], allocate(wide, store(bytes_, 3, 5), store(wide, 0, 7), store(out, 0, wide[0])))
    assert run(good)[0] == 7
    bad = function([out], allocate(wide, store(wide, 0, 7), store(bytes_, 3, 5), store(out, 0, wide[0] + 1)))
    fault(UndefinedValueError, "an element that was never written is computed with", bad)


def test_vectors_widths_and_strings_are_not_confused():
    f = function([A, B], vectorized(i, 8, store(B, i, A[i])), st.Evaluate(effect("assert_that", TRUE, "fine")))
    np.testing.assert_array_equal(run(f, numbers(8)), numbers(8))
    fault(UndefinedValueError, "the program asserts: too small", function([A, B], st.Evaluate(
        Call(dtype("int32"), "assert_that", (A[0] > 100.0, StringImm("too small")), "effect"))), numbers(8))


def test_a_condition_that_differs_between_lanes():
    """Each lane takes its branch: nothing is read or divided where it is not for, and what is stored before stays."""
    X, Y, D = buffer("X", 8, kind="int32"), buffer("Y", 8, kind="int32"), buffer("D", 8, kind="int32")
    lanes = ir.Ramp(IntImm(0), IntImm(1), 8)
    shifted = X[ir.Ramp(IntImm(-2), IntImm(1), 8)]

    def at(number):
        return ir.Broadcast(IntImm(number), 8)

    body = st.If(
        ir.LT(lanes, at(4)),
        st.If(ir.LT(lanes, at(2)), st.Store(Y, (lanes,), at(9)), st.Store(Y, (lanes,), shifted)),
        st.If(ir.NE(Load(D, (lanes,)), at(0)), st.Store(Y, (lanes,), ir.FloorDiv(Load(X, (lanes,)), Load(D, (lanes,))))),
    )
    x, d, y = np.arange(8, dtype=np.int32) * 10, np.array([0, 0, 0, 0, 3, 0, 7, 0], np.int32), np.full(8, -1, np.int32)
    interpret(function([X, D, Y], body), [x, d, y])
    np.testing.assert_array_equal(y, [9, 9, 0, 10, 40 // 3, -1, 60 // 7, -1])
    fault(InterpretError, "a store to one element of Y stands under a condition that differs between lanes",
          function([Y], st.If(ir.LT(lanes, at(4)), st.Store(Y, (IntImm(0),), IntImm(1)))))
