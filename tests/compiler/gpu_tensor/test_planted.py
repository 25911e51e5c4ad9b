"""Planted errors: waits, barriers and lane maps that are missing or wrong are refused, or the interpreter sees them."""

from dataclasses import replace

import numpy as np
import pytest
from tensor_support import SMALL, product, run, without

from vtakit.compiler.ir import fragments
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.walk import map_stmt
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import InterpretError, RaceError, UndefinedValueError
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.passes.waits import check_waits


def low_form(groups=False):
    """A product after barriers are placed, before places are swizzled, and operands with the wanted result."""
    s, args, arrays = product(SMALL[groups].rows, 16, 4 * SMALL[groups].depth, groups=groups)
    found = {}
    lower_late(lower(s, args), "gpu", after=lambda step, function: found.update({step.name: function}))
    return found["thread_sync"], arrays()


def every(function, name):
    number = 0
    while True:
        changed, found = without(function, name, number)
        if not found:
            return
        yield changed
        number += 1


def refused(function, arrays):
    """Return whether the check of waits refuses a function, or the interpreter, or its result is wrong."""
    try:
        check_waits(function)
        run(function, *arrays)
    except (PassError, InterpretError, AssertionError):
        return True
    return False


@pytest.mark.parametrize("groups", [False, True])
def test_a_missing_wait_is_refused(groups):
    function, arrays = low_form(groups)
    check_waits(function)
    run(function, *arrays)
    found = [*every(function, "async_wait")]
    assert len(found) >= 3
    for changed in found:
        with pytest.raises(PassError, match="to which an asynchronous copy is on its way, and nothing waited for it"):
            check_waits(changed)
        with pytest.raises(UndefinedValueError, match="asynchronous copy nothing waited for"):
            run(changed, *arrays)


def test_a_wait_that_leaves_one_group_too_many_is_refused():
    function, arrays = low_form()

    def later(s):
        if isinstance(s, st.Evaluate) and getattr(s.value, "name", "") == "async_wait":
            return st.Evaluate(effect("async_wait", s.value.args[0].value + 1, *s.value.args[1:]))
        return s
    changed = function._replace(body=map_stmt(function.body, later))
    with pytest.raises(PassError, match="nothing waited for it"):
        check_waits(changed)
    assert refused(changed, arrays)


def test_a_missing_commit_is_refused():
    function, arrays = low_form()
    found = [*every(function, "async_commit")]
    assert sum(refused(changed, arrays) for changed in found[:2]) == 2


def test_a_missing_barrier_is_a_race():
    """Each barrier of the loop's body is needed. The first one of all stands before the loop and is not."""
    s, args, arrays = product(32, 16, 80, tile=SMALL[False]._replace(rows=32, down=2))
    function = lower_late(lower(s, args), "gpu")
    caught = 0
    for changed in every(function, "sync"):
        try:
            run(changed, *arrays())
        except RaceError:
            caught += 1
    assert caught >= 4


def test_a_missing_wait_for_products_is_seen():
    function, arrays = low_form(groups=True)
    found = [*every(function, "wgmma_wait")]
    assert len(found) >= 3
    with pytest.raises(UndefinedValueError):
        run(found[-1], *arrays)  # the last one, for all


def test_a_wrong_lane_map_gives_wrong_results(monkeypatch):
    """The pass places sums by a map whose lanes are exchanged; ldmatrix and mma.sync do what the hardware does."""
    from vtakit.compiler.passes import fragments as pass_

    right = fragments.FRAGMENTS["mma.a", 16]

    def wrong(row, column):
        lane, element = right.owner(row, column)
        return lane, element ^ 4  # columns 0 to 7 where 8 to 15 are
    monkeypatch.setattr(pass_, "fragment_of", lambda buffer: replace(right, owner=wrong) if buffer.scope == "mma.a" else
                        fragments.fragment_of(buffer))
    s, args, arrays = product(16, 16, 16)
    function = lower(s, args)
    run(function, *arrays())
    x, y, want = arrays()
    with pytest.raises((AssertionError, PassError)):
        run(lower_late(function, "gpu"), x, y, want)


def test_a_lane_that_reads_what_another_holds_is_an_error():
    """The block form's memory of fragments knows who holds an element."""
    s, args, arrays = product(16, 16, 16)
    function = lower(s, args)

    def shifted(e):
        from vtakit.compiler.ir.expr import Load
        e = e.rebuild(shifted)
        return e.replace(indices=(*e.indices[:-1], e.indices[-1] ^ 2)) if isinstance(e, Load) and e.buffer.scope == "mma.c" else e
    body = map_stmt(function.body, lambda s: s.rebuild(lambda t: t, shifted) if isinstance(s, st.Store) else s)
    with pytest.raises(InterpretError, match=r"touches element .* of the fragment .*, which lane"):
        run(function._replace(body=body), *arrays())
    assert np.isfinite(arrays()[2]).all()
