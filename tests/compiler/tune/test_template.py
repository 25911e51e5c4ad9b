"""Templates of users: counts of candidates, what choices do to a schedule, constraints, and what is refused."""

import numpy as np
import pytest
from schedule_support import run
from support import raises

from vtakit import te, tune
from vtakit.compiler.schedule.decisions import DecisionError, Decisions
from vtakit.compiler.tune.space import drawn, listed
from vtakit.compiler.tune.splits import splits
from vtakit.compiler.tune.task import Task, TuneError, decided


def config(given=None):
    return tune.Config(Decisions(given), "rule")


@pytest.mark.parametrize(("extent", "parts", "policy", "count"), [
    (128, 2, "factors", 8), (256, 3, "factors", 45), (256, 3, "power2", 45), (256, 3, "verbose", 45),
    (224, 3, "factors", 63), (224, 3, "power2", 36), (224, 3, "verbose", 84), (7, 2, "all", 7), (7, 1, "factors", 1),
])
def test_counts_of_splits(extent, parts, policy, count):
    """AutoTVM's numbers (TVM 0.8), but for "all", which it does not have."""
    assert len(config().define_split("tile", extent, parts, policy=policy)) == count


def test_two_axes_have_the_product():
    cfg = config()
    assert len(cfg) == 1
    cfg.define_split("y", 128, num_outputs=2)
    cfg.define_split("x", 128, num_outputs=2)
    assert len(cfg) == 64
    assert [*cfg] == ["y", "x"]


@pytest.mark.parametrize("policy", ["factors", "power2", "verbose", "all"])
def test_splits_are_those_of_a_search_through_all(policy):
    rng = np.random.default_rng(0)
    for extent in rng.integers(1, 25, 6):
        n = int(extent)
        divisors = {d for d in range(1, n + 1) if n % d == 0}
        powers = {1 << at for at in range(6) if 1 << at <= n}
        sizes = {"factors": divisors, "power2": powers, "verbose": divisors | powers, "all": {*range(1, n + 1)}}[policy]
        wanted = {(a, b) for a in sizes for b in sizes if a * b <= n and (policy != "factors" or n % (a * b) == 0)}
        found = splits(n, 3, policy)
        assert set(found) == wanted
        assert len(found) == len(wanted)


def test_filters_and_largest_factors():
    cfg = config()
    assert [e.size for e in [cfg.define_split("a", 64, 2, filter=lambda e: e.size[-1] in (4, 8), default=[-1, 8])]] == [[-1, 8]]
    assert cfg["a"].decision.candidates == ([-1, 4], [-1, 8])
    assert len(cfg.define_split("b", 64, 2, max_factor=16)) == 5
    assert cfg.define_split("c", 64, 2, candidate=[[-1, 3], [-1, 5]]).val == [-1, 3]


@pytest.mark.parametrize(("words", "count"), [
    ({"policy": "all"}, 24), ({"policy": "identity"}, 1), ({"policy": "interval_all", "interval": (1, 3)}, 2),
    ({"policy": "candidate", "candidate": [["i", "j", "k", "l"], ["l", "k", "j", "i"]]}, 2),
    ({"policy": "interleave", "spatial": [["i", "j"]], "reduce": [["k", "l"]]}, 3),
])
def test_counts_of_orders(words, count):
    found = config().define_reorder("order", ["i", "j", "k", "l"], **words)
    assert len(found) == count
    assert len({tuple(each) for each in found.decision.candidates}) == count


def test_orders_interleave_levels_of_loops():
    axes = ["y0", "y1", "x0", "x1", "k0", "k1"]
    found = config().define_reorder("order", axes, "interleave", spatial=[["y0", "y1"], ["x0", "x1"]], reduce=[["k0", "k1"]])
    texts = [" ".join(axes[at] for at in order) for order in found.decision.candidates]
    assert texts == ["y0 x0 y1 x1 k0 k1", "y0 x0 k0 y1 x1 k1", "y0 x0 k0 k1 y1 x1"]


@pytest.mark.parametrize(("policy", "count"), [("try_unroll", 4), ("try_vec", 3), ("try_unroll_vec", 6)])
def test_counts_of_annotations(policy, count):
    assert len(config().define_annotate("marks", ["i", "j"], policy)) == count


@tune.template("product")
def product(cfg, n, m):
    """A product with every kind of decision."""
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m, n), name="B")
    k = te.reduce_axis((0, m), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    cfg.define_split("rows", i, num_outputs=3, policy="verbose")
    cfg.define_split("columns", j, num_outputs=2)
    cfg.require(cfg["rows"].size[1] * cfg["columns"].size[1] <= 32, "the tile is too large")
    io, im, ii = cfg["rows"].apply(s, C, i)
    jo, ji = cfg["columns"].apply(s, C, j)
    loops = [io, jo, im, k, ii, ji]
    cfg.define_reorder("order", loops, "interleave", spatial=[[io, im, ii], [jo, ji]], reduce=[[k]])
    order = cfg["order"].apply(s, C, loops)
    cfg.define_annotate("marks", order[-2:], "try_unroll_vec" if order[-1] is not k else "try_unroll")
    cfg["marks"].apply(s, C, order[-2:], max_unroll=8, vec_size=[1, 2, 4, 8])
    if cfg.define_knob("threads", [False, True]).val:
        s[C].parallel(order[0])
    return s, [A, B, C]


def test_every_candidate_computes_the_same():
    task = product.task(8, 6)
    assert isinstance(task, Task)
    assert task.name == "product(8, 6)"
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 6), (6, 8)))
    seen = set()
    for _ in range(40):
        given = drawn(task, rng)
        seen.add(repr(given))
        made = task.program(Decisions(given))
        (got,) = run(made.schedule, made.args, [a, b])
        np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)
    assert len(seen) > 30


