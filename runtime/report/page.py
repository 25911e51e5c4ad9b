"""Pages of reports: one HTML file that needs nothing else, with tables, bars and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import vtakit
from vtakit.base.writing import write_bytes
from vtakit.runtime.grid import Grid

_TEMPLATE = "page.html.j2"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: sentences, then a picture, then a table, each if it is given.

    picture : an element of HTML, such as <svg>; it is taken as it is
    """

    title: str
    text: str = ""
    picture: str = ""
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A report to be read in a browser.

    facts : names and values that stand at the top
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    def beginning_with(self, *sections: Section) -> "Page":
        """The page with sections before its own."""
        return Page(self.title, self.facts, (*sections, *self.sections))

    def __str__(self) -> str:
        """The page's HTML. A cell of a table that is a percentage gets a bar; all text is escaped."""
        environment = Environment(
            loader=PackageLoader("vtakit.runtime.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"bar": bar, "markup": Markup}
        return environment.get_template(_TEMPLATE).render(page=self, version=vtakit.__version__)

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_bytes(path, str(self).encode(), "the report")


def bar(cell: str) -> float | None:
    """The length of a cell's bar in percent; None of a cell that is no percentage."""
    if not cell.endswith("%"):
        return None
    try:
        return min(100.0, max(0.0, float(cell[:-1])))
    except ValueError:
        return None


def facts(*pairs: tuple[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Those facts that are known."""
    return tuple([(name, value) for name, value in pairs if value is not None])


def numbered(grid: Grid, layers: Sequence[object]) -> Grid:
    """With a first column that numbers the rows of layers, as pictures do; what follows them, such as sums, has no number."""
    rows = [(str(at) if at <= len(layers) else "", *row) for at, row in enumerate(grid.rows, 1)]
    return Grid(grid.title, ("", *grid.columns), tuple(rows), grid.labels + 1, grid.notes)
