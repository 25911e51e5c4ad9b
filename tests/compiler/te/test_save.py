"""Expressions, operations and schedules survive being saved: statement 10 of BEHAVIOURS.md."""

import pickle

import pytest
from schedule_support import nests, program

from vtakit import te
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.save import load_schedule
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.save import load_json


def texts(tensors):
    return [f"{tensor}: {[str(e) for e in tensor.op.body]} {tensor.op.root_iter_vars}" for tensor in tensors]


def samples():
    n = te.var("n")
    A, k = te.placeholder((n, 8), "float16", "A"), te.reduce_axis((0, n), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), "argmax")
    both = te.compute((8,), lambda j: argmax((k.var, A[k, j]), axis=k), name="both")
    tenth, nan = te.const(0.1, "float64"), te.const(float("nan"), "float64")
    B = te.compute((n, 8), lambda i, j: te.if_then_else(
        te.all(i > 0, j < 3), A[i, j].astype("float32") * float("-inf") + tenth, nan), name="B")
    return [A, B, *both]


def through_pickle(x):
    return pickle.loads(pickle.dumps(x))


def through_json(x):
    return te.load_json(te.save_json(x))


@pytest.mark.parametrize("through", [through_pickle, through_json])
def test_expressions_and_operations_keep_their_text(through):
    """Statement 10."""
    A, *computed = samples()
    A2, *again = through([A, *computed])
    assert texts(again) == texts(computed)
    assert again[1].op is again[2].op
    assert again[0].op.input_tensors == (A2,)
    assert A2.op is not A.op
    assert again[0].dtype is computed[0].dtype
    labels = [str(te.create_schedule([tensors[0], tensors[1]]).stages) for tensors in (again, computed)]
    assert labels[0] == labels[1]
    e = te.var("x") * 3 + 1
    assert str(through(e)) == str(e)


def test_statements_of_outside_code_are_saved():
    """Statement 10."""
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda ins, outs: te.call_packed("f", ins[0].access_ptr("r"), outs[0].access_ptr("w")), name="B")
    again = te.load_json(te.save_json(B))
    assert str(again.op.body) == str(B.op.body)
    assert again.op.input_buffers[0].name == "A"


def scheduled():
    p = program()
    s = p.s
    x, y = s[p.D].op.axis
    xo, yo, _, yi = s[p.D].tile(x, y, 8, 4)
    s[p.C].compute_at(s[p.D], s[p.D].fuse(xo, yo))
    local = s.cache_write(p.C, "local")
    s[local].split(s[local].op.reduce_axis[0], nparts=2)
    s[p.D].vectorize(yi)
    s[p.B].compute_inline()
    s[local].tensorize("k_inner", te.decl_tensor_intrin(p.C.op, lambda i, o: te.hardware_intrin("mac"), "mac"))
    return p, s


def test_schedules_keep_their_loops_and_trace():
    """Statement 10."""
    p, s = scheduled()
    again = pickle.loads(pickle.dumps(s))
    assert (nests(again), str(again.trace)) == (nests(s), str(s.trace))
    read, [A, D] = te.load_schedule(te.save_schedule(s, [p.A, p.D]), s.intrinsics)
    assert (nests(read), str(read.trace)) == (nests(s), str(s.trace))
    assert read[D].label == "D"
    assert read[A].label == "A"


@pytest.mark.parametrize(("text", "message"), [
    ("{", ("the text is no saved tensor expression: JSONDecodeError: Expecting property name enclosed in double quotes: line 1 "
           "column 2 (char 1)")),
    ("[]", "the text is no saved tensor expression: TypeError: list indices must be integers or slices, not str"),
    ('{"vtakit": 99}', "the text has version 99 of the format, this program reads version 1"),
    ('{"vtakit": 1, "nodes": [["system", 1]], "value": 1}', "the text is no saved tensor expression: KeyError: 'system'"),
    ('{"vtakit": 1, "nodes": [], "value": {"node": 3}}', (
        "the text is no saved tensor expression: IndexError: list index out of range")),
])
def test_other_text_is_refused(text, message):
    with pytest.raises(te.ExpressionError) as error:
        te.load_json(text)
    assert str(error.value) == message


def test_what_is_no_expression_cannot_be_saved():
    A = te.compute((4,), lambda i: i, name="A", attrs={"note": {1, 2}})
    with pytest.raises(te.ExpressionError) as error:
        te.save_json(A)
    assert str(error.value) == "{1, 2} of type set is no part of a tensor expression, so it cannot be saved"
    with pytest.raises(te.ScheduleError, match=r"^the text is no saved schedule: KeyError: 'program'$"):
        te.load_schedule("{}")


def test_text_that_is_nested_without_end_is_told():
    with pytest.raises(ExpressionError, match="RecursionError"):
        load_json("[" * 100_000)
    with pytest.raises(ScheduleError, match="RecursionError"):
        load_schedule("[" * 100_000)
