"""Reading ONNX files, and checking them before anything else looks."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.limits import (
    MAX_CALL_NESTING,
    MAX_NODES,
    MAX_ONNX_BYTES,
    MAX_RANK,
    check_limit,
    check_name,
    check_shape,
)
from vtakit.base.process import endings_noted
from vtakit.base.reading import read_bytes
from vtakit.compiler.frontend.errors import ModelError, OpenShapeError, OperatorSetError
from vtakit.compiler.frontend.onnx.external import check_external, fill_attributes, folder_of, without_data
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.frontend.onnx.tidied import tidied
from vtakit.compiler.graph.ir import TensorType

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

    name, folder, data, whole = "model", folder_of(model), b"", None
    if isinstance(model, str | Path):
        path = Path(model)
        name = path.stem
        data = read_bytes(path, "the model", MAX_ONNX_BYTES, error=ModelError)
        try:
            proto = onnx.ModelProto.FromString(data)
        except (DecodeError, ValueError, UnicodeDecodeError) as error:
            raise ModelError(f"{str(path)!r} is no ONNX model, or a damaged one: {_line(error)}") from None
        whole = proto
    elif isinstance(model, onnx.ModelProto):
        proto = model
        name = proto.graph.name or name
    else:
        cure = ": give its .model" if hasattr(model, "model") else ""
        raise ModelError(f"a model is a path or an onnx.ModelProto, got {type(model).__name__}{cure}")
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(f"{name!r} is no ONNX model: it has no {'operator set' if proto.HasField('graph') else 'graph'}")
    _check_declared(proto, name)
    proto = tidied(proto, name)
    files = check_external(proto, folder)
    try:
        if proto is whole and not files:
            checked: bytes | onnx.ModelProto = data  # which the checker would make of it again
        else:
            checked = without_data(proto) if files else proto
        if (len(checked) if isinstance(checked, bytes) else checked.ByteSize()) < _LARGEST_CHECKED_BYTES:
            onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, ValueError) as error:  # the latter where its own message is no text
        raise ModelError(f"the model {name!r} breaks ONNX's rules: {_line(error)}") from None
    fill_attributes(proto, folder)
    return proto, name, folder


def external_files(model: "str | Path | onnx.ModelProto") -> tuple[Path, ...]:
    """Return the files in which a model keeps data, each a regular one that holds what the model says.

    None of a model that cannot be read or is refused: `read_model` tells why.
    """
    load_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if isinstance(model, str | Path):
            proto = onnx.ModelProto.FromString(read_bytes(model, "the model", MAX_ONNX_BYTES, error=ModelError))
        else:
            proto = model
        return check_external(proto, folder_of(model))
    except (DecodeError, ValueError):  # a ModelError is one
        return ()


def _check_declared(proto: "onnx.ModelProto", name: str) -> None:
    """Raise ModelError or LimitError for a name that is no text or too long, too many nodes, or too deep a nesting."""
    functions = [_names_of_nodes(each.node, 0) for each in proto.functions]
    for word in chain(_names(proto.graph, 0), *functions):
        if not isinstance(word, str):
            raise ModelError(f"the model {name!r} has a name that is no UTF-8 text")
        check_name(word, f"in the model {name!r}, the name")
    check_limit(_count(proto), MAX_NODES, f"the number of nodes of the model {name!r}")


def _count(proto: "onnx.ModelProto") -> int:
    """Return the number of nodes of a model, those of its functions as often as they are called; 0 of one that calls itself.

    Raises LimitError if functions call functions too deep.
    """
    functions = {(each.domain, each.name): each.node for each in proto.functions}
    known: dict[tuple[str, str], int] = {}

    def count(nodes: "Iterable[onnx.NodeProto]", depth: int) -> int:
        check_limit(depth, MAX_CALL_NESTING, "the nesting of functions")
        total = 0
        for node in nodes:
            called = (node.domain, node.op_type)
            if called in functions and called not in known:
                known[called] = 0
                known[called] = count(functions[called], depth + 1)
            total += 1 + known.get(called, 0)
        return total
    return count(proto.graph.node, 0)


def _names(graph: "onnx.GraphProto", depth: int) -> Iterator[object]:
    """Yield every name in a graph; protobuf gives those that are no text as bytes."""
    check_limit(depth, MAX_CALL_NESTING, "the nesting of subgraphs")
    for tensor in graph.initializer:
        yield tensor.name
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    yield from _names_of_nodes(graph.node, depth)


def _names_of_nodes(nodes: "Iterable[onnx.NodeProto]", depth: int) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _names(inner, depth + 1)


def _line(error: BaseException) -> str:
    """Return an error's message on one line, cut to 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def opset_versions(proto: "onnx.ModelProto", name: str) -> dict[str, int]:
    """The version of each operator set that a model uses; ONNX's own is "".

    Raises OperatorSetError for a set that is older than 7, or newer than the onnx package knows.
    """
    import onnx

    found = {"" if each.domain == "ai.onnx" else each.domain: int(each.version) for each in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    version = found.get("", newest)
    if not OLDEST_OPSET <= version <= newest:
        cure = "convert it with onnx.version_converter" if version < OLDEST_OPSET else "install a newer onnx package"
        raise OperatorSetError(f"the model {name!r} uses opset {version}; vtakit reads {OLDEST_OPSET} to {newest}: {cure}")
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
        raise OpenShapeError(f"{what} is of the kind {kind!r}, which only a model that runs in stages takes")
    tensor = info.type.tensor_type
    element = kind_of(tensor.elem_type, what)
    check_limit(len(tensor.shape.dim), MAX_RANK, f"the rank of {what}")
    if not tensor.HasField("shape"):
        if given is None:
            raise OpenShapeError(f"{what} has no shape in the model: give it with shapes={{{info.name!r}: (…)}}")
        check_shape(tuple(given), what)
        return TensorType(tuple(given), element)
    dims: list[int | None] = [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    words = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    shown = f"[{', '.join(words)}]"
    if given is not None:
        fits = len(given) == len(dims) and all(dim in (None, size) for dim, size in zip(dims, given, strict=True))
        if not fits or min(given, default=0) < 0:
            raise ModelError(f"{what} has the shape {shown} in the model, which {list(given)} does not fit")
        check_shape(tuple(given), what)
        return TensorType(tuple(given), element)
    if dims and dims[0] is None:
        dims[0] = batch
    sizes = [size for size in dims if size is not None]
    if len(sizes) < len(dims):
        raise OpenShapeError(f"{what} has the symbolic shape {shown}: give it with shapes={{{info.name!r}: (…)}}")
    if min(sizes, default=0) < 0:
        raise ModelError(f"{what} has the shape {shown}: a size is at least 0")
    check_shape(sizes, what)
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
    """Return whether a value is a whole number, of any integer type."""
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
