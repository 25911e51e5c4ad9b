"""Candidates of one task on their way: lowered in this process, compiled and timed in others."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.tune.task import Candidate, TuneError
from vtakit.runtime.tune.crew import PREPARE_S, Crew, Limits, Loops
from vtakit.runtime.tune.outcome import Outcome
from vtakit.runtime.tune.process import Child, Reply
from vtakit.runtime.tune.subject import Caches, Effort

AHEAD = 2  # requests that wait in one process
READY = 8  # candidates that are compiled and wait to be timed


class Batch:
    """Candidates of one task, each of which gets an outcome."""

    def __init__(
        self, crew: Crew, task: Loops, candidates: Sequence[Candidate], limits: Limits, effort: Effort, seed: int,
    ) -> None:
        self._crew, self._task, self._candidates = crew, task, candidates
        self._limits, self._effort, self._seed = limits, effort, seed
        self._next = 0
        self._sources: dict[int, Path] = {}
        self._binaries: dict[int, Path] = {}
        self._ready: deque[int] = deque()
        self._spent = dict.fromkeys(range(len(candidates)), 0.0)
        self._done: deque[tuple[int, Outcome]] = deque()

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they come, until each candidate has one."""
        left = len(self._candidates)
        try:
            while left:
                busy = self._time_one()
                if not self._compile_one(busy):
                    self._wait()
                self._collect()
                while self._done:
                    left -= 1
                    yield self._done.popleft()
        finally:
            for child in self._crew.children:
                if child.waiting:  # with candidates of a batch that is given up
                    self._crew.dismiss(child)

    def _compile_one(self, timing: bool) -> bool:
        """Lower one candidate and hand it to a process; return whether there was one, and room for it."""
        if self._next >= len(self._candidates) or len(self._ready) >= READY or (timing and not self._crew.apart):
            return False
        child = self._crew.compiler()
        if child.waiting >= AHEAD:
            return False
        number, self._next = self._next, self._next + 1
        begun = time.monotonic()
        try:
            function = self._task.lower(self._candidates[number])
        except VtakitError as error:
            self._fail(number, "refused", str(error).partition("\n")[0])
            return True
        finally:
            self._spent[number] += time.monotonic() - begun
        self._sources[number] = self._crew.pickled("source", (function, self._task.target))
        self._binaries[number] = self._crew.file("binary")
        self._ask_code(child, number)
        return True

    def _ask_code(self, child: Child, number: int) -> None:
        child.ask(number, self._limits.compile_s, "compile", self._sources[number], self._binaries[number])

    def _time_one(self) -> bool:
        """Hand a compiled candidate to the process that times; return whether compilers without cores of their own must wait."""
        crew, task = self._crew, self._task
        if crew.timing is not None and crew.timing.waiting:
            return True
        compiling = any(child.waiting for child in crew.compiling)
        full = len(self._ready) >= READY or self._next >= len(self._candidates)
        if not self._ready or (not crew.apart and (compiling or not full)):
            return bool(self._ready) and full
        child = crew.timer()
        if not child.knows(task.digest):
            known = crew.tasks[task.digest]
            child.ask("open", PREPARE_S, "open", task.digest, known.reference, known.wanted, self._seed, known.best, known.cost,
                      None if task.fresh is None else Caches(2 * machine_of(task.target).l2_bytes, task.fresh))
            return True
        number = self._ready.popleft()
        child.ask(number, self._limits.run_s, "measure", task.digest, self._binaries[number], self._effort)
        return True

    def _wait(self) -> None:
        """Wait for a reply, or until a request is overdue."""
        children = [child for child in self._crew.children if child.waiting]
        if children:
            wait([child.connection for child in children], max(0.0, min(1.0, *[child.left_s for child in children])))

    def _collect(self) -> None:
        for child in self._crew.children:
            while child.waiting and (reply := child.reply()) is not None:
                if child is self._crew.timing:
                    self._timed(child, reply)
                else:
                    self._compiled(child, reply)
                if reply.ends:
                    break

    def _compiled(self, child: Child, reply: Reply) -> None:
        number, others = reply.tag, child.tags if reply.ends else []
        self._spent[number] += reply.seconds
        self._crew.note(child, reply)
        if reply.kind:
            self._fail(number, reply.kind, f"{reply.value}{', when it was compiled' if reply.ends else ''}")
        else:
            self._ready.append(number)
        for other in others:  # which that process had in hand
            self._ask_code(self._crew.compiler(), other)

    def _timed(self, child: Child, reply: Reply) -> None:
        self._crew.note(child, reply)
        if reply.tag == "open":
            if reply.kind:
                raise TuneError(f"the reference of task {self._task.name!r:.80} cannot be run: {reply.value}")
            return
        number = reply.tag
        self._spent[number] += reply.seconds
        if reply.kind:
            self._fail(number, reply.kind, reply.value)
            return
        cost, spread, best = reply.value
        if best:
            self._crew.take_best(self._task, self._binaries.pop(number), cost)
        self._finish(number, Outcome(cost, spread, "", self._spent[number]))

    def _fail(self, number: int, kind: str, reason: str) -> None:
        self._finish(number, Outcome(None, 0.0, f"{kind}: {reason}", self._spent[number]))

    def _finish(self, number: int, outcome: Outcome) -> None:
        for files in self._sources, self._binaries:
            if number in files:
                files.pop(number).unlink(missing_ok=True)
        self._done.append((number, outcome))
