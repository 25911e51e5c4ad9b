"""The source of a module: the graph as it was imported, and the options, from which its code can be built anew."""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.compiler.graph.decisions import read_decisions
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.stored import dump_graph, load_graph
from vtakit.compiler.schedule.decisions import DecisionError

_IN_MEMORY_BYTES = 1 << 20  # a larger graph lies in a file without a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of compilation, whatever the target; see `vtakit.compile`.

    decisions : layer -> name -> value, as `read_decisions` returns them
    """

    integer: bool = True
    winograd: bool = True
    precision: str = "float32"
    decisions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class SourceError(VtakitError, ValueError):
    """A module file's graph that is missing, damaged or changed."""


class Blob:
    """Bytes in memory, or a section of an open file that is read when it is needed.

    size   : in bytes
    digest : SHA-256
    """

    def __init__(self, size: int, digest: bytes, data: bytes | None, file: int = -1, offset: int = 0) -> None:
        self.size, self.digest, self._data, self._file, self._offset = size, digest, data, file, offset
        if file >= 0:
            weakref.finalize(self, os.close, file)

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of it that are in memory."""
        return 0 if self._data is None else len(self._data)

    @classmethod
    def of(cls, data: bytes) -> "Blob":
        """Return a blob of these bytes. Large ones lie in a file without a name, deleted with the blob."""
        digest = hashlib.sha256(data).digest()
        if len(data) <= _IN_MEMORY_BYTES:
            return cls(len(data), digest, data)
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) or 0:]
                return cls(len(data), digest, None, os.dup(file.fileno()))
        except OSError:  # no room there
            return cls(len(data), digest, data)

    @classmethod
    def section(cls, file: int, offset: int, size: int, digest: bytes) -> "Blob":
        """Return a section of an open file as a blob."""
        return cls(size, digest, None, os.dup(file), offset)

    def read(self) -> bytes:
        """Return the bytes. Raises SourceError if the file has changed."""
        found = self._stored() if self._data is None else self._data
        if hashlib.sha256(found).digest() != self.digest:
            raise SourceError("the module's graph cannot be read: its file has changed since it was loaded; save it with "
                              "graph=False")
        return found

    def _stored(self) -> bytes:
        parts, at = [], self._offset
        while at < self._offset + self.size:
            part = os.pread(self._file, self._offset + self.size - at, at)
            if not part:
                break
            parts.append(part)
            at += len(part)
        return b"".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A graph before any pass, and the options of its compilation.

    blob : the graph, as `dump_graph` writes it
    """

    blob: Blob
    options: Options

    @property
    def graph(self) -> Graph:
        """The graph, read and checked anew."""
        return load_graph(self.blob.read())


def source_of(graph: Graph, options: Options) -> Source | None:
    """Return the source of a module; None for an attribute that a file does not describe."""
    try:
        data = dump_graph(graph)
    except GraphError:  # the model compiles; its module has no graph to build from
        return None
    return Source(Blob.of(data), options)


def read_options(header: Mapping[str, Any]) -> Options:
    """Return the options that a header describes. Raises SourceError for values of other types."""
    options = Options(**{each.name: header[each.name] for each in fields(Options)})
    if not (isinstance(options.integer, bool) and isinstance(options.winograd, bool) and isinstance(options.precision, str)):
        raise SourceError("the options of its graph have other types: integer and winograd are booleans, precision is a name")
    try:
        return replace(options, decisions=read_decisions(options.decisions))
    except DecisionError as error:
        raise SourceError(str(error)) from None
