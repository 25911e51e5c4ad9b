"""A child process for candidates, seen from the process that searches: requests, replies, time limits, and its end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import vtakit
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime.tune.subject import KEPT

DISK = "disk"  # kind of a reply: a file could not be written or read, which is no fault of the candidate
_GONE_S = 5.0  # until a killed process is gone
_START_S = 60.0  # to start, on a loaded machine
# glibc keeps memory that was freed, as a network's arena does; a candidate is not charged for new pages in each run.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


class Reply(NamedTuple):
    """The answer to a request: what asked, "" or the kind of a failure, the value or the reason, and its time."""

    tag: Any
    kind: str
    value: Any
    seconds: float

    @property
    def ends(self) -> bool:
        """Return whether the process is of no use any more."""
        return self.kind in ("crash", "timeout", "memory")


class Child:
    """A process of `vtakit.runtime.tune.child`. Requests wait in its socket; each is a few hundred bytes.

    cores        : that it may use
    memory_bytes : beyond what it takes to start
    threads      : of parallel loops
    log          : file for what it says
    """

    def __init__(self, cores: Sequence[int], memory_bytes: int, threads: int, log: Path) -> None:
        ours, theirs = socket.socketpair()
        self._log = log
        root = str(Path(vtakit.__file__).parents[1])
        paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}
        command = [sys.executable, "-m", "vtakit.runtime.tune.child", str(theirs.fileno())]
        try:
            with log.open("wb") as said:
                self._process = subprocess.Popen(
                    command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
                    start_new_session=True)
        except OSError as error:
            ours.close()
            raise TuneError(f"no process for candidates can be started: {error.strerror or error}") from None
        finally:
            theirs.close()
        self.connection = Connection(ours.detach())
        self.connection.send((tuple(cores), memory_bytes, threads))
        self._asked: deque[tuple[Any, float]] = deque()
        self._since = time.monotonic()
        self.started = False
        self._known: list[str] = []  # tasks that it has prepared and not forgotten

    def knows(self, task: str) -> bool:
        """Return whether the process has prepared a task; if not, note that it will have: the oldest one is forgotten then."""
        if task in self._known:
            return True
        self._known = [*self._known, task][-KEPT:]
        return False

    @property
    def waiting(self) -> int:
        """Number of requests without a reply."""
        return len(self._asked)

    @property
    def tags(self) -> list[Any]:
        """Return the purposes of the requests without a reply, the oldest first."""
        return [tag for tag, _ in self._asked]

    def ask(self, tag: Any, limit_s: float, name: str, *args: Any) -> None:
        """Send a request, to be answered within some seconds of the answer before it."""
        if not self._asked:
            self._since = time.monotonic()
        self._asked.append((tag, limit_s))
        with suppress(OSError):  # of one that has ended, which `reply` finds
            self.connection.send((name, args))

    @property
    def left_s(self) -> float:
        """Seconds until the oldest request is overdue; infinite if there is none."""
        if not self._asked:
            return float("inf")
        limit = self._asked[0][1] + (0 if self.started else _START_S)
        return self._since + limit - time.monotonic()

    def reply(self) -> Reply | None:
        """Return the next reply, or the failure of the oldest request if the process has ended or is late; None for neither."""
        if not self._asked:
            return None
        tag, limit = self._asked[0]
        spent = time.monotonic() - self._since
        try:
            if self.connection.poll():
                kind, value = self.connection.recv()
                self._asked.popleft()
                self._since, self.started = time.monotonic(), True
                return Reply(tag, kind, value, spent)
        except (EOFError, OSError):
            self._asked.popleft()
            return Reply(tag, *self._death(), spent)
        if self.left_s <= 0:
            self._asked.popleft()
            return Reply(tag, "timeout", f"the candidate did not end within {limit:g} s", spent)
        return None

    def _death(self) -> tuple[str, str]:
        """Return why the process ended."""
        status = self.end()
        said = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        last = said[-1][:200] if said else ""
        if any(word in last for word in ("bad_alloc", "out of memory", "MemoryError")):
            return "memory", f"the process of the candidate ended: {last}"
        try:
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        except ValueError:
            how = f"signal {-status}"
        return "crash", f"the process of the candidate ended with {how}{': ' + last if last else ''}"

    def end(self) -> int:
        """End the process and what it started; return its status."""
        self.connection.close()
        alive = self._process.poll() is None
        if alive:
            try:
                self._process.wait(0.05)  # one whose socket closed is about to end by itself
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        try:
            return self._process.wait(_GONE_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL


def await_reply(child: Child) -> Reply:
    """Return the next reply of a process, within the limit of its request."""
    while True:
        reply = child.reply()
        if reply is not None:
            return reply
        wait([child.connection], max(0.0, min(child.left_s, 1.0)))
