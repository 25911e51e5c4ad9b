"""Progress of large transfers on the terminal."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

LEAST_BYTES = 1 << 17  # half a second at 3 Mbaud: less needs no bar
Advance = Callable[[int], None]  # is told the bytes that are done
Progress = Callable[[str, int], AbstractContextManager[Advance]]  # of a transfer: its kind, and its bytes


def silent(what: str, total: int) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return _silence()


@contextmanager
def _silence() -> Iterator[Advance]:
    yield lambda done: None


def shown(name: str) -> Progress:
    """Return what shows the transfers of a device in a bar on standard error, if that is a terminal."""
    @contextmanager
    def bar(what: str, total: int) -> Iterator[Advance]:
        from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

        from vtakit.runtime.terminal import progress

        with progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as live:
            task = live.add_task(f"{name}: {what}", total=total)
            yield lambda done: live.update(task, completed=done)

    return lambda what, total: bar(what, total) if total >= LEAST_BYTES else silent(what, total)
