"""Tables and figures in pages of documentation, between two marks."""

from pathlib import Path


def write_between(page: Path, begin: str, text: str, end: str) -> None:
    """Put text between two marks of a page, in place of what is there. Ends the script, and writes nothing, without the marks."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ends, after = rest.partition(end)
    if not found or not ends:
        raise SystemExit(f"{page} has no place for the figures: {begin.strip()} and then {end.strip()}")
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
