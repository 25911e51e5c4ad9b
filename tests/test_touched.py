"""The choice of test files for `make quick`."""

import pytest
import touched


@pytest.fixture(scope="module")
def tests():
    """Imports of each test file."""
    return {path: touched.imported(path) for path in sorted((touched.ROOT / "tests").rglob("test_*.py"))}


@pytest.mark.parametrize(("changed", "first"), [
    ("compiler/codegen/vta/ahead.py", "tests/compiler/vta/test_slow_memory.py"),
    ("runtime/module_file.py", "tests/runtime/test_kept_models.py"),
    ("compiler/arith/prover.py", "tests/compiler/arith"),  # a folder: which other modules alone import
    ("tests/file_mutations.py", "tests/test_file_mutations.py"),
])
def test_tests_that_import_what_changed_come_first(tests, changed, first):
    assert touched.ranked([touched.ROOT / changed], tests)[0].is_relative_to(touched.ROOT / first)


@pytest.mark.parametrize("path", ["sim/kernels.py", "hw/compute/steps.py", "vtakit/base/errors.py", "runtime/commands/run.py"])
def test_every_part_has_tests(tests, path):
    """A bench finds its module by its name, the command line its commands, a device its simulator."""
    assert touched.ranked([touched.ROOT / path], tests)


def test_names_of_files():
    names = [touched.name_of(touched.ROOT / path) for path in (
        "hw/__init__.py", "compiler/te/tensor.py", "vtakit/base/errors.py", "tests/support.py", "tests/networks/draw.py")]
    assert names == ["vtakit.hw", "vtakit.compiler.te.tensor", "vtakit.base.errors", "support", "networks.draw"]
