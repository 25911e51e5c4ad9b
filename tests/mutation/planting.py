"""Changes of `timing_changes` in one circuit: each is there only while the pin `mutant` holds its number."""

import ast
import re
from collections import defaultdict
from collections.abc import Sequence

from mutation.sites import HELPER, Site
from mutation.timing_changes import CHANGES, Change

_WORDS = {"either(": f"{HELPER}.either({{n}}, ", "later(": f"{HELPER}.later(m, ", "planted": f"{HELPER}.planted({{n}})",
          "Const(": f"{HELPER}.Const("}
_PATTERN = re.compile(r"\b(either\(|later\(|planted\b|Const\()")


def rewrite(source: str, file: str, first: int) -> tuple[ast.Module, list[Site]]:
    """Return a module with all its changes, and the changes; their numbers are their places in `CHANGES`, from 1 on."""
    mine = [(number, each) for number, each in enumerate(CHANGES, start=1) if each.file == file]
    spans: dict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
    for number, each in mine:
        for there, instead in each.edits:
            spans[_place(source, file, there)].append((number, instead))
    text, ends = "", 0
    for (start, end), edits in sorted(spans.items()):
        assert start >= ends, f"{file}: changes overlap at {source[start:end]!r}"
        text += source[ends:start] + _written(source[start:end], edits)
        ends = end
    sites = [_site(source, number, each) for number, each in mine]
    return ast.parse(text + source[ends:]), sites


def _place(source: str, file: str, there: str) -> tuple[int, int]:
    assert source.count(there) == 1, f"{file} holds {source.count(there)} times {there!r}"
    start = source.index(there)
    return start, start + len(there)


def _written(there: str, edits: Sequence[tuple[int, str]]) -> str:
    """Return what stands in the place of a text; several changes of one text are expressions."""
    if len(edits) == 1 and re.search(r"\b(either\(|planted\b)", edits[0][1]):
        return _in_words(*edits[0])
    changed = there
    for number, instead in edits:
        changed = f"{HELPER}.either({number}, {changed}, {_in_words(number, instead)})"
    return changed


def _in_words(number: int, text: str) -> str:
    return _PATTERN.sub(lambda found: _WORDS[found[1]].format(n=number), text)


def _site(source: str, number: int, change: Change) -> Site:
    there, instead = change.edits[0]
    line = source[: source.index(there)].count("\n") + 1
    return Site(number=number, file=change.file, line=line, nth=1, kind="timing", before=there, after=instead)
