"""Install vtakit as its users do, and run what each installation promises.

    python tests/installs                        without extras, and with each extra alone
    python tests/installs --only core,sim        some of them
    python tests/installs --together 2           two at a time
    python tests/installs --readme               the README's examples too, with the extra `sim`

A wheel is built from a copy of the tracked files, and another from the source distribution; both must have every file of the
package. Each job gets a fresh virtual environment, an empty folder outside of the clone, and a home and cache of its own.
`vtakit doctor` must call exactly the installed job ready, then `jobs/JOB_job.py` runs what it promises. Needs only Python; pip
takes its settings from the environment. One pip installs into all environments, and leaves it to Python to compile the modules
that a job imports: both are most of an installation's processor time.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from installs.wheels import IncompleteError, build_wheels, tools_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
JOBS = {  # and the jobs that are ready too once one is installed
    "core": (), "sim": (), "fpga": ("board",), "board": (), "plot": (), "tune": (), "torch": (), "gpu": (),
    "opencl": (), "sign": (), "demo": ("sim", "plot"),
    "dev": ("sim", "board", "plot", "gpu", "opencl", "sign", "tune", "demo"),
}
INSTALL_SECONDS, RUN_SECONDS, DOCTOR_SECONDS = 1200, 900, 120
TAIL_LINES = 25


class FailedError(Exception):
    """A step that failed; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Done:
    """A job: seconds to install, to run, and of processor time, and what failed, or an empty string."""

    job: str
    install_seconds: float
    run_seconds: float
    processor_seconds: float
    failure: str


def main() -> int:
    """Parse the arguments, run the jobs and print a table; status 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python tests/installs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="JOB,…", default=",".join(JOBS), help=f"which of {', '.join(JOBS)} (default: all)")
    parser.add_argument("--readme", action="store_true", help="with the job sim, run the README's examples too")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="makes the environments (default: this one)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="a cache that all jobs share, instead of an empty one for each")
    parser.add_argument("--extra-index-url", metavar="URL", help="another index of packages for pip")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the results")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="run so many jobs at a time (default: 1)")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="a wheel that another run has built, instead of building it")
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(JOBS):
        parser.error(f"--only: unknown jobs {', '.join(sorted(unknown))}; known: {', '.join(JOBS)}")
    if args.together < 1:
        parser.error(f"--together must be at least 1, not {args.together}")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="installs.") as name:
        folder = Path(name)
        try:
            wheel = args.wheel or built(folder / "wheels", args.python)
        except IncompleteError as failed:
            print(f"FAILED: {failed}")
            return 1
        if args.together == 1:
            done = [run_job(job, wheel, folder / job, args) for job in chosen]
        else:
            with ThreadPoolExecutor(args.together) as threads:
                done = list(threads.map(lambda job: run_apart(job, wheel, folder, args), chosen))
    if not args.wheel:
        print_table(done, time.monotonic() - begun)
    if args.json:
        args.json.write_text(json.dumps([asdict(each) for each in done]))
    return int(any(each.failure for each in done))


def built(folder: Path, python: str) -> Path:
    """Build the wheel in `folder`."""
    with told("wheel, and wheel from the source distribution"):
        return build_wheels(ROOT, folder, python)


def print_table(done: list[Done], seconds: float) -> None:
    """Print a line for each job, and the seconds of all together."""
    print(f"\n{'job':8}{'install, s':>12}{'run, s':>10}{'processor, s':>14}  result")
    for each in done:
        print(f"{each.job:8}{each.install_seconds:12.1f}{each.run_seconds:10.1f}{each.processor_seconds:14.1f}  "
              f"{'FAILED' if each.failure else 'fine'}")
    print(f"all jobs: {seconds:.1f} s, {sum(each.processor_seconds for each in done):.1f} s of processor time")


def run_apart(job: str, wheel: Path, folder: Path, args: argparse.Namespace) -> Done:
    """Run a job in a process of its own, and print what it said once it has ended."""
    results = folder / f"{job}.json"
    words = [sys.executable, str(HERE), "--only", job, "--wheel", str(wheel), "--json", str(results), "--python", args.python]
    words += ["--readme"] if args.readme else []
    words += ["--cache", str(args.cache)] if args.cache else []
    words += ["--extra-index-url", args.extra_index_url] if args.extra_index_url else []
    limit = 2 * INSTALL_SECONDS + DOCTOR_SECONDS + 2 * RUN_SECONDS  # each step has a limit of its own
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False)
    print(ended.stdout, end="", flush=True)
    if not results.exists():
        return Done(job, 0.0, 0.0, 0.0, f"status {ended.returncode}")
    (found,) = json.loads(results.read_text())
    return Done(**found)


def run_job(job: str, wheel: Path, folder: Path, args: argparse.Namespace) -> Done:
    """Install a job and run what it promises."""
    begun, used, installed, failure = time.monotonic(), processor_seconds(), 0.0, ""
    try:
        with told(f"{job}: install"):
            python = environment(folder, args.python)
            what = str(wheel) if job == "core" else f"{wheel}[{job}]"
            index = ["--extra-index-url", args.extra_index_url] if args.extra_index_url else []
            words = [tools_of(wheel), "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
            run([*words, "--disable-pip-version-check", *index, what], dict(os.environ), folder, INSTALL_SECONDS)
        installed = time.monotonic() - begun
        print(f"{job}: run", flush=True)
        around = surroundings(folder, args.cache)
        check_doctor(job, python, around, folder)
        run_promises(job, python, around, folder, readme=args.readme)
    except FailedError as failed:
        failure = str(failed)
        print(f"FAILED: {job}: {failure}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Done(job, installed, time.monotonic() - begun - installed, processor_seconds() - used, failure)


def processor_seconds() -> float:
    """Return the processor time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(folder: Path, python: str) -> str:
    """Make a virtual environment without pip and return its Python."""
    run([python, "-m", "venv", "--without-pip", str(folder / "venv")], dict(os.environ), folder.parent, INSTALL_SECONDS)
    return str(folder / "venv" / "bin" / "python")


