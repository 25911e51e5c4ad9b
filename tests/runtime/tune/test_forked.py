"""Children that measure: one that crashes or hangs costs its item; the others are measured, and none is left."""

import os
import signal
import time

import pytest

from vtakit.runtime.tune.forked import in_children
from vtakit.runtime.tune.outcome import Outcome


def work(item):
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 5:
        time.sleep(60)
    if item == 7:
        os._exit(0)
    return Outcome(float(item * item))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_crash_or_hang_costs_one_item(workers):
    found = dict(in_children(work, range(10), workers, 1.0))
    assert {item: outcome.cost for item, outcome in found.items()} == {
        item: None if item in (3, 5, 7) else item * item for item in range(10)}
    assert found[3].error == "crash: the process that measured it was ended by SIGKILL"
    assert found[5].error == "timeout: it was not measured within 1 s"
    assert found[7].error == "crash: the process that measured it ended without a result"


def test_no_child_is_left_when_the_caller_stops():
    def pid(item):
        if item:
            time.sleep(60)
        return Outcome(float(os.getpid()))
    found = in_children(pid, range(4), 2, 100.0)
    _, outcome = next(found)
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(outcome.cost), 0)
