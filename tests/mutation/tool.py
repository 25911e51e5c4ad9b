"""Check the tests: change one operator, constant or condition of the RTL at a time, and see whether a test notices.

All mutants are in one Verilated model of the configuration `tiny`; a pin selects one. The files in hw/ are never changed.
"""

import argparse
import json
import random
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from mutation import report, schemata
from mutation.workers import verdicts_on
from rich.console import Console

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; status 1 if the original fails a check, 0 otherwise, whatever becomes of the mutants."""
    options = _options(arguments)
    if options.page:
        report.write(options.page)
        return 0
    console, commit = Console(), _commit()
    finder = schemata.Finder({
        ".".join(("vtakit", *path.relative_to(ROOT).with_suffix("").parts)): path for path in (ROOT / "hw").rglob("*.py")
        if path.stem != "__init__" and "isa" not in path.parts})
    finder.install()
    from mutation import model, suite  # they import the RTL, which is rewritten from here on

    model.elaborate()
    applied = finder.applied()
    matching = [site for site in applied if options.only in f"{site.file}:{site.line} {site.before}  ->  {site.after}"]
    chosen = random.Random(options.seed).sample(matching, min(options.mutants or len(matching), len(matching)))
    library = model.library(finder.text)
    with model.in_place(library):
        with console.status("the suite on the original"):
            model.select(library, 0)
            checks, failure = suite.passed_by_the_original(model.OtherModelError)
        if failure:
            console.print(f"the original fails {failure}", style="red", markup=False)
            return 1

        def killer(number: int) -> tuple[str, str]:
            model.select(library, number)
            return suite.first_failure(checks)

        console.print(f"the original passes {len(checks)} checks")
        began = time.monotonic()
        verdicts = []
        for verdict in verdicts_on(chosen, killer, jobs=options.jobs, end=began + 60 * options.minutes, console=console):
            verdicts.append(verdict)
            if not verdict.killer:
                report.tell(console, verdict.site)
    result = {
        "date": datetime.now(UTC).date().isoformat(), "commit": commit, "command": _command(options),
        "seconds": round(time.monotonic() - began), "sites": len(finder.sites), "applied": len(applied), "checks": len(checks),
        "verdicts": [asdict(verdict) for verdict in sorted(verdicts, key=lambda verdict: verdict.site.number)],
    }
    report.show(console, result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation/run.py", description=__doc__)
    parser.add_argument("--mutants", type=int, default=0, metavar="N", help="so many, chosen at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of that choice, and of the order")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="start no mutant after so long")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose FILE:LINE BEFORE  ->  AFTER contains TEXT")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="mutants run at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="do no more than make docs/mutation.md of such results")
    options = parser.parse_args(arguments)
    if options.mutants < 0 or options.jobs < 1:
        parser.error("--mutants must be at least 0, and --jobs at least 1")
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.resolve().parent}")
    return options


def _command(options: argparse.Namespace) -> str:
    """What repeats the run, without its files and processes."""
    given = {"--mutants": options.mutants, "--seed": options.seed, "--minutes": options.minutes, "--only": options.only}
    usual = {"--mutants": 0, "--seed": 0, "--minutes": float("inf"), "--only": ""}
    parts = [f"{name} {shlex.quote(str(value))}" for name, value in given.items() if value != usual[name]]
    return " ".join(["python tests/mutation/run.py", *parts, "--json FILE"])


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
