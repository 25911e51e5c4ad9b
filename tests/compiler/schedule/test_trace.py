"""The trace: text and JSON, replay on a program built anew, and what a trace may not hold."""

import random

import pytest
from schedule_support import gemm, nests, program

from vtakit import te

TEXT = """\
D.choose("factor", [[4, 2], [8, 1]], default=[4, 2], chosen=[8, 1], rule="of ours")
i_outer, i_inner = D.split(i, factor=8)
j_outer, j_inner = D.split(j, nparts=3)
D.reorder(i_outer, j_outer, i_inner, j_inner)
i_outer_j_outer_fused = D.fuse(i_outer, j_outer)
D.bind(i_outer_j_outer_fused, thread("blockIdx.x", name="bx"))
D.bind(i_inner, thread("threadIdx.x", name="tx", extent=8))
D.pragma(j_inner, "note", "a \\"b\\"")
D.pragma(j_inner, "weight", 2)
D.unroll(j_inner)
C_local = cache_write([C], "local")
B_shared = cache_read(B, "shared", readers=[C_local])
W_shared = cache_read(W, "shared")
C.compute_at(D, i_outer_j_outer_fused)
C_local.compute_at(C, j)
k_outer, k_inner = C_local.split(k, factor=4)
C_local.tensorize(k_inner, "gemm")
B_shared.compute_at(C_local, k_outer)
B_shared.storage_align(i0, 32, 8)
B_shared.prefetch(B, i1, 2)
W_shared.set_scope("local")
W_shared.double_buffer()
B_shared.double_buffer(stages=3)
B_shared.async_copy()
B_shared.swizzle(64)
W_shared.whole(i0)
B.compute_inline()
B.compute_root()
group = create_group([C], [C_local], include_inputs=True)
group.compute_root()
C_local.set_store_predicate(i == 0 or j < 3)
C.env_threads(thread("threadIdx.y", name="threadIdx_y"), thread("threadIdx.x", name="tx", extent=8))"""


def replayed(trace):
    p = program()
    p.s.replay(trace, {"gemm": gemm(p.C)})
    return p


def test_text_and_json_say_the_same_and_replay_to_the_same_schedule():
    trace = te.Trace.from_text(TEXT)
    assert te.Trace.from_json(trace.to_json()) == trace
    assert str(trace) == TEXT
    first = replayed(trace)
    assert str(first.s.trace) == TEXT
    assert first.s.trace == trace
    second = replayed(first.s.trace)
    assert nests(second.s) == nests(first.s)
    assert [stage.group for stage in second.s.stages] == [stage.group for stage in first.s.stages]
    threads = [notes.thread for stage in first.s.stages for notes in stage.notes.values() if notes.thread]
    assert first.s["C"].threads_around[1] is threads[1]


def test_every_primitive_is_in_the_trace_above():
    from vtakit.compiler.schedule.trace import OF_SCHEDULE, OF_STAGE
    for name in (*OF_STAGE, *OF_SCHEDULE):
        assert f".{name}(" in TEXT or f"= {name}(" in TEXT or name in ("vectorize", "parallel", "rfactor"), name


def test_results_may_have_other_names():
    p = program()
    text = 'a, b = C.split(i, factor=8)\nC.parallel(a)\nX = cache_read(A, "shared")\nX.split(i0, nparts=2)'
    p.s.replay(te.Trace.from_text(text))
    assert str(p.s.trace).splitlines()[1] == "C.parallel(i_outer)"
    assert str(p.s.trace).splitlines()[3] == "i0_outer, i0_inner = A_shared.split(i0, nparts=2)"


