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

import struct
from pathlib import Path
from typing import Any

from vtakit.base.container import packed, unpacked
from vtakit.base.errors import VtakitError
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES
from vtakit.base.reading import read_bytes
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.codec import from_bytes, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES, VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import ALL_FEATURES, ISA_VERSION
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Part, Program, Relocation

MAGIC = b"\x89VTA\r\n\x1a\n"
FILE_VERSION = 2  # 1 has no values
_READ_VERSIONS = (1, 2)
_PAIR = struct.Struct("<II")
_NUMBER = struct.Struct("<I")


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


def load(path: str | Path) -> Program:
    """Read a program file."""
    return parse(read_bytes(path, "program file", error=ProgramError), f"program file {str(path)!r}")


def save(program: Program, path: str | Path) -> None:
    """Write a program file, whole or not at all."""
    if not isinstance(program, Program):
        raise ProgramError(f"what is saved is {program!r:.40} and must be a Program: save(program, path)")
    write_bytes(path, dump(program), "program file")
