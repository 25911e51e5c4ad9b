"""Measurement on workers of dask.distributed: outcomes, workers that die, schedulers that go away, and nobody who works."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import raises, runs, wait_for
from tune_support import QUICK, faulty

import vtakit
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime import cli
from vtakit.runtime.model import network
from vtakit.runtime.tune.cycles import Cycles
from vtakit.runtime.tune.forms import try_forms
from vtakit.runtime.tune.records import Records
from vtakit.runtime.tune.workers import WorkersMeasurer

pytest.importorskip("distributed", reason="pip install 'vtakit[tune]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # dask's own warnings are no matter of ours


def all_of(measurer, kinds):
    candidates = [{"kind": kind, "number": at} for at, kind in enumerate(kinds)]
    found = dict(measurer.measure(faulty.task(), candidates))
    assert sorted(found) == [*range(len(kinds))]
    return [found[at] for at in range(len(kinds))]


def quantized():
    """An int8 model of one convolution."""
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array((rng.standard_normal((16, 16, 3, 3)) / 8).astype("f4"), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 16, 12, 12))] for name in "xy"]
    graph = helper.make_graph([node], "net", *ports, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = {"x": rng.standard_normal((4, 16, 12, 12)).astype("f4")}
    return vtakit.quantize(model, samples, evaluation={"x": samples["x"][:1]}).model


@pytest.mark.parametrize("target", ["vta", "llvm"])
def test_a_network_is_tuned_on_workers(target, tmp_path, monkeypatch, capsys):
    """Trials and the whole network; cycles on a worker are those of this machine."""
    onnx.save(quantized(), tmp_path / "int8.onnx")
    words = ["tune", str(tmp_path / "int8.onnx"), "--target", target, "--trials", "5", "--search", "random"]
    words += ["--records", str(tmp_path / "r.jsonl")]
    measured = []
    monkeypatch.setattr(WorkersMeasurer, "costs", lambda self, images, own=WorkersMeasurer.costs: measured.append(images) or own(
        self, images))
    with scheduler() as (_, address), worker(address, "--resource", "cpu=1"):
        assert cli.main([*words, "--workers", address]) == 0, capsys.readouterr().err
    trials = [each for each in Records.read(tmp_path / "r.jsonl") if each.kind == "trial"]
    assert len(trials) == 5
    assert measured
    if target == "vta":
        records = Records.read(tmp_path / "r.jsonl")
        (network_,) = [each for each in records if each.kind == "network"]
        net = try_forms(network(tmp_path / "int8.onnx", "vta"), None, records)  # known: nothing is measured again
        for each in [each for each in trials if each.cost is not None] or pytest.fail("none was counted"):
            assert next(Cycles(1).measure(net.tuned[0].task, [each.decisions]))[1].cost == each.cost
        (image,) = measured[0]
        assert network_.default == net.target.cost(image).total


def test_a_worker_with_other_sources_is_refused(monkeypatch):
    with WorkersMeasurer(limits=QUICK) as measurer:
        monkeypatch.setattr("vtakit.runtime.tune.remote.versions", lambda: {"vtakit": "9.9", "code": "x"})
        (outcome,) = all_of(measurer, ["right"])
        assert outcome.kind == "refused"
        assert "the session 9.9: install the same on both" in outcome.error


def worker_pids(measurer):
    return [*measurer._client.run(os.getpid).values()]


def test_trials_of_a_local_cluster():
    with WorkersMeasurer(limits=QUICK) as measurer:
        assert measurer.workers == 1
        outcomes = all_of(measurer, ["right", "wrong", "crash", "illegal", "hang", "right"])
        assert [outcome.kind for outcome in outcomes] == ["", "wrong", "crash", "refused", "timeout", ""]
        assert 0 < outcomes[0].cost < 1e-3
        pids = worker_pids(measurer)
    wait_for(lambda: not any(map(runs, pids)), 30)
    measurer.close()


def test_a_worker_that_dies_costs_its_trial():
    with WorkersMeasurer(limits=QUICK._replace(run_s=60)) as measurer:
        assert all_of(measurer, ["right"])[0].error == ""
        (pid,) = worker_pids(measurer)
        killer = threading.Timer(2, os.kill, (pid, signal.SIGKILL))
        killer.start()
        outcomes = all_of(measurer, ["hang", "right", "right"])
        killer.join()
        kinds = [outcome.kind for outcome in outcomes]
        assert kinds.count("crash") == 1, outcomes
        assert kinds[0] == "crash"
        assert outcomes[0].error == "crash: the worker of the trial died or vanished"


@contextmanager
def scheduler():
    """A scheduler of its own process; yields that and its address."""
    code = ("import asyncio, distributed\n"
            "async def main():\n"
            "    s = await distributed.Scheduler(port=0, host='127.0.0.1', dashboard=False)\n"
            "    print(s.address, flush=True)\n"
            "    await s.finished()\n"
            "asyncio.run(main())\n")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@contextmanager
def worker(address, *words):
    process = subprocess.Popen([sys.executable, "-m", "vtakit.runtime", "worker", "--scheduler", address, *words],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_a_session_ends_in_a_sentence_when_its_scheduler_goes_away():
    with scheduler() as (process, address), worker(address, "--resource", "cpu=1") as other:
        with WorkersMeasurer(address, limits=QUICK._replace(run_s=60)) as measurer:
            wait_for(lambda: measurer.workers == 1, 60)
            assert all_of(measurer, ["right"])[0].error == ""
            threading.Timer(2, process.kill).start()
            begun = time.monotonic()
            with raises(TuneError, f"the scheduler {address} went away: trials … are kept; start it again and go on"):
                all_of(measurer, ["hang", "right"])
            assert time.monotonic() - begun < 60
        assert other.wait(60) == 0  # the worker ends too


def test_nobody_works():
    with (scheduler() as (_, address), worker(address, "--resource", "gpu=1"),
          WorkersMeasurer(address, limits=QUICK, idle_s=3) as measurer):
        begun = time.monotonic()
        with raises(TuneError, f"the scheduler {address} has no worker with the resource 'cpu' for … start one with …"):
            all_of(measurer, ["right"])
        assert time.monotonic() - begun < 60


def test_a_scheduler_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr("vtakit.runtime.tune.workers.CONNECT_S", 2.0)
    with raises(TuneError, "the scheduler tcp://127.0.0.1:9 cannot be reached: … start one with `dask scheduler`, …"):
        WorkersMeasurer("tcp://127.0.0.1:9")
    assert cli.main(["worker", "--scheduler", "tcp://127.0.0.1:9", "--wait", "2"]) == 2
    assert "vtakit worker: the scheduler tcp://127.0.0.1:9 cannot be reached: " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--resource", "cpu"], ["--resource", "=1"], ["--resource", "cpu=none"], ["--wait", "0"]])
def test_arguments_of_a_worker(words, capsys):
    assert cli.main(["worker", "--scheduler", "tcp://127.0.0.1:9", *words]) == 2
    assert f"vtakit worker: {words[0]} " in capsys.readouterr().err
