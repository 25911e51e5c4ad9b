"""Measurement of candidates in processes of their own: results, and every way in which a candidate can fail."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from support import interruptible, raises, runs, wait_for
from tune_support import QUICK, faulty

from vtakit import te, tune
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.compiler.tune.space import drawn
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.binary import Port
from vtakit.runtime.tune.outcome import Outcome
from vtakit.runtime.tune.subject import KEPT, Effort, Subject, difference


def all_of(measurer, task, kinds):
    candidates = [{"kind": kind, "number": at} for at, kind in enumerate(kinds)]
    found = dict(measurer.measure(task, candidates))
    assert sorted(found) == [*range(len(kinds))]
    return [found[at] for at in range(len(kinds))]


@pytest.fixture(scope="module")
def measurer():
    with CpuMeasurer(limits=QUICK) as made:
        yield made


REASONS = {
    "wrong": "wrong: a result is off by … allowed",
    "crash": "crash: the process of the candidate ended with signal SIGSEGV",
    "hang": "timeout: the candidate did not end within 3 s",
    "memory": "memory: the candidate could not allocate a buffer",
    "beside": "wrong: the candidate wrote beside a result",
    "input": "wrong: the candidate wrote to an input",
    "late": "refused: candidate calls the C function a_function_that_nobody_has, …",
    "check": "",
    "illegal": "refused: faulty: this combination is not legal",
    "python": "refused: candidate calls Python, which a measurement in another process cannot",
}


@pytest.mark.slow
def test_every_failure_costs_its_trial_and_has_its_reason(measurer):
    kinds = ["right", *REASONS, "right"]
    outcomes = all_of(measurer, faulty.task(), kinds)
    for kind, outcome in zip(kinds, outcomes, strict=True):
        wanted = REASONS.get(kind, "")
        if not wanted:
            assert outcome.error == ""
            assert 0 < outcome.cost < 1e-3
            assert outcome.spread >= 0
            continue
        assert outcome.cost is None
        begin, *rest = wanted.split("…")
        assert outcome.error.startswith(begin.rstrip()), (kind, outcome.error)
        assert all(part.strip() in outcome.error for part in rest), (kind, outcome.error)
        assert outcome.kind == wanted.partition(":")[0]
    assert 2.5 < outcomes[kinds.index("hang")].seconds < 20


@pytest.mark.slow
def test_failures_in_a_row_do_not_end_the_session(measurer):
    outcomes = all_of(measurer, faulty.task(), ["crash"] * 5 + ["right"] + ["crash"] * 2)
    assert [outcome.kind for outcome in outcomes] == ["crash"] * 5 + [""] + ["crash"] * 2


def test_the_incumbent_is_the_best_of_all(measurer):
    task = faulty.task(("right", "wrong"))
    outcomes = all_of(measurer, task, ["right", "right", "wrong", "right"])
    assert measurer.best(task) == min(outcome.cost for outcome in outcomes if outcome.cost is not None)


@pytest.mark.slow
def test_a_reference_that_fails_ends_in_a_sentence(measurer):
    with raises(TuneError, "the reference of task … cannot be run: the process of the candidate ended with signal SIGSEGV"):
        all_of(measurer, faulty.task(("crash", "right")), ["right"])
    assert all_of(measurer, faulty.task(("right",)), ["right"])[0].error == ""


@pytest.mark.slow
def test_a_batch_that_is_given_up_leaves_nothing_behind():
    with CpuMeasurer(limits=QUICK) as measurer:
        hanging = [{"kind": "hang", "number": number} for number in range(3)]
        batch = measurer.measure(faulty.task(), [{"kind": "right", "number": 0}, *hanging])
        assert next(batch)[1].error == ""
        pids = [child._process.pid for child in (*measurer.crew.compiling, measurer.crew.timing)]
        folder = measurer.crew.folder
        batch.close()
        assert all_of(measurer, faulty.task(), ["right"])[0].error == ""
        pids += [child._process.pid for child in (*measurer.crew.compiling, measurer.crew.timing)]
        before = os.sched_getaffinity(0)
    assert not folder.exists()
    assert os.sched_getaffinity(0) == before
    wait_for(lambda: not any(map(runs, pids)), 10)
    measurer.close()  # a second time


def test_a_process_that_vanishes_is_replaced(measurer):
    task = faulty.task(("right",))
    all_of(measurer, task, ["right"])
    os.kill(measurer.crew.timing._process.pid, signal.SIGKILL)
    (outcome,) = all_of(measurer, task, ["right"])
    assert outcome.kind == "crash"
    assert all_of(measurer, task, ["right"])[0].error == ""


def test_children_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "session.py"
    script.write_text(
        "import time\nfrom vtakit.runtime.tune.bench import CpuMeasurer\n"
        "measurer = CpuMeasurer()\nprint(measurer.crew.timer()._process.pid, measurer.crew.compiler()._process.pid, flush=True)\n"
        "time.sleep(300)\n")
    parent = interruptible(str(script), stdout=-1)
    pids = [*map(int, parent.stdout.readline().split())]
    time.sleep(0.5)
    parent.kill()
    parent.wait(10)
    parent.stdout.close()
    wait_for(lambda: not any(map(runs, pids)), 30)


def test_folders_of_processes_that_were_killed_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = ("import time\nfrom vtakit.runtime.tune.bench import CpuMeasurer\nmeasurer = CpuMeasurer()\n"
            "print(measurer.crew.folder, flush=True)\ntime.sleep(300)\n")
    parents = [interruptible("-c", code, stdout=-1, env=os.environ | {"TMPDIR": str(tmp_path)}) for _ in range(2)]
    folders = [Path(parent.stdout.readline().strip()) for parent in parents]
    for parent in parents[:1]:
        parent.kill()
        parent.wait(10)
    (tmp_path / "vtakit.tune.other").mkdir()  # nobody's lock: left alone
    with CpuMeasurer() as measurer:
        assert [folder.exists() for folder in folders] == [False, True]
        assert measurer.crew.folder.parent == tmp_path
    for parent in parents:
        parent.kill()
        parent.wait(10)
        parent.stdout.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([folders[1].name, "vtakit.tune.other"])


def test_a_full_disk_ends_the_session_and_is_no_failure_of_a_candidate(measurer, monkeypatch):
    """Neither where the process that searches writes, nor where one that compiles does."""
    crew, task = measurer.crew, faulty.task(("right",))
    all_of(measurer, task, ["right"])
    told = f"candidates cannot be written to {str(crew.folder)!r}: … trials that had ended are kept: make room there, …"
    with monkeypatch.context() as patched:
        patched.setattr(crew, "file", lambda kind: Path(f"/dev/full/{kind}"))
        with raises(TuneError, told):
            all_of(measurer, task, ["right"])
    file = crew.file
    with monkeypatch.context() as patched:
        patched.setattr(crew, "file", lambda kind: Path("/dev/full") if kind == "binary" else file(kind))
        with raises(TuneError, told):
            all_of(measurer, task, ["right"])
    assert all_of(measurer, task, ["right"])[0].error == ""


@tune.template
def matmul(cfg, n):
    """A product with a tile of sums in registers."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    cfg.define_split("rows", i, num_outputs=2, filter=lambda e: e.size[1] <= 8)
    cfg.define_split("columns", j, num_outputs=2, filter=lambda e: e.size[1] <= 32)
    io, ii = cfg["rows"].apply(s, C, i)
    jo, ji = cfg["columns"].apply(s, C, j)
    cfg.define_reorder("order", [io, jo])
    order = cfg["order"].apply(s, C, [io, jo])
    s[C].reorder(*order, ii, ji)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], order[-1])
    y, x = s[sums].op.axis
    s[sums].reorder(*s[sums].op.reduce_axis, y, x)
    s[sums].unroll(y)
    s[sums].vectorize(x)
    return s, [A, B, C]