def test_decisions_are_steps_of_the_trace_and_replay():
    task = product.task(8, 8)
    given = drawn(task, np.random.default_rng(2))
    s = task.program(Decisions(given)).schedule
    steps = {step.args["name"]: step.args["chosen"] for step in s.trace.steps if step.do == "choose"}
    assert steps == {name: value for name, value in given.items() if name != "threads"}
    again = task.definition.schedule.copy()
    again.replay(te.Trace.from_json(s.trace.to_json()))
    assert str(again.trace) == str(s.trace)


def test_constraints_hold_of_all_that_are_listed():
    task = product.task(8, 8)
    found = [*listed(task, 3000)]
    assert len(found) == len({repr(each) for each in found})
    assert all(each["rows"][1] * each["columns"][1] <= 32 for each in found)
    with raises(DecisionError, "product: the tile is too large"):
        decided(task, {"rows": [-1, 8, 1], "columns": [-1, 8]})


def test_long_loops_are_not_unrolled_or_vectorised():
    task = product.task(16, 16)
    order = [0, 1, 3, 2, 5, 4]  # io jo k im ji ii
    with raises(DecisionError, "decision 'marks' unrolls 16 copies of a body, and at most 8 are allowed"):
        decided(task, {"rows": [-1, 1, 1], "columns": [-1, 16], "order": order, "marks": ["unroll", "none"]})
    with raises(DecisionError, "decision 'marks' vectorises a loop of 16, and 1, 2, 4, 8 are allowed"):
        decided(task, {"rows": [-1, 1, 16], "columns": [-1, 1], "order": order, "marks": ["none", "vec"]})


def test_keys_tell_tasks_apart():
    keys = [product.task(8, 8), product.task(8, 6), product.task(8, 8, threads=2)]
    assert len({task.digest for task in keys}) == 3
    assert product.task(8, 8).digest == keys[0].digest


@pytest.mark.parametrize(("misuse", "message"), [
    (lambda cfg: cfg["tile"], "cfg['tile'] is not defined: none is defined yet"),
    (lambda cfg: cfg.define_split("a", te.var("n"), 2), "define_split('a'): the extent of 'n' is no number here: give it …"),
    (lambda cfg: cfg.define_split("a", 8, 0), "define_split('a') has num_outputs=0: give the number of loops, at least 1"),
    (lambda cfg: cfg.define_split("a", 8, 2, policy="factor"), "define_split('a') has the policy 'factor': … 'factors'? …"),
    (lambda cfg: cfg.define_split("a", 8, 2, filter=lambda e: False), "define_split('a') has no candidate: … leaves none"),
    (lambda cfg: cfg.define_split("a", 100_000, 3, policy="all"), "a loop of 100000 has over 100,000 splits …"),
    (lambda cfg: cfg.define_reorder("a", [*range(12)]), "define_reorder('a') has 12 loops in any order, over 100,000 ways: …"),
    (lambda cfg: cfg.define_reorder("a", ["i", "j"], "candidate", candidate=[["i"]]), "define_reorder('a'): … the 2 loops once"),
    (lambda cfg: cfg.define_reorder("a", ["i"], "candidate", candidate=[["q"]]), "define_reorder('a'): 'q' is none of the …"),
    (lambda cfg: cfg.define_annotate("a", ["i"], "bind"), "define_annotate('a') has the policy 'bind': …"),
    (lambda cfg: cfg.define_knob("a", []), "define_knob('a') has no candidate: give a list of values"),
    (lambda cfg: [cfg.define_knob("a", [1]), cfg.define_knob("a", [2])], "decision 'a' is defined twice: …"),
    (lambda cfg: bool(cfg.define_knob("a", [1])), "cfg['a'] is a decision, not its value: ask for cfg['a'].val"),
])
def test_misuse(misuse, message):
    with raises(TuneError, message):
        misuse(config())


def test_templates_that_return_something_else():
    with raises(TuneError, "template 'f' returned None: return the schedule and the list of the tensors …"):
        tune.template("f")(lambda cfg: None).task()
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    with raises(TuneError, "task 'f()': A: float32[n] has a size that is known when the program runs: give a number for each"):
        tune.template("f")(lambda cfg: (te.create_schedule(B.op), [A, B])).task()


def test_a_combination_that_a_primitive_refuses_is_not_legal():
    """A template need not know beforehand what its schedule refuses: such candidates are drawn again."""
    @tune.template
    def loops(cfg, n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        s = te.create_schedule(B.op)
        axis = B.op.axis[0]
        if cfg.define_knob("twice", [False, True]).val:
            s[B].split(axis, 4)
        s[B].split(axis, 2)
        return s, [A, B]
    task = loops.task(64)
    with pytest.raises(DecisionError, match=r"^loops: B\.split\(i, factor=2\): i is a loop no more"):
        task.decide(Decisions({"twice": True}))
    assert [each["twice"] for each in listed(task)] == [False]
    assert drawn(task, np.random.default_rng(0)) == {"twice": False}
