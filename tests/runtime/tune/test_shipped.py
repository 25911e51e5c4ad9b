"""The shipped records: each network gains, each task has its best and its default, and a compilation has the cycles they say."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support import raises

import vtakit
from vtakit import models
from vtakit.base.errors import FileError
from vtakit.runtime import cli
from vtakit.runtime.tune.records import SHIPPED, Records, place_of, versions

COMMAND = "python benchmarks/shipped_records.py --refresh"


@pytest.fixture(scope="module")
def shipped():
    return Records.read(place_of(SHIPPED))


@pytest.fixture(scope="module")
def model():
    """MobileNet v1 in integers, from other samples than the shipped records were tuned with."""
    samples = models.inputs("mobilenet_v1", 1)
    return vtakit.quantize(models.build("mobilenet_v1", seed=3), samples, evaluation=samples).model


def test_shipped_is_a_name_and_a_path_is_none(tmp_path, monkeypatch):
    assert place_of("shipped").samefile(Path(vtakit.__file__).parent / "runtime" / "tune" / "shipped.jsonl")
    monkeypatch.chdir(tmp_path)
    assert place_of("./shipped") == place_of(Path("shipped")) == Path("shipped")
    with raises(FileError, "cannot read the file of records 'shipped': No such file or directory"):
        vtakit.compile(onnx.ModelProto(), "vta", tuned=Path("shipped"))


def test_each_network_gains_and_each_task_has_its_best(shipped):
    networks = [each for each in shipped if each.kind == "network"]
    assert networks
    for whole in networks:
        assert whole.cost < whole.default, whole.task
        for digest, layers in whole.key["network"]:
            best = [each for each in shipped if each.kind == "trial" and each.digest == digest]  # none of a task without trials
            assert len(best) <= 1
            assert all(each.cost <= each.default for each in best), (whole.task, layers)
            if any(layer in whole.decisions for layer in layers):
                assert best[0].cost < best[0].default
    assert {each.kind for each in shipped} == {"network", "trial", "confirmed"}
    assert len({str(each.versions) for each in shipped}) == 1, f"run {COMMAND}"


def test_what_is_shipped_is_listed(capsys):
    assert cli.main(["records", "shipped"]) == 0
    assert "mobilenet_v1, default, pynq" in capsys.readouterr().out


@pytest.mark.slow
def test_a_compilation_has_the_cycles_of_the_shipped_records(model, shipped):
    (whole,) = [each for each in shipped if each.task == "mobilenet_v1, default, pynq"]
    with vtakit.compile(model, "vta", system="pynq", tuned="shipped", cache=False, device="cycle") as module:
        target, image = module.image.target, module.image
        assert "shipped has records of 29 of 29 layers" in image.said
        cost = target.cost(image).total
        if whole.versions == versions():
            assert cost == whole.cost
        else:
            assert "measured with another version of vtakit" in image.said
        found = module.run(models.inputs("mobilenet_v1"))
    with vtakit.compile(model, "vta", system="pynq", cache=False, device="fsim") as module:
        assert target.cost(module.image).total > cost, f"what is shipped gains nothing: run {COMMAND}"
        wanted = module.run(models.inputs("mobilenet_v1"))
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_other_hardware_gets_the_default_and_it_is_said():
    """A small network whose layers no shipped record has."""
    samples = models.inputs("mobilenet_v1", 1, size=32)
    small = vtakit.quantize(models.build("mobilenet_v1", size=32), samples, evaluation=samples).model
    with vtakit.compile(small, "vta", config="compact", tuned="shipped") as module:
        assert "tuned: shipped has records of 0 of " in module.image.said
        cost = module.image.target.cost(module.image).total
    with vtakit.compile(small, "vta", config="compact") as module:
        assert module.image.target.cost(module.image).total == cost
