"""Tools outside this process (yosys, nextpnr, Verilator, compilers): found, bounded in time, and never left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from vtakit.base.errors import VtakitError

QUOTED_LINES = 3  # of what a failed tool said
END_SECONDS = 3.0  # to end when asked to, before a tool is killed
KILL_SECONDS = 1.0  # until one that was killed is gone; where nobody buries orphans, it never is
TIMEOUT_S = 600.0  # for a run on a device, if its caller gives no limit
_LOOK_SECONDS = 0.02
# What asks a process to end. One that is ignored, as in `nohup` or a shell's background jobs, stays ignored.
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ToolError(VtakitError):
    """A tool that failed, or did not end in time.

    tool      name of its executable
    fate      what became of it: "failed with status 1", "has not ended within 60 s"
    output    all that it said
    """

    def __init__(self, tool: str, fate: str, output: str, more: str) -> None:
        super().__init__(f"{tool} {fate}{more}")
        self.tool, self.fate, self.output = tool, fate, output


def find_tool(executable: str, purpose: str, cure: str) -> str:
    """Path of an executable, beside Python's own or on PATH.

    Raises `VtakitError`: `purpose` needs it, and `cure` is the command that installs it.
    """
    path = shutil.which(executable, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise VtakitError(f"{purpose} needs {executable}: {cure}")
    return path


def run_tool(
    command: Sequence[str], *, limit_seconds: float, work: Path | None = None, environment: Mapping[str, str] | None = None,
    given: str = "", own_log: str = "", hint: str = "", called: str = "",
) -> str:
    """Run a command to its end; returns what it said, on standard output and error together.

    work         the folder it runs in
    environment  its environment, if that is not this process's
    given        its standard input
    own_log      a file in `work` that the tool writes, quoted too when it fails
    hint         what the error says behind a limit that was too short
    called       the tool's name, if that is not its executable's

    However this ends, be it by Ctrl-C or a polite kill, the command and what it started have ended too. Raises `ToolError` if it
    fails or takes longer than `limit_seconds`, `VtakitError` if it cannot be started.
    """
    commands = [command]
    return run_tools(
        commands, jobs=1, limit_seconds=limit_seconds, work=work, environment=environment, given=given, own_log=own_log,
        hint=hint, called=called,
    )[0]


def run_tools(
    commands: Sequence[Sequence[str]], *, jobs: int, limit_seconds: float, work: Path | None = None,
    environment: Mapping[str, str] | None = None, given: str = "", own_log: str = "", hint: str = "", called: str = "",
) -> list[str]:
    """Run several commands, `jobs` at a time; the first that fails ends the others. For the rest see `run_tool`."""
    said: dict[int, str] = {}
    waiting = list(enumerate(commands))[::-1]
    running: dict[int, _Child] = {}
    with endings_noted() as noted, tempfile.TemporaryDirectory(prefix="vtakit.") as folder:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    number, command = waiting.pop()
                    running[number] = _Child(command, called, work, environment, given, Path(folder) / str(number))
                for number, child in list(running.items()):
                    status = child.wait()
                    if status is not None:
                        said[number] = child.end()
                        del running[number]
                        if status:
                            raise _failure(child, status, said[number], work, own_log)
                    elif child.seconds() > limit_seconds:
                        del running[number]
                        fate = f"has not ended within {limit_seconds:.0f} s"
                        raise ToolError(child.tool, fate, child.end(), f"; {hint}" if hint else "")
                if noted:
                    break
                if running:
                    next(iter(running.values())).wait(_LOOK_SECONDS)
        finally:
            for child in running.values():
                child.end()
    return [said[number] for number in range(len(commands))]


class _Child:
    """A command that runs, in a session of its own: Ctrl-C reaches only us, and we end all that it started."""

    def __init__(
        self, command: Sequence[str], called: str, work: Path | None, environment: Mapping[str, str] | None, given: str,
        files: Path,
    ) -> None:
        self.tool = called or Path(command[0]).name
        self._begun = time.monotonic()
        self._said = files.with_suffix(".out")
        read = files.with_suffix(".in")
        try:
            read.write_text(given, encoding="utf-8")
            with read.open("rb") as source, self._said.open("wb") as output:
                self._process = subprocess.Popen(
                    command, cwd=work, env=environment, stdin=source, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise VtakitError(f"cannot run {command[0]}: {error.strerror or error}") from None

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def wait(self, seconds: float = 0.0) -> int | None:
        """Its exit status; None if it still runs then."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> str:
        """End all of it that still runs; returns what it said."""
        for number, seconds in (signal.SIGTERM, END_SECONDS), (signal.SIGKILL, KILL_SECONDS):
            deadline = time.monotonic() + seconds
            there = self._signal(number)
            while there and time.monotonic() < deadline:
                self.wait(_LOOK_SECONDS)
                time.sleep(_LOOK_SECONDS)
                there = self._signal(0)
        return self._said.read_text(encoding="utf-8", errors="replace")

    def _signal(self, number: int) -> bool:
        """Signal the tool and what it started; whether there is anything to signal."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # the latter on macOS, of what has just ended
            return False
        return True


def _failure(child: _Child, status: int, output: str, work: Path | None, own_log: str) -> ToolError:
    log = (work or Path()) / own_log
    told = f"{log.read_text(errors='replace')}\n{output}" if own_log and log.exists() else output
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("ERROR")] or lines[-QUOTED_LINES:]
    quoted = " / ".join(said[:QUOTED_LINES]) or "it said nothing"
    return ToolError(child.tool, f"failed with status {status}", output, f": {quoted}")


@contextmanager
def ends_politely() -> Iterator[None]:
    """Inside, what asks this process to end is an exception, so that nothing is left behind: `SystemExit`, as of the signal.

    Ctrl-C is Python's own `KeyboardInterrupt`; a signal that is ignored, or that somebody else handles, is left alone.
    """
    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with _handled(leave, lambda handler: handler is signal.SIG_DFL):
        yield


@contextmanager
def endings_noted() -> Iterator[list[int]]:
    """Inside, what asks this process to end is only noted; it acts behind the block, when all has been put in order."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    before: dict[int, Any] = {}
    try:
        with _handled(note, lambda handler: handler not in (signal.SIG_IGN, None)) as before:
            yield noted
    finally:
        for number in noted:
            if callable(before[number]):
                signal.raise_signal(number)
            raise SystemExit(128 + number)  # not the end at once, so that callers can tidy up


@contextmanager
def _handled(
    action: Callable[[int, FrameType | None], None], applies: Callable[[object], bool]
) -> Iterator[dict[int, Any]]:
    """Inside, `action` handles those ending signals to whose handlers it `applies`; yields these. In the main thread only."""
    main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {n: signal.getsignal(n) for n in _ENDING_SIGNALS if main and applies(signal.getsignal(n))}
    try:
        for number in before:
            signal.signal(number, action)
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
