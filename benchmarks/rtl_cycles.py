"""Exact cycles of programs made by hand, and what they were spent on.

The default configuration with one 64-bit AXI4 port, one beat a cycle and 16 bursts in flight; the reference system has 40 cycles
of read latency, the ideal one none. Cycles are those of the cycle model. The RTL confirms short programs, or all of them: with
every counter and byte.

    python benchmarks/rtl_cycles.py [--only TEXT]     print the table
    python benchmarks/rtl_cycles.py --device rtl      the same, with all programs on the RTL
    python benchmarks/rtl_cycles.py --write           write it into docs/cycles.md, and the cycles into tests/data/cycles.json
"""

import argparse
import json
import sys
from pathlib import Path

from page_parts import write_between

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.sim.confirmed import DEVICES, SAMPLE_CYCLES
from vtakit.sim.cycle_cases import Case, Figures, cases, measure

ROOT = Path(__file__).parents[1]
PAGE, GOLDEN = ROOT / "docs" / "cycles.md", ROOT / "tests" / "data" / "cycles.json"
PEAK = DEFAULT.batch * DEFAULT.block**2  # multiplications a cycle
BEGIN, END = "<!-- begin: benchmarks/rtl_cycles.py --write -->\n", "<!-- end -->\n"
COLUMNS = (
    "program", "MACs", "steps", "cycles, reference", "ideal", "work a cycle", "useful", "bound by", "bound/cycles",
    "lost: busy", "token from load", "token from store", "memory", "no instruction",
)


def row(case: Case, figures: Figures) -> str:
    """A line of the table."""
    cycles = figures.cycles["reference"]
    bounds = {"steps": figures.steps, "reads": figures.read, "writes": figures.written}
    bound = max(bounds, key=lambda name: bounds[name])
    cells = (
        case.name, f"{case.macs:,}", f"{figures.steps:,}", f"{cycles:,}", f"{figures.cycles['ideal']:,}",
        f"{figures.work / cycles:.3f}", f"{case.macs / PEAK / cycles:.3f}",
        f"{bound} {bounds[bound]:,}", f"{bounds[bound] / cycles:.3f}",
        *(f"{lost:,}" for lost in figures.lost.values()),
    )
    return f"| {' | '.join(cells)} |"


def table(rows: list[str]) -> str:
    """The rows with their head."""
    head = f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}\n"
    return head + "".join(f"{line}\n" for line in rows)


def write(found: list[tuple[Case, Figures]], text: str) -> None:
    """Replace the page's table and the kept cycles."""
    write_between(PAGE, BEGIN, text, END)
    kept = {case.name: dict(figures.cycles) for case, figures in found}
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only programs with TEXT in their name")
    parser.add_argument("--device", choices=DEVICES, default="cycle",
                        help=f"rtl: the RTL confirms every program; cycle: those of at most {SAMPLE_CYCLES:,} cycles")
    parser.add_argument("--write", action="store_true", help="write the page and the file of cycles instead of printing")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every program: leave out --only")
    chosen = [case for case in cases() if args.only in case.name]
    if not chosen:
        parser.error(f"no program has {args.only!r} in its name")
    found = []
    try:
        for case in chosen:
            print(case.name, file=sys.stderr)
            found.append((case, measure(case, args.device)))
    except VtakitError as error:
        parser.error(str(error))
    text = table([row(case, figures) for case, figures in found])
    if args.write:
        write(found, text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
