"""Runs the tools: found beside Python, bounded in time, and never left behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from vtakit.hw.isa.errors import VtakitError

LOG_LINES = 3  # of a failed tool's log that its error quotes
END_SECONDS = 5  # to end when asked to, before a tool is killed


def find_tool(executable: str, package: str) -> str:
    """Path of the executable that `package` installs.

    Raises `VtakitError` with the command that installs it.
    """
    path = shutil.which(executable, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise VtakitError(f"synthesis needs {executable}: pip install {package}")
    return path


def tool_version(package: str) -> str:
    """The installed version of a package, or 'unknown' for a tool that came another way."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def run_tool(command: Sequence[str], work: Path, log: str, limit_seconds: float, own_log: str = "") -> None:
    """Run a command in the folder `work`; its output goes to the file `log` there. A failure quotes it, or the tool's own log.

    However this ends, be it by Ctrl-C or a polite kill, the command and what it started have ended too. Raises `VtakitError` if
    it fails or takes longer.
    """
    name = Path(command[0]).name
    with (work / log).open("wb") as output:
        try:
            # Its own session: Ctrl-C reaches only us, and we end all of it.
            child = subprocess.Popen(
                command, cwd=work, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise VtakitError(f"cannot run {command[0]}: {error.strerror or error}") from None
        try:
            with _terminable():
                status = child.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            raise VtakitError(f"{name} has not ended within {limit_seconds:.0f} s; --limit gives it longer") from None
        finally:
            _end(child)
    if status:
        told = [(work / name).read_text(errors="replace") for name in (own_log, log) if name and (work / name).exists()]
        lines = [line.strip() for line in "\n".join(told).splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("ERROR")] or lines[-LOG_LINES:]
        raise VtakitError(f"{name} failed with status {status}: {' / '.join(said[:LOG_LINES]) or 'it said nothing'}")


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM is as Ctrl-C here, so that what must be ended is; only the main thread can arrange that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return
