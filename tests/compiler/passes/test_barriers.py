"""Where threads need no barrier: the indices of statement 43, by counting, and in a whole program."""

import random
from collections import Counter

import numpy as np
from ir_support import calls, numbers, of_kind, run

from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.compiler.passes.affine import Linear, same_thread_only


def test_threads_that_stay_apart_are_told_by_counting():
    """Statement 43: what is said of random forms of threads, loops and a size, compared with all their values."""
    rng, said = random.Random(0), Counter()
    x, y, p, q, size = names = [Var(name) for name in "xypqn"]
    for _ in range(1000):
        threads = {x: rng.randint(1, 4), y: rng.randint(1, 3)}
        loops = {p: rng.randint(1, 4), q: rng.randint(1, 3)}
        steps = {var: rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, -1, -4]) for var in (x, y, p, q)}
        steps[size] = rng.choice([0, 0, 16, 48])
        other = {var: c if var in threads else rng.choice([c, c, c, 0, 2]) for var, c in steps.items()}
        forms = [Linear({var: c for var, c in terms.items() if c}, rng.choice([0, 0, 0, 1, 5])) for terms in (steps, other)]
        at = np.indices((*threads.values(), *loops.values(), 21)).reshape(5, -1)
        at[4] -= 10
        who = at[0] * 4 + at[1]
        first, second = (form.constant + sum(c * at[names.index(var)] for var, c in form.terms.items()) for form in forms)
        apart = all(set(who[second == value]) <= {thread} for value, thread in {*zip(first, who, strict=True)})
        found = same_thread_only(*forms, threads, loops)
        assert apart or not found, (forms, threads, loops)
        said[apart, found] += 1
    assert said[True, True] > 1.5 * said[True, False], said


def test_a_tile_of_each_thread_needs_no_barrier_but_those_of_shared_memory():
    """Statement 43: the textbook's product on a GPU, each thread with 4 x 4 elements: two barriers a step, none at the end."""
    size, tile, width = 32, 32, 8
    a, b = (te.placeholder((size, size), "int32", name=name) for name in "AB")
    step = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, step] * b[step, j], axis=step), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    fetched = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    block = [te.thread_axis(tag) for tag in ("threadIdx.y", "threadIdx.x")]
    by, bx, yi, xi = s[c].tile(*c.op.axis, tile, tile)
    s[c].bind(by, te.thread_axis("blockIdx.y"))
    s[c].bind(bx, te.thread_axis("blockIdx.x"))
    ty, yi = s[c].split(yi, nparts=width)
    tx, xi = s[c].split(xi, nparts=width)
    s[c].reorder(ty, tx, yi, xi)
    s[local].compute_at(s[c], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    axes = [(ty, tx)]
    for cache in fetched:
        s[cache].compute_at(s[local], ko)
        (yo, _), (xo, _) = (s[cache].split(axis, nparts=width) for axis in s[cache].op.axis)
        s[cache].reorder(yo, xo)
        axes.append((yo, xo))
    for stage, pair in zip((c, *fetched), axes, strict=True):
        for axis, thread in zip(pair, block, strict=True):
            s[stage].bind(axis, thread)
    f = lower_late(lower(s, [a, b, c]), "gpu")
    x, y = numbers(size, size, kind="int32"), numbers(size, size, kind="int32", seed=1)
    np.testing.assert_array_equal(run(f, x, y), x @ y)
    (steps,) = [loop for loop in of_kind(f, st.For) if loop.var.name == "k_outer"]
    assert len(calls(f, "sync")) == len([part for part in steps.body.stmts if calls(part, "sync")]) == 2
    assert [part for part in steps.body.stmts if isinstance(part, st.Evaluate)] == [steps.body.stmts[0], steps.body.stmts[3]]
