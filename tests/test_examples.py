"""The examples run, and the files shipped with them are fresh."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from vtakit.hw.isa.file import load

EXAMPLES = Path(__file__).parents[1] / "examples"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_shipped_convolution_is_fresh():
    assert load(EXAMPLES / "conv2d.vta") == module("conv2d").program(), "rewrite it: python examples/conv2d.py --write"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_runs(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
