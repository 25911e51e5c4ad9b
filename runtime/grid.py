"""A table's text, which the terminal and the HTML page show each in its way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text.

    rows   : each with a cell for each column
    labels : how many columns, from the left, are words; the others are numbers
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1

    def table(self) -> "Table":
        """For a rich console."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.labels else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.{2 if value < 10 else 1}f}"


def named(grids: Sequence[Grid], title: str) -> Grid:
    """The grid with that title."""
    return next(grid for grid in grids if grid.title == title)