def surroundings(folder: Path, cache: Path | None) -> dict[str, str]:
    """Return an environment with the system's tools, and a home and a cache of its own."""
    for name in ("home", "work"):
        (folder / name).mkdir(mode=0o700)
    return {
        "PATH": f"{folder / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), "LANG": "C.UTF-8",
        "VTAKIT_RTL_TRAINING": "off", "XDG_CACHE_HOME": str(cache.resolve() if cache else folder / "home" / ".cache"),
    }


def check_doctor(job: str, python: str, around: dict[str, str], folder: Path) -> None:
    """Check that `vtakit doctor` calls what is installed ready, and every other job that needs a package not ready."""
    said = subprocess.run(
        [python, "-m", "vtakit.runtime", "doctor"], env=around, cwd=folder / "work", capture_output=True, text=True,
        timeout=DOCTOR_SECONDS, check=False,
    ).stdout
    for name in JOBS:
        state = "ready" if name in ("core", job, *JOBS[job]) else "not ready"
        if f"\n{name}: {state} (" not in said:
            raise FailedError(f"doctor does not call {name} {state}:\n{said}")


def run_promises(job: str, python: str, around: dict[str, str], folder: Path, *, readme: bool) -> None:
    """Run the script of a job in an empty folder, and with `readme` the README's examples in another."""
    run([python, str(HERE / "jobs" / f"{job}_job.py"), str(ROOT)], around, folder / "work", RUN_SECONDS, shown=True)
    if readme and job == "sim":
        (folder / "readme").mkdir()
        run([python, str(HERE / "examples.py"), str(ROOT / "README.md")], around, folder / "readme", RUN_SECONDS, shown=True)


def run(command: list[str], around: dict[str, str], work: Path, limit_seconds: float, *, shown: bool = False) -> None:
    """Run a command to its end; raise Failed with the end of what it said if it fails or takes too long."""
    work.mkdir(parents=True, exist_ok=True)
    output = None if shown else subprocess.PIPE
    try:
        done = subprocess.run(
            command, env=around, cwd=work, stdout=output, stderr=subprocess.STDOUT if not shown else None, text=True,
            timeout=limit_seconds, check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"{' '.join(command)} has not ended within {limit_seconds:.0f} s") from None
    if done.returncode:
        tail = "\n".join((done.stdout or "").splitlines()[-TAIL_LINES:])
        raise FailedError(f"{' '.join(command)}: status {done.returncode}\n{tail}".rstrip())


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print what goes on, and how long it took."""
    print(f"{what} …", end=" ", flush=True)
    begun = time.monotonic()
    yield
    print(f"{time.monotonic() - begun:.1f} s", flush=True)
