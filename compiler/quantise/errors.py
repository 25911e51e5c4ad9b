"""What can be wrong with a model or with what it is calibrated on."""

from vtakit.base.errors import VtakitError


class QuantiseError(VtakitError, ValueError):
    """A model that cannot be quantised, or arrays or options that do not fit it."""
