"""Results of the mutation tool, on the terminal and as the page docs/mutation.md."""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mutation.sites import Site
from rich.console import Console
from rich.table import Table

REASONS = Path(__file__).with_name("reasons.toml")
KINDS = {
    "equivalent": "nothing that a program, a host or the bus can see differs, on any configuration",
    "speed": "only time or area differs, and no cycle count that is kept shows it",
    "configuration": "differs only on a configuration or bus other than the mutated one",
    "elsewhere": "killed by a test that this tool does not run",
    "depth": "differs only after more cycles or instructions, or in a rarer coincidence, than the suite has",
    "hole": "a test was missing; it has been added since",
}


def show(console: Console, result: Mapping[str, Any]) -> None:
    """A table by file, and the rate."""
    table = Table("file", "mutants", "killed", "alive")
    for file, (mutants, killed) in by_file(result).items():
        table.add_row(file, str(mutants), str(killed), str(mutants - killed))
    console.print(table)
    console.print(summary(result))


def tell(console: Console, site: Site) -> None:
    """One survivor."""
    console.print(f"alive {site.number} {site.file}:{site.line}  {site.before}  ->  {site.after}", markup=False, soft_wrap=True)


def summary(result: Mapping[str, Any]) -> str:
    """The rate in one sentence."""
    total, killed = len(result["verdicts"]), sum(bool(v["killer"]) for v in result["verdicts"])
    return f"{killed} of {total} mutants killed, {killed / max(1, total):.1%}, in {result['seconds']} s"


def by_file(result: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Mutants and killed ones of each file."""
    mutants = Counter(v["site"]["file"] for v in result["verdicts"])
    killed = Counter(v["site"]["file"] for v in result["verdicts"] if v["killer"])
    return {file: (mutants[file], killed[file]) for file in sorted(mutants)}


def survivors(result: Mapping[str, Any]) -> list[Site]:
    """The mutants that no check killed."""
    return [Site(**v["site"]) for v in result["verdicts"] if not v["killer"]]


def page(result: Mapping[str, Any], reasons: Mapping[str, Mapping[str, str]]) -> str:
    """docs/mutation.md: how it was run, the rates, and every survivor with its reason."""
    alive = survivors(result)
    missing = [site.key for site in alive if site.key not in reasons]
    if missing:
        raise SystemExit("\n".join([f"{REASONS.name} lacks a reason for:", *missing]))
    kinds = Counter(reasons[site.key]["kind"] for site in alive)
    lines = [
        "# Mutation check of the RTL's tests", "",
        f"{summary(result)}.", "",
        f"Date {result['date']}, commit {result['commit']}, configuration `tiny`, 64-bit bus. hw/ has {result['sites']}",
        f"changes to make; {result['applied']} of them change hardware in this configuration, the others numbers of Python. Of",
        f"those, {len(result['verdicts'])} were run, in random order.",
        f"Each mutant meets {result['checks']} checks, the fastest first, up to the first that fails: the tests of the RTL that",
        "this configuration can run (tests/mutation/suite.py).", *([result["note"]] if "note" in result else []), "",
        f"    {result['command']}", "    python tests/mutation/run.py --page FILE   # writes this page from those results", "",
        "| file | mutants | killed | alive |", "|---|---:|---:|---:|",
        *(f"| {file} | {n} | {killed} | {n - killed} |" for file, (n, killed) in by_file(result).items()), "",
        "## Survivors", "", "| kind | number | meaning |", "|---|---:|---|",
        *(f"| {kind} | {kinds[kind]} | {meaning} |" for kind, meaning in KINDS.items() if kinds[kind]), "",
        "| where | change | kind | why |", "|---|---|---|---|",
        *(_row(site, reasons[site.key]) for site in alive),
    ]
    return "\n".join(lines) + "\n"


def _row(site: Site, reason: Mapping[str, str]) -> str:
    change = f"`{site.before}` → `{site.after}`".replace("|", "\\|")
    return f"| {site.file}:{site.line} | {change} | {reason['kind']} | {reason['why']} |"


def load_reasons(path: Path = REASONS) -> dict[str, dict[str, str]]:
    """Why mutants live, by `Site.key`; several mutants may share a reason."""
    found = {}
    for entry in tomllib.loads(path.read_text())["reason"]:
        assert entry["kind"] in KINDS, entry
        found |= {key: {"kind": entry["kind"], "why": entry["why"]} for key in entry["mutants"]}
    return found


def write(path: Path) -> None:
    """Write the page of the results in `path`."""
    to = Path(__file__).parents[2] / "docs" / "mutation.md"
    to.write_text(page(json.loads(path.read_text()), load_reasons()), encoding="utf-8")