@pytest.mark.slow
def test_a_template_is_tuned_by_random_search(measurer):
    """Thirty trials of a product: a tile beats the plain loops by far."""
    task, rng = matmul.task(128), np.random.default_rng(3)
    untiled = {"rows": [-1, 1], "columns": [-1, 1], "order": [0, 1]}
    outcomes = dict(measurer.measure(task, [untiled, *[drawn(task, rng) for _ in range(29)]]))
    costs = [outcome.cost for outcome in outcomes.values() if outcome.cost is not None]
    assert len(costs) == 30
    assert min(costs) < outcomes[0].cost / 5


def test_refused_candidates_are_not_compiled(measurer):
    (outcome,) = [outcome for _, outcome in measurer.measure(matmul.task(128), [{"rows": [-1, 3]}])]
    assert outcome == Outcome(None, 0.0, outcome.error, outcome.seconds)
    assert outcome.error.startswith("refused: decision 'rows' is [-1, 3], which is no candidate here: give one of")


def test_a_task_of_another_machine_is_refused(measurer):
    from vtakit.compiler.codegen.llvm.target import Target

    with raises(TuneError, "task … cannot be measured here: code for … cannot run in this process …"):
        next(measurer.measure(matmul.task(64, target=Target("aarch64-linux-gnu")), [{}]))


