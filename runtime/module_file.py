"""The module file (.vtak).

    8 bytes  magic, made so that a text-mode transfer breaks it
    u32      file version · u32 header bytes · u64 payload bytes      (little-endian)
    header   JSON: vtakit's version, target, inputs, outputs, values between, parts, sizes, source
    payload  graph text; the blobs of each part, as its kind has them: object code and parameters, or a program file; then the
             graph that the model was compiled from, if it is there (`compiler.graph.stored`)
    32 bytes SHA-256 of everything before
    signature, if there is one (`trailer`)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import vtakit
from vtakit.base.container import PREFIX, Hash, unpacked
from vtakit.base.container import pieces as container_pieces
from vtakit.base.errors import VtakitError
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES, check_name, check_shape
from vtakit.base.writing import write_pieces
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer, Left
from vtakit.compiler.graph.stored import ELEMENTS
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.fields import number, text, texts
from vtakit.runtime.source import Blob, Source, read_options
from vtakit.runtime.target import Image, Part, Target
from vtakit.runtime.targets import find_class
from vtakit.runtime.trailer import unsigned

MAGIC = b"\x89VTAK\r\n\x1a"
FILE_VERSION = 6
OPEN_MAGIC = b"\x89VTAO\r\n\x1a"  # of modules whose sizes stay open (`vtakit.runtime.stages.file`)
OPEN_FILE_VERSION = 1
_PORTS = ("inputs", "outputs", "between")


class PackageError(VtakitError, ValueError):
    """A module file that is damaged, or made by or for something else."""


def save(image: Image, path: str | Path, *, graph: bool = True) -> None:
    """Write a module file, whole or not at all.

    graph : whether to include the graph that the module was compiled from
    """
    write_pieces(path, pieces(image, graph=graph), "module file")


def dump(image: Image, *, graph: bool = True) -> bytes:
    """Return the bytes of a module file; see `save`."""
    return b"".join([bytes(piece) for piece in pieces(image, graph=graph)])


def pieces(image: Image, *, graph: bool = True, digest: Hash | None = None) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a module file piece by piece, each valid until the next; see `save`.

    digest : is updated with each piece
    """
    parts: list[dict[str, Any]] = []
    blobs: list[bytes | memoryview] = [image.graph.encode()]
    for part in image.parts:
        entry, own = part.dump()
        parts.append(entry | {
            "kind": part.kind, "reads": part.reads, "writes": part.writes, "sizes": [len(blob) for blob in own],
            "layers": [[each.kernel, each.ops, each.names, each.bytes, each.macs] for each in part.layers],
        })
        blobs += own
    source, blob = None, Blob.of([])
    if graph and image.source is not None:
        blob = image.source.blob
        source = asdict(image.source.options) | {"size": blob.size, "sha256": blob.digest.hex()}
    header = {
        "vtakit": vtakit.__version__,
        "name": image.name,
        "target": {"name": image.target.name, **image.target.to_dict()},
        **{kind: [_port(port) for port in getattr(image, kind)] for kind in _PORTS},
        "graph": len(blobs[0]), "left": image.left, "said": image.said, "parts": parts, "source": source,
    }
    size = sum(map(len, blobs)) + blob.size
    return container_pieces(MAGIC, FILE_VERSION, header, chain(blobs, blob.pieces()), size, digest)


def _port(port: Port) -> list[Any]:
    return [port.name, list(port.shape), str(port.dtype)]


def parse(data: bytes, where: str, file: int = -1) -> Image:
    """Read a module file's bytes.

    where : the file in messages
    file  : the open file, from which the graph is read when it is needed; else it is kept in memory

    Raises PackageError for anything that `dump` does not write.
    """
    header, payload = _checked(data, where)
    with consistent(where):
        if header["vtakit"] != vtakit.__version__:
            raise PackageError(f"{where} was made by vtakit {header['vtakit']!s:.20}; this is vtakit {vtakit.__version__}: "
                               "compile the model again, or load it with recompile=True (--recompile)")
        return _Reader(header, payload, where, file).image()


def check_file(data: bytes, where: str) -> None:
    """Raise PackageError unless the bytes are an undamaged module file, that of a module with open sizes included."""
    if data.startswith(OPEN_MAGIC):
        unpacked(unsigned(data), where, "module", OPEN_MAGIC, (OPEN_FILE_VERSION,), PackageError)
    else:
        _checked(data, where)


def parse_source(data: bytes, where: str, file: int = -1) -> tuple[str, Target, Source]:
    """Return a module's name, target and source, without reading its code. Raises PackageError."""
    header, payload = _checked(data, where)
    with consistent(where):
        if header["source"] is None:
            raise PackageError(f"{where} has no graph to build the code from: it was saved with graph=False (--no-graph)")
        reader = _Reader(header, payload, where, file)
        reader.at = len(payload) - number(header["source"]["size"], len(payload) + 1)
        found = reader.source()
        assert found is not None
        return text(header["name"]), reader.target(), found


