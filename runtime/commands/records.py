"""List records of the tuner, or merge files of them into one.

  vtakit records RECORDS.jsonl
  vtakit records A.jsonl B.jsonl --merge ALL.jsonl
  vtakit records shipped                                those of this package

A line for each task: trials, failures, the cost of the first trial, which is the default, and the best; then networks. Records of
another version of vtakit are marked: what they say may no longer be true.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.terminal import console, say

if TYPE_CHECKING:
    from vtakit.runtime.tune.records import Record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("records", nargs="+", metavar="RECORDS.jsonl",
                        help="files that `vtakit tune` wrote, or `shipped` for the records of this package")
    parser.add_argument("--merge", type=Path, metavar="FILE.jsonl", help="file to write, with every different record once")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.runtime.tune.records import Records, merge, place_of

    paths = [place_of(each) for each in args.records]
    if args.merge is not None:
        check_outputs(("--merge", "the records", args.merge))
        count, doubles = merge(paths, args.merge)
        say(f"{args.merge}: {counted(count, 'record')}, {counted(doubles, 'double')} left out")
        return 0
    found = [_summary(each) for path in paths for each in _grouped(Records.read(path))]
    if args.json:
        say(json.dumps(found, indent=1))
    else:
        _print(found)
    return 0


def _grouped(records: Any) -> list[list["Record"]]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for each in records:
        groups.setdefault((each.kind, each.digest), []).append(each)
    return [*groups.values()]


def _summary(records: Sequence["Record"]) -> dict[str, Any]:
    from vtakit.runtime.tune.records import versions

    first = records[0]
    costs = [each.cost for each in records if each.cost is not None]
    best = min((each for each in records if each.cost is not None), key=lambda each: each.cost or 0.0, default=None)
    return {
        "kind": first.kind, "task": first.task, "digest": first.digest, "records": len(records),
        "failed": sum(each.cost is None for each in records), "first": first.cost if first.default is None else first.default,
        "best": min(costs, default=None), "unit": first.unit, "decisions": None if best is None else dict(best.decisions),
        "other_version": sum(each.versions != versions() for each in records), "key": dict(first.key)}


def _print(found: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("kind", "task", "records", "failed", "default", "best", "saves", "of another version"):
        table.add_column(title)
    for each in found:
        first, best = each["first"], each["best"]
        saves = f"{1 - best / first:.1%}" if first and best else ""
        cells = [each["kind"], one_line(each["task"]), str(each["records"]), str(each["failed"]), _cost(first, each["unit"]),
                 _cost(best, each["unit"]), saves, str(each["other_version"] or "")]
        table.add_row(*map(Text, cells))
    console().print(table)
    count = sum(each["records"] for each in found)
    say(f"{counted(count, 'record')} of {counted(len(found), 'task or network', 'tasks and networks')}")


def _cost(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.0f}" if unit == "cycles" else f"{value:.6g} {unit}"
