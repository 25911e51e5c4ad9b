"""Data of ONNX models in files beside them: the type, place and size of a file are checked before it is opened to be read."""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.limits import check_name, check_shape
from vtakit.base.reading import memory_bytes, opened
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.kinds import kind_of

if TYPE_CHECKING:
    import onnx

_ANY_SIZE = 1 << 62  # of a file of which sections are read


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file that holds a tensor's elements."""

    path: Path
    offset: int
    length: int

    def read(self, what: str) -> bytes:
        """Return its bytes. Raises ModelError, which calls the tensor `what`, if the file has fewer or is no regular one."""
        with opened(self.path, f"the data of {what} in", _ANY_SIZE, error=ModelError, follow=False) as (stream, size):
            self.check(size, what)
            stream.seek(self.offset)
            return stream.read(self.length)

    def check(self, size: int, what: str) -> None:
        """Raise ModelError unless the section lies inside a file of so many bytes."""
        if self.offset + self.length > size:
            end = self.offset + self.length
            raise ModelError(f"the data of {what} end at byte {end:,} of {self.path.name!r}, which has {size:,}")


def is_external(tensor: "onnx.TensorProto") -> bool:
    """Return whether a tensor's elements are in another file."""
    return bool(tensor.data_location == tensor.EXTERNAL)


def section_of(tensor: "onnx.TensorProto", folder: str, what: str) -> Section:
    """Return where the elements of a tensor lie.

    folder : of the model

    Raises ModelError, which calls the tensor `what`, for a file outside the folder, numbers that are none, or a length other than
    the shape's.
    """
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    check_name(location, "the file name")
    if not location or "\0" in location:
        raise ModelError(f"{what} has its data in another file, which it does not name")
    path = _inside(folder, location, what)
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0:
        raise ModelError(f"{what} has the shape {list(shape)}: a size is at least 0")
    check_shape(shape, what)
    needed = math.prod(shape) * kind_of(tensor.data_type, what).bytes
    offset, length = _number(said.get("offset", "0"), "offset", what), _number(said.get("length", str(needed)), "length", what)
    if length != needed:
        raise ModelError(f"the data of {what} in {location!r} have {length:,} bytes, and its shape needs {needed:,}")
    return Section(path, offset, length)


def _inside(folder: str, location: str, what: str) -> Path:
    """Return the path of a file in a model's folder. Raises ModelError for a link, and for what is outside."""
    path = Path(folder) / location
    linked = path.is_symlink()
    try:
        inside = (path.parent == Path(folder) and not linked) or path.resolve().is_relative_to(Path(folder).resolve())
    except (OSError, RuntimeError):  # the latter for links in a circle
        inside = True
    if Path(location).is_absolute() or ".." in Path(location).parts or not inside:
        raise ModelError(f"the data of {what} are in {location!r}, outside the model's folder: put the file beside the model")
    if linked:
        raise ModelError(f"the data of {what} are in {location!r}, which is a symbolic link: put the file itself in its place")
    return path


def _number(text: str, key: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"the {key} of the data of {what} is {text!r:.40}, and must be a whole number, at least 0")
    return int(text)


def read_external(tensor: "onnx.TensorProto", folder: str, what: str) -> bytes:
    """Return the elements of a tensor that are in another file; see `section_of`."""
    return section_of(tensor, folder, what).read(what)


def check_external(proto: "onnx.ModelProto", folder: str) -> tuple[Path, ...]:
    """Return the files in which a model keeps data, each a regular one that holds what the model says.

    Raises ModelError, or LimitError, for the first tensor for which that does not hold.
    """
    sizes: dict[Path, int] = {}
    total = 0
    for tensor in tensors_of(proto):
        if is_external(tensor):
            what = f"tensor {tensor.name!r:.60}"
            section = section_of(tensor, folder, what)
            if section.path not in sizes:
                called = f"the data of {what} in"
                with opened(section.path, called, _ANY_SIZE, error=ModelError, follow=False) as (_, size):
                    sizes[section.path] = size
            section.check(sizes[section.path], what)
            total += section.length
    if total > memory_bytes():
        raise ModelError(f"the model's data in other files have {total:,} bytes; this machine has {memory_bytes():,} of memory")
    return tuple(sizes)


def without_data(proto: "onnx.ModelProto") -> "onnx.ModelProto":
    """Return a copy in which tensors that other files hold have no elements.

    ONNX's checker looks for such files by their names once more; the copy has it check everything else.
    """
    found = type(proto)()
    found.CopyFrom(proto)
    for tensor in tensors_of(found):
        if is_external(tensor):
            tensor.data_location = tensor.DEFAULT
            tensor.dims[:] = [0]
            del tensor.external_data[:]
    return found


def fill_attributes(proto: "onnx.ModelProto", folder: str) -> None:
    """Read the data of tensors that are attributes into the model; initializers are read one at a time, when they are needed."""
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        for tensor in _of_nodes(nodes):
            if is_external(tensor):
                tensor.raw_data = read_external(tensor, folder, f"tensor {tensor.name!r:.60}")
                tensor.data_location = tensor.DEFAULT
                del tensor.external_data[:]


def fill_data(proto: "onnx.ModelProto", folder: str) -> None:
    """Read the data of all tensors into the model."""
    for tensor in tensors_of(proto):
        if is_external(tensor):
            tensor.raw_data = read_external(tensor, folder, f"tensor {tensor.name!r:.60}")
            tensor.data_location = tensor.DEFAULT
            del tensor.external_data[:]


def tensors_of(proto: "onnx.ModelProto") -> "Iterator[onnx.TensorProto]":
    """Yield every tensor of a model: initializers and attributes, those of subgraphs and functions too."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: "onnx.GraphProto") -> "Iterator[onnx.TensorProto]":
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: "Iterable[onnx.NodeProto]") -> "Iterator[onnx.TensorProto]":
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from _of_graph(graph)


def folder_of(model: "str | Path | os.PathLike[str] | onnx.ModelProto") -> str:
    """Return the folder of a model's data; that of the process for a model in memory."""
    return str(Path(model).parent) if isinstance(model, str | os.PathLike) else ""
