"""Errors of GPUs and their driver."""

from vtakit.base.errors import VtakitError


class CudaError(VtakitError):
    """A GPU that does not exist or cannot do what was asked, or a failure of one."""
