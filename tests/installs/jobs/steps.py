"""Helpers for the install jobs: timed steps, and commands that must succeed or be refused."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_SECONDS = 300  # of one command
_BIN = Path(sys.executable).parent


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what was done, and in what time."""
    print(f"  {what}", end=" ", flush=True)
    begun = time.perf_counter()
    yield
    print(f"({time.perf_counter() - begun:.1f} s)", flush=True)


def command(*words: str, status: int = 0) -> str:
    """Run a command of this environment and return its output; it must end with `status`."""
    done = _run(words)
    assert done.returncode == status, f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def refused(extra: str, *words: str) -> None:
    """Run a command that lacks a package: its last line is one sentence that names the extra."""
    fails(f"'vtakit[{extra}]'", *words)


def fails(named: str, *words: str) -> None:
    """Run a command that cannot do what is asked: its last line is one sentence with `named` in it."""
    done = _run(words)
    said = done.stderr.splitlines() or [""]
    fine = done.returncode == 2 and named in said[-1] and "Traceback" not in done.stderr
    assert fine, f"{' '.join(words)}: status {done.returncode}, not a sentence that names {named}\n{done.stdout}{done.stderr}"


def _run(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    path = f"{_BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(_BIN / words[0]), *words[1:]], env=os.environ | {"PATH": path}, capture_output=True, text=True,
        timeout=LIMIT_SECONDS, check=False,
    )
