"""The processes of a measurement: some compile while one runs and times; their files, and the tasks that they know."""

import fcntl
import pickle
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.tune.task import Candidate, TuneError
from vtakit.runtime.tune.process import DISK, Child, Reply, await_reply

PREFIX = "vtakit.tune."  # of folders for candidates
STARTS = 3  # processes in a row that end before they answer anything
PREPARE_S = 120.0  # to compile and run the reference of a task: plain loops


class Loops(Protocol):
    """A task of loops for a processor, as a measurement needs it; `vtakit.compiler.tune.loops.LoopTask` is one.

    fresh : numbers of the parameters that caches have before each run, and nothing else; None for what the run before has left
    """

    name: str
    target: Target
    threads: int

    @property
    def fresh(self) -> tuple[int, ...] | None: ...
    @property
    def digest(self) -> str: ...
    @property
    def reference(self) -> Function: ...
    def lower(self, given: Candidate, /) -> Function: ...


class Limits(NamedTuple):
    """Limits of one candidate.

    compile_s    : seconds to make its code
    run_s        : seconds to run, check and time it
    memory_bytes : memory of its process, beyond what that takes to start
    """

    compile_s: float = 15.0
    run_s: float = 10.0
    memory_bytes: int = 4 << 30


class Known(NamedTuple):
    """Files of a task: machine code of its reference, the right results, and machine code and cost of the incumbent."""

    reference: Path
    wanted: Path
    best: Path | None = None
    cost: float = 0.0


def _folder() -> tuple[Path, BinaryIO]:
    """Return a new folder, and its lock, held while this process lives; remove folders of processes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        try:
            with path.open("rb") as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # its process lives, or is another user's
            continue
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = (folder / "lock.new").open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "lock.new").rename(folder / "lock")
    except OSError as error:
        raise TuneError(f"no folder for candidates can be made: {error.strerror or error}; TMPDIR says where") from None
    return folder, lock


class Crew:
    """The processes, which start when they are asked for.

    compiling   : those that compile: one a core that nothing is timed on, at least one
    timing      : the one that times; None before it starts
    timed_cores : cores that candidates run on; other_cores : the others
    """

    def __init__(self, cores: Sequence[int], threads: int, limits: Limits) -> None:
        taken = min(threads, len(cores))
        self.timed_cores, self.other_cores = [*cores[len(cores) - taken:]], [*cores[:len(cores) - taken]]
        self.compiling: list[Child] = []
        self.timing: Child | None = None
        self.tasks: dict[str, Known] = {}
        self.folder, self._lock = _folder()
        self._threads, self._limits = threads, limits
        self._files = self._failed_starts = 0

    @property
    def apart(self) -> bool:
        """Return whether those that compile have cores of their own, so that they may run while a candidate is timed."""
        return bool(self.other_cores)

    @property
    def children(self) -> list[Child]:
        """The processes that run."""
        return [*self.compiling, *([self.timing] if self.timing is not None else [])]

    def close(self) -> None:
        """End the processes and remove their files; a second call does nothing."""
        for child in self.children:
            self.dismiss(child)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def file(self, kind: str) -> Path:
        """Return the path of a new file."""
        self._files += 1
        return self.folder / f"{kind}{self._files}"

    def pickled(self, kind: str, content: object) -> Path:
        """Return the path of a new file that holds something. Raises TuneError on a full disk."""
        path = self.file(kind)
        try:
            path.write_bytes(pickle.dumps(content))
        except OSError as error:
            raise self.full(error.strerror or str(error)) from None
        return path

    def full(self, reason: str) -> TuneError:
        """Return the error of a folder that candidates cannot be written to."""
        return TuneError(f"candidates cannot be written to {str(self.folder)!r}: {reason}; trials that had ended are kept: make "
                         "room there, or set TMPDIR, and the same command goes on")

    def compiler(self) -> Child:
        """Return the process that compiles and has the fewest requests; a new one if there is a core for it."""
        if len(self.compiling) < max(1, len(self.other_cores)):
            self.compiling.append(self._child(self.other_cores or self.timed_cores))
            return self.compiling[-1]
        return min(self.compiling, key=lambda child: child.waiting)

    def timer(self) -> Child:
        """Return the process that times."""
        if self.timing is None:
            self.timing = self._child(self.timed_cores)
        return self.timing

    def _child(self, cores: Sequence[int]) -> Child:
        return Child(cores, self._limits.memory_bytes, self._threads, self.file("log"))

    def dismiss(self, child: Child) -> None:
        """End a process."""
        child.end()
        if child is self.timing:
            self.timing = None
        elif child in self.compiling:
            self.compiling.remove(child)

    def note(self, child: Child, reply: Reply) -> None:
        """Note a reply: a process that has ended, is late or has no memory left is dismissed.

        Raises TuneError if processes end again and again before they answer anything, or cannot write their files.
        """
        if reply.kind == DISK:
            raise self.full(reply.value)
        if not reply.ends:
            self._failed_starts = 0
            return
        self._failed_starts += not child.started
        self.dismiss(child)
        if self._failed_starts >= STARTS:
            raise TuneError(f"processes for candidates end before they answer: {reply.value}")

    def prepare(self, task: Loops) -> None:
        """Compile the reference of a task, unless that was done. Raises TuneError if it cannot be compiled."""
        if task.digest in self.tasks:
            return
        source, reference = self.pickled("source", (task.reference, task.target)), self.file("reference")
        child = self.compiler()
        child.ask(None, PREPARE_S, "compile", source, reference)
        reply = await_reply(child)
        source.unlink()
        self.note(child, reply)
        if reply.kind:
            raise TuneError(f"the reference of task {task.name!r:.80} cannot be compiled: {reply.value}")
        self.tasks[task.digest] = Known(reference, self.file("wanted").with_suffix(".npz"))

    def take_best(self, task: Loops, binary: Path, cost: float) -> None:
        """Keep a candidate as the incumbent of its task."""
        before = self.tasks[task.digest]
        if before.best is not None:
            before.best.unlink(missing_ok=True)
        self.tasks[task.digest] = before._replace(best=binary, cost=cost)
