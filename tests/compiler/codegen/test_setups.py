"""Where what must be set up before some code is put, beside running each program step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from vtakit.compiler.codegen.llvm.text.setups import Setups

# A program is a list of: a name, which needs that setup; None, which ends any; or a list, which is a loop.
PROGRAMS = some.recursive(
    some.lists(some.sampled_from(["a", "b", None]), max_size=3),
    lambda inner: some.lists(some.sampled_from(["a", "b", None]) | inner, max_size=4), max_leaves=12)


def written(program):
    """The program with its slots: (slots and needs and calls and loops, in order; the setups)."""
    setups = Setups()

    def parts(body):
        found = []
        for one in body:
            if isinstance(one, list):
                found += [setups.begin(), parts(one)]
                setups.end()
            elif one is None:
                setups.disturb()
                found.append(None)
            else:
                found += [setups.want(one, "undo"), one]
        return found
    found = [setups.entry, *parts(program), setups.leave()]
    setups.finish()
    return found


def run(parts, state=None, done=0):
    """(what is set up behind it, how many setups it took); each loop runs twice."""
    for part in parts:
        if isinstance(part, list):
            for _ in range(2):
                state, done = run(part, state, done)
        elif part is None:
            state = None
        elif isinstance(part, str):
            assert state == part, f"{part} runs where {state} is set up"
        else:
            for line in part.lines:
                state, done = line, done + 1
    return state, done


@given(PROGRAMS)
def test_all_that_runs_finds_what_it_needs(program):
    parts = written(program)
    state, _ = run(parts)
    needs = "a" in str(program) or "b" in str(program)
    assert (state == "undo") is needs


@pytest.mark.parametrize(("program", "setups"), [
    ([[["a"], "a"], "a"], 1), ([["a"], ["a"]], 1), ([["a"], ["b"]], 2), ([["a", "b"]], 4), ([["a", None]], 2),
    ([[["a"], None]], 2), ([["a"], None, ["a"]], 2), ([[["a"], ["b"]], "a"], 5), ([["a", [None]]], 2), ([None], 0), ([], 0),
])
def test_setups_are_as_few_as_the_loops_allow(program, setups):
    _, done = run(written(program))
    assert done == setups + (1 if "a" in str(program) else 0)
