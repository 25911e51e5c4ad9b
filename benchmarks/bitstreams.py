"""Bitstreams of boards: resources, clocks and build times, kept in bitstreams.json and shown in docs/synthesis.md.

  python benchmarks/bitstreams.py                       build all that is not kept yet
  python benchmarks/bitstreams.py ulx3s-85f/small       build one again
  python benchmarks/bitstreams.py --page                only write the page again

A build takes minutes to hours; `vtakit bitstream` keeps each of its steps, so that a run that was cut off goes on.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from synthesis import hardware

from vtakit.base.writing import write_bytes
from vtakit.boards.bitstream.report import BitstreamReport
from vtakit.boards.shell.ecp5 import CLOCKS
from vtakit.boards.synth.devices import RESOURCES
from vtakit.runtime.terminal import say

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "bitstreams.json", ROOT / "docs" / "synthesis.md"
SMALL = ("--config", "tiny", "--acc-copies", "1", "--mul-passes", "4",
         "--without", "requantizes", "pad_values", "lookups", "windows", "pools", "counters")
RUNS = {  # a board, and the options of `vtakit bitstream` by name
    "ulx3s-85f/small": (*SMALL, "--mhz", "60"),
    "ulx3s-85f/small-usb": (*SMALL, "--mhz", "60", "--link", "usb"),
    "icepi-zero/small": (*SMALL, "--mhz", "60"),
    "icesugar-pro/small": (*SMALL, "--mhz", "60"),
    "ulx3s-25f/small": (*SMALL, "--mhz", "60"),
    "ulx3s-85f/tiny": ("--config", "tiny", "--seeds", "2"),
    "ulx3s-85f/blk8": ("--config", "blk8", "--mhz", "75", "--memory-mhz", "100"),
}
Results = dict[str, dict[str, Any]]


def build(run: str) -> dict[str, Any]:
    """Build one bitstream, and say when and of which hardware."""
    commit = hardware()
    with tempfile.TemporaryDirectory(prefix="bitstreams.") as folder:
        bit, report = Path(folder) / "board.bit", Path(folder) / "report.json"
        command = ["-m", "vtakit.runtime", "bitstream", "--board", run.partition("/")[0], *RUNS[run], "--limit", "36000"]
        subprocess.run([sys.executable, *command, "-o", str(bit), "--json", str(report)], cwd=ROOT, check=True)
        kept = json.loads(report.read_text())
        size = bit.stat().st_size
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "hw": commit, "bytes": size, "report": kept}


def table(results: Results) -> str:
    """The page's table, from the kept results."""
    head = ["board and core", "options", *RESOURCES.values(), "clock MHz", "reached MHz", "seeds", "minutes", "date", "hw/"]
    rows = []
    for run, words in RUNS.items():
        if run not in results:
            rows.append([run, f"`{' '.join(words)}`", *["-"] * 8, "not built yet", ""])
            continue
        report = BitstreamReport.from_dict(results[run]["report"])
        reached = [next(each.fmax_mhz for each in report.clocks if each.net == net)
                   for net in (CLOCKS[:2] if report.memory_mhz else CLOCKS[:1])]
        wanted = f"{report.mhz:g}" + (f", memory {report.memory_mhz:g}" if report.memory_mhz else "")
        used = [f"{use.used:,.10g} ({use.used / use.available:.0%})" for use in report.usage.values()]
        rows.append([run, f"`{' '.join(words)}`", *used, wanted, ", ".join(f"{mhz:.1f}" for mhz in reached),
                     str(len(report.seeds)),
                     f"{sum(report.seconds.values()) / 60:.0f}", results[run]["date"], results[run]["hw"]])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(page: str, results: Results) -> str:
    """The page with its table."""
    begin, end = "<!-- bitstreams -->\n", "<!-- end of bitstreams -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{table(results)}\n{end}{after}"


def main() -> None:
    """Build what is asked for; each result is kept as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", choices=[[], *RUNS], metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--page", action="store_true", help="write the page only")
    args = parser.parse_args()
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for run in [] if args.page else args.runs or [run for run in RUNS if run not in results]:
        say(run)
        results[run] = build(run)
        write_bytes(RESULTS, (json.dumps(results, indent=1) + "\n").encode(), "the results")
    write_bytes(PAGE, filled(PAGE.read_text(encoding="utf-8"), results).encode(), "the page")


if __name__ == "__main__":
    main()
