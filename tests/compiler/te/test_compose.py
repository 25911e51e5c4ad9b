"""Scans, outside code and hybrid functions: statements 7 to 9 of BEHAVIOURS.md."""

import re

import numpy as np
import pytest
from schedule_support import run

import vtakit
from vtakit import te


def refused(message):
    return pytest.raises(te.ExpressionError, match=f"^{re.escape(message)}$")


def cumulative(rows=6, columns=5):
    """The sums of rows so far, of an input of `rows` rows."""
    X = te.placeholder((rows, columns), name="X")
    state = te.placeholder((rows, columns), name="state")
    init = te.compute((1, columns), lambda _, i: X[0, i], name="init")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, state, init, update


def test_a_scan_starts_after_the_initial_rows():
    """Statement 7."""
    X, state, init, update = cumulative()
    result = te.scan(init, update, state, X)
    assert result.shape == state.shape
    assert str(result.op.scan_axis.dom) == "(1, +5)"
    assert [axis.name for axis in result.op.root_iter_vars] == ["scan_idx", "scan_i1"]
    s = te.create_schedule(result.op)
    assert [stage.label for stage in s.stages] == ["X", "init", "state", "update", "group", "scan"]
    assert s[update].group == "group"
    assert (s["group"].attach.kind.value, s["group"].attach.stage) == ("scan", "scan")
    x = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")
    [got] = run(s, [X, result], [x])
    np.testing.assert_allclose(got, np.cumsum(x, 0, dtype="float32"), rtol=1e-5)


def test_a_scan_may_have_several_states_and_an_inner_stage():
    """Statement 7: Fibonacci-like pairs, with a stage between the states and the update."""
    n = 7
    a, b = te.placeholder((n, 3), "int32", "a"), te.placeholder((n, 3), "int32", "b")
    a0 = te.compute((1, 3), lambda t, i: i, name="a0")
    b0 = te.compute((1, 3), lambda t, i: i + 1, name="b0")
    both = te.compute((n, 3), lambda t, i: a[t - 1, i] + b[t - 1, i], name="both")
    a1 = te.compute((n, 3), lambda t, i: b[t - 1, i], name="a1")
    b1 = te.compute((n, 3), lambda t, i: both[t, i], name="b1")
    first, second = te.scan([a0, b0], [a1, b1], [a, b])
    assert first.op is second.op
    s = te.create_schedule([first.op])
    assert {stage.label for stage in s.stages if stage.group} == {"both", "a1", "b1"}
    got = run(s, [first, second], [])
    want = np.zeros((2, n, 3), "int32")
    want[0, 0], want[1, 0] = np.arange(3), np.arange(3) + 1
    for t in range(1, n):
        want[0, t], want[1, t] = want[1, t - 1], want[0, t - 1] + want[1, t - 1]
    np.testing.assert_array_equal(got, want)


def test_what_makes_no_scan_is_refused():
    X, state, init, update = cumulative()
    same_row = te.compute((6, 5), lambda t, i: state[t, i] + X[t, i], name="update")
    with refused("scan 'scan', state 'state': the update of row t reads state[t, i], the row that it makes: read earlier rows"):
        te.scan(init, same_row, state)
    with refused("scan 'scan' has 2 init, 1 update and 1 state_placeholder: give one of each a state"):
        te.scan([init, init], update, state)
    with refused("scan 'scan', state 'init': the state_placeholder is made by ComputeOp(init); give a te.placeholder"):
        te.scan(init, update, init)
    with refused("scan 'scan', state 'state': dimension 1 is 4 in init, 5 in update and 5 in the state"):
        te.scan(te.compute((1, 4), lambda t, i: 0.0), update, state)
    with refused("scan 'scan', state 'state': init, update and state have types int32, float32, float32: give all one type"):
        te.scan(te.compute((1, 5), lambda t, i: 0), update, state)
    with refused("scan 'scan', state 'state': init has 9 rows of 6: give at least one and at most all"):
        te.scan(te.compute((9, 5), lambda t, i: 0.0), update, state)
    with refused("scan 'scan': init holds 3, which is no tensor"):
        te.scan(3, update, state)


