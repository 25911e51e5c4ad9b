"""The default schedule of a group of operators."""

from collections.abc import Sequence

from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.tensor import Tensor


def schedule(outputs: Sequence[Tensor]) -> Schedule:
    """A schedule of all that is needed for the outputs, whatever operators they are made of."""
    return create_schedule([tensor.op for tensor in outputs])
