"""A program for one configuration: instructions, micro-ops and the DRAM buffers that they move.

An instruction's `dram_base` is absolute unless a `Relocation` names it; then the word holds an offset in elements from
the start of that buffer, and `link` adds the buffer's address.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from itertools import pairwise
from operator import or_

from vtakit.base.errors import one_of
from vtakit.base.reading import check_memory
from vtakit.base.text import counted
from vtakit.hw.isa.codec import Insn, decode, to_bytes
from vtakit.hw.isa.config import INSN_BITS, INSN_BYTES, UOP_BITS, UOP_BYTES, VTAConfig
from vtakit.hw.isa.errors import EncodingError, ProgramError
from vtakit.hw.isa.insns import ALL_FEATURES, FORMATS, ISA_VERSION, MEMORIES, TRANSFERS, Feature, Opcode

UOPS = "uops"  # the symbol of the program's own micro-ops
DRAM_LIMIT_BYTES = 1 << 40  # a linked image larger than this is a mistake


class BufferKind(StrEnum):
    """Who fills a buffer: the caller, the program, the program file, or nobody."""

    INPUT = "input"
    OUTPUT = "output"
    CONST = "const"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A named range of DRAM; `data` are its first contents (CONST buffers have them, others may)."""

    name: str
    size_bytes: int
    kind: BufferKind = BufferKind.INPUT
    data: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name == UOPS:
            raise ProgramError(f"buffer name {self.name!r} must be an identifier other than {UOPS!r}")
        if self.kind not in list(BufferKind):
            raise ProgramError(f"buffer {self.name!r} has unknown kind {self.kind!r}; {one_of(BufferKind, str(self.kind))}")
        object.__setattr__(self, "kind", BufferKind(self.kind))
        if self.size_bytes < 0:
            raise ProgramError(f"buffer {self.name!r} has a negative size, {self.size_bytes} bytes")
        if self.kind is BufferKind.CONST and self.data is None:
            raise ProgramError(f"constant buffer {self.name!r} has no data")
        if self.data is not None and len(self.data) != self.size_bytes:
            raise ProgramError(f"buffer {self.name!r} has {self.size_bytes} bytes but {len(self.data)} bytes of data")


@dataclass(frozen=True, slots=True, order=True)
class Relocation:
    """Instruction number `insn` has a dram_base that counts from the start of buffer `symbol`.

    value   the value that the instruction moves, if `symbol` is a scratch buffer in which several values share memory
    """

    insn: int
    symbol: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.symbol}:{self.value}" if self.value else self.symbol