def test_extern_has_several_outputs_and_calls_python():
    """Statement 8."""
    A = te.placeholder((4, 5), name="A")
    B, C = te.extern(
        [(4,), (4, 5)], [A], lambda ins, outs: te.call_packed("rows", ins[0].access_ptr("r"), *[o.access_ptr("w") for o in outs]),
        name="both", dtype=["float32", "int32"],
    )
    assert B.op is C.op
    assert [str(tensor) for tensor in B.op.outputs] == ["both.v0: float32[4]", "both.v1: int32[4, 5]"]
    D = te.compute((4,), lambda i: B[i] * 2 + C[i, 0], name="D")

    def rows(a, b, c):
        np.asarray(b)[...] = np.asarray(a).reshape(4, 5).sum(1)
        np.asarray(c)[...] = 3

    x = np.arange(20, dtype="float32").reshape(4, 5)
    [got] = run(te.create_schedule(D.op), [A, D], [x], packed={"rows": rows})
    np.testing.assert_array_equal(got, x.sum(1) * 2 + 3)


def test_an_extern_hands_on_whole_buffers():
    """Statement 8: as in TVM, a buffer itself stands for its memory; an input is only read."""
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda ins, outs: te.call_packed("add", ins[0], outs[0], 3), name="B")

    def add(a, b, by):
        assert not a.flags.writeable
        np.asarray(b)[...] = np.asarray(a) + by

    x = np.arange(4, dtype="float32")
    [got] = run(te.create_schedule(B.op), [A, B], [x], packed={"add": add})
    np.testing.assert_array_equal(got, x + 3)


def test_what_makes_no_buffer_is_refused():
    assert [te.decl_buffer((4,), data_alignment=align).align for align in (-1, 0, 16)] == [64, 0, 16]
    for alignment in (3, 48):
        with refused(f"decl_buffer 'b': the alignment is {alignment}: give a power of two, in bytes"):
            te.decl_buffer((4,), name="b", data_alignment=alignment)
    with refused("decl_buffer 'b': the stride -4 is negative: give strides of at least 0"):
        te.decl_buffer((4, 4), name="b", strides=[-4, 1])
    with refused("decl_buffer 'b': the alignment is -3: give a power of two, in bytes"):
        te.decl_buffer((4,), name="b", data_alignment=-3)
    with refused("buffer 'b' has 2 dimensions but 1 strides: give one a dimension, or none"):
        te.decl_buffer((3, 4), name="b", strides=[1])


def test_what_makes_no_extern_is_refused():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), "int8", "B")
    with refused("extern 'extern': give dtype=, since its inputs' types (float32, int8) do not settle it"):
        te.extern((4,), [A, B], lambda ins, outs: te.call_packed("f"))
    with refused("extern 'extern' writes its input A: write to an output"):
        te.extern((4,), [A], lambda ins, outs: te.call_packed("f", ins[0].access_ptr("w"), outs[0]))
    with refused("extern 'extern': the input 3 is no tensor"):
        te.extern((4,), [3], lambda ins, outs: te.call_packed("f"))
    with refused("extern 'extern': its function gave 3; it gives a statement or a call"):
        te.extern((4,), [A], lambda ins, outs: 3)
    with refused("extern 'extern' has 1 inputs but 0 in_buffers: give one an input"):
        te.extern((4,), [A], lambda ins, outs: te.call_packed("f"), in_buffers=[])
    with refused("extern 'extern': the buffer A: float32[4, 4] does not fit its input A: float32[4]"):
        te.extern((4,), [A], lambda ins, outs: te.call_packed("f"), in_buffers=[te.decl_buffer((4, 4), name="A")])
    with refused("extern 'extern' has 2 outputs but 1 dtypes: give one an output"):
        te.extern([(4,), (4,)], [A], lambda ins, outs: te.call_packed("f"), dtype=["int8"])


LIMIT = 3


