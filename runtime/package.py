"""The module file (.vtak).

    8 bytes  magic, made so that a text-mode transfer breaks it
    u32      file version · u32 header bytes · u64 payload bytes      (little-endian)
    header   JSON: vtakit's version, target, inputs, outputs, values between, parts, sizes, source
    payload  graph text; for each part its object code and parameters, or its program file; then the graph that it was compiled
             from, if it is there (`compiler.graph.stored`)
    32 bytes SHA-256 of everything before
    signature, if there is one (`signing`)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import vtakit
from vtakit.compiler.codegen.llvm.network import Port
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.graph.stored import ELEMENTS
from vtakit.compiler.graph.vta.place import Left
from vtakit.compiler.ir.dtypes import dtype
from vtakit.hw.isa import file as program_file
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import PREFIX, packed, unpacked, write_bytes
from vtakit.hw.isa.jsons import read_json
from vtakit.hw.isa.limits import MAX_JSON_BYTES, check_name, check_shape
from vtakit.hw.isa.program import BufferKind
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.image import CpuPart, Image, Part, VtaPart
from vtakit.runtime.signing import unsigned
from vtakit.runtime.source import Blob, Source, read_source

MAGIC = b"\x89VTAK\r\n\x1a"
FILE_VERSION = 4
_MOST_BYTES = 1 << 48  # of memory that any machine could give
_PORTS = ("inputs", "outputs", "between")


class PackageError(VtakitError, ValueError):
    """A module file that is damaged, or made by or for something else."""


def save(image: Image, path: str | Path, *, graph: bool = True) -> None:
    """Write a module file, whole or not at all.

    graph : whether to include the graph that the module was compiled from
    """
    write_bytes(path, dump(image, graph=graph), "module file")


def dump(image: Image, *, graph: bool = True) -> bytes:
    """Return the bytes of a module file; see `save`."""
    t = image.target
    parts, blobs = [], [image.graph.encode()]
    for part in image.parts:
        entry: dict[str, Any] = {"reads": part.reads, "writes": part.writes}
        entry["layers"] = [[each.kernel, each.ops, each.names, each.bytes, each.macs] for each in part.layers]
        if isinstance(part, CpuPart):
            entry |= {"kind": "cpu", "symbols": part.symbols, "outside": part.outside, "messages": part.messages,
                      "arena": part.arena_bytes, "live": part.live_bytes}
            own = [part.code, part.params.tobytes()]
        else:
            entry |= {"kind": "vta", "inputs": part.inputs, "outputs": part.outputs}
            own = [program_file.dump(part.program)]
        parts.append(entry | {"sizes": [len(blob) for blob in own]})
        blobs += own
    source: dict[str, Any] | None = None
    if graph and image.source is not None:
        blob = image.source.blob
        source = image.source.options() | {"size": blob.size, "sha256": blob.digest.hex()}
        blobs.append(blob.read())
    header = {
        "vtakit": vtakit.__version__,
        "name": image.name,
        "target": {
            "triple": t.triple, "cpu": t.cpu, "features": list(t.features), "contract": t.contract, "threads": t.threads,
        },
        **{kind: [_port(port) for port in getattr(image, kind)] for kind in _PORTS},
        "graph": len(blobs[0]), "left": image.left, "said": image.said, "parts": parts, "source": source,
    }
    return packed(MAGIC, FILE_VERSION, header, blobs)


def _port(port: Port) -> list[Any]:
    return [port.name, list(port.shape), str(port.dtype)]


def parse(data: bytes, where: str, file: int = -1) -> Image:
    """Read a module file's bytes.

    where : the file in messages
    file  : the open file, from which the graph is read when it is needed; else it is kept in memory

    Raises PackageError for anything that `dump` does not write.
    """
    header, payload = _checked(data, where)
    with _consistent(where):
        if header["vtakit"] != vtakit.__version__:
            raise PackageError(f"{where} was made by vtakit {header['vtakit']!s:.20}; this is vtakit {vtakit.__version__}: "
                               "compile the model again, or load it with recompile=True (--recompile)")
        return _Reader(header, payload, where, file).image()


def check_file(data: bytes, where: str) -> None:
    """Raise PackageError unless the bytes are an undamaged module file."""
    _checked(data, where)


def parse_source(data: bytes, where: str, file: int = -1) -> tuple[str, Source]:
    """Return a module's name and source, without reading its machine code. Raises PackageError."""
    header, payload = _checked(data, where)
    with _consistent(where):
        if header["source"] is None:
            raise PackageError(f"{where} has no graph to build the code from: it was saved with graph=False (--no-graph)")
        reader = _Reader(header, payload, where, file)
        reader.at = len(payload) - _number(header["source"]["size"], len(payload) + 1)
        found = reader.source()
        assert found is not None
        return _text(header["name"]), found