@dataclass(frozen=True, slots=True)
class Part:
    """A run of instructions that belong together, such as a layer; it begins where the part before it ends.

    end   number of the instruction after its last
    """

    name: str
    end: int

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or any(c.isspace() or c == ";" for c in self.name):
            raise ProgramError(f"the name of a part must be printable letters without spaces and ';', not {self.name!r:.40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A linked program: the DRAM image before the run, and the byte addresses of its buffers."""

    dram: bytearray
    insn_addr: int
    insn_count: int
    addresses: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Instructions with everything needed to place them in memory; see `hw.isa.file` for its file format.

    parts   runs of instructions that belong together, for reports; may be empty

    Raises `ProgramError` if a relocation names no LOAD, STORE or buffer, if two buffers or parts have one name, or if parts
    do not follow each other up to the last instruction.
    """

    config: VTAConfig
    insns: tuple[int, ...]
    uops: tuple[int, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    isa_version: tuple[int, int] = ISA_VERSION
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        for name in ("insns", "uops", "buffers", "relocations", "parts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for what, words, bits in (("instruction", self.insns, INSN_BITS), ("micro-op", self.uops, UOP_BITS)):
            for index, word in enumerate(words):
                if not 0 <= word < 1 << bits:
                    raise ProgramError(f"{what} {index} is {word:#x}, which is not a word of {bits} bits")
        names: set[str] = set()
        for buffer in self.buffers:
            if buffer.name in names:
                raise ProgramError(f"two buffers are named {buffer.name!r}")
            names.add(buffer.name)
        scratch = {buffer.name for buffer in self.buffers if buffer.kind is BufferKind.SCRATCH}
        seen: set[int] = set()
        for entry in self.relocations:
            if not 0 <= entry.insn < len(self.insns):
                raise ProgramError(f"relocation names instruction {entry.insn}, but the program has {len(self.insns)}")
            if entry.symbol != UOPS and entry.symbol not in names:
                known = one_of([UOPS, *names], entry.symbol)
                raise ProgramError(f"relocation of instruction {entry.insn}: unknown buffer {entry.symbol!r}; {known}")
            if entry.insn in seen:
                raise ProgramError(f"instruction {entry.insn} is relocated twice")
            seen.add(entry.insn)
            if entry.value and (not entry.value.isidentifier() or entry.symbol not in scratch):
                raise ProgramError(f"relocation of instruction {entry.insn}: value {entry.value!r:.40} in {entry.symbol!r} must "
                                   "be an identifier, and its buffer a scratch buffer")
            self._relocatable(entry)
        object.__setattr__(self, "relocations", tuple(sorted(self.relocations)))
        self._check_parts()

    @property
    def features(self) -> Feature:
        """Return the optional features that the instructions need; a word that does not decode needs none."""
        return reduce(or_, map(self._features_of, self.insns), Feature(0))

    def _features_of(self, word: int) -> Feature:
        try:
            return decode(self.config, word).features
        except EncodingError:
            return Feature(0)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer called `name`. Raises `ProgramError` if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise ProgramError(f"the program has no buffer {name!r}; {one_of([b.name for b in self.buffers], name)}")

    def require(self, config: VTAConfig, *, version: tuple[int, int] = ISA_VERSION, features: Feature = ALL_FEATURES) -> None:
        """Raise `ProgramError` for a device that cannot run the program: other configuration, older ISA or missing feature."""
        if config != self.config:
            ours, theirs = self.config.to_dict(), config.to_dict()
            differ = ", ".join(f"{key} {ours[key]} (device {theirs[key]})" for key in ours if ours[key] != theirs[key])
            raise ProgramError(f"the program is for another configuration than the device: {differ}")
        if self.isa_version[0] != version[0] or self.isa_version[1] > version[1]:
            raise ProgramError(
                f"the program needs ISA version {dotted(self.isa_version)} and the device has {dotted(version)}"
            )
        if features != ALL_FEATURES and (missing := self.features & ~features):  # finding out decodes every instruction
            raise ProgramError(f"the program needs {', '.join(f.name or '' for f in missing)}, which the device lacks")

    def link(self, contents: Mapping[str, bytes] | None = None, *, base: int = 0) -> Image:
        """Place everything in one DRAM image from byte address `base` up, fill buffers and relocate.

        contents   bytes of INPUT (or any other) buffers by name; at most the buffer's size, the rest is zero
        """
        if base < 0:
            raise ProgramError(f"the base address of a link is {base} and must be at least 0")
        alignment = dram_alignment(self.config)
        contents = contents or {}
        for name, data in contents.items():
            if len(data) > self.buffer(name).size_bytes:
                raise ProgramError(f"buffer {name!r} holds {self.buffer(name).size_bytes} bytes, got {len(data)}")
        sizes = {"": len(self.insns) * INSN_BYTES, UOPS: len(self.uops) * UOP_BYTES}
        sizes.update((buffer.name, buffer.size_bytes) for buffer in self.buffers)
        addresses, end = {}, base
        for name, size in sizes.items():
            addresses[name] = -(-end // alignment) * alignment
            end = addresses[name] + size
        if end > DRAM_LIMIT_BYTES:
            raise ProgramError(f"the program needs {end} bytes of DRAM, more than {DRAM_LIMIT_BYTES}")
        try:
            check_memory(end)
            dram = bytearray(end)
        except MemoryError:
            raise ProgramError(f"the program needs {end} bytes of DRAM, more than this machine has") from None
        parts = {"": to_bytes(self.relocated(addresses)), UOPS: b"".join(u.to_bytes(UOP_BYTES, "little") for u in self.uops)}
        parts.update((b.name, b.data) for b in self.buffers if b.data is not None)
        parts.update((name, bytes(data)) for name, data in contents.items())
        for name, data in parts.items():
            dram[addresses[name] : addresses[name] + len(data)] = data
        insn_addr = addresses.pop("")
        return Image(dram=dram, insn_addr=insn_addr, insn_count=len(self.insns), addresses=addresses)

    def _check_parts(self) -> None:
        if len({part.name for part in self.parts}) < len(self.parts):
            raise ProgramError(f"two parts have one name: {', '.join(part.name for part in self.parts)}")
        ends = [0, *(part.end for part in self.parts)]
        if self.parts and (any(a > b for a, b in pairwise(ends)) or ends[-1] != len(self.insns)):
            raise ProgramError(f"the parts of a program of {counted(len(self.insns), 'instruction')} must end in order, the last "
                               f"at {len(self.insns)}: {', '.join(f'{part.name} {part.end}' for part in self.parts)}")

    def _relocatable(self, entry: Relocation) -> Insn:
        """Return the LOAD, STORE or REQUANT that a relocation names."""
        try:
            insn = decode(self.config, self.insns[entry.insn])
        except EncodingError as error:
            raise ProgramError(f"instruction {entry.insn} cannot be relocated to {entry.symbol!r}: {error}") from None
        if insn.op not in TRANSFERS:
            what = FORMATS[insn.op].name
            raise ProgramError(f"relocation names instruction {entry.insn}, a {what}, not a load or store")
        return insn

    def relocated(self, addresses: Mapping[str, int]) -> list[int]:
        """Return the instruction words for buffers at these byte addresses.

        Raises `ProgramError` if a relocation's symbol has no address, one that is no multiple of `dram_alignment`, or one that
        an instruction cannot reach.
        """
        words = list(self.insns)
        alignment = dram_alignment(self.config)
        for name, address in addresses.items():
            if address % alignment:
                raise ProgramError(f"buffer {name!r} lies at byte {address}, which is no multiple of {alignment}")
        places = {op: {p.field.name: p for p in FORMATS[op].place(self.config)} for op in TRANSFERS}
        opcode, kind = (places[Opcode.LOAD][name] for name in ("opcode", "memory_type"))  # where they are in every transfer
        element_bytes = {int(memory.kind): memory.bytes_in(self.config) for memory in MEMORIES.values()}
        for entry in self.relocations:
            if entry.symbol not in addresses:
                raise ProgramError(f"instruction {entry.insn} cannot be relocated: buffer {entry.symbol!r} has no address")
            word = words[entry.insn]
            base = places[Opcode(opcode.read(word))]["dram_base"]
            offset = addresses[entry.symbol] // element_bytes[kind.read(word)]
            if base.read(word) + offset > base.high:
                given = f"{FORMATS[Opcode(opcode.read(word))].name}.dram_base is {base.read(word) + offset}"
                raise ProgramError(
                    f"instruction {entry.insn} cannot be relocated to {entry.symbol!r}: {given} and must be from {base.low} to "
                    f"{base.high} ({base.width} bits)"
                )
            words[entry.insn] = word + (offset << base.offset)
        return words

    def with_data(self, name: str, data: bytes) -> "Program":
        """Return the program with other initial contents of one buffer."""
        old = self.buffer(name)
        return replace(self, buffers=tuple(replace(b, data=data) if b is old else b for b in self.buffers))


def dram_alignment(cfg: VTAConfig) -> int:
    """Return the alignment of a program's buffers in bytes: an element of any memory type may begin there."""
    return max(64, *(memory.bytes_in(cfg) for memory in MEMORIES.values()))


def dotted(version: tuple[int, int]) -> str:
    """Return a version as text."""
    return f"{version[0]}.{version[1]}"
