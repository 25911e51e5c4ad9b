"""`vtakit tune SCRIPT`: tasks of a script, a session and its files, what is built from records, and what is refused."""

import json
import re

import numpy as np
import pytest
from support import raises

from vtakit import te, tune
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime import cli
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.records import Records
from vtakit.runtime.tune.script import script_tasks

SCRIPT = '''
from vtakit import te, tune
from beside import N

def product(combine, name):
    A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), "k")
    C = te.compute((N, N), lambda i, j: combine(A[i, k], B[k, j], k), name=name)
    return tune.expression(C, [A, B, C])

@tune.template
def scaled(cfg, n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], cfg.define_knob("width", [4, 8, 16]).val)
    s[B].vectorize(i)
    return s, [A, B]

TASKS = [product(lambda a, b, k: te.sum(a * b, axis=k), "sums"), product(lambda a, b, k: te.max(a + b, axis=k), "most")]
again = TASKS[0]
one = scaled.task(N)
if __name__ == "__main__":
    raise RuntimeError("a script that is tuned is not run as a program")
'''


@pytest.fixture
def path(tmp_path):
    (tmp_path / "beside.py").write_text("N = 48\n")
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


def test_tasks_are_those_of_global_variables_once(path):
    assert [task.name for task in script_tasks(path)] == ["sums", "most", "scaled(48)"]


def test_a_script_is_tuned_goes_on_and_its_records_are_built_from(path, tmp_path, capsys):
    words = ["tune", str(path), "--search", "random", "--records", str(tmp_path / "r.jsonl"), "--json", str(tmp_path / "r.json")]
    assert cli.main([*words, "--trials", "18"]) == 0
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["trials"], result["network"], result["target"], result["unit"]) == (18, None, "llvm", "s")
    assert re.search(r"^most: [\d.]+ ms untuned, [\d.]+ ms tuned, 8 trials$", capsys.readouterr().out, re.M)
    assert cli.main([*words, "--trials", "19"]) == 0
    again = json.loads((tmp_path / "r.json").read_text())
    assert again["reused"] == 18
    sums, most, one = script_tasks(path)
    found = tune.recorded(most, tmp_path / "r.jsonl")
    costs = [each.cost for each in Records.read(tmp_path / "r.jsonl").of(most.key) if each.cost is not None]
    assert found.cost == min(costs)
    assert found.trials == len(costs)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((48, 48)).astype(np.float32) for _ in range(2))
    c = np.empty_like(a)
    found.build()(a, b, c)
    np.testing.assert_array_equal(c, (a[:, :, None] + b[None]).max(1))
    with raises(TuneError, "… has no measured candidate of task 'sums': tune it with `vtakit tune SCRIPT`, …"):
        tune.recorded(tune.expression(sums.outputs, sums.args, threads=2), tmp_path / "r.jsonl")
    assert tune.recorded(one, tmp_path / "r.jsonl").decisions["width"] in (4, 8, 16)


def test_ctrl_c_keeps_the_trials_that_had_ended_and_says_so(path, tmp_path, monkeypatch, capsys):
    words = ["tune", str(path), "--search", "random", "--trials", "12", "--records", str(tmp_path / "r.jsonl")]
    words += ["--json", str(tmp_path / "r.json")]

    def measure(self, task, candidates, own=CpuMeasurer.measure):
        for at, each in enumerate(own(self, task, candidates)):
            if at == 3:
                raise KeyboardInterrupt
            yield each
    with monkeypatch.context() as patched:
        patched.setattr(CpuMeasurer, "measure", measure)
        assert cli.main(words) == 2
    assert f"the trials that had ended are in {str(tmp_path / 'r.jsonl')!r}: the same command goes on" in capsys.readouterr().err
    assert len([*Records.read(tmp_path / "r.jsonl")]) == 3
    assert cli.main(words) == 0
    assert json.loads((tmp_path / "r.json").read_text())["reused"] == 3


def test_records_of_another_version_are_not_built_from(tmp_path, monkeypatch):
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[j, i] + 1.0, name="B")
    task = tune.expression(B, [A, B])
    tune.run(task, 1, search="grid", records=tmp_path / "r.jsonl")
    assert tune.recorded(task, tmp_path / "r.jsonl").cost > 0
    monkeypatch.setattr("vtakit.runtime.tune.local.versions", lambda: {"vtakit": "9", "code": "x"})
    with raises(TuneError, "… has no measured candidate of task 'B' of this version of vtakit, only of another one: …"):
        tune.recorded(task, tmp_path / "r.jsonl")


@pytest.mark.parametrize(("text", "told"), [
    ("x = 3\n", "has no task: give a global variable one"),
    ("x = 3\ny = z\n", "fails in line 2: NameError: name 'z' is not defined"),
    ("x = (\n", "fails in line 1: SyntaxError: "),
    ("import sys\n\nsys.exit(4)\n", "fails in line 3: SystemExit: 4"),
    (SCRIPT.replace("from beside import N", "N = 8") + "\ntwo = scaled.task(8, threads=2)\n", "are for 1 and 2 threads: tune"),
])
def test_a_script_that_cannot_be_tuned_is_one_sentence(tmp_path, capsys, text, told):
    (tmp_path / "s.py").write_text(text)
    assert cli.main(["tune", str(tmp_path / "s.py"), "--search", "random", "--records", str(tmp_path / "r.jsonl")]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("words", [
    ["--threads", "2"], ["--target", "llvm"], ["--batch", "2"], ["--config", "tiny"], ["--precision", "bfloat16"],
    ["--shape", "x=1"], ["--cpu", "haswell"],
])
def test_options_of_models_are_refused_beside_a_script(path, capsys, words):
    assert cli.main(["tune", str(path), "--search", "random", "--records", "r.jsonl", *words]) == 2
    assert f"{words[0]} goes with a model: the tasks of a script say themselves what they are for" in capsys.readouterr().err


def test_a_script_that_is_not_there(tmp_path, capsys):
    assert cli.main(["tune", str(tmp_path / "no.py"), "--search", "random", "--records", str(tmp_path / "r.jsonl")]) == 2
    assert "does not exist, or is no file" in capsys.readouterr().err
