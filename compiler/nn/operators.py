"""Every operator, by name: importing this module fills the table of `vtakit.compiler.nn.registry`."""

from vtakit.base.errors import one_of
from vtakit.compiler.nn.conv import bit_serial, blocked, blocked_transposed, conv, half, packed_bytes, transposed, winograd
from vtakit.compiler.nn.elements import broadcasting, elementwise
from vtakit.compiler.nn.moves import indexing, matching, packed, phases, regions, resize, sampling, shape
from vtakit.compiler.nn.numbers import integer, quantize, random
from vtakit.compiler.nn.product import byte_panels, determinant, einsum, matmul, panels, signal
from vtakit.compiler.nn.recurrent import recurrent, recurrent_panels
from vtakit.compiler.nn.reduction import loss, normalize, pool, reduction, running
from vtakit.compiler.nn.registry import OPERATORS, Kind, Operator, OperatorError

FAMILIES = (
    bit_serial, blocked, blocked_transposed, broadcasting, byte_panels, conv, determinant, einsum, elementwise, half, indexing,
    integer, loss, matching, matmul, normalize, packed, packed_bytes, panels, phases, pool, quantize, random, recurrent,
    recurrent_panels, reduction, regions, resize, running, sampling, shape, signal, transposed, winograd,
)

__all__ = ["FAMILIES", "OPERATORS", "Kind", "Operator", "OperatorError", "find"]


def find(name: str) -> Operator:
    """The operator of a name. Raises OperatorError with what comes nearest for an unknown one."""
    if name not in OPERATORS:
        raise OperatorError(f"{name!r} is no operator: {one_of(tuple(OPERATORS), name)}")
    return OPERATORS[name]
