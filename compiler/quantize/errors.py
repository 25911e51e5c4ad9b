"""Errors in a model or in its calibration data."""

from vtakit.base.errors import VtakitError


class QuantizeError(VtakitError, ValueError):
    """A model that cannot be quantized, or arrays or options that do not fit it."""
