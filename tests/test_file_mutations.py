"""Some random mutations of files of every format; `python tests/file_mutations.py` runs thousands."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import file_mutations
import onnx_mutations
import pytest
from file_formats import Case, formats_here
from file_mutations import LARGE, RAN, TOLD, TOO_LARGE, TOO_LONG, _judged, case_of
from module_formats import ALL_FORMATS

from vtakit.runtime import cli

FUZZER = Path(file_mutations.__file__)


def test_mutated_files_run_or_are_told(tmp_path):
    """In a process of its own: it forks, and pytest's may have threads."""
    names = [word for name in formats_here() if name != "pt2" for word in ("--format", name)]
    command = [sys.executable, str(FUZZER), "--seed", "7", "--count", "120", *names, "--json", str(tmp_path / "out.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads((tmp_path / "out.json").read_text())
    assert sum(found["counts"].values()) == 120
    assert {key.rpartition(": ")[2] for key in found["counts"]} - {LARGE} == {RAN, TOLD}


@pytest.mark.skipif("pt2" not in formats_here(), reason="torch is not installed")
def test_mutated_programs_of_pytorch_run_or_are_told():
    command = [sys.executable, str(FUZZER), "--seed", "3", "--count", "25", "--format", "pt2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_mutation_is_that_of_its_seed():
    for name in ("onnx", "external", "npz", "json"):
        cases = [[case_of(seed, [name]).files for seed in range(30)] for _ in range(2)]
        assert cases[0] == cases[1]
        assert len({json.dumps({key: data.hex() for key, data in files.items()}) for files in cases[0]}) > 20
    known = onnx_mutations.models()
    assert sum(onnx_mutations.mutation(seed, known) not in known for seed in range(40)) > 30


@pytest.mark.parametrize(("code", "text", "state"), [
    (0, "", RAN), (2, "vtakit run: it is damaged\n", TOLD), (2, "one\ntwo\n", "an error that is not one sentence"),
    (2, "vtakit run: warning: it is old\nvtakit run: it is damaged\n", TOLD), (2, "", "an error that is not one sentence"),
    (2, "vtakit run: warning: it is old\n", "an error that is not one sentence"),
    (2, "vtakit run: this machine has too little memory for that\n", TOO_LARGE),
    (3, "Traceback (most recent call last)", "traceback"),
    (-signal.SIGXCPU, "", "more than 2 s"), (-signal.SIGALRM, "", "hang"), (-signal.SIGSEGV, "", "crash, SIGSEGV"),
    (-signal.SIGABRT, "Assertion", "crash, SIGABRT"),
])
def test_what_fails_is_seen(code, text, state):
    assert _judged(code, text)[0] == state


def test_a_model_that_computes_for_long_is_told_from_one_that_loads_for_long(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = ALL_FORMATS["onnx"].case(random.Random(0))
    for loads, state in ((2, LARGE), (0, TOO_LONG)):
        def child(case: Case, said: int, loads: int = loads) -> int:
            if "--input" in case.command or not loads:
                os.kill(os.getpid(), signal.SIGXCPU)
            os.write(said, b"vtakit run: it needs an input\n")
            return 2
        monkeypatch.setattr(file_mutations, "_child", child)
        assert file_mutations.run_case(1, case).state == state


@pytest.mark.parametrize(("declared", "state"), [(1 << 26, RAN), (3 << 26, TOO_LARGE), (1 << 30, TOO_LARGE)])
def test_memory_that_a_file_makes_a_reader_take_is_seen(tmp_path, monkeypatch, declared, state):
    """A planted format, whose reader believes the size that a file declares, limited to 128 MB in use and 512 MB asked for."""
    def main(command: list[str]) -> int:
        try:
            assert len(b"x" * int(Path(command[1]).read_text())) == declared
        except MemoryError:
            os.write(2, b"vtakit read: this machine has too little memory for that\n")
            return 2
        return 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "main", main)
    monkeypatch.setattr(file_mutations, "MEMORY_BYTES", 1 << 27)
    monkeypatch.setattr(file_mutations, "ASKED_BYTES", 1 << 29)
    case = Case("planted", ["read", "size"], {"size": str(declared).encode()})
    assert file_mutations.run_case(1, case).state == state


def test_a_canary_is_seen(tmp_path, monkeypatch):
    """A file whose code is run makes a folder, which is a failure."""
    monkeypatch.chdir(tmp_path)
    case = ALL_FORMATS["asm"].case(random.Random(0))

    def child(*_: object) -> int:
        os.mkdir("canary")
        return 0
    monkeypatch.setattr(file_mutations, "_child", child)
    assert file_mutations.run_case(1, case).state == "code of the file was run"
    assert not Path("canary").exists()