def _checked(data: bytes, where: str) -> tuple[Mapping[str, Any], memoryview]:
    """Return header and payload of a file whose checksum is right."""
    if data[:len(OPEN_MAGIC)] == OPEN_MAGIC:
        raise PackageError(f"{where} is a model with open sizes, which has no one image: `vtakit run`, `vtakit report` and "
                           "vtakit.load take it; compile the model with --shape (shapes=) for one set of sizes")
    head, payload = unpacked(unsigned(data), where, "module", MAGIC, (FILE_VERSION,), PackageError)
    with consistent(where):
        header = read_json(head, most_bytes=MAX_JSON_BYTES, what="its header")
        if not isinstance(header, dict):
            raise PackageError(f"{where} is inconsistent: its header is no JSON object")
    return header, payload


@contextmanager
def consistent(where: str) -> Iterator[None]:
    """Turn errors about a header's contents into a PackageError."""
    try:
        yield
    except PackageError:
        raise
    except VtakitError as error:
        raise PackageError(f"{where} is inconsistent: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise PackageError(f"{where} is inconsistent: {type(error).__name__} in its header: {error}") from None


class _Reader:
    """Reads an image from header and payload, and checks that its parts agree."""

    def __init__(self, header: Mapping[str, Any], payload: memoryview, where: str, file: int) -> None:
        self.header, self.payload, self.where, self.file = header, payload, where, file
        self.begin = PREFIX.size + PREFIX.unpack_from(payload.obj)[2]  # of the payload in the file
        self.at = 0

    def image(self) -> Image:
        target = self.target()
        inputs, outputs, between = (tuple(map(_port_of, self.header[kind])) for kind in _PORTS)
        values = (*inputs, *outputs, *between)
        graph = bytes(self._take(self.header["graph"])).decode()
        kinds = target.part_kinds
        parts = tuple([self._part(entry, kinds, values) for entry in self.header["parts"]])
        source = self.source()
        if self.at != len(self.payload):
            self._wrong(f"{len(self.payload) - self.at} bytes of its payload belong to nothing")
        self._check_order(parts, len(inputs), values)
        left = tuple([Left(*texts((op, name, reason))) for op, name, reason in self.header["left"]])
        name, said = text(self.header["name"]), text(self.header["said"])
        if not (name.isidentifier() and name.isascii()):
            self._wrong(f"the name {name!r:.40} is none in C")
        check_name(name, "the module's name")
        image = Image(name, target, inputs, outputs, between, parts, graph, left, said, source)
        target.check_image(image)
        return image

    def target(self) -> Target:
        """Return the target."""
        found = self.header["target"]
        return find_class(text(found["name"])).from_dict(found)

    def source(self) -> Source | None:
        """Return the graph in the next bytes of the payload; None if there is none."""
        found = self.header["source"]
        if found is None:
            return None
        begin = self.begin + self.at
        data, digest = self._take(found["size"]), bytes.fromhex(found["sha256"])  # compared when it is read
        if self.file < 0:
            return Source(Blob(len(data), digest, bytes(data), trusted=False), read_options(found))
        blob = Blob.section(self.file, begin, len(data), digest)
        return Source(blob, read_options(found))

    def _part(self, entry: Mapping[str, Any], kinds: Mapping[str, type[Part]], values: tuple[Port, ...]) -> Part:
        reads, writes = (tuple([number(at, len(values)) for at in entry[kind]]) for kind in ("reads", "writes"))
        layers = tuple([
            Layer(int(kernel), texts(ops), texts(names), number(size), number(macs))
            for kernel, ops, names, size, macs in entry["layers"]
        ])
        kind = text(entry["kind"])
        if kind not in kinds:
            self._wrong(f"a part of kind {kind!r:.40}")
        blobs = [self._take(size) for size in entry["sizes"]]
        return kinds[kind].parse(entry, blobs, values, reads=reads, writes=writes, layers=layers)

    def _take(self, size: Any) -> memoryview:
        first, self.at = self.at, self.at + number(size)
        if self.at > len(self.payload):
            self._wrong(f"its header asks for {self.at} bytes of a payload of {len(self.payload)}")
        return self.payload[first:self.at]

    def _check_order(self, parts: tuple[Part, ...], inputs: int, values: tuple[Port, ...]) -> None:
        """Check that every value is computed once, before it is read."""
        known = set(range(inputs))
        for part in parts:
            if not known.issuperset(part.reads):
                self._wrong(f"a part reads the value {values[min(set(part.reads) - known)].name!r} before any makes it")
            if len(set(part.writes)) < len(part.writes) or not known.isdisjoint(part.writes):
                self._wrong("two parts make one value")
            known |= set(part.writes)
        if len(known) < len(values):
            self._wrong(f"no part makes the value {values[min(set(range(len(values))) - known)].name!r}")

    def _wrong(self, what: str) -> NoReturn:
        raise PackageError(f"{self.where} is inconsistent: {what}")


def _port_of(given: Any) -> Port:
    name, shape, element = given
    check_name(text(name), "the value")
    sizes = tuple(map(number, shape))
    check_shape(sizes, f"the value {name!r}")
    kind = dtype(text(element))
    if kind.lanes != 1 or str(kind) not in ELEMENTS:
        raise ValueError(f"{element!r:.40} is no element type of a value")
    return Port(name, sizes, kind)
