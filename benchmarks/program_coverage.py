"""Functional coverage of the original's programs and of random ones: a table of the groups, the holes, and all counts as JSON.

  python benchmarks/program_coverage.py --programs 5000 --json coverage.json
"""

import argparse
import json
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.insns import MEMORIES
from vtakit.sim.api import run_image
from vtakit.sim.coverage import Coverage, cover
from vtakit.sim.fuzz import Case, cases, default_configs, options
from vtakit.sim.random_programs import RandomProgram

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "golden"
CHUNK = 50


def golden() -> Iterator[RandomProgram]:
    """The original's programs with their data."""
    for path in sorted(GOLDEN.glob("*.npz")):
        with np.load(path) as file:
            z = {name: file[name] for name in file.files}
        offsets = np.concatenate([[0], np.cumsum(z["overlay_len"])])
        for number, count in enumerate(z["n_insn"]):
            dram = bytearray(z["image"].tobytes())
            for i in np.flatnonzero(z["overlay_prog"] == number):
                data = z["overlay_data"][offsets[i] : offsets[i + 1]].tobytes()
                dram[z["overlay_addr"][i] : z["overlay_addr"][i] + len(data)] = data
            yield RandomProgram(
                config=NAMED[path.stem], dram=bytes(dram), insn_addr=int(z["insn_addr"]), insn_count=int(count),
                bases={kind.name.lower(): 0 for kind in MEMORIES},
            )


def cover_chunk(chunk: list[Case]) -> Coverage:
    """What the random programs of some cases reach."""
    return cover(case.program() for case in chunk)


def cover_run(case: Case) -> Coverage:
    """What a run of a case's program on the RTL reaches."""
    found, program, chosen = Coverage(), case.program(), options(case)
    result = run_image(
        program.dram, program.insn_addr, program.insn_count, program.config, "rtl", bases=program.bases, trace=True, **chosen
    )
    assert result.trace is not None
    found.add_run(program, chosen, result.trace)
    return found


def main() -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=5000, help="random programs (default 5000)")
    parser.add_argument("--runs", type=int, default=500, help="of them as many again, of `tiny`, run on the RTL (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, default=None, help="file for all counts")
    args = parser.parse_args()
    work = list(cases("rtl", default_configs(), args.seed, args.programs, 40))
    chunks = [work[at : at + CHUNK] for at in range(0, len(work), CHUNK)]
    columns = {"the original's": cover(track(golden(), "the original's programs", total=1575)), "random": Coverage()}
    with get_context("spawn").Pool(args.jobs) as pool:
        for found in track(pool.imap(cover_chunk, chunks), "random programs", total=len(chunks)):
            columns["random"].merge(found)
    for case in track(list(cases("rtl", ["tiny"], args.seed, args.runs, 40)), "runs on the RTL"):
        columns["random"].merge(cover_run(case))
    both = Coverage()
    for each in columns.values():
        both.merge(each)
    columns["both"] = both
    reports = {name: each.as_json() for name, each in columns.items()}
    table = Table("group", "bins", *(f"{name} ({each.programs})" for name, each in columns.items()), "cannot be")
    for name, group in reports["both"]["groups"].items():
        hits = (f"{report['groups'][name]['hit']}" for report in reports.values())
        table.add_row(name, str(group["reachable"]), *hits, str(len(group["impossible"])))
    totals = [sum(group["hit"] for group in report["groups"].values()) for report in reports.values()]
    total = sum(group["reachable"] for group in reports["both"]["groups"].values())
    table.add_row("total", str(total), *(f"{n} ({100 * n / total:.1f} %)" for n in totals), "")
    console = Console()
    console.print(table)
    for name, group in reports["both"]["groups"].items():
        assert not group["reached although impossible"], f"{name}: {group['reached although impossible']}"
        for hole in group["holes"]:
            console.print(f"hole in {name}: {', '.join(hole)}")
    if args.json is not None:
        args.json.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
