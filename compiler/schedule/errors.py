"""The error of a schedule primitive that cannot be applied."""

from vtakit.base.errors import VtakitError


class ScheduleError(VtakitError, ValueError):
    """A schedule that cannot be; the message shows the loops with the culprit marked."""
