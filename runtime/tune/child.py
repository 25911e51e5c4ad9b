"""A process that compiles candidates, or runs and times them, for the process that searches: ``python -m … FILE_NUMBER``.

Requests and replies are pickled through a socket, one after another; what is large lies in files. A candidate that crashes, hangs
or takes all memory ends or stalls this process only.
"""

import ctypes
import os
import pickle
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.runtime.cpu import openmp
from vtakit.runtime.tune.binary import Binary, Failed, made
from vtakit.runtime.tune.process import DISK
from vtakit.runtime.tune.subject import KEPT, Caches, Effort, Subject

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class Worker:
    """The requests that a process knows: a method each, which returns the reply."""

    def __init__(self, cores: Sequence[int], memory_bytes: int, threads: int) -> None:
        self._subjects: dict[str, Subject] = {}
        self._alone, self._cores = threads == 1, tuple(cores) if hasattr(os, "sched_setaffinity") else ()
        if hasattr(os, "sched_setaffinity") and cores:
            os.sched_setaffinity(0, cores)
        _limit_memory(memory_bytes)
        openmp.set_threads(threads)

    def compile(self, source: Path, to: Path) -> None:
        """Compile a function and target in a file; write the machine code to another."""
        function, target = pickle.loads(source.read_bytes())
        to.write_bytes(pickle.dumps(made(function, target)))

    def open(
        self, task: str, reference: Path, kept: Path, seed: int, best: Path | None, cost: float, caches: Caches | None,
    ) -> None:
        """Prepare a task: inputs, the results of the reference, and the incumbent, if there is one."""
        found = _binary(reference)
        subject = Subject(found.ports, seed, alone=self._alone, caches=caches, cores=self._cores)
        subject.define(found, kept)
        if best is not None:
            subject.keep(_binary(best), cost)
        while len(self._subjects) >= KEPT:
            del self._subjects[next(iter(self._subjects))]
        self._subjects[task] = subject

    def measure(self, task: str, candidate: Path, effort: Effort) -> Any:
        """Measure a candidate of a task that is prepared."""
        return self._subjects[task].measure(_binary(candidate), effort)


def _binary(path: Path) -> Binary:
    found: Binary = pickle.loads(path.read_bytes())
    return found


def _limit_memory(more: int) -> None:
    """Limit the address space of this process to what it has now and `more` bytes."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    most = pages * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def serve(connection: Connection) -> None:
    """Answer requests until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that searches decides when this one ends
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    worker = Worker(*connection.recv())
    while True:
        try:
            name, args = connection.recv()
        except (EOFError, OSError):
            return
        try:
            reply = "", getattr(worker, name)(*args)
        except Failed as error:
            reply = error.kind, str(error)
        except MemoryError:
            reply = "memory", "there is no memory for the arrays or the code"
        except OSError as error:
            reply = DISK, error.strerror or str(error)
        except VtakitError as error:
            reply = "refused", str(error).partition("\n")[0]
        except Exception as error:  # a defect of ours costs one trial too, with its name
            reply = "crash", f"{type(error).__name__}: {error}"
        try:
            connection.send(reply)
        except OSError:
            return


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
