"""Reading ONNX files, and checking them before anything else looks."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.tensors import kind_of
from vtakit.compiler.graph.ir import TensorType
from vtakit.hw.isa.process import endings_noted

if TYPE_CHECKING:
    import onnx

OLDEST_OPSET = 7
_LARGEST_CHECKED_BYTES = 1 << 31  # protobuf writes no larger message, and the checker writes the model


def load_onnx() -> None:
    """Import the onnx package; what asks this process to end meanwhile acts behind that.

    Its machine code sets itself up by calling Python, and takes the process down where that raises something, as Ctrl-C does.
    """
    if "onnx" not in sys.modules:
        with endings_noted():
            import_module("onnx")


def read_model(model: "str | Path | onnx.ModelProto") -> tuple["onnx.ModelProto", str, str]:
    """A model with its name and the folder of its external data.

    Raises ModelError if the file cannot be read, is no ONNX model, or breaks a rule of the format.
    """
    load_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    name, folder = "model", ""
    if isinstance(model, str | Path):
        path = Path(model)
        name, folder = path.stem, str(path.parent)
        try:
            proto = onnx.load(path, load_external_data=False)
        except OSError as error:
            raise ModelError(f"cannot read the model {str(path)!r}: {error.strerror or error}") from None
        except (DecodeError, ValueError, UnicodeDecodeError) as error:
            raise ModelError(f"{str(path)!r} is no ONNX model, or a damaged one: {_line(error)}") from None
    elif isinstance(model, onnx.ModelProto):
        proto = model
        name = proto.graph.name or name
    else:
        raise ModelError(f"a model is a path or an onnx.ModelProto, got {type(model).__name__}")
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(f"{name!r} is no ONNX model: it has no {'operator set' if proto.HasField('graph') else 'graph'}")
    if not all(isinstance(word, str) for word in _names(proto.graph)):
        raise ModelError(f"the model {name!r} has a name that is no UTF-8 text")
    try:
        if isinstance(model, str | Path):
            onnx.checker.check_model(str(model))  # the path says where external data is
        elif proto.ByteSize() < _LARGEST_CHECKED_BYTES:
            onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError) as error:  # the latter where its own message is no text
        raise ModelError(f"the model {name!r} breaks ONNX's rules: {_line(error)}") from None
    return proto, name, folder


def external_files(model: "str | Path | onnx.ModelProto") -> tuple[Path, ...]:
    """The files in which a model keeps data; none of what cannot be read, which `read_model` tells."""
    load_onnx()
    import onnx
    from google.protobuf.message import DecodeError
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    folder = Path(model).parent if isinstance(model, str | Path) else Path()
    try:
        proto = onnx.load(model, load_external_data=False) if isinstance(model, str | Path) else model
    except (OSError, DecodeError, ValueError):
        return ()
    tensors = [*_tensors(proto.graph), *(each for function in proto.functions for each in _tensors_of(function.node))]
    found = dict.fromkeys(ExternalDataInfo(tensor).location for tensor in tensors if uses_external_data(tensor))
    return tuple([folder / location for location in found])


def _tensors(graph: "onnx.GraphProto") -> "Iterator[onnx.TensorProto]":
    yield from graph.initializer
    yield from _tensors_of(graph.node)


def _tensors_of(nodes: "Iterable[onnx.NodeProto]") -> "Iterator[onnx.TensorProto]":
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors(graph)


def _names(graph: "onnx.GraphProto") -> Iterator[object]:
    """Every name in a graph; protobuf gives those that are no text as bytes."""
    for tensor in graph.initializer:
        yield tensor.name
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _names(attribute.g)


def _line(error: BaseException) -> str:
    """What an error says, on one line and not too long."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def opset_versions(proto: "onnx.ModelProto", name: str) -> dict[str, int]:
    """The version of each operator set that a model uses; ONNX's own is "".

    Raises ModelError for a set that is older than 7, or newer than the onnx package knows.
    """
    import onnx

    found = {"" if each.domain == "ai.onnx" else each.domain: int(each.version) for each in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    version = found.get("", newest)
    if not OLDEST_OPSET <= version <= newest:
        cure = "convert it with onnx.version_converter" if version < OLDEST_OPSET else "install a newer onnx package"
        raise ModelError(f"the model {name!r} uses opset {version}; vtakit reads {OLDEST_OPSET} to {newest}: {cure}")
    return found


def input_type(info: "onnx.ValueInfoProto", given: Sequence[int] | None, batch: int) -> TensorType:
    """The type of a model's input, its symbolic sizes fixed.

    given : its shape, if the caller says it
    batch : a first dimension that is symbolic

    Raises ModelError for what is no tensor, for a shape that does not fit the model's, and for sizes that stay unknown.
    """
    what = f"input {info.name!r}"
    if not info.type.HasField("tensor_type"):
        kind = (info.type.WhichOneof("value") or "value without a type").removesuffix("_type").replace("_", " ")
        raise ModelError(f"{what} is of the kind {kind!r}; vtakit's inputs are tensors")
    tensor = info.type.tensor_type
    element = kind_of(tensor.elem_type, what)
    if not tensor.HasField("shape"):
        if given is None:
            raise ModelError(f"{what} has no shape in the model: give it with shapes={{{info.name!r}: (…)}}")
        return TensorType(tuple(given), element)
    dims: list[int | None] = [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    words = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    shown = f"[{', '.join(words)}]"
    if given is not None:
        fits = len(given) == len(dims) and all(dim in (None, size) for dim, size in zip(dims, given, strict=True))
        if not fits or min(given, default=0) < 0:
            raise ModelError(f"{what} has the shape {shown} in the model, which {list(given)} does not fit")
        return TensorType(tuple(given), element)
    if dims and dims[0] is None:
        dims[0] = batch
    sizes = [size for size in dims if size is not None]
    if len(sizes) < len(dims):
        raise ModelError(f"{what} has the symbolic shape {shown}: give it with shapes={{{info.name!r}: (…)}}")
    if min(sizes, default=0) < 0:
        raise ModelError(f"{what} has the shape {shown}: a size is at least 0")
    return TensorType(tuple(sizes), element)


def check_output(info: "onnx.ValueInfoProto", made: TensorType, *, exact: bool) -> None:
    """Compare what a model says of an output with what it makes.

    exact : whether sizes count too; those of a model whose inputs have open sizes often are the exporter's

    Raises ModelError for another element type or shape.
    """
    if not info.type.HasField("tensor_type"):
        return
    tensor = info.type.tensor_type
    what = f"output {info.name!r}"
    if tensor.elem_type and kind_of(tensor.elem_type, what) is not made.dtype:
        raise ModelError(f"{what} is {kind_of(tensor.elem_type, what)} in the model, whose nodes make {made.dtype}")
    if exact and tensor.HasField("shape"):
        said = [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        if len(said) != len(made.shape) or any(a not in (None, b) for a, b in zip(said, made.shape, strict=True)):
            shown = ", ".join("?" if size is None else str(size) for size in said)
            raise ModelError(f"{what} has the shape [{shown}] in the model, whose nodes make {list(made.shape)}")


def is_size(given: object) -> bool:
    """Whether it is a whole number, of whatever integer type."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def as_shapes(shapes: Mapping[str, Any] | None, known: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The caller's shapes by input. Raises ModelError for a name that is no input, and what is no shape."""
    found = {}
    for name, shape in (shapes or {}).items():
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise ModelError(f"shapes names {name!r}, which is no input of the model: it has {listed}")
        sizes = None if isinstance(shape, str | bytes) or not isinstance(shape, Iterable) else list(shape)
        if sizes is None or not all(map(is_size, sizes)):
            raise ModelError(f"the shape of {name!r} is {shape!r}: give a sequence of whole numbers")
        found[name] = tuple([int(size) for size in sizes])
    return found
