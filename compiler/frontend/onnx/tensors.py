"""ONNX's tensors as arrays."""

from typing import TYPE_CHECKING

import numpy as np

from vtakit.base.limits import check_shape
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.external import read_external
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array

if TYPE_CHECKING:
    import onnx


def array_of(tensor: "onnx.TensorProto", what: str, folder: str = "") -> Array:
    """Return a tensor's elements.

    folder : of the model, for elements in another file

    Raises ModelError, which calls the tensor `what`, for elements that are missing, damaged or of an unknown type.
    """
    from onnx import numpy_helper

    kind = kind_of(tensor.data_type, what)
    check_shape(tuple(tensor.dims), what)
    if tensor.data_location == tensor.EXTERNAL:
        return np.frombuffer(read_external(tensor, folder, what), numpy_dtype(kind)).reshape(tuple(tensor.dims))
    try:
        found = numpy_helper.to_array(tensor)
    except Exception as error:  # onnx raises what its code happens to meet, from struct.error to AttributeError
        raise ModelError(f"{what} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from None
    return np.ascontiguousarray(found).reshape(found.shape)
