"""The converters of all operators: importing this fills the table of `vtakit.compiler.frontend.torch.nodes`."""

from vtakit.compiler.frontend.torch.nodes import CONVERTERS
from vtakit.compiler.frontend.torch.operators import (
    activations,
    elementwise,
    indexing,
    layers,
    pools,
    quantized,
    recurrent,
    reduction,
    shape,
)

FAMILIES = (activations, elementwise, indexing, layers, pools, quantized, recurrent, reduction, shape)

__all__ = ["CONVERTERS", "FAMILIES"]
