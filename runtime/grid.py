"""Tables of text, for a terminal and for an HTML page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtakit.base.text import one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

UNKNOWN = "–"
LABEL_WIDTH = 24  # columns of a layer's name in a table; longer names wrap
_BETWEEN = 3  # columns between two columns of a table


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text. A table wider than the console is split by columns; each part repeats the labels, and no number wraps.

    Control characters in cells are escaped, since names come from files.

    rows   : one cell for each column
    labels : number of columns, from the left, that are words; the others are numbers
    notes  : sentences below the table
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple([tuple(map(one_line, row)) for row in self.rows]))

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich import box
        from rich.table import Table
        from rich.text import Text

        numbers = [max(len(row[at]) for row in self.rows) for at in range(len(self.columns))]
        least = [max(number, *map(len, column.split())) for number, column in zip(numbers, self.columns, strict=True)]
        least[:self.labels] = [min(width, LABEL_WIDTH) for width in least[:self.labels]]
        wanted = [max(number, len(column)) for number, column in zip(numbers, self.columns, strict=True)]
        labels, most = [*range(self.labels)], options.max_width + 1
        pages = [labels.copy()]
        for at in range(self.labels, len(self.columns)):
            if len(pages[-1]) > self.labels and sum(least[i] + _BETWEEN for i in [*pages[-1], at]) > most:
                pages.append(labels.copy())
            pages[-1].append(at)
        for number, page in enumerate(pages):
            title = f"{self.title}, continued" if number else self.title
            table = Table(title=Text(one_line(title), "bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
            left = most - sum(least[at] + _BETWEEN for at in page)
            for at in page:
                more = max(0, min(wanted[at] - least[at], left))
                left -= more
                table.add_column(self.columns[at], justify="left" if at < self.labels else "right", overflow="fold",
                                 width=least[at] + more)
            for row in self.rows:
                table.add_row(*[Text(row[at]) for at in page])
            yield table
        for note in self.notes:
            yield Text(f"{note}\n")


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.{2 if value < 10 else 1}f}"


def named(grids: Sequence[Grid], title: str) -> Grid:
    """Return the grid with that title."""
    return next(grid for grid in grids if grid.title == title)
