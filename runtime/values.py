"""Intermediate values of an ONNX model, run on samples."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from vtakit.compiler.quantize.samples import Samples
from vtakit.runtime.model import compile

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]


def fixed(proto: "onnx.ModelProto", samples: Samples) -> "onnx.ModelProto":
    """Return a copy of the model with the input shapes of one run."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for info in copy.graph.input:
        shape = (samples.batch, *samples.arrays[info.name].shape[1:])
        for dim, size in zip(info.type.tensor_type.shape.dim, shape, strict=True):
            dim.dim_value = size
    inputs = {info.name: info for info in copy.graph.input}
    for info in copy.graph.output:  # the sizes that follow from them
        if info.name in inputs:
            info.CopyFrom(inputs[info.name])
        else:
            info.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    return copy


def shapes_of(proto: "onnx.ModelProto") -> dict[str, tuple[int, ...]]:
    """Return the shapes of all float32 values that ONNX's shape inference finds."""
    from onnx import TensorProto, shape_inference

    graph = shape_inference.infer_shapes(proto, data_prop=True).graph
    found = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        dims = [int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
        if tensor.elem_type == TensorProto.FLOAT and tensor.HasField("shape") and min(dims, default=1) > 0:
            found[info.name] = tuple(dims)
    return found


class Values:
    """A compiled model with the named values as its outputs."""

    def __init__(self, proto: "onnx.ModelProto", names: Iterable[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
        from onnx import TensorProto, helper

        copy = type(proto)()
        copy.CopyFrom(proto)
        inputs = {info.name for info in copy.graph.input}
        made = [name for name in dict.fromkeys(names) if name not in inputs]
        del copy.graph.output[:]
        copy.graph.output.extend([helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in made])
        self._module = compile(copy)

    def runs(self, samples: Samples) -> Iterator[dict[str, Array]]:
        """Yield the inputs and values of each run."""
        for sample in samples:
            yield sample | self._module.run(sample)
