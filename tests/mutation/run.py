"""Check the tests: change one operator, constant or condition of the RTL at a time, and see whether a test notices.

All mutants are in one Verilated model of the configuration `tiny`; a pin selects one. The files in hw/ are never changed.
"""

import argparse
import json
import multiprocessing as mp
import os
import random
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS), str(TESTS / "sim")]

from mutation import schemata, sites  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: E402
from rich.table import Table  # noqa: E402

SECONDS = 120  # for all checks on one mutant; a mutant that takes longer hangs where no cycle passes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: the check that killed it, "" if none did, and what that said."""

    site: sites.Site
    killer: str
    said: str


def main() -> int:
    """Run the tool; status 0 if the suite passes on the original, whatever becomes of the mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=0, metavar="N", help="so many, chosen at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of that choice, and of the order")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="start no mutant after so long")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose file, line and change contain TEXT")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="mutants run at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    options = parser.parse_args()
    if options.mutants < 0 or options.jobs < 1:
        parser.error("--mutants must be at least 0, and --jobs at least 1")
    console = Console()
    finder = schemata.Finder({f"vtakit.hw.{path.stem}": path for path in (ROOT / "hw").glob("*.py") if path.stem != "__init__"})
    finder.install()
    from mutation import model, suite  # the RTL is imported now that it is rewritten

    model.elaborate()
    applied = finder.applied()
    chosen = [site for site in applied if options.only in f"{site.file}:{site.line} {site.before} -> {site.after}"]
    chosen = random.Random(options.seed).sample(chosen, min(options.mutants or len(chosen), len(chosen)))
    path = model.library()
    with model.in_place(path):
        checks = _timed(console, suite.checks(), model.OtherModelError)
        if checks is None:
            return 1
        began = time.monotonic()
        end = began + 60 * options.minutes
        found = _watched(console, chosen, options.jobs, end, lambda number: _kill(model, path, number, checks))
        verdicts = sorted(found, key=lambda verdict: verdict.site.number)
    seconds = time.monotonic() - began
    _show(console, verdicts)
    killed = sum(1 for v in verdicts if v.killer)
    console.print(f"{killed} of {len(verdicts)} mutants killed, {killed / max(1, len(verdicts)):.1%}, in {seconds:.0f} s")
    if options.json:
        result = {
            "date": datetime.now(UTC).date().isoformat(), "commit": _commit(), "command": " ".join(["python", *sys.argv]),
            "mutants": options.mutants, "seed": options.seed, "only": options.only, "seconds": round(seconds),
            "sites": len(finder.sites), "applied": len(applied), "checks": len(checks), "verdicts": [asdict(v) for v in verdicts],
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _timed(console, checks, other_model):
    """The checks that this model can run, the fastest first; None if one fails on the original."""
    usable, skipped = [], []
    with console.status("the suite on the original"):
        for check in checks:
            began = time.monotonic()
            try:
                check.run()
            except other_model:
                skipped.append(check.name)
            except BaseException as error:  # pytest.fail is no Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                console.print(f"the original fails {check.name}: {type(error).__name__}: {error}", style="red", markup=False)
                return None
            else:
                usable.append((time.monotonic() - began, check))
    usable.sort(key=lambda timed: timed[0])
    total = sum(seconds for seconds, _ in usable)
    console.print(f"the original passes {len(usable)} checks in {total:.1f} s; {len(skipped)} want another model", markup=False)
    return [check for _, check in usable]


def _kill(model, path: Path, number: int, checks) -> tuple[str, str]:
    """Select a mutant and run the checks up to the first that fails: its name and what it said."""
    model.select(path, number)
    for check in checks:
        try:
            check.run()
        except BaseException as error:  # pytest.fail is no Exception
            text = str(error).splitlines()
            return check.name, f"{type(error).__name__}: {text[0] if text else ''}"[:200]
    return "", ""


def _watched(console, chosen, jobs: int, end: float, kill) -> Iterator[Verdict]:
    """Each mutant in a process of its own, since a mutant may take its process with it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    todo, running = deque(chosen), {}
    alive = 0
    context = mp.get_context("fork")
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("mutants", total=len(chosen))
        try:
            while todo or running:
                if time.monotonic() > end:
                    todo.clear()
                    if not running:
                        break
                while todo and len(running) < jobs:
                    site = todo.popleft()
                    reader, writer = context.Pipe(duplex=False)
                    process = context.Process(target=_child, args=(writer, kill, site.number))
                    process.start()
                    writer.close()
                    running[reader] = (site, process, time.monotonic() + SECONDS)
                nearest = min(deadline for _, _, deadline in running.values())
                ready = wait(list(running), max(0.0, nearest - time.monotonic()))
                late = [r for r, (_, _, deadline) in running.items() if r not in ready and deadline <= time.monotonic()]
                for reader in (*ready, *late):
                    site, process, _ = running.pop(reader)
                    verdict = Verdict(site, *_heard(reader, process, reader in late))
                    alive += not verdict.killer
                    progress.update(bar, advance=1, description=f"mutants, {alive} alive")
                    yield verdict
        finally:
            for _, process, _ in running.values():
                process.kill()
                process.join()


def _child(writer: Connection, kill, number: int) -> None:
    writer.send(kill(number))
    writer.close()


def _heard(reader: Connection, process, late: bool) -> tuple[str, str]:
    if late:
        process.kill()
        answer = ("time", f"not done within {SECONDS} s")
    else:
        try:
            answer = reader.recv()
        except EOFError:
            process.join()
            answer = ("crash", f"the simulation ended with status {process.exitcode}")
    process.join()
    reader.close()
    return answer


def _show(console: Console, verdicts: list[Verdict]) -> None:
    table = Table("file", "mutants", "killed", "alive")
    by_file = defaultdict(list)
    for v in verdicts:
        by_file[v.site.file].append(v)
    for file, some in sorted(by_file.items()):
        killed = sum(1 for v in some if v.killer)
        table.add_row(file, str(len(some)), str(killed), str(len(some) - killed))
    console.print(table)
    for v in verdicts:
        if not v.killer:
            place = f"{v.site.file}:{v.site.line}"
            console.print(f"alive {v.site.number:5} {place:24} {v.site.before}  ->  {v.site.after}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
