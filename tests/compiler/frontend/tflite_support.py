"""TensorFlow Lite models made by the schema of LiteRT, and its interpreter as the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert is not installed")

Array = npt.NDArray[Any]
_TYPES = {"bool": "BOOL", "float16": "FLOAT16", "float32": "FLOAT32", "int8": "INT8", "int16": "INT16", "int32": "INT32",
          "int64": "INT64", "uint8": "UINT8"}


@dataclass
class Made:
    """A model being made; tensors are numbers.

    kinds : element type of each
    """

    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    operators: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self, shape: Sequence[int], kind: str = "float32", *, scale: Any = None, zero: Any = 0, axis: int = 0,
        data: Array | None = None, name: str = "", signature: Sequence[int] | None = None,
    ) -> int:
        """A tensor; `data` are the elements of a constant."""
        tensor = schema.TensorT()
        tensor.name = (name or f"t{len(self.tensors)}").encode()
        tensor.shape, tensor.type = np.array(shape, np.int32), getattr(schema.TensorType, _TYPES[kind])
        if signature is not None:
            tensor.shapeSignature = np.array(signature, np.int32)
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.array(scale, np.float32))
            tensor.quantization.zeroPoint = np.broadcast_to(np.array(zero, np.int64), tensor.quantization.scale.shape).copy()
            tensor.quantization.quantizedDimension = axis
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data.astype(kind)).tobytes(), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, data: Any, kind: str, **options: Any) -> int:
        array = np.array(data, kind)
        return self.tensor(array.shape, kind, data=array, **options)

    def input(self, *args: Any, **options: Any) -> int:
        self.inputs.append(self.tensor(*args, **options))
        return self.inputs[-1]

    def apply(self, op: str, inputs: Sequence[int], outputs: Sequence[int], cls: str = "", **options: Any) -> None:
        """Add an operator; options of class `cls` have the names of the schema."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        self.codes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = len(self.codes) - 1, np.array(inputs, np.int32), np.array(outputs, np.int32)
        if cls:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, cls)
            made.builtinOptions = getattr(schema, f"{cls}T")()
            for name, value in options.items():
                assert hasattr(made.builtinOptions, name), name
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def bytes(self) -> bytes:
        """The model as a file has it."""
        import flatbuffers

        model, graph = schema.ModelT(), schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = np.array(self.inputs, np.int32), np.array(self.outputs, np.int32)
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, self.codes, [graph], self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def save(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


def truth(data: bytes, inputs: Mapping[int, Array]) -> list[Array]:
    """What LiteRT's interpreter makes of a model, without delegates; inputs by number of the tensor."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    there = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for detail in there.get_input_details():
        there.resize_tensor_input(detail["index"], inputs[detail["index"]].shape)
    there.allocate_tensors()
    for index, array in inputs.items():
        there.set_tensor(index, array)
    there.invoke()
    return [there.get_tensor(detail["index"]) for detail in there.get_output_details()]
