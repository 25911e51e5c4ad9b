"""Verdicts on changes of timing, and how they are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a change.

    programs    after how many of the fuzzing it was noticed; 0: after none
    difference  what differs first
    block       the registers that differ first, as the fuzzing names them
    expected    one of them is of the blocks that hold the change or are driven by it
    moves       it moves a cycle of some program
    """

    name: str
    file: str
    programs: int
    difference: str
    block: str
    expected: bool
    moves: bool


def told(verdict: Verdict) -> str:
    """Return a line."""
    if not verdict.moves:
        return f"moves nothing  {verdict.file}: {verdict.name}"
    if not verdict.programs:
        return f"MISSED  {verdict.file}: {verdict.name}; on a longer program {verdict.difference}"
    other = "" if verdict.expected else "  ANOTHER BLOCK"
    return f"after {verdict.programs}  {verdict.file}: {verdict.name}; {verdict.block or 'no block'}{other}"


def table(verdicts: Sequence[Verdict]) -> str:
    """Return a table by file."""
    rows = []
    for file in sorted({v.file for v in verdicts}):
        mine = [v for v in verdicts if v.file == file]
        moving = [v for v in mine if v.moves]
        after = sorted(v.programs for v in moving if v.programs)
        numbers = [len(mine), len(moving), len(after), sum(v.expected for v in moving)]
        rows.append(f"| {file} | {' | '.join(map(str, numbers))} | {', '.join(map(str, after))} |")
    head = ("file", "changes", "move a cycle", "noticed", "named", "after programs")
    return "\n".join([f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 2)}---|", *rows])


def summary(verdicts: Sequence[Verdict], programs: int) -> str:
    """Return the numbers in one sentence."""
    moving = [v for v in verdicts if v.moves]
    noticed = [v.programs for v in moving if v.programs]
    return (f"{len(verdicts)} changes, of which {len(moving)} move a cycle; {len(noticed)} are noticed within {programs} "
            f"programs, half of them within {median(noticed or [0]):.0f}, all within {max(noticed, default=0)}; "
            f"{sum(v.expected for v in moving)} are told with their block")
