"""The program file (.vta): magic, sizes, a JSON header, binary payload and a SHA-256 over all of it.

    8 bytes  magic, made so that a text-mode transfer breaks it
    u32      file version · u32 header bytes · u64 payload bytes      (little-endian)
    header   JSON: isa, features, config, insns, uops, relocations (counts), buffers [{name, kind, size, data}], if there are
             any parts [{name, end}] and values [name]
    payload  instructions, micro-ops, relocations (u32 instruction, u32 symbol; symbol 0 is the micro-ops, 1 the first
             buffer …), if the header has values one u32 for each relocation (0 is no value, 1 the first …), then the data of each
             buffer whose `data` is true
    32 bytes SHA-256 of everything before
"""

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vtakit.hw.isa.codec import from_bytes, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES, VTAConfig
from vtakit.hw.isa.errors import ProgramError, VtakitError
from vtakit.hw.isa.insns import ALL_FEATURES, ISA_VERSION
from vtakit.hw.isa.jsons import read_json
from vtakit.hw.isa.limits import MAX_JSON_BYTES
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Part, Program, Relocation
from vtakit.hw.isa.reading import read_bytes

MAGIC = b"\x89VTA\r\n\x1a\n"
FILE_VERSION = 2  # 1 has no values
_READ_VERSIONS = (1, 2)
PREFIX = struct.Struct("<8sIIQ")
_PAIR = struct.Struct("<II")
_NUMBER = struct.Struct("<I")
_DIGEST_BYTES = hashlib.sha256().digest_size


def dump(program: Program) -> bytes:
    """The bytes of a program file."""
    symbols = {name: at for at, name in enumerate([UOPS, *(buffer.name for buffer in program.buffers)])}
    header: dict[str, Any] = {
        "isa": list(program.isa_version),
        "features": int(program.features),
        "config": program.config.to_dict(),
        "insns": len(program.insns),
        "uops": len(program.uops),
        "relocations": len(program.relocations),
        "buffers": [
            {"name": b.name, "kind": b.kind.value, "size": b.size_bytes, "data": b.data is not None} for b in program.buffers
        ],
    }
    if program.parts:
        header["parts"] = [{"name": part.name, "end": part.end} for part in program.parts]
    values = list(dict.fromkeys(entry.value for entry in program.relocations if entry.value))
    if values:
        header["values"] = values
    number = {name: at for at, name in enumerate(values, 1)} | {"": 0}
    return packed(MAGIC, FILE_VERSION, header, [
        to_bytes(program.insns),
        b"".join(uop.to_bytes(UOP_BYTES, "little") for uop in program.uops),
        b"".join(_PAIR.pack(entry.insn, symbols[entry.symbol]) for entry in program.relocations),
        b"".join(_NUMBER.pack(number[entry.value]) for entry in program.relocations) if values else b"",
        *(buffer.data for buffer in program.buffers if buffer.data is not None),
    ])


def packed(magic: bytes, version: int, header: Mapping[str, Any], payload: Iterable[bytes]) -> bytes:
    """Return the bytes of a program or module file: prefix, header as JSON, payload, SHA-256 of these."""
    head, rest = json.dumps(header, separators=(",", ":")).encode(), b"".join(payload)
    body = PREFIX.pack(magic, version, len(head), len(rest)) + head + rest
    return body + hashlib.sha256(body).digest()


def unpacked(
    data: memoryview, where: str, kind: str, magic: bytes, versions: Sequence[int], error: Callable[[str], VtakitError],
) -> tuple[bytes, memoryview]:
    """Return header and payload of what `packed` wrote.

    where, kind : the file in messages, and what it should be, "program" or "module"
    versions    : those that can be read

    Raises `error` for another magic or version, for truncation and for damage.
    """
    if data[:len(magic)] != magic:
        raise error(f"{where} is not a vtakit {kind} file (its first bytes are {data[:8].hex() or 'missing'})")
    if len(data) < PREFIX.size:
        raise error(f"{where} is truncated: it has {len(data)} bytes and its prefix alone has {PREFIX.size}")
    _, version, head_bytes, payload_bytes = PREFIX.unpack_from(data)
    if version not in versions:
        known = f"version{'s' if len(versions) > 1 else ''} {' and '.join(map(str, versions))}"
        raise error(f"{where} has {kind} file version {version}; this vtakit reads {known}")
    begin = PREFIX.size + head_bytes
    size = begin + payload_bytes + _DIGEST_BYTES
    if len(data) != size:
        state = "truncated" if len(data) < size else "too long"
        raise error(f"{where} is {state}: it has {len(data)} bytes and says that it has {size}")
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise error(f"{where} is damaged: its SHA-256 does not match its contents")
    return bytes(data[PREFIX.size:begin]), data[begin:-_DIGEST_BYTES]


