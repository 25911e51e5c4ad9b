"""A strict reader of the ELF objects that this package's code generator makes.

LLVM's loader is for objects that a compiler made: a section outside the file, an unknown relocation or an address that is too
far ends the process with an assertion. Here every offset, index and kind is checked first, so that a damaged object is an error.
What is accepted is what is emitted: relocatable ELF64 for a little-endian machine, without initialisers, thread-local storage or
unwind tables. See the System V ABI, chapter 4, and the processor supplements.
"""

import struct
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target

MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"), ("size", "<u8"), ("link", "<u4"),
    ("info", "<u4"), ("align", "<u8"), ("entry", "<u8"),
])
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_IDENT = MAGIC + bytes([2, 1, 1])  # 64 bits, little-endian, version 1
_RELOCATABLE = 1
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
_ALLOC, _EXEC = 0x2, 0x4
_FLAGS = 0x1 | _ALLOC | _EXEC | 0x10 | 0x20 | 0x40  # write, merge, strings, info link
_ABSOLUTE = 0xFFF1
_NOTYPE, _OBJECT, _FUNC, _SECTION_SYMBOL, _FILE = range(5)
_LOCAL, _GLOBAL = 0, 1
_SECTIONS = (".text", ".rodata", ".data", ".bss", ".note.GNU-stack", ".comment", ".ltext", ".lrodata", ".ldata", ".lbss")
_MOST_SECTIONS, _MOST_ALIGN, _MOST_LOADED_BYTES, _MOST_ADDEND = 4096, 4096, 1 << 29, 1 << 29
# By architecture: the machine's number, and bytes that each kind of relocation changes. Only kinds that reach any address that
# the loader may choose, or that stay inside the object.
_X86_64 = 62
_ADDED = {2: 4, 24: 8}  # kinds of relocations of x86-64 to which the loader adds the bytes that stand in their place
_MOST_NAME_BYTES = 4096
_MACHINES: dict[str, tuple[int, dict[int, int]]] = {
    "x86_64": (_X86_64, {1: 8, 2: 4, 4: 4, 9: 4, 24: 8, 25: 8, 29: 8, 41: 4, 42: 4}),
    "aarch64": (183, {
        257: 8, 258: 4, 260: 8, 261: 4, 275: 4, 277: 4, 278: 4, 282: 4, 283: 4, 284: 4, 285: 4, 286: 4, 299: 4, 311: 4, 312: 4,
    }),
}


def check_object(code: bytes, target: Target, offers: tuple[str, ...], outside: frozenset[str], where: str) -> None:
    """Raise CodegenError unless an object is one that the loader takes; those of systems and processors without ELF here pass.

    offers  : functions and constants that it must define
    outside : C functions that it may call
    where   : the object in messages
    """
    if target.system == "linux" and target.arch in _MACHINES:
        _Object(code, target.arch, where).check(offers, outside)