@pytest.mark.slow
def test_one_core_compiles_and_times_in_turns():
    core = max(os.sched_getaffinity(0))
    with CpuMeasurer(limits=QUICK, cores=[core]) as measurer:
        kinds = ["right", "wrong", "crash", *["right"] * 17]
        outcomes = all_of(measurer, faulty.task(), kinds)
        assert [outcome.kind for outcome in outcomes] == ["", "wrong", "crash", *[""] * 17]
        assert not measurer.crew.apart


@pytest.mark.slow
def test_tasks_that_a_process_forgot_are_prepared_again(measurer):
    assert KEPT < 36
    tasks = [matmul.task(n) for n in range(4, 40)]
    for task in [*tasks, *tasks[::-1]]:
        (outcome,) = dict(measurer.measure(task, [{}])).values()
        assert outcome.error == ""


def test_the_luckiest_of_many_equal_candidates_is_not_better(monkeypatch):
    """Each takes 1 ms, give or take 8 %: none may seem to be much faster, and one that takes 0.85 ms is found."""
    rng, port = np.random.default_rng(0), Port("float32", (8,), True)

    class Run:
        def __init__(self, seconds):
            self.seconds, self.ports = seconds, (port,)

        def __call__(self):
            pass
    subject = Subject([port], 0)
    monkeypatch.setattr("vtakit.runtime.tune.subject.bound", lambda binary, arrays: binary)
    monkeypatch.setattr(subject, "_check", lambda: None)
    monkeypatch.setattr(subject, "_seconds", lambda run, count: run.seconds * rng.lognormal(0, 0.08))
    found = [subject.measure(Run(1e-3), Effort()) for _ in range(300)]
    assert sum(each.best for each in found) <= 4
    assert subject.best_cost > 0.93e-3
    assert all(each.cost >= subject.best_cost for each in found)
    faster = subject.measure(Run(0.85e-3), Effort())
    assert faster.best
    assert 0.78e-3 < faster.cost < 0.93e-3


def test_differences():
    want = np.array([1.0, -2.0, np.nan, np.inf], np.float32)
    assert difference(want, want.copy())[0] == 0
    assert difference(want, want + np.float32(1e-4))[0] <= difference(want, want)[1]
    off, most = difference(want, np.array([1.0, -2.01, np.nan, np.inf], np.float32))
    assert off > most
    for wrong in ([1, -2, 0, np.inf], [1, -2, np.nan, -np.inf], [np.nan, -2, np.nan, np.inf]):
        off, most = difference(want, np.array(wrong, np.float32))
        assert not off <= most
    assert difference(np.array([1, 2, 3]), np.array([1, 2, 4])) == (1, 0)


def test_illegal_combinations_are_refused_before_lowering():
    with raises(DecisionError, "faulty: this combination is not legal"):
        faulty.task().decide(tune.Decisions({"kind": "illegal"}))