def parse(data: bytes, where: str = "program") -> Program:
    """Read a program file's bytes.

    Raises `ProgramError` for anything that `dump` does not write: other magic or version, truncation, damage.
    """
    head, payload = unpacked(memoryview(data), where, "program", MAGIC, _READ_VERSIONS, ProgramError)
    try:
        return _build(read_json(head, most_bytes=MAX_JSON_BYTES, what="its header"), payload)
    except VtakitError as error:
        raise ProgramError(f"{where} is inconsistent: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise ProgramError(f"{where} is inconsistent: {type(error).__name__} in its header: {error}") from None


def _build(header: dict[str, Any], payload: memoryview) -> Program:
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        if size < 0 or at + size > len(payload):
            raise ProgramError(f"its header asks for {at + size} payload bytes of {len(payload)}")
        at += size
        return bytes(payload[at - size : at])

    major, minor = map(int, header["isa"])
    if major != ISA_VERSION[0] or not 0 <= minor <= ISA_VERSION[1]:
        raise ProgramError(f"it needs ISA version {major}.{minor}; this vtakit knows {ISA_VERSION[0]}.{ISA_VERSION[1]}")
    if unknown := int(header["features"]) & ~int(ALL_FEATURES):
        raise ProgramError(f"it needs features that this vtakit does not know (bits 0x{unknown:x})")
    insns = from_bytes(take(int(header["insns"]) * INSN_BYTES))
    uop_bytes = take(int(header["uops"]) * UOP_BYTES)
    uops = tuple(int.from_bytes(uop_bytes[i : i + UOP_BYTES], "little") for i in range(0, len(uop_bytes), UOP_BYTES))
    pairs = list(_PAIR.iter_unpack(take(int(header["relocations"]) * _PAIR.size)))
    values = ["", *map(str, header.get("values", ()))]
    moved = [0] * len(pairs) if len(values) == 1 else [n for n, in _NUMBER.iter_unpack(take(len(pairs) * _NUMBER.size))]
    buffers = tuple(
        Buffer(
            name=str(b["name"]), kind=BufferKind(b["kind"]), size_bytes=int(b["size"]),
            data=take(int(b["size"])) if b["data"] else None,
        )
        for b in header["buffers"]
    )
    if at != len(payload):
        raise ProgramError(f"{len(payload) - at} payload bytes belong to nothing")
    symbols = [UOPS, *(buffer.name for buffer in buffers)]
    program = Program(
        config=VTAConfig.from_dict(header["config"]), insns=insns, uops=uops, buffers=buffers, isa_version=(major, minor),
        relocations=tuple(
            Relocation(insn, symbols[symbol], values[value]) for (insn, symbol), value in zip(pairs, moved, strict=True)
        ),
        parts=tuple(Part(str(part["name"]), int(part["end"])) for part in header.get("parts", ())),
    )
    if int(header["features"]) != program.features:
        stated, needed = int(header["features"]), int(program.features)
        raise ProgramError(f"its header states features 0x{stated:x} and its instructions need 0x{needed:x}")
    return program


@contextmanager
def written_whole(path: str | Path, what: str) -> Iterator[Path]:
    """Yields a file to write; once the block has ended well, that stands at `path`. Before, and after an error, nothing changes.

    A device or pipe, such as /dev/stdout, is yielded itself. What keeps the file from standing there is a `ProgramError` that
    calls it `what`.
    """
    target = Path(path)
    with unwritable(target, what):
        if target.exists() and not target.is_file():
            temporary = target
        else:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".vtakit.", suffix=target.suffix)
            os.close(handle)
            temporary = Path(name)
    try:
        yield temporary
        if temporary != target:
            with unwritable(target, what):
                umask = os.umask(0)
                os.umask(umask)
                temporary.chmod(0o666 & ~umask)
                temporary.replace(target)
    except BaseException:
        if temporary != target:
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def unwritable(path: str | Path, what: str) -> Iterator[None]:
    """What keeps the block from writing the file at `path` is a `ProgramError` that calls it `what`."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ProgramError(f"cannot write {what} {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None


def write_bytes(path: str | Path, data: bytes | bytearray, what: str) -> None:
    """Write a file whole or not at all; failure is a `ProgramError` that calls it `what`."""
    with written_whole(path, what) as file, unwritable(path, what):
        file.write_bytes(data)


def make_folder(path: str | Path) -> Path:
    """Make a folder, and those above it, unless it is there; failure is a `ProgramError`."""
    to = Path(path)
    try:
        to.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ProgramError(f"cannot make the folder {str(to)!r}: {getattr(error, 'strerror', None) or error}") from None
    return to


def load(path: str | Path) -> Program:
    """Read a program file."""
    return parse(read_bytes(path, "program file"), f"program file {str(path)!r}")


def save(program: Program, path: str | Path) -> None:
    """Write a program file, whole or not at all."""
    if not isinstance(program, Program):
        raise ProgramError(f"what is saved is {program!r:.40} and must be a Program: save(program, path)")
    write_bytes(path, dump(program), "program file")
