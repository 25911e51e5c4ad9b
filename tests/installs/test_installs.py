"""Wheels are whole; a script beside a clone finds the package. `python tests/installs` runs what each extra promises, in CI."""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from installs.tool import JOBS, Done, FailedError, main, print_table, run, run_apart
from installs.wheels import IncompleteError, copy, package_files, tracked

ROOT = Path(__file__).parents[2]
SCRIPT = """
import numpy as np
import vtakit
from vtakit import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
assert "for" in str(vtakit.lower(te.create_schedule(B.op), [A, B]))
print(vtakit.__file__)
"""


def test_every_job_has_a_script():
    assert {path.stem for path in (Path(__file__).parent / "jobs").glob("*_job.py")} == {f"{job}_job" for job in JOBS}


def test_the_package_is_all_that_its_links_lead_to():
    files = package_files(ROOT)
    assert {"vtakit/__init__.py", "vtakit/py.typed", "vtakit/sim/rtl/harness.cpp", "vtakit/runtime/report/page.html.j2",
            "vtakit/runtime/tune/shipped.jsonl"} <= files
    for part in ("hw", "compiler", "sim", "runtime", "boards", "models", "cache"):
        assert f"vtakit/{part}/__init__.py" in files
    assert len(files) > 400
    assert not {name for name in files if name.startswith("vtakit/tests") or "__pycache__" in name}


@pytest.mark.timeout(300)
def test_a_script_beside_the_clone_finds_the_package(tmp_path):
    """An editable install, as `make demo` makes it; the clone's folder has the package's name."""
    clone, venv = copy(ROOT, tmp_path / "vtakit"), tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=120)
    python, here = venv / "bin" / "python", sysconfig.get_path("purelib")
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(  # the packages of this environment serve both the build and the script
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--editable", clone],
        check=True, timeout=240, cwd=tmp_path, env=around | {"PYTHONPATH": here},
    )
    (into,) = venv.glob("lib/python3*/site-packages")
    (into / "zz_here.pth").write_text(here)
    (tmp_path / "script.py").write_text(SCRIPT)
    for call in (["script.py"], ["-c", SCRIPT]):
        done = subprocess.run(
            [python, *call], cwd=tmp_path, env=around, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (0, f"{clone / 'vtakit' / '__init__.py'}\n"), done.stderr


def test_a_copy_has_links_as_links_and_no_more_than_git_knows(tmp_path):
    clone = copy(ROOT, tmp_path / "clone")
    assert (clone / "vtakit" / "hw").is_symlink()
    found = {str(path.relative_to(clone)) for path in clone.rglob("*") if path.is_symlink() or path.is_file()}
    assert found == {name for name in tracked(ROOT) if (ROOT / name).exists()}


def test_what_fails_or_takes_too_long_is_told(tmp_path):
    around = dict(os.environ)
    with pytest.raises(FailedError, match=r"(?s)status 3\nlast words$"):
        run([sys.executable, "-c", "print('last words'); raise SystemExit(3)"], around, tmp_path, 60)
    with pytest.raises(FailedError, match="has not ended within 1 s"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], around, tmp_path, 1)
    run([sys.executable, "-c", "pass"], around, tmp_path / "made", 60)
    assert issubclass(IncompleteError, Exception)


def test_a_job_in_a_process_of_its_own_fails_alone(tmp_path, monkeypatch, capsys):
    """Its results come back by a file; without one, as of a wheel that is not there, it has failed."""
    around = argparse.Namespace(python=sys.executable, readme=False, cache=None, extra_index_url=None)
    lost = run_apart("core", tmp_path / "wheels" / "direct" / "none.whl", tmp_path, around)
    assert (lost.job, lost.failure) == ("core", "status 1")
    assert "No such file or directory" in capsys.readouterr().out
    print_table([lost, Done("plot", 10.0, 5.5, 12.25, "")], 16.0)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "job       install, s    run, s  processor, s  result", "core             0.0       0.0           0.0  FAILED",
        "plot            10.0       5.5          12.2  fine", "all jobs: 16.0 s, 12.2 s of processor time"]
    done = Done("plot", 1.0, 2.0, 3.0, "why")
    monkeypatch.setattr("installs.tool.run_job", lambda *given: done)
    words = ["--only", "plot", "--wheel", "any.whl", "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["installs", *words])
    assert main() == 1
    assert [Done(**each) for each in json.loads((tmp_path / "found.json").read_text())] == [done]
    monkeypatch.setattr(sys, "argv", ["installs", *words, "--together", "0"])
    with pytest.raises(SystemExit):
        main()
    assert "--together must be at least 1, not 0" in capsys.readouterr().err