def test_factors_may_be_expressions_of_sizes():
    def build():
        n = te.var("n")
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1, name="B")
        return n, B, te.create_schedule(B)
    n, B, s = build()
    s[B].split("i", factor=(n + 3) // 4)
    assert str(s.trace) == "i_outer, i_inner = B.split(i, factor=(n + 3) // 4)"
    _, _, again = build()
    again.replay(te.Trace.from_json(s.trace.to_json()))
    assert nests(again) == nests(s)
    with pytest.raises(te.ScheduleError) as error:
        build()[2].replay(te.Trace.from_text("i_outer, i_inner = B.split(i, factor=m)"))
    assert str(error.value) == (
        "step 0 of the trace, i_outer, i_inner = B.split(i, factor=m): "
        "'m' is no size, axis or thread of the program: known: i, n")


def test_several_outputs_and_rfactor():
    def build():
        A, k = te.placeholder((8, 6), name="A"), te.reduce_axis((0, 6), "k")
        T = te.compute((8,), lambda i: (A[i, 0] + 1, A[i, 1] * 2), name="T")
        B = te.compute((8,), lambda i: te.sum(T[1][i] * A[i, k], axis=k), name="B")
        return T, B, te.create_schedule([B, T[0]])
    T, B, s = build()
    s.cache_write(T, "local")
    s.cache_read(T[1], "shared", [B])
    s.rfactor(B, "k", -1)
    assert str(s.trace) == (
        'T_local = cache_write([T[0], T[1]], "local")\nT_v1_shared = cache_read(T[1], "shared", readers=[B])\n'
        "B_rf = rfactor(B, k, factor_axis=-1)")
    _, _, again = build()
    again.replay(te.Trace.from_text(str(s.trace)))
    assert nests(again) == nests(s)


@pytest.mark.parametrize(("text", "message"), [
    ("C.split(i, factor=", "line 1 of the trace cannot be read: '(' was never closed"),
    ("x = 3", "line 1 of the trace, 'x = 3', is no call of a primitive"),
    ("C.spilt(i, factor=2)", (
        "step 0 of the trace: 'spilt' is no primitive of a stage: did you mean 'split'? Known: async_copy, bind, choose, "
        "compute_at, compute_inline, compute_root, double_buffer, env_threads, fuse, parallel, pragma, prefetch, reorder, "
        "set_scope, set_store_predicate, split, storage_align, swizzle, tensorize, unroll, vectorize, whole")),
    ("shuffle(C)", (
        "step 0 of the trace: 'shuffle' is no primitive of a schedule: known: cache_read, cache_write, create_group, rfactor")),
    ("C.split(i, faktor=2)", (
        "step 0 of the trace: split has no argument 'faktor': did you mean 'factor'? Known: axis, factor, nparts")),
    ("C.bind(i, thread(tag()))", "line 1 of the trace: 'thread(tag())' is no thread axis: give its tag and name"),
    ("C.vectorize(i, j)", "line 1 of the trace: vectorize takes 1 arguments, got 2"),
])
def test_text_that_is_no_trace_is_refused(text, message):
    with pytest.raises(te.ScheduleError) as error:
        te.Trace.from_text(text)
    assert str(error.value) == message


@pytest.mark.parametrize(("text", "message"), [
    ("{", "the trace is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ("{}", "the trace is no JSON array of steps"),
    (None, "the trace is no JSON: the JSON object must be str, bytes or bytearray, not NoneType"),
    (b"\xff", "the trace is no JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ("[3]", "step 0 of the trace, 3, is no object with on, do, args and gives"),
    ('[{"on": "C", "do": "bind", "args": {"axis": "i", "thread": 3}}]',
     "step 0 of the trace: 3 is no thread axis: give its tag and name"),
    ('[{"on": "C", "do": "split", "args": {}, "gives": 3}]',
     "step 0 of the trace: gives is 3: give the list of the names that it makes"),
])
def test_json_that_is_no_trace_is_refused(text, message):
    with pytest.raises(te.ScheduleError) as error:
        te.Trace.from_json(text)
    assert str(error.value) == message


@pytest.mark.parametrize(("text", "message"), [
    ("E.compute_root()", "step 0 of the trace, E.compute_root(): 'E' is no stage: known: A, B, C, D, W"),
    ('C.tensorize(i, "mac")', (
        "step 0 of the trace, C.tensorize(i, \"mac\"): 'mac' is no intrinsic at hand (there is none): give it in "
        "replay(…, intrinsics=…)")),
    ("C.split(i, factor=f(2))", (
        "step 0 of the trace, C.split(i, factor=f(2)): the expression 'f(2)' is none of sizes: use + - * // % and min, max")),
    ('cache_read(A[7], "local")', (
        "step 0 of the trace, cache_read(A[7], \"local\"): 'A' has 1 output, numbered from 0; there is no output 7")),
    ("C.vectorize()", "step 0 of the trace, C.vectorize(): missing a required argument: 'axis'"),
])
def test_a_step_that_cannot_be_done_is_named(text, message):
    with pytest.raises(te.ScheduleError) as error:
        program().s.replay(te.Trace.from_text(text))
    assert str(error.value) == message


def random_schedule(seed):
    """A program with some random primitives that are legal; each is tried, and refused ones are left out."""
    rng, p = random.Random(seed), program()
    for _ in range(12):
        stage = rng.choice([s for s in p.s.stages if s.leaf_iter_vars])
        names = [stage.axis_labels[axis] for axis in stage.leaf_iter_vars]
        other = rng.choice([s for s in p.s.stages if s.leaf_iter_vars])
        axis = rng.choice(names)
        tensor = stage.origin_op.output(0)
        act = rng.choice([
            lambda s=stage, a=axis: s.split(a, rng.choice([2, 3, 5])),
            lambda s=stage, a=axis: s.split(a, nparts=rng.choice([2, 3])),
            lambda s=stage, n=names: s.reorder(*rng.sample(n, len(n))),
            lambda s=stage, n=names: s.fuse(*n[:2]),
            lambda s=stage, a=axis: rng.choice([s.unroll, s.parallel, s.vectorize])(a),
            lambda s=stage, o=other: s.compute_at(o, o.axis_labels[rng.choice(o.leaf_iter_vars)]),
            lambda s=stage: s.compute_inline(),
            lambda t=tensor: p.s.cache_read(t, "shared"), lambda t=tensor: p.s.cache_write(t, "local"),
            lambda t=tensor, a=axis: p.s.rfactor(t, a, rng.choice([0, 1])),
        ])
        try:
            act()
        except te.ScheduleError:
            continue
    return p


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_replay(seed):
    p = random_schedule(seed)
    for trace in (te.Trace.from_text(str(p.s.trace)), te.Trace.from_json(p.s.trace.to_json())):
        again = replayed(trace)
        assert nests(again.s) == nests(p.s)
        assert again.s.trace == p.s.trace
    copied = p.s.copy()
    assert nests(copied) == nests(p.s)


def test_text_that_is_none_is_refused():
    with pytest.raises(te.ScheduleError, match=r"^the trace is no text: "):
        te.Trace.from_text(None)


def test_a_replay_that_fails_leaves_the_schedule_as_it_was():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((8,), lambda i: te.sum(B[i, k], axis=k), name="C")
    donor = te.create_schedule(C)
    inner = donor[C].split(k, 4)[1]
    donor.rfactor(C, inner)
    donor.cache_write(B, "local")
    donor[B].compute_inline()
    donor[C].parallel(C.op.axis[0])
    steps = donor.trace.steps
    wrong = te.Trace.from_text("C.vectorize(nothing)").steps

    def state(s):
        return s.trace, s.stages, [stage.leaf_iter_vars for stage in s.stages], [te.nest_text(stage) for stage in s.stages]

    s = te.create_schedule(C)
    s[B].set_scope("local")
    before = state(s.copy())
    stages = [*s.stages]
    for count in range(len(steps) + 1):
        with pytest.raises(te.ScheduleError, match=rf"^step {count} of the trace"):
            s.replay(te.Trace((*steps[:count], *wrong)))
        assert state(s)[0] == before[0]
        assert state(s)[2:] == before[2:]
        assert all(a is b for a, b in zip(s.stages, stages, strict=True))
        assert s[C] is stages[-1]
    s.replay(te.Trace(steps[:1]))
    assert len(s[C].leaf_iter_vars) == 3
