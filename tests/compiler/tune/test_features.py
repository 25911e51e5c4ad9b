"""Features of lowered loops: AutoTVM's numbers for a product, counts against a walk over all iterations, one length for all."""

import time
from itertools import product

import numpy as np
import pytest
from expressions import EXPRESSIONS, SMALL
from support import raises

from vtakit import te, tune
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.lower import lower
from vtakit.compiler.tune.features import LENGTH, features_of
from vtakit.compiler.tune.flops import count_flops
from vtakit.compiler.tune.space import drawn
from vtakit.compiler.tune.task import TuneError
from vtakit.compiler.tune.touches import statements_of


def gemm(n=128, m=None, depth=None):
    A, B = te.placeholder((n, depth or n), name="A"), te.placeholder((depth or n, m or n), name="B")
    k = te.reduce_axis((0, depth or n), "k")
    C = te.compute((n, m or n), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")
    return te.create_schedule(C.op), A, B, C


def update(function):
    (found,) = [each for each in statements_of(function) if each.muls]
    return found


def test_the_loops_of_a_product_of_128():
    """The values of AutoTVM's itervar features (TVM 0.8) for the product of two matrices of 128 by 128."""
    s, A, B, C = gemm()
    found = update(lower(s, [A, B, C]))
    loops = [(loop.length, loop.level, loop.topdown, loop.bottomup) for loop in found.loops]
    assert loops == [(128, 1, 128, 2097152), (128, 2, 16384, 16384), (128, 3, 2097152, 128)]
    touches = {touch.buffer.name: touch for touch in found.touches}

    def counts(level):
        inside = found.loops[level:]
        return {name: (touch.stride(inside[0]), touch.count(inside), inside[0].bottomup // touch.count(inside))
                for name, touch in touches.items()}
    assert counts(0) == {"A": (128, 16384, 128), "B": (0, 16384, 128), "C": (128, 16384, 128)}
    assert counts(1) == {"A": (0, 128, 128), "B": (1, 16384, 1), "C": (1, 128, 128)}
    assert counts(2) == {"A": (1, 128, 1), "B": (128, 128, 1), "C": (0, 1, 128)}
    assert (found.adds, found.muls, found.work) == (1, 1, 2 * 128**3)


def test_counts_are_those_of_a_walk_over_all_iterations():
    rng = np.random.default_rng(0)
    for _ in range(12):
        s, A, B, C = gemm(6, 8, 4)
        y, x = C.op.axis
        parts = []
        for axis, extent in ((y, 6), (x, 8), (C.op.reduce_axis[0], 4)):
            parts += s[C].split(axis, int(rng.choice([size for size in (1, 2, 3, 4) if extent % size == 0])))
        order = [parts[at] for at in rng.permutation(len(parts))]
        s[C].reorder(*order)
        found = update(lower(s, [A, B, C]))
        for touch in found.touches:
            for level in range(len(found.loops) + 1):
                inside = found.loops[level:]
                points = [*product(*[range(loop.length) for loop in inside])]
                seen = {tuple(sum(form.get(loop.level, 0) * at for loop, at in zip(inside, point, strict=True))
                              for form in touch.dims) for point in points}
                assert touch.count(inside) == len(seen), (touch, s.trace)


def tasks():
    for name in EXPRESSIONS:
        args = EXPRESSIONS[name](**SMALL[name])
        yield tune.expression(args[-1], args, name=name)


def test_all_candidates_of_all_tasks_have_one_length():
    rng = np.random.default_rng(0)
    seen = set()
    for task in tasks():
        for _ in range(4):
            given = drawn(task, rng)
            found = task.features(given)
            assert found.shape == (LENGTH,)
            assert found.dtype == np.float32
            assert np.isfinite(found).all()
            assert np.array_equal(found, task.features(given))
            seen.add(found.tobytes())
    assert len(seen) > 36


def test_other_loops_have_other_features():
    machine = Machine()

    def vector(change):
        s, A, B, C = gemm(64)
        change(s[C], *C.op.axis, C.op.reduce_axis[0])
        return features_of(lower(s, [A, B, C]), machine)
    plain = vector(lambda stage, y, x, k: None)
    changes = [
        lambda stage, y, x, k: stage.vectorize(x) or stage.reorder(y, k, x), lambda stage, y, x, k: stage.reorder(y, k, x),
        lambda stage, y, x, k: stage.parallel(y), lambda stage, y, x, k: stage.unroll(stage.split(k, 4)[1]),
        lambda stage, y, x, k: stage.reorder(k, y, x),
    ]
    found = [plain, *map(vector, changes)]
    assert len({each.tobytes() for each in found}) == len(found)


def test_ratios_do_not_depend_on_the_size_of_what_fits_in_a_cache():
    """Most features of two small products are the same: those that differ count whole loops."""
    machine = Machine()
    s, *args = gemm(8)
    t, *others = gemm(16)
    a, b = features_of(lower(s, args), machine), features_of(lower(t, others), machine)
    assert (a == b).mean() > 0.6


@pytest.mark.slow
def test_a_candidate_takes_about_a_millisecond():
    """Five times as much processor time is allowed: other processes share the caches."""
    s, A, B, C = gemm(64)
    function = lower(s, [A, B, C])
    begun = time.process_time()
    for _ in range(20):
        features_of(function, Machine())
    assert (time.process_time() - begun) / 20 < 0.005


def conv(n, ci, co, size, side):
    X, W = te.placeholder((n, ci, size, size), name="X"), te.placeholder((co, ci, side, side), name="W")
    c, v, u = (te.reduce_axis((0, extent), name) for extent, name in ((ci, "c"), (side, "v"), (side, "u")))
    out = size - side + 1
    return te.compute((n, co, out, out), lambda b, o, y, x: te.sum(X[b, c, y + v, x + u] * W[o, c, v, u], axis=[c, v, u]))


def pool(reduce, value, n=2, c=3, size=8, side=2):
    X = te.placeholder((n, c, size, size), name="X")
    v, u = te.reduce_axis((0, side), "v"), te.reduce_axis((0, side), "u")
    return te.compute((n, c, size // side, size // side), lambda b, o, y, x: reduce(value(X[b, o, y * side + v, x * side + u]),
                                                                                  axis=[v, u]))


def test_flops():
    """As AutoTVM counts them: two for a term of a convolution or of a mean, one for a term of a maximum."""
    assert count_flops(conv(2, 3, 5, 10, 3)) == 2 * 2 * 5 * 8 * 8 * 3 * 3 * 3
    assert count_flops(pool(te.sum, lambda e: e / 4.0)) == 2 * 2 * 3 * 4 * 4 * 2 * 2
    assert count_flops(pool(te.max, lambda e: e)) == 2 * 3 * 4 * 4 * 2 * 2
    X = te.placeholder((4, 6), name="X")
    with raises(TuneError, "T has no operations on values, it moves them only: compare times instead"):
        count_flops(te.compute((6, 4), lambda i, j: X[j, i], name="T"))
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    with raises(TuneError, "the operations of 'B' cannot be counted: a size is known when the program runs only"):
        count_flops(te.compute((n,), lambda i: A[i] + 1, name="B"))
