"""The source of a module: the graph as it was imported, and the options, from which its code can be built anew."""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.compiler.graph.decisions import read_decisions
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.stored import graph_pieces, load_graph
from vtakit.compiler.schedule.decisions import DecisionError

_IN_MEMORY_BYTES = 1 << 20  # a larger graph lies in a file without a name
_PIECE_BYTES = 1 << 20  # that are read at a time


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

    def __init__(
        self, size: int, digest: bytes, data: bytes | None, file: int = -1, offset: int = 0, *, trusted: bool,
    ) -> None:
        self.size, self.digest, self._data, self._file, self._offset, self._trusted = size, digest, data, file, offset, trusted
        if file >= 0:
            weakref.finalize(self, os.close, file)

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of it that are in memory."""
        return 0 if self._data is None else len(self._data)

    @classmethod
    def of(cls, pieces: Sequence[bytes | memoryview]) -> "Blob":
        """Return a blob of these pieces. Large ones lie in a file without a name, deleted with the blob."""
        size, digest = sum(map(len, pieces)), hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        if size > _IN_MEMORY_BYTES:
            with suppress(OSError), tempfile.TemporaryFile() as file:  # no room there
                file.writelines(pieces)
                file.flush()
                return cls(size, digest.digest(), None, os.dup(file.fileno()), trusted=True)
        return cls(size, digest.digest(), b"".join(pieces), trusted=True)

    @classmethod
    def section(cls, file: int, offset: int, size: int, digest: bytes) -> "Blob":
        """Return a section of an open file as a blob."""
        return cls(size, digest, None, os.dup(file), offset, trusted=False)

    def read(self) -> bytes:
        """Return the bytes. Raises SourceError if the file has changed."""
        return b"".join([bytes(piece) for piece in self.pieces()])

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes piece by piece, each valid until the next. Raises SourceError, at their end, if the file has changed.

        A file without a name is not compared: nobody else can change it.
        """
        digest = hashlib.sha256()
        for piece in self._stored() if self._data is None else [self._data]:
            if not self._trusted:
                digest.update(piece)
            yield piece
        if not self._trusted and digest.digest() != self.digest:
            raise SourceError("the module's graph cannot be read: its file has changed since it was loaded; save it with "
                              "graph=False")

    def _stored(self) -> Iterator[memoryview]:
        place = memoryview(bytearray(min(_PIECE_BYTES, self.size)))
        at, end = self._offset, self._offset + self.size
        while at < end:
            count = os.preadv(self._file, [place[:end - at]], at)
            if not count:
                break
            yield place[:count]
            at += count


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
        pieces = graph_pieces(graph)
    except GraphError:  # the model compiles; its module has no graph to build from
        return None
    return Source(Blob.of(pieces), options)


def read_options(header: Mapping[str, Any]) -> Options:
    """Return the options that a header describes. Raises SourceError for values of other types."""
    options = Options(**{each.name: header[each.name] for each in fields(Options)})
    if not (isinstance(options.integer, bool) and isinstance(options.winograd, bool) and isinstance(options.precision, str)):
        raise SourceError("the options of its graph have other types: integer and winograd are booleans, precision is a name")
    try:
        return replace(options, decisions=read_decisions(options.decisions))
    except DecisionError as error:
        raise SourceError(str(error)) from None
