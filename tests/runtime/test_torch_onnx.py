"""PyTorch programs are quantized through PyTorch's own ONNX exporter.

These tests need torch 2.13, an extra; tests/conftest.py leaves them out where it is not installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import vtakit
from vtakit.runtime import cli

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
needs_onnxscript = pytest.mark.skipif(find_spec("onnxscript") is None, reason="onnxscript, of the extra torch, is not installed")
SAMPLES = np.random.default_rng(0).random((16, 3, 8, 8), dtype=np.float32)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The folder of a program's file, its samples, and the program."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval()
    made = torch.export.export(net, (torch.rand(1, 3, 8, 8),))
    torch.export.save(made, "net.pt2")
    np.savez("samples.npz", input=SAMPLES)
    return made


@needs_onnxscript
def test_a_program_is_quantized_as_a_file_and_as_an_object(program, capfd):
    words = ["quantize", "net.pt2", "--calibration", "samples.npz", "-o", "int8.onnx"]
    assert cli.main(words) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("net: float against int8, 16 samples\n")
    real, quantized = vtakit.compile(program), vtakit.compile("int8.onnx", "vta", config="tiny")
    assert (quantized.inputs, quantized.outputs) == (real.inputs, real.outputs)
    assert quantized.placement.share_of_macs == 1
    given = {"input": SAMPLES[:1]}
    found, wanted = quantized.run(given)["output"], real.run(given)["output"]
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())
    same = vtakit.quantize(program, SAMPLES).model
    np.testing.assert_array_equal(vtakit.compile(same).run(given)["output"], found)


def test_without_onnxscript_a_sentence_says_what_to_install(program, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert cli.main(["quantize", "net.pt2", "--calibration", "samples.npz", "-o", "int8.onnx"]) == 2
    assert capsys.readouterr().err == (
        "vtakit quantize: quantizing a PyTorch program needs the package onnxscript: pip install 'vtakit[torch]'\n")
    assert not Path("int8.onnx").exists()
