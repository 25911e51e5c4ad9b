"""The examples run, and the files shipped with them are fresh."""

import subprocess
import sys

import pytest
from support import EXAMPLES, module

from vtakit.hw.isa.file import load


def test_the_shipped_convolution_is_fresh():
    assert load(EXAMPLES / "conv2d.vta") == module("conv2d").program(), "rewrite it: python examples/conv2d.py --write"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_runs(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
