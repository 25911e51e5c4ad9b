"""The file of an open module (.vtak): the model, and the images of its parts that are compiled.

    8 bytes  magic
    u32      file version · u32 header bytes · u64 payload bytes      (little-endian)
    header   JSON: vtakit's version, name, target, options, sizes, what each image is for
    payload  the model as ONNX's protobuf; then the images, each as a module file
    32 bytes SHA-256 of everything before
    signature, if there is one (`trailer`)
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import vtakit
from vtakit.base.container import packed, unpacked
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES, MAX_MEMBERS, check_limit, check_name
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.fields import number, text
from vtakit.runtime.module_file import OPEN_FILE_VERSION, OPEN_MAGIC, PackageError, consistent
from vtakit.runtime.module_file import dump as dump_image
from vtakit.runtime.source import read_options
from vtakit.runtime.stages.dims import Dim, described, parsed
from vtakit.runtime.stages.ports import Inputs, OpenPort, Size
from vtakit.runtime.stages.source import Compiled, OpenSource, model_of
from vtakit.runtime.targets import find_class
from vtakit.runtime.trailer import unsigned


def dump(source: OpenSource, modules: Sequence[Compiled]) -> bytes:
    """Return the bytes of a module file. Raises PackageError if the code of two parts has one key."""
    if len({compiled.key for compiled in modules}) < len(modules):
        raise PackageError(f"model {source.name!r} is not saved: the code of two of its parts has one key, and a loaded file "
                           "would run one in place of the other; this is an error in vtakit")
    images = {key: data for key, data in source.stored.items()}
    images |= {compiled.key: dump_image(compiled.module.image, graph=False) for compiled in modules}
    header = {
        "vtakit": vtakit.__version__, "name": source.name,
        "target": {"name": source.target.name, **source.target.to_dict()}, "options": asdict(source.options),
        "inputs": [_port(port) for port in source.inputs.ports.values()],
        "declared": [_port(port) for port in source.inputs.declared.values()],
        "outputs": [_port(port) for port in source.outputs],
        "model": len(source.contents), "images": [[key.hex(), len(data)] for key, data in images.items()],
    }
    return packed(OPEN_MAGIC, OPEN_FILE_VERSION, header, [source.contents, *images.values()])


def _port(port: OpenPort) -> list[Any]:
    sizes = None if port.sizes is None else [described(size) if isinstance(size, Dim) else size for size in port.sizes]
    return [port.name, None if port.kind is None else str(port.kind), port.form, sizes]


def _read_port(given: Any) -> OpenPort:
    name, kind, form, sizes = given
    found = None if sizes is None else tuple(map(_read_size, sizes))
    return OpenPort(text(name), None if kind is None else dtype(text(kind)), text(form), found)


def _read_size(given: Any) -> Size:
    if isinstance(given, list):
        return parsed(given)
    return text(given) if isinstance(given, str) else None if given is None else number(given)


def parse(data: bytes, where: str, *, recompile: bool = False) -> OpenSource:
    """Read the bytes of an open module's file.

    where     : the file in messages
    recompile : whether to take the model alone, for this machine, and none of the code

    Raises PackageError for anything that `dump` does not write.
    """
    head, payload = unpacked(unsigned(data), where, "module", OPEN_MAGIC, (OPEN_FILE_VERSION,), PackageError)
    with consistent(where):
        header = read_json(head, most_bytes=MAX_JSON_BYTES, what="its header")
        if header["vtakit"] != vtakit.__version__ and not recompile:
            raise PackageError(f"{where} was made by vtakit {header['vtakit']!s:.20}; this is vtakit {vtakit.__version__}: "
                               "compile the model again, or load it with recompile=True (--recompile)")
        check_limit(len(header["images"]), MAX_MEMBERS, "the number of its images")
        target = find_class(text(header["target"]["name"])).from_dict(header["target"])
        at = number(header["model"], len(payload) + 1)
        stored = {}
        proto = model_of(bytes(payload[:at]), where)
        for key, size in header["images"]:
            stored[bytes.fromhex(key)] = bytes(payload[at:at + number(size)])
            at += size
        if at != len(payload):
            raise PackageError(f"{where} is inconsistent: {abs(len(payload) - at)} bytes of its payload belong to nothing")
        options = read_options(header["options"])
        if recompile:
            target = target.for_this_machine().ready("load")
        target.check_options(options)
        inputs, declared, outputs = ([_read_port(each) for each in header[kind]] for kind in ("inputs", "declared", "outputs"))
        name = text(header["name"])
        check_name(name, "the module's name")
        if not (name.isidentifier() and name.isascii()):
            raise PackageError(f"{where} is inconsistent: the name {name!r:.40} is none in C")
        return OpenSource(proto=proto, name=name, target=target, options=options, inputs=Inputs(name, inputs, declared),
                          outputs=tuple(outputs), stored={} if recompile else stored)
