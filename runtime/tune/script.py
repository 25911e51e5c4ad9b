"""Tasks of a Python script: the global variables that are tasks, or lists of them."""

import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vtakit.compiler.tune.loops import LoopTask
from vtakit.compiler.tune.task import TuneError

RUN_NAME = "__vtakit_tune__"  # of the script's module: what it does under ``if __name__ == "__main__"`` is left out


def script_tasks(path: Path) -> list[LoopTask]:
    """Run a script and return its tasks, each once, in the order of its variables.

    Raises TuneError for a script that fails, has no task, or has tasks for different numbers of threads.
    """
    if not path.is_file():
        raise TuneError(f"the script {str(path)!r} does not exist, or is no file")
    before = sys.path.copy()
    sys.path.insert(0, str(path.resolve().parent))  # as `python SCRIPT` has it
    try:
        found = runpy.run_path(str(path), run_name=RUN_NAME)
    except (Exception, SystemExit) as error:
        raise TuneError(f"the script {str(path)!r} fails{_line(error, path)}: {type(error).__name__}: {error}") from None
    finally:
        sys.path[:] = before
    tasks = {task.digest: task for value in found.values() for task in _tasks(value)}
    if not tasks:
        raise TuneError(f"the script {str(path)!r} has no task: give a global variable one, such as "
                        "task = tune.expression(C, [A, B, C]), or a list of them")
    counts = sorted({task.threads for task in tasks.values()})
    if len(counts) > 1:
        raise TuneError(f"the tasks of {str(path)!r} are for {' and '.join(map(str, counts))} threads: tune those of one number "
                        "at a time")
    return [*tasks.values()]


def _tasks(value: Any) -> Iterator[LoopTask]:
    if isinstance(value, LoopTask):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from (each,) if isinstance(each, LoopTask) else ()


def _line(error: BaseException, path: Path) -> str:
    """Return in which line of the script an error came up; "" if in none."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if Path(at.filename).name == path.name]
    lines = lines or ([error.lineno] if isinstance(error, SyntaxError) else [])
    return f" in line {lines[-1]}" if lines and lines[-1] else ""
