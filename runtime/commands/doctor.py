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
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.process import run_tool
from vtakit.runtime.terminal import console

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from rich.console import Console

_JOBS = {
    "core": "models on this CPU, quantization, assembler, checker, functional simulator",
    "sim": "RTL simulation, and machine code for the functional simulator",
    "fpga": "synthesis, place and route, bitstreams of boards",
    "board": "running models on a board at a serial port",
    "plot": "pictures and HTML pages of reports",
    "tune": "tuning of models, templates and expressions, here and on workers",
    "gpu": "machine code for NVIDIA GPUs, running on them, and the emulator of PTX",
    "opencl": "functions and models on OpenCL devices, one on the processor among them",
    "sign": "signing module files, and loading only signed ones",
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
    there = console()
    there.print(table)
    for job in jobs:
        state = "ready" if all(f.ok for f in findings if f.job == job) else "not ready"
        there.print(f"{job}: {state} ({_JOBS[job]})", highlight=False, soft_wrap=True)
    _boards(there)
    _gpus(there)
    _machine(there)
    _cache(there)
    asked = args.jobs or ["core"]
    return 0 if all(f.ok for f in findings if f.job in asked) else 1


def _boards(there: "Console") -> None:
    """Print for each board what of building, loading and using a bitstream this machine is ready for."""
    from vtakit.boards.bitstream.targets import TARGETS
    from vtakit.boards.vivado.targets import VIVADO_BOARDS

    ready = {job: all(finding.ok for finding in findings_for([job])) for job in ("fpga", "board")}
    build, use = (f"ready to {what}" if ready[job] else f"to {what} it: pip install 'vtakit[{job}]'"
                  for job, what in (("fpga", "build"), ("board", "use")))
    for target in TARGETS.values():
        if not target.design:
            there.print(f"board {target.name}: no design yet: it needs {target.missing}", highlight=False, soft_wrap=True)
            continue
        names = [command[0] for command in target.programs]
        found = [name for name in names if shutil.which(name)]
        load = f"ready to load with {found[0]}" if found else f"to load a bitstream install {' or '.join(names)}"
        there.print(f"board {target.name}: {build}; {load}; {use}", highlight=False, soft_wrap=True, markup=False)
    missing = [name for name in ("vivado", "bootgen", "dtc") if not shutil.which(name)]
    build = "ready to build a project of `vtakit vivado`" if not missing else f"to build it, install {' and '.join(missing)}"
    for name in VIVADO_BOARDS:
        there.print(f"board {name}: {build}; to be used from the board itself", highlight=False, soft_wrap=True, markup=False)


def _gpus(there: "Console") -> None:
    """Print NVIDIA's GPUs and the assembler, or what is missing; nothing is run on a GPU."""
    from vtakit.compiler.codegen.nvptx.ptxas import find_ptxas, version_of
    from vtakit.runtime.cuda import driver
    from vtakit.runtime.cuda.device import cuda_devices

    why = driver.missing()
    tool = find_ptxas()
    version = None if tool is None else version_of(tool)
    made = "no ptxas, so modules hold PTX alone" if version is None else f"ptxas {version[0]}.{version[1]}"
    if why:
        there.print(f"gpu: {why}; {made}", highlight=False, markup=False, soft_wrap=True)
        return
    major, minor = driver.version()
    for each in cuda_devices():
        text = (f"{each.title}, {each.arch.name}, {each.memory_bytes / (1 << 30):,.0f} GiB, {each.processors} multiprocessors, "
                f"driver for CUDA {major}.{minor}; {made}")
        there.print(f"gpu {each.name}: {text}", highlight=False, markup=False, soft_wrap=True)


def _machine(there: "Console") -> None:
    """Print what the compiler assumes of this processor."""
    try:
        from vtakit.compiler.codegen.llvm.machines import machine_of
        from vtakit.compiler.codegen.llvm.target import Target

        name, found = Target.host().cpu, machine_of(None)
    except ImportError:  # llvmlite, which the table has named
        return
    text = (f"{found.vector_registers} vectors of {found.vector_bytes} bytes, {found.fmas_per_cycle} multiply-adds a cycle, L1 "
            f"{found.l1_bytes >> 10:,} KiB, L2 {found.l2_bytes >> 10:,} KiB; all: vtakit compile --machine help")
    there.print(f"processor: {name}: {text}", highlight=False, markup=False, soft_wrap=True)


def _cache(there: "Console") -> None:
    """Print where the cache is, and its size by kind of entry; or why it is not used."""
    try:
        from vtakit.cache import bounds, place
    except ImportError:  # filelock or platformdirs, which the table has named
        return
    root = place.cache_folder("")
    try:
        why = place.trouble(root)
    except OSError as error:
        why = f"{root} cannot be made: {error.strerror or error}"
    if why:
        text = f"not used: {why}"
    else:
        kinds = [folder for folder in sorted(root.glob("*")) if folder.is_dir()]
        sizes = [f"{folder.name} {sum(entry.size_bytes for entry in bounds.entries(folder)) / 1e6:,.0f} MB" for folder in kinds]
        most = f"at most {bounds.LIMIT_BYTES / 1e6:,.0f} MB each: what nobody has used for longest goes first"
        text = f"{root}: {', '.join(sizes) or 'empty'}; {most}; the folder may be deleted"
    there.print(f"cache: {text}", highlight=False, markup=False, soft_wrap=True)


def findings_for(jobs: list[str]) -> Iterator[Finding]:
    """Yield what each of the jobs needs, and whether it is there."""
    needed = ">=3.11"
    if "core" in jobs:
        found = platform.python_version()
        yield Finding("core", f"Python {needed}", found, sys.version_info >= (3, 11), "install a newer Python")
    for job in jobs:
        cure = f"pip install 'vtakit[{job}]'" if job != "core" else "pip install --force-reinstall vtakit"
        required = _requirements("" if job == "core" else job)
        for other in sorted({extra for each in required if each.name == "vtakit" for extra in each.extras}):
            ready = all(finding.ok for finding in findings_for([other]))
            yield Finding(job, f"what {other} needs", "ready" if ready else "", ready, cure)
        yield from _packages(job, [each for each in required if each.name != "vtakit"], cure)
        for program in _PROGRAMS:
            if program.job == job:
                version = _program_version(program.name)
                need = f"{program.name} ({program.purpose})"
                yield Finding(job, need, version, bool(version), f"apt install {program.package}")


def _requirements(extra: str, package: str = "vtakit") -> list["Requirement"]:
    """Return what an extra of an installed package requires; with "", what the package itself does."""
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        if package != "vtakit":
            return []
        raise VtakitError("vtakit is not installed as a package, so its requirements are unknown: pip install .") from None
    found = []
    for line in lines:
        requirement, always = _requirement(line, "")
        if always if not extra else not always and _requirement(line, extra)[1]:
            found.append(requirement)
    return found


@cache
def _requirement(line: str, extra: str) -> tuple["Requirement", bool]:
    """Return a requirement, and whether it holds on this machine with an extra, or without one. Each takes 0.3 ms to read."""
    from packaging.requirements import Requirement

    found = Requirement(line)
    return found, found.marker is None or found.marker.evaluate({"extra": extra})


def _packages(job: str, required: list["Requirement"], cure: str) -> Iterator[Finding]:
    """Yield the packages that a job requires, and what these require for the extras that it names."""
    inner = [each for outer in required for extra in sorted(outer.extras) for each in _requirements(extra, outer.name)]
    for requirement in (*required, *inner):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            version = ""
        ok = bool(version) and requirement.specifier.contains(version, prereleases=True)
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