@te.hybrid.script
def mixed(a, b, n):
    c = output_tensor((a.shape[0], b.shape[0]), "float32")
    for i in parallel(a.shape[0]):
        row = allocate((b.shape[0],), "float32", "local")
        total = 0.0
        for j in range(1, b.shape[0], 2):
            total += b[j]
        for j in vectorize(b.shape[0]):
            row[j] = a[i] * b[j] if j < n else exp(a[i] * float32(0.25))
        for j in unroll(LIMIT):
            if i > j and not j < 1:
                row[j] = row[j] + total
            else:
                row[j] = max(row[j], 0.5)
        j = 0
        while j < b.shape[0]:
            c[i, j] = row[j]
            j += 1
    return c


def test_a_hybrid_function_runs_the_same_as_python_and_as_a_program():
    """Statement 9: loops, if, while, annotations, allocate; emulated, lowered and compiled results are equal."""
    A, B = te.placeholder((5,), name="A"), te.placeholder((7,), name="B")
    C = mixed(A, B, 4)
    a, b = np.linspace(-2, 2, 5, dtype="float32"), np.linspace(0, 3, 7, dtype="float32")
    [got] = run(te.create_schedule(C.op), [A, B, C], [a, b])
    np.testing.assert_allclose(got, mixed(a, b, 4), rtol=1e-6)
    compiled = np.zeros((5, 7), "float32")
    vtakit.build(te.create_schedule(C.op), [A, B, C])(a, b, compiled)
    np.testing.assert_allclose(compiled, got, rtol=1e-6)
    kinds = re.findall(r"in (\w+)\(", str(C.op.body))
    assert kinds == ["parallel", "range", "vectorized", "unrolled"]


@te.hybrid.script
def doubled(a):
    b = output_tensor(a.shape, "float32")
    c = output_tensor(a.shape, a.dtype)
    for i in bind("threadIdx.x", a.shape[0]):
        b[i] = a[i] + a[i]
        c[i] = b[i] + 1.0
    return c, b


def test_a_hybrid_function_may_bind_threads_and_give_several_tensors():
    """Statement 9."""
    A = te.placeholder((8,), name="A")
    C, B = doubled(A)
    assert "for i in bind[threadIdx.x](8):" in str(C.op.body)
    D = te.compute((8,), lambda i: B[i] + C[i], name="D")
    x = np.arange(8, dtype="float32")
    [got] = run(te.create_schedule(D.op), [A, D], [x])
    c, b = doubled(x)
    np.testing.assert_array_equal(got, b + c)


@te.hybrid.script
def sliced(a):
    b = output_tensor((4,), "float32")
    b[0:2] = a[0]
    return b


@te.hybrid.script
def unreturned(a):
    b = output_tensor((4,), "float32")
    c = output_tensor((4,), "float32")
    c[0] = a[0]
    return b


@te.hybrid.script
def narrowing(a):
    b = output_tensor((4,), "float32")
    total = 0
    total = total + a[0]
    return b


@te.hybrid.script
def unknown(a):
    b = output_tensor((4,), "float32")
    b[0] = print(a[0])
    return b


@te.hybrid.script
def generator(a):
    b = output_tensor((4,), "float32")
    yield b


@pytest.mark.parametrize(("function", "message"), [
    (sliced, "line 4 of sliced, '0:2': this expression (Slice) has no meaning for tensors"),
    (unreturned, "unreturned does not return its output tensor 'c': return it, or use allocate"),
    (narrowing, "line 5 of narrowing, 'total = total + a[0]': total is of int32 and the value of float32: convert one of them"),
    (unknown, (
        "line 4 of unknown, 'print(a[0])': 'print' is no function here: known are exp, log, sqrt, rsqrt, tanh, sigmoid, "
        "erf, sin, cos, floor, ceil, power, abs, min, max, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, "
        "float32, float64"
    )),
    (generator, "line 4 of generator, 'yield b': this statement (Expr) has no meaning for tensors"),
], ids=lambda item: getattr(item, "__name__", ""))
def test_what_a_hybrid_function_may_not_hold_is_refused_with_its_line(function, message):
    with refused(message):
        function(te.placeholder((4,), name="A"))
