"""The module file (.vtak), and the parts of a module as files for C.

    8 bytes  magic, made so that a text-mode transfer breaks it
    u32      file version · u32 header bytes · u64 payload bytes      (little-endian)
    header   JSON: vtakit's version, target, inputs, outputs, layers, messages, sizes
    payload  object code, graph text, C header, zeros up to a multiple of 64, parameters
    32 bytes SHA-256 of everything before
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import vtakit
from vtakit.compiler.codegen.llvm import link
from vtakit.compiler.codegen.llvm.network import Port
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import write_bytes, written_whole
from vtakit.runtime.cpu.function import empty
from vtakit.runtime.image import Image

MAGIC = b"\x89VTAK\r\n\x1a"
FILE_VERSION = 1
_PREFIX = struct.Struct("<8sIIQ")
_ALIGN = 64
_DIGEST_BYTES = hashlib.sha256().digest_size


class PackageError(VtakitError, ValueError):
    """A module file that is damaged, or made by or for something else."""


def save(image: Image, path: str | Path) -> None:
    """Write a module file, whole or not at all."""
    write_bytes(path, dump(image), "module file")


def dump(image: Image) -> bytes:
    """The bytes of a module file."""
    t = image.target
    texts = {"code": image.code, "graph": image.graph.encode(), "header": image.header.encode()}
    header = {
        "vtakit": vtakit.__version__,
        "name": image.name,
        "target": {
            "triple": t.triple, "cpu": t.cpu, "features": list(t.features), "contract": t.contract, "threads": t.threads,
        },
        "symbols": list(image.symbols), "outside": list(image.outside), "messages": list(image.messages),
        "inputs": [_port(port) for port in image.inputs], "outputs": [_port(port) for port in image.outputs],
        "layers": [[each.kernel, list(each.ops), list(each.names), each.bytes, each.macs] for each in image.layers],
        "arena": image.arena_bytes, "params": image.params.nbytes,
        "sizes": {name: len(data) for name, data in texts.items()},
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join(texts.values())
    pad = bytes(-(_PREFIX.size + len(head) + len(body)) % _ALIGN)
    payload = b"".join([body, pad, image.params.data])
    data = _PREFIX.pack(MAGIC, FILE_VERSION, len(head), len(payload)) + head + payload
    return data + hashlib.sha256(data).digest()


def _port(port: Port) -> list[Any]:
    return [port.name, list(port.shape), str(port.dtype)]


def parse(data: bytes, where: str) -> Image:
    """Read a module file's bytes. Raises PackageError, which calls the file `where`, for anything that `dump` does not write."""
    if not data.startswith(MAGIC):
        raise PackageError(f"{where} is not a vtakit module file (its first bytes are {data[:8].hex() or 'missing'})")
    if len(data) < _PREFIX.size:
        raise PackageError(f"{where} is truncated: it has {len(data)} bytes and its prefix alone has {_PREFIX.size}")
    _, version, head_bytes, payload_bytes = _PREFIX.unpack_from(data)
    if version != FILE_VERSION:
        raise PackageError(f"{where} has module file version {version}; this vtakit reads version {FILE_VERSION}")
    size = _PREFIX.size + head_bytes + payload_bytes + _DIGEST_BYTES
    if len(data) != size:
        state = "truncated" if len(data) < size else "too long"
        raise PackageError(f"{where} is {state}: it has {len(data)} bytes and says that it has {size}")
    view = memoryview(data)
    if hashlib.sha256(view[:-_DIGEST_BYTES]).digest() != view[-_DIGEST_BYTES:]:
        raise PackageError(f"{where} is damaged: its SHA-256 does not match its contents")
    try:
        header = json.loads(data[_PREFIX.size:_PREFIX.size + head_bytes])
        if header["vtakit"] != vtakit.__version__:
            raise PackageError(
                f"{where} was made by vtakit {header['vtakit']}; this is vtakit {vtakit.__version__}: compile the model again"
            )
        return _image(header, view[:-_DIGEST_BYTES], _PREFIX.size + head_bytes)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, VtakitError):
            raise
        raise PackageError(f"{where} is inconsistent: {type(error).__name__} in its header: {error}") from None


def _image(header: Mapping[str, Any], data: memoryview, at: int) -> Image:
    parts = {}
    for name, size in header["sizes"].items():
        parts[name] = bytes(data[at:at + size])
        at += size
    at += -at % _ALIGN
    if len(data) - at != header["params"]:
        raise PackageError(f"it has {len(data) - at} bytes of parameters and says that it has {header['params']}")
    params = empty((header["params"],), "uint8")
    params[...] = np.frombuffer(data[at:], np.uint8)
    t = header["target"]
    target = Target(t["triple"], t["cpu"], tuple(t["features"]), bool(t["contract"]), bool(t["threads"]))
    ports = {
        kind: tuple([Port(name, tuple(shape), dtype(element)) for name, shape, element in header[kind]])
        for kind in ("inputs", "outputs")
    }
    layers = tuple([Layer(kernel, tuple(ops), tuple(names), size, macs) for kernel, ops, names, size, macs in header["layers"]])
    return Image(
        header["name"], target, parts["code"], tuple(header["symbols"]), tuple(header["outside"]), tuple(header["messages"]),
        parts["header"].decode(), ports["inputs"], ports["outputs"], layers, params, int(header["arena"]),
        parts["graph"].decode(),
    )


def export(image: Image, path: str | Path, linker: tuple[str, ...]) -> None:
    """Write a shared library, its C header and its parameters; see `Module.export`."""
    library, header, params = link.files(path, "library", ".h", ".params")
    with written_whole(library, "library") as file:
        link.library(image.code, image.target, file, linker, threads=image.parallel, name=library)
    write_bytes(header, image.header.encode(), "C header")
    write_bytes(params, image.params.tobytes(), "parameters")
