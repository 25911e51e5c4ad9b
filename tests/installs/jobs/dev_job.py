"""Run what the extra `dev` promises: each tool starts, and finds the packages that the tests need."""

import importlib
import shutil
from pathlib import Path

from steps import command, step

with step("linter, type checker and tests start"):
    for tool in ("ruff", "mypy", "pytest"):
        assert command(tool, "--version")
    Path("test_one.py").write_text("def test_one():\n    pass\n")
    assert "1 passed" in command("pytest", "-n", "1", "--timeout", "60", "test_one.py")

with step("what the tests import"):
    for name in ("hypothesis", "onnxruntime", "pyosys", "wasmtime", "sklearn", "cocotb", "amaranth", "jinja2"):
        importlib.import_module(name)

with step("what the tests call"):
    for tool in ("g++", "make", "git"):
        assert shutil.which(tool), tool
