"""The error of a schedule primitive that cannot be applied: what was asked, what is true, the loops with a mark, a cure."""

from vtakit.hw.isa.errors import VtakitError


class ScheduleError(VtakitError, ValueError):
    """A schedule that cannot be; the message shows the loops with the culprit marked."""
