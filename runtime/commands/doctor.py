"""Say what is installed for each job and how to get what is missing.

Jobs are the package's extras; what each needs is read from the package's own requirements. Exit status: 1 if something is
missing for the jobs asked about (by default only the functional simulator and compiling for a CPU), else 0.
"""

import argparse
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from vtakit.hw.isa.errors import VtakitError, one_of
from vtakit.hw.isa.process import run_tool

if TYPE_CHECKING:
    from rich.console import Console

_JOBS = {
    "core": "functional simulator, assembler, checker",
    "sim": "RTL simulation, and the functional simulator's compiled path",
    "fpga": "bitstreams, synthesis reports and proofs with open tools",
    "tune": "tuning schedules",
    "gpu": "running on NVIDIA GPUs",
    "plot": "plots and pages of reports",
    "demo": "the job of `make demo`",
    "torch": "importing PyTorch models",
    "dev": "tests and checks of vtakit itself",
}
_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Program:
    """A program outside Python that a job calls."""

    name: str
    job: str
    package: str  # Debian's and Ubuntu's
    purpose: str


_PROGRAMS = (
    Program("g++", "sim", "g++", "compiles the Verilated model"),
    Program("make", "dev", "make", "drives the compilation of the test benches' models"),
    Program("git", "dev", "git", "lists the project's files for its checks"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One need of one job."""

    job: str
    need: str
    found: str  # version, or empty
    ok: bool
    cure: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"jobs to ask about: {', '.join(_JOBS)}")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    for job in args.jobs:
        if job not in _JOBS:
            raise VtakitError(f"unknown job {job!r}; {one_of(_JOBS, job)}")
    jobs = list(dict.fromkeys(args.jobs)) or list(_JOBS)
    findings = list(findings_for(jobs))
    table = Table("job", "needs", "found", "how to get it", box=None, pad_edge=False)
    for finding in findings:
        mark = "[green]" if finding.ok else "[red]" if finding.found else "[yellow]"
        found = f"{mark}{finding.found or 'missing'}"
        table.add_row(finding.job, finding.need, found, "" if finding.ok else escape(finding.cure))
    console = Console()
    console.print(table)
    for job in jobs:
        state = "ready" if all(f.ok for f in findings if f.job == job) else "not ready"
        console.print(f"{job}: {state} ({_JOBS[job]})", highlight=False)
    if "sim" in jobs:
        _kept_models(console)
    asked = args.jobs or ["core"]
    return 0 if all(f.ok for f in findings if f.job in asked) else 1


def _kept_models(console: "Console") -> None:
    try:
        from vtakit.sim import kept
    except ImportError:  # filelock or platformdirs, which the table has named
        return
    root = kept.cache_folder("rtl")
    found = kept.models(root)
    size, limit = sum(model.size_bytes for model in found) / 1e6, kept.LIMIT_BYTES / 1e6
    console.print(f"{len(found)} built RTL models are kept in {root}: {size:,.0f} MB of at most {limit:,.0f} MB, of which those "
                  "go first that nobody has used for longest; the folder may be deleted", highlight=False, markup=False)


def findings_for(jobs: list[str]) -> Iterator[Finding]:
    """What each of the jobs needs, and whether it is there."""
    needed = ">=3.11"
    if "core" in jobs:
        found = platform.python_version()
        yield Finding("core", f"Python {needed}", found, sys.version_info >= (3, 11), "install a newer Python")
    for job in jobs:
        yield from _packages(job)
        for program in _PROGRAMS:
            if program.job == job:
                version = _program_version(program.name)
                need, cure = f"{program.name} ({program.purpose})", f"apt install {program.package}"
                yield Finding(job, need, version, bool(version), cure)


def _packages(job: str) -> Iterator[Finding]:
    from packaging.requirements import Requirement

    try:
        requirements = metadata.requires("vtakit") or []
    except metadata.PackageNotFoundError:
        raise VtakitError("vtakit is not installed as a package, so its requirements are unknown: pip install .") from None
    for line in requirements:
        requirement = Requirement(line)
        of_job = requirement.marker is not None and requirement.marker.evaluate({"extra": job})
        core = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if requirement.name == "vtakit" or core is not (job == "core") or not (core or of_job):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            version = ""
        ok = bool(version) and requirement.specifier.contains(version, prereleases=True)
        cure = f"pip install 'vtakit[{job}]'" if job != "core" else "pip install --force-reinstall vtakit"
        yield Finding(job, f"{requirement.name} {requirement.specifier}".strip(), version, ok, cure)


def _program_version(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        return ""
    try:
        told = run_tool([path, "--version"], limit_seconds=_TIMEOUT_SECONDS)
    except VtakitError:
        return ""
    match = re.search(r"\d+(\.\d+)+", told)
    return match[0] if match else "found"
