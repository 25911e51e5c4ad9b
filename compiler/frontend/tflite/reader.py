"""TensorFlow Lite files (.tflite), read and checked before anything else looks.

The schema is that of the package `tflite`, made of TensorFlow's own. Source: tensorflow/lite/schema/schema.fbs.
"""

import struct
from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.base.limits import MAX_NODES, check_limit, check_name, check_shape
from vtakit.base.reading import memory_bytes, read_bytes
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.tflite.model import Model, Operator, Tensor
from vtakit.compiler.frontend.tflite.sparse import places
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.ir.dtypes import DType, dtype

SUFFIX = ".tflite"
_MARK = b"TFL3"  # behind the first four bytes
_KINDS = {  # of tensors, by the names of the schema
    "BOOL": "bool", "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "BFLOAT16": "bfloat16",
}
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError, MemoryError)


def read_model(path: str | Path) -> Model:
    """Read a .tflite file.

    Raises ModelError for one that cannot be read or is damaged, LimitError for one that declares too much.
    """
    where = f"{str(path)!r}"
    data = read_bytes(path, "the model", error=ModelError)
    if data[4:8] != _MARK:
        raise ModelError(f"{where} is no TensorFlow Lite model: bytes 4 to 7 are {data[4:8]!r}, and must be {_MARK!r}")
    import tflite  # only who reads such a model waits for it

    try:
        return _Reader(data, tflite, Path(path).stem).model()
    except VtakitError as error:
        raise type(error)(f"{where} is refused: {error}") from None
    except _DAMAGE as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"{where} is a damaged TensorFlow Lite model: {why}") from None


