"""Machine code is loaded in one piece, wherever the process has room."""

import os
import subprocess
import sys

import onnx
import pytest
from model_support import model
from onnx import helper

FUNCTIONS = "Softmax", "Tanh", "Erf", "Sigmoid", "Sin", "LogSoftmax"  # their code is some pages, their constants less than one

# A process whose free memory is in holes of a page, and beyond gigabytes of mappings, as one that holds much data has.
SCRIPT = """
import mmap, sys
import numpy as np
import vtakit

path = sys.argv[1]
vtakit.compile(path, cache=False)  # what is loaded once is loaded now
holes = [mmap.mmap(-1, mmap.PAGESIZE) for _ in range(4000)]
filling = [mmap.mmap(-1, 1 << 30) for _ in range(3)]
for hole in holes[::2]:
    hole.close()
module = vtakit.compile(path, cache=False)
print(sorted(module.run({name: np.zeros((1, 3, 16, 16), np.float32) for name in module.inputs})))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the place of mappings is that of Linux")
def test_code_is_loaded_where_free_memory_is_in_pieces_far_apart(tmp_path):
    nodes = [helper.make_node(op, [f"x{at}"], [f"x{at + 1}"]) for at, op in enumerate(FUNCTIONS)]
    shape = (1, 3, 16, 16)
    onnx.save(model(nodes, [("x0", "f4", shape)], [(f"x{len(nodes)}", "f4", shape)]), tmp_path / "net.onnx")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "net.onnx")], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[")
