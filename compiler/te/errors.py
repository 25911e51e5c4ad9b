"""The error of a tensor expression that cannot be built."""

from vtakit.base.errors import VtakitError


class ExpressionError(VtakitError, ValueError):
    """A tensor expression that has no meaning; the message says what was asked, what is true and what would work."""
