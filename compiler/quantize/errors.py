"""What can be wrong with a model or with what it is calibrated on."""

from vtakit.base.errors import VtakitError


class QuantizeError(VtakitError, ValueError):
    """A model that cannot be quantized, or arrays or options that do not fit it."""
