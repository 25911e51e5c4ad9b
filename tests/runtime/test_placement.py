"""What runs where, and what a model of which nothing runs on the accelerator is told."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import model
from quantized_support import quantized, small_classifier

import vtakit
from vtakit.compiler.graph.vta.place import Left
from vtakit.runtime import cli
from vtakit.runtime.placement import PlacementWarning
from vtakit.runtime.target import TargetError
from vtakit.sim.rtl.surroundings import Surroundings

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

MIXED = """
    <ir_version: 10, opset_import: ["": 21]>
    mixed (float[1, 3, 6, 6] x) => (float[1, 3, 6, 6] y)
    { [bend] s = Sigmoid(x)  [twice] y = Add(s, s) }
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a float model, the same quantized, and inputs of both."""
    monkeypatch.chdir(tmp_path)
    net = small_classifier()
    onnx.save(net.model(), "float.onnx")
    onnx.save(quantized(net.model(), net.inputs(4)), "q.onnx")
    np.savez("in.npz", x=net.inputs(1, 7))
    return tmp_path


def test_a_float_model_is_told_to_be_quantized_and_runs_on_the_cpu(files):
    with pytest.warns(PlacementWarning, match="quantize it first .vtakit quantize MODEL --calibration"):
        module = vtakit.compile("float.onnx", "vta")
    placement = module.placement
    assert (placement.launches, placement.macs, placement.share_of_macs) == (0, 0, 0.0)
    with np.load("in.npz") as inputs:
        given = dict(inputs)
    found, wanted = module.run(given), vtakit.compile("float.onnx").run(given)
    assert all(np.allclose(found[name], wanted[name]) for name in wanted)


def test_a_device_that_would_have_nothing_to_do_is_refused(files):
    for device in ("fsim", "rtl"):
        with pytest.raises(TargetError, match=r"nothing of the model .* runs on the accelerator"):
            vtakit.compile("float.onnx", "vta", device=device)


def test_a_model_without_products_is_not_told_to_be_quantized():
    with pytest.warns(PlacementWarning) as told:
        module = vtakit.compile(onnx.parser.parse_model(MIXED), "vta")
    assert "quantize" not in str(told[0].message)
    assert [each.name for each in module.placement.left] == ["bend", "twice"]
    assert module.placement.share_of_macs is None


def test_a_model_that_is_quantized_otherwise_is_told_so(files):
    """To 16 bits."""
    node, rng = onnx.helper.make_node, np.random.default_rng(0)
    constants = {"w": rng.random((4, 3, 3, 3), np.float32), "s": np.float32(0.01), "z": np.int16(0)}
    wide = model(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["a"]),
         node("Conv", ["a", "w"], ["y"])],
        [("x", "f4", (1, 3, 6, 6))], [("y", "f4", (1, 4, 4, 4))], constants)
    with pytest.warns(PlacementWarning, match="quantized otherwise than the accelerator computes, in 8 bits with zero points"):
        vtakit.compile(wide, "vta")


def test_a_module_file_has_the_operators_left_to_the_cpu(tmp_path):
    mixed = onnx.parser.parse_model(MIXED)
    mixed.graph.node[0].name = name = "a' is on the CPU: because\n# b"
    with pytest.warns(PlacementWarning):
        module = vtakit.compile(mixed, "vta")
    module.save(tmp_path / "m.vtak")
    again = vtakit.load(tmp_path / "m.vtak")
    assert again.placement == module.placement
    assert again.placement.left[0] == Left("sigmoid", name, "it computes in floating point, and the accelerator in int8")


@pytest.mark.parametrize("words", [
    ["run", "float.onnx", "--target", "vta", "--input", "in.npz"],
    ["run", "float.onnx", "--target", "vta", "--input", "in.npz", "--profile"],
    ["compile", "float.onnx", "--target", "vta", "-o", "made.vtak"],
    ["report", "float.onnx", "--target", "vta", "-o", "made.html"],
])
def test_every_command_warns_of_a_float_model(files, capsys, words):
    for _ in range(2):  # the second time the model is kept
        assert cli.main(words) == 0
        out, err = capsys.readouterr()
        assert err.startswith(f"vtakit {words[0]}: warning: nothing of the model")
        assert "vtakit quantize MODEL" in err
        assert "--profile" in words or "on the CPU: conv" in out


def test_a_command_with_a_device_refuses_a_float_model(files, capsys):
    assert cli.main(["run", "float.onnx", "--target", "vta", "--device", "rtl", "--input", "in.npz"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "vtakit quantize" in err


@pytest.mark.parametrize("words", [
    ["run", "--input", "in.npz"], ["run", "--input", "in.npz", "--profile"], ["compile", "-o", "made.vtak"],
    ["report", "-o", "made.html"],
])
def test_every_command_says_what_runs_where(files, capsys, words):
    assert cli.main([words[0], "q.onnx", "--target", "vta", "--config", "tiny", *words[1:]]) == 0
    out = capsys.readouterr().out
    assert "accelerator: 3 of 5 layers in 1 launch, 100.0% of the multiply-accumulates\n" in out
    assert "on the CPU: 2 layers that convert numbers or layouts\n" in out


def test_the_headline_of_a_run_is_its_cycles(files, capsys):
    words = ["run", "q.onnx", "--target", "vta", "--config", "tiny", "--device", "rtl", "--input", "in.npz"]
    assert cli.main([*words, "--json", "run.json"]) == 0
    cycles = json.loads(Path("run.json").read_text())["cycles"]
    assert f"{cycles:,} cycles on the accelerator\n" in capsys.readouterr().out


def test_a_device_without_cycles_says_so(files):
    module = vtakit.compile("q.onnx", "vta", config="tiny")
    with np.load("in.npz") as inputs:
        profile = module.profile(dict(inputs))
    assert profile.cycles is None
    assert str(profile).startswith("q: 1 launch on the accelerator (device fsim counts no cycles; cycle does); ")


def test_the_memory_system_is_an_option_of_every_command_that_runs(files, capsys):
    """The same model takes longer with slower memory; defaults are the reference system's."""
    words = ["run", "q.onnx", "--target", "vta", "--config", "tiny", "--device", "rtl", "--input", "in.npz"]
    cycles = []
    for more in ([], ["--latency", "40", "--bandwidth", "100", "--bus-bits", "64", "--outstanding", "16"], ["--latency", "400"],
                 ["--bandwidth", "20"], ["--outstanding", "1"], ["--system", "ulx3s"]):
        assert cli.main([*words, *more]) == 0
        cycles.append(int(re.search(r"([\d,]+) cycles", capsys.readouterr().out)[1].replace(",", "")))
    assert cycles[0] == cycles[1] < min(cycles[2:])
    assert cli.main(["report", *words[1:], "-o", "page.html", "--bandwidth", "50"]) == 0
    assert "<dt>bus</dt><dd>4 bytes a cycle each way</dd>" in Path("page.html").read_text()


@pytest.mark.parametrize("words", [
    ["run", "q.onnx", "--target", "vta", "--input", "in.npz", "--latency", "1"],
    ["report", "q.onnx", "--target", "vta", "-o", "page.html", "--device", "fsim", "--outstanding", "1"],
    ["run", "q.onnx", "--input", "in.npz", "--bus-bits", "64"],
])
def test_a_memory_system_without_the_rtl_is_refused(files, capsys, words):
    assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert "describes the accelerator's memory, which devices cycle and rtl simulate: add --device cycle\n" in told


@pytest.mark.parametrize("command", ["run", "report", "sim"])
def test_the_help_states_the_defaults_that_hold(capsys, command):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    defaults = Surroundings()
    for name in ("latency", "bandwidth", "outstanding"):
        assert re.search(rf"--{name} \S+ [^()]*\({getattr(defaults, name)}\)", text), name