def _checked(data: bytes, where: str) -> tuple[Mapping[str, Any], memoryview]:
    """Return header and payload of a file whose checksum is right."""
    head, payload = unpacked(unsigned(data), where, "module", MAGIC, (FILE_VERSION,), PackageError)
    with _consistent(where):
        header = read_json(head, most_bytes=MAX_JSON_BYTES, what="its header")
        if not isinstance(header, dict):
            raise PackageError(f"{where} is inconsistent: its header is no JSON object")
    return header, payload


@contextmanager
def _consistent(where: str) -> Iterator[None]:
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
        t = self.header["target"]
        target = Target(
            _text(t["triple"]), _text(t["cpu"]), tuple(map(_text, t["features"])), bool(t["contract"]), bool(t["threads"])
        )
        inputs, outputs, between = (tuple(map(_port_of, self.header[kind])) for kind in _PORTS)
        values = (*inputs, *outputs, *between)
        graph = bytes(self._take(self.header["graph"])).decode()
        parts = tuple([self._part(entry, values) for entry in self.header["parts"]])
        source = self.source()
        if self.at != len(self.payload):
            self._wrong(f"{len(self.payload) - self.at} bytes of its payload belong to nothing")
        self._check_order(parts, len(inputs), values)
        left = tuple([Left(*map(_text, (op, name, reason))) for op, name, reason in self.header["left"]])
        name, said = _text(self.header["name"]), _text(self.header["said"])
        if not (name.isidentifier() and name.isascii()):
            self._wrong(f"the name {name!r:.40} is none in C")
        return Image(name, target, inputs, outputs, between, parts, graph, left, said, source)

    def source(self) -> Source | None:
        """Return the graph in the next bytes of the payload; None if there is none."""
        found = self.header["source"]
        if found is None:
            return None
        begin = self.begin + self.at
        data, digest = self._take(found["size"]), bytes.fromhex(found["sha256"])  # compared when it is read
        blob = Blob(len(data), digest, bytes(data)) if self.file < 0 else Blob.section(self.file, begin, len(data), digest)
        return read_source(found, blob)

    def _part(self, entry: Mapping[str, Any], values: tuple[Port, ...]) -> Part:
        reads, writes = (tuple([_number(at, len(values)) for at in entry[kind]]) for kind in ("reads", "writes"))
        layers = tuple([
            Layer(int(kernel), tuple(map(_text, ops)), tuple(map(_text, names)), _number(size), _number(macs))
            for kernel, ops, names, size, macs in entry["layers"]
        ])
        if entry["kind"] == "vta":
            (size,) = entry["sizes"]
            program = program_file.parse(bytes(self._take(size)), "its program")
            inputs, outputs = (tuple(map(_text, entry[kind])) for kind in ("inputs", "outputs"))
            found = VtaPart(
                reads=reads, writes=writes, program=program, inputs=inputs, outputs=outputs, layers=layers
            )
            self._check_buffers(found, values)
            return found
        if entry["kind"] != "cpu":
            self._wrong(f"a part of kind {entry['kind']!r:.40}")
        code_size, params_size = entry["sizes"]
        code, given = bytes(self._take(code_size)), self._take(params_size)
        params = reserve(len(given))
        params[...] = np.frombuffer(given, np.uint8)
        entry_name, step_name, manifest = map(_text, entry["symbols"])
        return CpuPart(
            reads=reads, writes=writes, code=code, symbols=(entry_name, step_name, manifest),
            outside=tuple(map(_text, entry["outside"])),
            messages=tuple(map(_text, entry["messages"])), layers=layers, params=params, arena_bytes=_number(entry["arena"]),
            live_bytes=_number(entry["live"]),
        )

    def _take(self, size: Any) -> memoryview:
        first, self.at = self.at, self.at + _number(size)
        if self.at > len(self.payload):
            self._wrong(f"its header asks for {self.at} bytes of a payload of {len(self.payload)}")
        return self.payload[first:self.at]

    def _check_buffers(self, part: VtaPart, values: tuple[Port, ...]) -> None:
        """Check that the program's inputs and outputs are those of the part, with the values' sizes."""
        for kind, names, numbers in (
            (BufferKind.INPUT, part.inputs, part.reads), (BufferKind.OUTPUT, part.outputs, part.writes),
        ):
            sizes = {buffer.name: buffer.size_bytes for buffer in part.program.buffers if buffer.kind is kind}
            if sizes != dict(zip(names, [values[at].bytes for at in numbers], strict=True)) or len(set(names)) < len(names):
                self._wrong(f"the {kind} buffers of a program are not the values of its part")

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


def _number(given: Any, end: int = _MOST_BYTES) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < end:
        raise ValueError(f"{given!r:.40} is no number from 0 to {end - 1}")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.40} is no text")
    given.encode()  # half a surrogate pair, which JSON can write, is a ValueError
    return given


def _port_of(given: Any) -> Port:
    name, shape, element = given
    check_name(_text(name), "the value")
    sizes = tuple(map(_number, shape))
    check_shape(sizes, f"the value {name!r}")
    kind = dtype(_text(element))
    if kind.lanes != 1 or str(kind) not in ELEMENTS:
        raise ValueError(f"{element!r:.40} is no element type of a value")
    return Port(name, sizes, kind)
