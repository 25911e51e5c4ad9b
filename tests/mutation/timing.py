"""Check the fuzzing of the cycle model: plant a change that may move a cycle, and see after how many programs it is noticed.

All changes of timing_changes.py are in one Verilated model of the configuration `tiny`; a pin selects one. The files in hw/ are
never changed. A change that no program of the fuzzing notices is run on programs of other kinds, beside the hardware as it is, to
see whether it moves a cycle at all.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mutation import planting, schemata
from mutation.timing_changes import CHANGES
from mutation.timing_verdicts import summary, table, told
from rich.console import Console

ROOT = Path(__file__).parents[2]
PROGRAMS = 2000
MAX_CYCLES = 2_000_000  # of a run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; status 1 if a change that moves a cycle is not noticed, or told with another block's name."""
    options = _options(arguments)
    os.environ["VTAKIT_RTL_TRAINING"] = "off"  # a model that runs for a minute
    console = Console()
    finder = schemata.Finder({
        f"vtakit.hw.{file.removesuffix('.py').replace('/', '.')}": ROOT / "hw" / file for file in {each.file for each in CHANGES}
    }, planting.rewrite)
    finder.install()
    from mutation import model  # it imports the RTL, which is rewritten from here on

    model.elaborate()
    absent = [each.name for number, each in enumerate(CHANGES, start=1) if number not in schemata.APPLIED]
    assert not absent, f"not in this configuration: {absent}"
    if options.elaborate:
        console.print(f"{len(CHANGES)} changes, each in the hardware")
        return 0
    libraries = [model.library(finder.text, wave) for wave in ("", "vcd")]
    with model.in_place(*libraries):
        from mutation.timing_runs import Runs

        def select(number: int) -> None:
            for library in libraries:
                model.select(library, number, MAX_CYCLES)

        runs = Runs(select)
        began, verdicts = time.process_time(), []
        for number, each in enumerate(CHANGES, start=1):
            if options.only in f"{each.file}: {each.name}":
                verdicts.append(runs.verdict(number, each, options.programs))
                console.print(told(verdicts[-1]), markup=False, soft_wrap=True)
    seconds = round(time.process_time() - began)
    result = {"seconds": seconds, "programs": options.programs, "verdicts": [asdict(v) for v in verdicts]}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    console.print(table(verdicts), markup=False, soft_wrap=True)
    console.print(summary(verdicts, options.programs), soft_wrap=True)
    return int(any(v.moves and not (v.programs and v.expected) for v in verdicts))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation/run.py timing", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only changes whose FILE: NAME contains TEXT")
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help=f"of the fuzzing, at most ({PROGRAMS})")
    parser.add_argument("--elaborate", action="store_true", help="build nothing: see that each change is in the hardware")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    return parser.parse_args(arguments)
