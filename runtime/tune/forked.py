"""Work in forked children: what one does in a crash or a hang costs one item, and never the session."""

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from vtakit.runtime.tune.outcome import Outcome

_TOLD_SECONDS = 0.5  # between two looks at the time


class _Child:
    """A child that works on items in order, and sends each outcome.

    since : when it began with its present item
    """

    def __init__(self, work: Callable[[int], Outcome], items: Sequence[int]) -> None:
        self.items = [*items]
        context = get_context("fork")  # the task is there already, which spawned processes would have to build
        self.receives, sends = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_run, args=(work, self.items, sends), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child uses none of theirs
            self.process.start()
        sends.close()
        self.since = time.monotonic()

    def end(self) -> None:
        """Kill it, if it still runs."""
        self.receives.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def in_children(
    work: Callable[[int], Outcome], items: Sequence[int], workers: int, limit_seconds: float,
) -> Iterator[tuple[int, Outcome]]:
    """Yield each item with its outcome, as they end.

    work          : is called in a child
    limit_seconds : for one item; a child that takes longer is killed
    """
    children = [_Child(work, items[at::workers]) for at in range(min(workers, len(items)))]
    try:
        while children:
            ready = wait([child.receives for child in children], _TOLD_SECONDS)
            for child in [*children]:
                lost = ""
                if child.receives in ready:
                    try:
                        item, outcome = child.receives.recv()
                        child.items.remove(item)
                        child.since = time.monotonic()
                        yield item, outcome
                    except (EOFError, OSError):
                        child.process.join()
                        lost = _ended(child.process.exitcode)
                elif time.monotonic() - child.since > limit_seconds:
                    lost = f"timeout: it was not measured within {limit_seconds:g} s"
                if not child.items or lost:
                    children.remove(child)
                    child.end()
                    if lost and child.items:
                        yield child.items.pop(0), Outcome(None, 0.0, lost, time.monotonic() - child.since)
                        if child.items:
                            children.append(_Child(work, child.items))
    finally:
        for child in children:
            child.end()


def _run(work: Callable[[int], Outcome], items: Sequence[int], sends: Connection) -> None:
    """Work on items, in a child; Ctrl-C is the parent's matter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for item in [*items]:
            sends.send((item, work(item)))
    finally:
        sends.close()
        os._exit(0)  # nothing of the parent's is flushed or closed twice


def _ended(status: int | None) -> str:
    """Return how a child ended."""
    if status is not None and status < 0:
        name = signal.Signals(-status).name
        return f"crash: the process that measured it was ended by {name}"
    return "crash: the process that measured it ended without a result"
