"""Shared libraries are loaded from the bytes that were checked."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from vtakit.cache import libraries
from vtakit.cache.libraries import load_library


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> list[Path]:
    """Two libraries of one name whose `answer` differs."""
    made = []
    for number in (1, 2):
        folder = tmp_path_factory.mktemp("libraries")
        source, library = folder / "answer.cpp", folder / "libanswer.so"
        source.write_text(f'extern "C" int answer() {{ return {number}; }}\n')
        subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True, timeout=60)
        made.append(library)
    return made


def load(path: Path) -> ctypes.CDLL:
    return load_library(path, path.read_bytes())


@pytest.mark.parametrize("memory", [True, False])
def test_libraries_of_one_name_are_different_ones(built, monkeypatch, memory):
    """The loader knows libraries by their names, and numbers of open files are used again."""
    if not memory:
        monkeypatch.setattr(libraries.sys, "platform", "another")
    assert [load(path).answer() for path in built * 3] == [1, 2] * 3


def test_a_file_of_one_name_that_has_changed_is_another_library(built, tmp_path):
    file = tmp_path / "libanswer.so"
    for number, path in enumerate(built, 1):
        file.write_bytes(path.read_bytes())
        assert load(file).answer() == number


def test_what_cannot_be_in_memory_is_loaded_from_its_file(built):
    """Under a limit on the size of files, say; a file that has changed meanwhile is not loaded."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom vtakit.cache.libraries import load_library\n"
        "path, other = map(Path, sys.argv[1:])\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "print(load_library(path, path.read_bytes()).answer())\n"
        "try:\n    load_library(path, other.read_bytes())\nexcept OSError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, built)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"1\n{built[0]} has changed since it was read\n"


def test_what_is_no_library_is_an_error(built, tmp_path):
    file = tmp_path / "libanswer.so"
    for data in (b"", b"none", built[0].read_bytes()[:500]):
        file.write_bytes(data)
        with pytest.raises(OSError, match=r"libanswer\.so"):
            load(file)


def test_no_open_file_is_left(built):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        assert load(built[0]).answer() == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_changes_after_it_was_read_changes_nothing(built, tmp_path):
    """A library that is cut short while it runs would end the process."""
    file = tmp_path / "libanswer.so"
    file.write_bytes(built[0].read_bytes())
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom vtakit.cache.libraries import load_library\n"
        "path = Path(sys.argv[1])\nlibrary = load_library(path, path.read_bytes())\n"
        "os.truncate(path, 0)\nprint(library.answer())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n")