class _Reader:
    def __init__(self, data: bytes, schema: Any, name: str) -> None:
        self.data, self.schema, self.name = data, schema, name
        self.root = schema.Model.GetRootAs(data, 0)

    def model(self) -> Model:
        root, where = self.root, f"the model {self.name!r}"
        if not root.SubgraphsLength():
            raise ModelError(f"{where} has no subgraph")
        main = root.Subgraphs(0)
        tensors = tuple([self._tensor(each, at) for at, each in enumerate(self._items(main, "Tensors"))])
        check_limit(main.OperatorsLength(), MAX_NODES, f"the number of nodes of {where}")
        operators = tuple([self._operator(each, len(tensors)) for each in self._items(main, "Operators")])
        inputs, outputs = (self._numbers(main, word, len(tensors)) for word in ("Inputs", "Outputs"))
        called = self._signature()
        return Model(self.name, tensors, operators, *(
            tuple(zip(_different([called.get((word, at), tensors[at].name) for at in numbers]), numbers, strict=True))
            for word, numbers in (("Inputs", inputs), ("Outputs", outputs))))

    def _items(self, table: Any, word: str) -> Iterator[Any]:
        """Yield the tables of a vector, each of which takes at least four bytes of the file."""
        count = getattr(table, f"{word}Length")()
        if count * 4 > len(self.data):
            raise ModelError(f"the model {self.name!r} says that it has {count:,} {word.lower()}, more than the file holds")
        get = getattr(table, word)
        return (get(at) for at in range(count))

    def _numbers(self, table: Any, word: str, most: int, *, optional: bool = False) -> tuple[int, ...]:
        """The numbers of tensors in a vector."""
        if getattr(table, f"{word}IsNone")():
            return ()
        found = tuple(map(int, getattr(table, f"{word}AsNumpy")()))
        for at in found:
            if not (-1 if optional else 0) <= at < most:
                raise ModelError(f"the model {self.name!r} names tensor {at}; its main subgraph has {most}")
        return found

    def _tensor(self, tensor: Any, at: int) -> Tensor:
        name = _text(tensor.Name()) or f"tensor{at}"
        check_name(name, f"in the model {self.name!r}, the name")
        what = f"tensor {name!r} of the model {self.name!r}"
        shape = () if tensor.ShapeIsNone() else tuple(map(int, tensor.ShapeAsNumpy()))
        said = shape if tensor.ShapeSignatureIsNone() else tuple(map(int, tensor.ShapeSignatureAsNumpy()))
        is_open = tuple([axis for axis, size in enumerate(said) if size < 0]) if len(said) == len(shape) else ()
        if min(shape, default=0) < 0:
            raise ModelError(f"{what} has the shape {list(shape)}: a size is at least 0")
        check_shape(shape, what)
        type_name = self._type_name(tensor.Type())
        kind = dtype(_KINDS[type_name]) if type_name in _KINDS else None
        array = None if tensor.IsVariable() else self._constant(tensor, shape, type_name, kind, what)
        if array is not None and type_name == "INT4":
            kind = dtype("int8")
        scales, zeros, axis = self._quantization(tensor.Quantization(), shape, what)
        if kind is not None and kind.is_int and zeros.size and not kind.min <= zeros.min() <= zeros.max() <= kind.max:
            raise ModelError(f"{what} has a zero point that {kind} does not hold")
        return Tensor(name, shape, is_open, type_name, kind, array, scales, zeros, axis)

    def _type_name(self, number: int) -> str:
        return _names(self.schema.TensorType).get(number, f"number {number}")

    def _constant(
        self, tensor: Any, shape: tuple[int, ...], type_name: str, kind: DType | None, what: str,
    ) -> Array | None:
        """The elements of a constant; None for a tensor that the model computes, or of elements that are not read."""
        held, count = self._buffer(tensor.Buffer(), what), prod(shape)
        if kind is not None and not count:
            return np.zeros(shape, numpy_dtype(kind))
        if held is None or (kind is None and type_name != "INT4"):
            return None
        if tensor.Sparsity() is not None:
            if kind is None:
                raise ModelError(f"{what} is sparse and of INT4, which vtakit does not read")
            return self._densified(held, tensor.Sparsity(), shape, kind, what)
        needed = -(-count // 2) if kind is None else count * kind.bytes
        if len(held) != needed:
            raise ModelError(f"{what} has {len(held):,} bytes of data; {type_name}{list(shape)} takes {needed:,}")
        if kind is None:  # two numbers a byte, the first in the low half
            halves = np.stack([held << 4, held], -1).view(np.int8) >> 4
            return np.ascontiguousarray(halves.reshape(-1)[:count]).reshape(shape)
        return np.frombuffer(held.tobytes(), numpy_dtype(kind)).reshape(shape)

    def _densified(
        self, held: npt.NDArray[np.uint8], sparsity: Any, shape: tuple[int, ...], kind: DType, what: str,
    ) -> Array:
        check_limit(prod(shape) * kind.bytes, memory_bytes(), f"the size of {what}", " bytes")
        where = places(sparsity, shape, self.schema, what)
        if len(held) != where[0].size * kind.bytes:
            raise ModelError(f"{what} has {len(held):,} bytes of data for {where[0].size:,} places")
        array = np.zeros(shape, numpy_dtype(kind))
        array[where] = np.frombuffer(held.tobytes(), array.dtype)
        return array

    def _buffer(self, at: int, what: str) -> npt.NDArray[np.uint8] | None:
        """The bytes of a buffer, in the file or behind the schema's part of it; None of an empty one."""
        if not at:  # by the schema the empty one
            return None
        if at >= self.root.BuffersLength():
            raise ModelError(f"{what} names buffer {at}; the model has {self.root.BuffersLength()}")
        buffer = self.root.Buffers(at)
        offset, size = (getattr(buffer, word)() if hasattr(buffer, word) else 0 for word in ("Offset", "Size"))
        if offset > 1:
            if offset + size > len(self.data):
                raise ModelError(f"{what} has its data at byte {offset:,}; the file ends before")
            return np.frombuffer(self.data, np.uint8, size, offset)
        found = buffer.DataAsNumpy()
        return found if isinstance(found, np.ndarray) and found.size else None

    def _quantization(
        self, given: Any, shape: tuple[int, ...], what: str,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], int]:
        none, axis = np.zeros(0, np.float32), 0
        if given is None or not given.ScaleLength():
            return none, none.astype(np.int64), axis
        if given.DetailsType():
            raise ModelError(f"{what} is quantized in another way than by scales and zero points, which vtakit does not read")
        scales = np.array(given.ScaleAsNumpy(), np.float32)
        zeros = np.array(given.ZeroPointAsNumpy(), np.int64) if given.ZeroPointLength() else np.zeros(scales.size, np.int64)
        axis = given.QuantizedDimension()
        if zeros.size == 1:
            zeros = np.repeat(zeros, scales.size)
        if zeros.size != scales.size:
            raise ModelError(f"{what} has {scales.size} scales and {zeros.size} zero points")
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise ModelError(f"{what} has a scale that is not above 0 and finite")
        if scales.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scales.size):
            raise ModelError(f"{what} of the shape {list(shape)} has {scales.size} scales along dimension {axis}")
        return scales, zeros, axis

    def _operator(self, op: Any, tensors: int) -> Operator:
        at = op.OpcodeIndex()
        if not 0 <= at < self.root.OperatorCodesLength():
            raise ModelError(f"the model {self.name!r} names operator code {at}; it has {self.root.OperatorCodesLength()}")
        code = self.root.OperatorCodes(at)
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = _names(self.schema.BuiltinOperator).get(number, f"operator number {number}")
        if name == "CUSTOM":
            name = f"custom operator {_text(code.CustomCode())}"
        return Operator(name, self._numbers(op, "Inputs", tensors, optional=True), self._numbers(op, "Outputs", tensors),
                        self._options(op))

    def _options(self, op: Any) -> Callable[[str], Any]:
        table, schema = op.BuiltinOptions(), self.schema

        def options(cls: str) -> Any:
            found = getattr(schema, cls)()
            if table is None:  # all options have their defaults
                empty = _empty_table()
                found.Init(*empty)
            else:
                found.Init(table.Bytes, table.Pos)
            return found
        return options

    def _signature(self) -> dict[tuple[str, int], str]:
        """The names that the model's one signature gives to inputs and outputs."""
        found: dict[tuple[str, int], str] = {}
        if self.root.SignatureDefsLength() == 1:
            signature = self.root.SignatureDefs(0)
            for word in ("Inputs", "Outputs"):
                for each in self._items(signature, word):
                    name = _text(each.Name())
                    check_name(name, f"in the model {self.name!r}, the name")
                    found[word, each.TensorIndex()] = name
        return found


@cache
def _names(enumeration: type) -> dict[int, str]:
    """Number -> name of an enumeration of the schema; of two names of one number the first."""
    found: dict[int, str] = {}
    for name, number in vars(enumeration).items():
        if isinstance(number, int):
            found.setdefault(number, name)
    return found


@cache
def _empty_table() -> tuple[bytes, int]:
    """Bytes with a table without fields, and where it lies."""
    import flatbuffers

    builder = flatbuffers.Builder(16)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    data = bytes(builder.Output())
    return data, struct.unpack_from("<I", data)[0]


def _text(given: bytes | None) -> str:
    return (given or b"").decode(errors="replace")


def _different(names: list[str]) -> list[str]:
    """Return names of which none is there twice: a number is added to the later ones."""
    found: list[str] = []
    for name in names:
        count, new = 1, name
        while new in found:
            count += 1
            new = f"{name}_{count}"
        found.append(new)
    return found
