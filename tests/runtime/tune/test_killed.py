"""A session that is killed or interrupted at random moments and begun again makes the trials of one that never was."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tune_toys import Measured, tasks

from vtakit.runtime.tune.records import Records, Writer
from vtakit.runtime.tune.session import Rules, Session

TESTS = Path(__file__).parents[2]
TRIALS = 60
CODE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell would ignore it
sys.path.insert(0, sys.argv[2])
from test_killed import Writer, session
from tune_toys import Measured
class Slow(Measured):
    def measure(self, task, candidates):
        for each in super().measure(task, candidates):
            time.sleep(0.05)
            yield each
with Writer(sys.argv[1]) as writer:
    session(Slow(), sys.argv[1], writer).run()
"""


def session(measurer, path, writer):
    rules = Rules(trials=TRIALS, search="genetic", seed=4)
    return Session(tasks(), [1, 2], measurer, rules, records=Records.read(path), writer=writer)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_lost_but_the_trial_that_ran(tmp_path, by):
    sys.path.insert(0, str(Path(__file__).parent))
    whole = Measured()
    with Writer(tmp_path / "whole.jsonl") as writer:
        session(whole, tmp_path / "whole.jsonl", writer).run()
    path, rng = tmp_path / "r.jsonl", random.Random(by)
    paths = [str(TESTS), str(TESTS / "compiler"), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    around = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    for end in sorted(rng.sample(range(1, TRIALS - 20), 4)):  # a second or more before the session would end by itself
        child = subprocess.Popen(
            [sys.executable, "-c", CODE, str(path), str(Path(__file__).parent)], env=around, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < limit:
            if path.exists() and path.read_bytes().count(b"\n") >= end:
                time.sleep(rng.random() * 0.02)
                child.send_signal(by)
                break
            time.sleep(0.002)
        assert child.wait(60) == -by or (by == signal.SIGINT and child.returncode == 1)
        assert len([*Records.read(path)]) >= end
    rest = Measured()
    with Writer(path) as writer:
        state = session(rest, path, writer).run()
    found = [(each.task, dict(each.decisions)) for each in Records.read(path)]
    assert found == whole.asked  # every trial once, in the order of the session that was left alone
    assert state.reused + len(rest.asked) == TRIALS
