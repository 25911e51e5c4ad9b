"""Where stages are computed and kept, and groups: statements 17, 18 and 26 as far as schedules go."""

import numpy as np
import pytest
from schedule_support import program, run

from vtakit import te
from vtakit.compiler.schedule.relations import AttachKind


class Scope:
    """A memory of some target."""

    name = "acc"


def result(p):
    rng = np.random.default_rng(0)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((30, 16), (16, 12)))
    [got] = run(p.s, [p.A, p.W, p.D], [a, w])
    np.testing.assert_allclose(got, 2 * ((a + 1) @ w), rtol=1e-4, atol=1e-5)


def test_stages_are_computed_at_inline_and_at_the_root():
    p = program()
    s = p.s
    s[p.C].compute_at(s[p.D], "i")
    assert (s[p.C].attach.kind, s[p.C].attach.stage, s[p.C].attach.axis) == (AttachKind.SCOPE, "D", p.D.op.axis[0])
    assert s[p.C].attach_stage is s[p.D]
    s[p.B].compute_at(p.C, p.C.op.reduce_axis[0])
    result(p)
    s[p.B].compute_root()
    assert s[p.B].attach.kind is AttachKind.ROOT
    s[p.B].compute_inline()
    assert s[p.B].attach.kind is AttachKind.INLINE
    result(p)


def test_a_stage_may_stand_at_one_that_needs_it_through_others():
    p = program()
    p.s[p.B].compute_at(p.s[p.D], "i")
    p.s[p.C].compute_at(p.s[p.D], "i")
    result(p)


def test_scopes_are_strings_or_objects():
    p = program()
    p.s[p.C].set_scope(Scope())
    assert p.s[p.C].scope == "acc"
    cached = p.s.cache_read(p.W, Scope())
    assert (cached.name, p.s[cached].scope) == ("W_acc", "acc")
    p.s[p.D].set_scope("global")
    assert str(p.s.trace).splitlines() == ['C.set_scope("acc")', 'W_acc = cache_read(W, "acc")', 'D.set_scope("global")']


def test_memory_notes():
    p = program()
    p.s[p.B].storage_align("j", 32, 8)
    p.s[p.B].storage_align(p.B.op.axis[0], 4)
    p.s[p.B].double_buffer()
    assert {axis.name: tuple(align) for axis, align in p.s[p.B].aligns.items()} == {"j": (32, 8), "i": (4, 0)}
    assert p.s[p.B].double_buffered
    p.s[p.C].set_store_predicate(p.C.op.axis[0].var < 3)
    assert str(p.s[p.C].store_predicate) == "i < 3"
    tx = te.thread_axis("threadIdx.x")
    p.s[p.C].env_threads(tx)
    assert p.s[p.C].threads_around[0] is tx


def test_a_dimension_is_computed_whole_once():
    p = program()
    p.s[p.B].compute_at(p.s[p.C], "k")
    p.s[p.B].whole("i")
    p.s[p.B].whole(p.B.op.axis[0])
    assert [axis.name for axis in p.s[p.B].wholes] == ["i"]
    assert str(p.s.trace).splitlines()[1:] == ['B.whole(i)', 'B.whole(i)']
    result(p)


def test_a_group_holds_what_is_on_the_way():
    p = program()
    group = p.s.create_group(outputs=p.C, inputs=p.A)
    assert [stage.label for stage in p.s.stages] == ["A", "B", "W", "C", "group", "D"]
    assert {member.label for member in p.s.members(group)} == {"B", "C"}
    assert (p.s[p.B].group, p.s[p.C].group, p.s[p.D].group) == ("group", "group", "")
    group.compute_at(p.s[p.D], "i")
    assert p.s[p.B].attach_spec is group
    assert te.nest_text(group) == "# group, at D's loop i\nthe group of B, C"
    result(p)


def test_groups_nest():
    A = te.placeholder((16,), name="A")
    stages = [A]
    for at in range(4):
        stages.append(te.compute((16,), lambda i, last=stages[-1]: last[i] + 1, name=f"S{at}"))
    s = te.create_schedule(stages[-1])
    inner = s.create_group(stages[2], stages[1], include_inputs=True)
    outer = s.create_group(stages[3], stages[1], include_inputs=True)
    assert (inner.group, s[stages[3]].group, s[stages[1]].group) == (outer.label, outer.label, inner.label)
    assert {member.label for member in s.members(outer)} == {"S0", "S1", "S2"}
    within = s.create_group(stages[1], A)
    assert within.group == inner.label
    outer.compute_at(s[stages[4]], "i")
    within.compute_at(s[stages[2]], "i")
    x = np.arange(16, dtype="float32")
    np.testing.assert_array_equal(run(s, [A, stages[-1]], [x])[0], x + 4)


def test_cyclic_attachment_is_refused_through_several_stages():
    """Statement 18."""
    p = program()
    local = p.s.cache_write(p.C, "local")
    p.s[p.B].compute_at(p.s[local], "i")
    p.s[local].compute_at(p.s[p.C], "i")
    with pytest.raises(te.ScheduleError, match=r"^C\.compute_at\(B, i\): B already stands within C\n"):
        p.s[p.C].compute_at(p.s[p.B], "i")


def test_outputs_cannot_be_attached():
    """Statement 18: also not where another output reads them."""
    p = program()
    s = te.create_schedule([p.D, p.C])
    with pytest.raises(te.ScheduleError, match=r"^C\.compute_at\(D, i\): C is an output: the caller has its memory"):
        s[p.C].compute_at(s[p.D], "i")
