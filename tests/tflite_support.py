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
_TYPES = {
    "bool": "BOOL", "complex64": "COMPLEX64", "float16": "FLOAT16", "float32": "FLOAT32", "int8": "INT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
}


@dataclass
class Made:
    """A model being made; tensors are numbers.

    names : that a signature gives to inputs and outputs
    ops   : operators that it has
    """

    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    operators: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
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

    def apply(
        self, op: str, inputs: Sequence[int], outputs: Sequence[int], cls: str = "", *, version: int = 1, **options: Any,
    ) -> None:
        """Add an operator; options of class `cls` have the names of the schema."""
        self.ops.add(op)
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
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
        if self.names:
            signature = schema.SignatureDefT()
            signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
            signature.inputs, signature.outputs = ([self._named(at) for at in each] for each in (self.inputs, self.outputs))
            model.signatureDefs = [signature]
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, self.codes, [graph], self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _named(self, at: int) -> Any:
        found = schema.TensorMapT()
        found.name, found.tensorIndex = self.names[at].encode(), at
        return found

    def save(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


def residual_network(numbers: np.random.Generator, *, size: int = 16) -> Made:
    """A network in int8: a convolution, a depthwise one, a residual, a mean and a dense layer."""
    made = Made()

    def conv(x: int, filters: int, depth: int, to: int, *, depthwise: bool = False, step: int = 1) -> int:
        shape = (1, 3, 3, filters) if depthwise else (filters, 3, 3, depth)
        scales = numbers.uniform(0.002, 0.004, filters)
        weight = made.constant(numbers.integers(-127, 128, shape), "int8", scale=scales, axis=3 if depthwise else 0)
        unit = scales * float(made.tensors[x].quantization.scale[0])
        bias = made.constant(np.rint(numbers.normal(0, 0.2, filters) / unit), "int32", scale=unit)
        y = made.tensor((1, to, to, filters), "int8", scale=0.05, zero=-5)
        cls = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        more = {"depthMultiplier": 1} if depthwise else {}
        made.apply("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, weight, bias], [y], cls, padding=0, strideW=step,
                   strideH=step, fusedActivationFunction=1, **more)
        return y

    x = made.input((1, size, size, 3), "int8", scale=0.02, zero=1, name="image:0")
    a = conv(x, 32, 3, size // 2, step=2)
    b = conv(conv(a, 32, 32, size // 2, depthwise=True), 32, 32, size // 2)
    total = made.tensor((1, size // 2, size // 2, 32), "int8", scale=0.08, zero=-10)
    made.apply("ADD", [a, b], [total], "AddOptions")
    mean = made.tensor((1, 32), "int8", scale=0.05, zero=-100)
    made.apply("MEAN", [total, made.constant([1, 2], "int32")], [mean], "ReducerOptions", keepDims=False)
    weight = made.constant(numbers.integers(-127, 128, (10, 32)), "int8", scale=0.003)
    bias = made.constant(numbers.integers(-500, 500, 10), "int32", scale=0.05 * 0.003)
    y = made.tensor((1, 10), "int8", scale=0.05, zero=3, name="scores:0")
    made.apply("FULLY_CONNECTED", [mean, weight, bias], [y], "FullyConnectedOptions")
    made.outputs = [y]
    made.names = {x: "image", y: "scores"}
    return made


def sparse_model() -> tuple[Made, Array]:
    """A dense layer whose weights are blocks of 1 x 4 in compressed sparse rows; and the weights."""
    dense, blocks = np.zeros((6, 8), np.float32), ((0, 0), (0, 1), (3, 1), (5, 0))
    for row, block in blocks:
        dense[row, 4 * block:4 * block + 4] = np.arange(1, 5) * (row + 1)
    made = Made()
    x = made.input((2, 8), name="x")
    weight = made.tensor((6, 8), data=np.concatenate([dense[row, 4 * block:4 * block + 4] for row, block in blocks]))
    sparsity = made.tensors[weight].sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap = np.array([0, 1, 2], np.int32), np.array([1], np.int32)
    sparsity.dimMetadata = [_dense_level(6), _sparse_level([0, 2, 2, 2, 3, 3, 4], [0, 1, 1, 0]), _dense_level(4)]
    wide = made.tensor((6, 8))
    made.apply("DENSIFY", [weight], [wide], "DensifyOptions")
    made.outputs = [made.tensor((2, 6), name="y")]
    made.apply("FULLY_CONNECTED", [x, wide, -1], made.outputs, "FullyConnectedOptions")
    return made, dense


def _dense_level(size: int) -> Any:
    level = schema.DimensionMetadataT()
    level.format, level.denseSize = 0, size
    return level


def _sparse_level(segments: list[int], indices: list[int]) -> Any:
    level = schema.DimensionMetadataT()
    level.format = 1
    for word, values in (("Segments", segments), ("Indices", indices)):
        vector = schema.Uint8VectorT()
        vector.values = np.array(values, np.uint8)
        setattr(level, f"array{word}", vector)
        setattr(level, f"array{word}Type", schema.SparseIndexVector.Uint8Vector)
    return level


def truth(data: bytes, inputs: Mapping[int, Array]) -> list[Array]:
    """Return the outputs of LiteRT's interpreter, without delegates; inputs by number of the tensor."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    there = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for detail in there.get_input_details():
        there.resize_tensor_input(detail["index"], inputs[detail["index"]].shape)
    there.allocate_tensors()
    for index, array in inputs.items():
        there.set_tensor(index, array)
    there.invoke()
    return [there.get_tensor(detail["index"]) for detail in there.get_output_details()]
