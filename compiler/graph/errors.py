"""Errors in a graph."""

from vtakit.base.errors import VtakitError


class GraphError(VtakitError, ValueError):
    """A graph that has no meaning, or cannot be compiled."""
