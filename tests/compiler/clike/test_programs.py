"""Programs in OpenCL C and WGSL against the interpreter; planted faults under oclgrind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import clike_fuzz
import codegen_fuzz
import pytest
from clike_plants import caught
from clike_support import on_device, one_kernel
from wgsl_support import on_wgpu

COMPILER = Path(__file__).parents[1]


def test_random_expressions_of_all_types_and_vectors_on_a_device():
    """Every operation and conversion of the IR, equal to the bit; math functions within 3 ulp."""
    codegen_fuzz.fuzz(400, 8, one_kernel)


@pytest.mark.parametrize("kind", clike_fuzz.CHECKS)
def test_random_programs_with_threads_on_a_device(kind):
    counts = clike_fuzz.fuzz(kind, 3000, 24, on_device)
    assert counts["ran"] >= 8, counts


@pytest.mark.parametrize(("kind", "count"), [("scheduled", 20), ("written", 24)])
def test_random_programs_in_wgsl_on_vulkan(kind, count):
    pytest.importorskip("wgpu")
    counts = clike_fuzz.fuzz(kind, 1000, count, on_wgpu)
    assert counts["ran"] >= 5, counts


@pytest.mark.parametrize("sound", [False, True], ids=["planted", "sound"])
@pytest.mark.skipif(not shutil.which("oclgrind"), reason="apt install oclgrind")
def test_faults_planted_in_kernels_are_found(sound):
    """Deleted barriers and moved indices, of which a few have no effect; nothing is found where nothing is planted."""
    run = ["oclgrind", "--data-races", "--max-errors", "1000000", "--build-options", "-cl-opt-disable"]
    given = [sys.executable, str(COMPILER / "clike_plants.py"), "--count", "20" if sound else "30"]
    path = os.pathsep.join([str(COMPILER.parents[1]), str(COMPILER.parent), str(COMPILER)])
    done = subprocess.run(
        [*run, *given, *(["--sound"] if sound else [])], capture_output=True, text=True, timeout=280, check=False,
        errors="replace", env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = caught(done.stderr)
    missed = [what for what, told in found.items() if not told]
    if sound:
        assert not found
    else:
        assert len(found) >= 20
        assert len(missed) <= 0.05 * len(found), missed
