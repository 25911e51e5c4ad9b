"""Synthesise the configurations of docs/synthesis.md, keep the results in benchmarks/synthesis.json, and write its tables.

  python benchmarks/synthesis.py                       all of them: hours, most of it place and route
  python benchmarks/synthesis.py tiny:xc7 blk8:xc7     these; the others keep their results (a configuration @ its DSP budget,
                                                       + fields of CoreParams, - what is left out of it)
  python benchmarks/synthesis.py --tables              only write the tables of the page again
"""

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.boards.synth import Report, find_device
from vtakit.boards.synth.devices import RESOURCES
from vtakit.boards.synth.flow import synthesise
from vtakit.hw.isa.config import load_config
from vtakit.hw.lint import WAIVERS
from vtakit.hw.params import CoreParams

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "synthesis.json", ROOT / "docs" / "synthesis.md"
RUNS = (  # configuration with its core, device and, where there are several, speed grade
    "tiny:ecp5-85k:6", "tiny:ice40", "tiny:ice40-up5k", "tiny:xc7", "tiny-counters:xc7",
    "blk8:ecp5-85k:6", "blk8:xc7",
    "compact@152+mul_passes=4:ecp5-85k:6", "compact@152+gemm_passes=2+mul_passes=4:ecp5-85k:6",
    "compact@210:xc7", "compact:xcup",
    "default:ecp5-85k:6", "default:xc7", "default:xcup",
)
LIMIT_SECONDS = 4 * 3600  # of each tool
Results = dict[str, dict[str, Any]]


def hardware() -> str:
    """The commit that last changed hw/, with a + if there are changes on top of it."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words, "--", "hw"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return git("log", "-1", "--format=%h") + ("+" if git("status", "--porcelain") else "")


def core_of(text: str) -> tuple[str, dict[str, Any]]:
    """The configuration and the fields of `CoreParams` that the first part of a run says."""
    text, *without = text.split("-")
    text, *chosen = text.split("+")
    config, _, budget = text.partition("@")
    sizes = {name: int(value) for name, _, value in (each.partition("=") for each in chosen)}
    return config, {"dsp_budget": int(budget) if budget else None} | sizes | dict.fromkeys(without, False)


def core_text(text: str) -> str:
    """The same in words."""
    config, core = core_of(text)
    budget = core.pop("dsp_budget")
    parts = [*([f"in at most {budget} DSP"] if budget is not None else [])]
    parts += [f"without {name}" if value is False else f"{name} {value}" for name, value in core.items()]
    return f"{config} {', '.join(parts)}".strip()


def measure(run: str) -> dict[str, Any]:
    """Synthesise one run, and say when and of which hardware."""
    config, device, speed, *_ = (*run.split(":"), "")
    config, core = core_of(config)
    commit = hardware()  # now: there may be another at the end
    report = synthesise(
        CoreParams(cfg=load_config(config), **core),
        find_device(device), speed=speed or None, limit_seconds=LIMIT_SECONDS,
        say=lambda step: print(f"{run}: {step}", file=sys.stderr, flush=True),
    )
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": date, "hw": commit, "report": json.loads(report.to_json())}


def tables(results: Results) -> dict[str, str]:
    """The page's tables by name, from the kept results."""
    rows, paths, tools = [], [], set()
    for run in RUNS:
        config, device, *grade = run.split(":")
        config = core_text(config)
        where = ", speed ".join([device, *grade])
        if run not in results:
            rows.append([config, where, *["-"] * 9, "not measured yet"])
            continue
        report = Report.from_dict(results[run]["report"])
        used = [_share(report.usage[name].used, report.usage[name].available) for name in RESOURCES]
        fmax = f"{report.fmax_mhz:.1f}" if report.fmax_mhz is not None else "-"
        bound = f"{report.bound_mhz:.0f}" if report.bound_mhz is not None else "-"
        rows.append([config, where, *used, fmax, bound, f"{sum(report.seconds.values()) / 60:.0f}",
                     results[run]["date"], results[run]["hw"], report.fmax_note])
        tools |= set(report.versions.items())
        paths += _path(run, report)
    head = ["configuration", "device", *RESOURCES.values(), "Fmax MHz", "bound MHz", "minutes", "date", "hw/", "note"]
    return {
        "results": _table(head, rows), "paths": "\n".join(paths),
        "tools": _table(["tool", "version"], [list(tool) for tool in sorted(tools)]),
        "waivers": _table(["rule", "why not applied"], [[waiver.rule, waiver.reason] for waiver in WAIVERS]),
    }


def _share(used: float, available: int) -> str:
    share = f" ({used / available:.0%})" if available else f" of {available}"
    return f"{used:,.10g}{share}"


def _path(run: str, report: Report) -> list[str]:
    """The slowest path, neighbouring hops of one signal as one row."""
    if not report.path:
        return []
    rows: list[list[Any]] = []
    for hop in report.path:
        if rows and rows[-1][0] == f"`{hop.signal}`":
            rows[-1] = [*rows[-1][:2], rows[-1][2] + 1, rows[-1][3] + hop.cell_ns, rows[-1][4] + hop.wire_ns]
        else:
            rows.append([f"`{hop.signal}`", hop.source, 1, hop.cell_ns, hop.wire_ns])
    shown = [[signal, source, str(hops), f"{cell:.2f}", f"{wire:.2f}"] for signal, source, hops, cell, wire in rows]
    return [f"### {run}", "", _table(["signal", "source", "cells", "cells ns", "wires ns"], shown), ""]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(page: str, results: Results) -> str:
    """The page with each of its marked places holding its table."""
    for name, table in tables(results).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{table}\n{end}{after}"
    return page


def main() -> None:
    """Run what is asked for; each result is kept as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="CONFIG[@DSPS][+FIELD=N][-PART]:DEVICE[:SPEED]", default=None)
    parser.add_argument("--tables", action="store_true")
    args = parser.parse_args()
    unknown = set(args.runs) - set(RUNS)
    if unknown:
        parser.error(f"unknown run {sorted(unknown)[0]!r}; known: {', '.join(RUNS)}")
    for run in () if args.tables else args.runs or RUNS:
        try:
            found = measure(run)
        except VtakitError as error:
            parser.error(f"{run}: {error}")
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[run] = found
        RESULTS.write_text(json.dumps({name: results[name] for name in RUNS if name in results}, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
