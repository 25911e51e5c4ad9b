"""Each mutant in a process of its own, since a mutant may take its process with it, or never end."""

import multiprocessing as mp
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from mutation.sites import Site
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS = 120  # of processor time for all checks on one mutant; one that takes longer hangs where no cycle passes

Killer = Callable[[int], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: the check that killed it, "" if none did, and what that said."""

    site: Site
    killer: str
    said: str


@dataclass(frozen=True, slots=True)
class _Run:
    site: Site
    process: BaseProcess


def verdicts_on(
    chosen: Sequence[Site], killer: Killer, *, jobs: int, end: float, console: Console
) -> Iterator[Verdict]:
    """The verdicts in the order in which they are found; no mutant is begun after `end`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    todo, running, alive = deque(chosen), dict[Connection, _Run](), 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("mutants", total=len(chosen))
        try:
            while True:
                while todo and len(running) < jobs and time.monotonic() < end:
                    reader, run = _begun(todo.popleft(), killer)
                    running[reader] = run
                if not running:
                    return
                ready = wait(list(running))
                for reader in [reader for reader in running if reader in ready]:
                    run = running.pop(reader)
                    verdict = Verdict(run.site, *_heard(reader, run.process))
                    alive += not verdict.killer
                    progress.update(bar, advance=1, description=f"mutants, {alive} alive")
                    yield verdict
        finally:
            for run in running.values():
                run.process.kill()
                run.process.join()


def _begun(site: Site, killer: Killer) -> tuple[Connection, _Run]:
    context = mp.get_context("fork")  # the suite and the model are there already
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(writer, killer, site.number))
    process.start()
    writer.close()
    return reader, _Run(site, process)


def _work(writer: Connection, killer: Killer, number: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    writer.send(killer(number))
    writer.close()


def _heard(reader: Connection, process: BaseProcess) -> tuple[str, str]:
    try:
        answer = reader.recv()
        process.join()
    except EOFError:
        process.join()
        answer = ("crash", f"the simulation ended with status {process.exitcode}")
        if process.exitcode == -signal.SIGXCPU:
            answer = ("time", f"not done within {SECONDS} s of processor time")
    reader.close()
    return answer
