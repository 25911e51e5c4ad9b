"""`hw.store.walk.Walk`: indices of ACC, and which reads are the first and the last of a window."""

from typing import Any

from vtakit.sim.cycle.state import record

WALK = record("at", "edge", "double", "above", "left", "pitch", "line", "origin", "row_origin",
              "rows_left", "columns_left", "lacks_row", "lacks_column")


def begin_instruction(s: Any, at: Any, edge: Any, double: Any, above: Any, left: Any, pitch: Any) -> None:
    """Take an instruction; a STORE's windows, with `edge` 0, begin at once."""
    s.at = s.line = s.origin = s.row_origin = at
    s.edge, s.double, s.above, s.left, s.pitch = edge, double, above, left, pitch
    s.rows_left = s.columns_left = s.lacks_row = s.lacks_column = 0


def begin_windows(s: Any, place: Any) -> None:
    """Go to the first window, behind parameters and table."""
    s.at = s.line = s.origin = s.row_origin = place + (s.pitch if s.above else 0) + s.left
    s.rows_left, s.columns_left = s.edge - s.above, s.edge - s.left
    s.lacks_row, s.lacks_column = s.above, s.left


def is_last(s: Any) -> Any:
    """Return whether the element is the last of its window."""
    return s.rows_left == 0 and s.columns_left == 0


def next_in_windows(s: Any, again: Any, row_ends: Any) -> None:
    """Go to the next element of the window or, behind its last one, to the same or the next window."""
    if s.columns_left:
        s.columns_left -= 1
        s.at += 1
        return
    s.columns_left = s.edge - s.lacks_column
    if s.rows_left:
        s.rows_left -= 1
        s.line += s.pitch
        s.at = s.line
        return
    s.rows_left = s.edge - s.lacks_row
    if again:
        s.at = s.origin
    elif row_ends:
        s.at = s.row_origin + ((1 + s.double) - s.lacks_row) * s.pitch
        s.row_origin = s.at
        s.lacks_row, s.rows_left = 0, s.edge
        s.lacks_column, s.columns_left = s.left, s.edge - s.left
    else:
        s.at = s.origin + 1 + s.double - s.lacks_column
        s.lacks_column, s.columns_left = 0, s.edge
    s.line = s.origin = s.at
