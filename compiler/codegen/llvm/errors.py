"""Errors of the code generator."""

from vtakit.base.errors import VtakitError


class CodegenError(VtakitError):
    """A function that cannot become machine code for the target: what was asked, what is true, and what would work."""