class _Object:
    def __init__(self, code: bytes, arch: str, where: str) -> None:
        self.code, self.where = code, where
        self.machine, self.kinds = _MACHINES[arch]

    def _wrong(self, what: str) -> NoReturn:
        raise CodegenError(f"{self.where} has a damaged object file: {what}")

    def _table(self, offset: int, count: int, kind: "np.dtype[Any]", what: str) -> npt.NDArray[Any]:
        """Return records at a place in the file."""
        if offset > len(self.code) or count * kind.itemsize > len(self.code) - offset:
            self._wrong(f"{what} lies outside it")
        return np.frombuffer(self.code, kind, count, offset)

    def check(self, offers: tuple[str, ...], outside: frozenset[str]) -> None:
        if len(self.code) < _HEADER.size:
            self._wrong("it has no header")
        found = _HEADER.unpack_from(self.code)
        ident, kind, machine, version, entry, program, at, flags, size, _, programs, section, count, names = found
        if not ident.startswith(_IDENT) or (kind, version, size, section) != (_RELOCATABLE, 1, _HEADER.size, _SECTION.itemsize):
            self._wrong("its header is not that of a relocatable ELF64 file")
        if machine != self.machine or entry or program or programs or flags:
            self._wrong("its header is for another machine, or of an executable")
        if not 0 < count <= _MOST_SECTIONS or at % 8:
            self._wrong(f"it has {count} sections")
        self.sections = self._table(at, count, _SECTION, "its section table")
        self._check_sections(names)
        self._check_symbols(offers, outside)
        for number in np.flatnonzero(self.sections["type"] == _RELA):
            self._check_relocations(self.sections[number])

    def _check_sections(self, names: int) -> None:
        each = self.sections
        stored = each[(each["type"] != _NULL) & (each["type"] != _NOBITS)]
        if not np.isin(each["type"], (_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS)).all():
            self._wrong("it has a section of a kind that is not emitted")
        if (each["flags"] & ~np.uint64(_FLAGS)).any() or each["addr"].any() or each[0].tobytes().strip(b"\0"):
            self._wrong("it has a section with flags or an address that are not emitted")
        if (stored["offset"] > len(self.code)).any() or (stored["size"] > len(self.code) - stored["offset"]).any():
            self._wrong("a section lies outside it")
        loaded = each[(each["flags"] & _ALLOC) != 0]
        align = loaded["align"]
        if (align > _MOST_ALIGN).any() or (align & (np.maximum(align, 1) - np.uint64(1))).any():
            self._wrong("a section has an alignment that is no small power of two")
        if (loaded["size"] > _MOST_LOADED_BYTES).any() or int(loaded["size"].sum()) > _MOST_LOADED_BYTES:
            self._wrong(f"its sections have more than {_MOST_LOADED_BYTES:,} bytes")
        if not np.isin(loaded["type"], (_PROGBITS, _NOBITS)).all():
            self._wrong("a table is to be loaded")
        if not 0 < names < len(each) or each[names]["type"] != _STRTAB:
            self._wrong("it has no names of sections")
        texts = self._strings(names)
        if (each["name"] >= len(texts)).any():
            self._wrong("a name lies outside its names")
        for section in loaded:
            name = self._text(texts, int(section["name"]))
            if not any(name == known or name.startswith(f"{known}.") for known in _SECTIONS):
                self._wrong(f"its section {name!r:.40} is of a kind that is not emitted")

    def _strings(self, number: int) -> bytes:
        section = self.sections[number]
        begin = int(section["offset"])
        found = self.code[begin:begin + int(section["size"])]
        if section["type"] != _STRTAB or not found or found[0] or found[-1]:
            self._wrong("its names do not end")
        return found

    def _text(self, texts: bytes, at: int) -> str:
        if at >= len(texts):
            self._wrong("a name lies outside its names")
        end = texts.find(b"\0", at, at + _MOST_NAME_BYTES + 1)
        if end < 0:
            self._wrong(f"a name has more than {_MOST_NAME_BYTES:,} bytes")
        return texts[at:end].decode("latin-1")

    def _check_symbols(self, offers: tuple[str, ...], outside: frozenset[str]) -> None:
        tables = np.flatnonzero(self.sections["type"] == _SYMTAB)
        if len(tables) != 1:
            self._wrong(f"it has {len(tables)} tables of symbols")
        self.table = int(tables[0])
        section = self.sections[self.table]
        size, first_global, names = int(section["size"]), int(section["info"]), int(section["link"])
        if section["entry"] != _SYMBOL.itemsize or size % _SYMBOL.itemsize or not size or not 0 < names < len(self.sections):
            self._wrong("its symbols have another size")
        self.symbols = each = self._table(int(section["offset"]), size // _SYMBOL.itemsize, _SYMBOL, "its table of symbols")
        kind, bind = each["info"] & 15, each["info"] >> 4
        if each[0].tobytes().strip(b"\0") or not 0 < first_global <= len(each):
            self._wrong("its first symbol is none")
        wanted = np.where(np.arange(len(each)) < first_global, _LOCAL, _GLOBAL)
        if (bind != wanted).any() or (kind > _FILE).any() or (each["other"] > 3).any():
            self._wrong("it has a symbol of a kind that is not emitted")
        placed = (each["section"] != 0) & (each["section"] != _ABSOLUTE)
        if (each["section"][placed] >= len(self.sections)).any() or ((each["section"] == _ABSOLUTE) != (kind == _FILE)).any():
            self._wrong("a symbol is in a section that it does not have")
        home = self.sections[each["section"][placed]]
        if (each["value"][placed] > home["size"]).any() or (each["size"][placed] > home["size"] - each["value"][placed]).any():
            self._wrong("a symbol lies outside its section")
        if ((home["flags"] & _ALLOC) == 0).any() or ((home["flags"] & _EXEC) == 0)[kind[placed] == _FUNC].any():
            self._wrong("a function lies in a section that is not loaded as code")
        texts = self._strings(names)
        if (each["name"] >= len(texts)).any():
            self._wrong("a name lies outside its names")
        if first_global < len(each) and ((kind == _SECTION_SYMBOL) | (kind == _FILE))[first_global:].any():
            self._wrong("it offers a section")
        named = [self._text(texts, at) for at in each["name"][1:][(kind[1:] < _SECTION_SYMBOL)].tolist()]
        if "" in named or len(set(named)) < len(named):
            self._wrong("two symbols have one name")  # the loader finds symbols by their names
        defined = [self._text(texts, int(one["name"])) for one in each[first_global:] if one["section"]]
        asked = {self._text(texts, int(one["name"])) for one in each[1:] if not one["section"]}
        if sorted(defined) != sorted(offers):
            offered, said = (", ".join(map(repr, each))[:120] for each in (defined, offers))
            self._wrong(f"it offers {offered or 'nothing'}, and its module says {said}")
        if unknown := asked - outside:
            self._wrong(f"it calls {min(unknown)!r:.60}, which its module does not say")

    def _check_relocations(self, table: Any) -> None:
        size, target = int(table["size"]), int(table["info"])
        if table["entry"] != _RELOCATION.itemsize or size % _RELOCATION.itemsize or int(table["link"]) != self.table:
            self._wrong("its relocations have another size")
        if not 0 < target < len(self.sections) or self.sections[target]["type"] != _PROGBITS or table["flags"] & _ALLOC:
            self._wrong("relocations are for a section that is not loaded")
        home = self.sections[target]
        each = self._table(int(table["offset"]), size // _RELOCATION.itemsize, _RELOCATION, "a table of relocations")
        if not np.isin(each["type"], list(self.kinds)).all():
            self._wrong("it has a relocation of a kind that is not emitted")
        widths = np.array([self.kinds[kind] for kind in each["type"].tolist()], np.uint64)
        if (widths > home["size"]).any() or (each["offset"] > home["size"] - widths).any():
            self._wrong("a relocation lies outside its section")
        for kind, width in _ADDED.items() if self.machine == _X86_64 else ():
            places = each["offset"][each["type"] == kind].astype(np.int64) + int(home["offset"])
            if np.frombuffer(self.code, np.uint8)[places[:, None] + np.arange(width)].any():
                self._wrong("it has bytes where a relocation is to stand")
        if (each["symbol"] == 0).any() or (each["symbol"] >= len(self.symbols)).any():
            self._wrong("a relocation is for a symbol that it does not have")
        if (np.abs(each["addend"].astype(np.float64)) > _MOST_ADDEND).any():
            self._wrong("a relocation is for a place too far from its symbol")
        if (self.symbols["section"][each["symbol"]] == _ABSOLUTE).any():
            self._wrong("a relocation is for a name of a file")
