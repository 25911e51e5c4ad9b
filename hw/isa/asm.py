"""Assembly text: `disasm` prints an instruction, `asm` reads it back to the same word; whole programs likewise.

    load.inp sram_base=18 dram_base=@image+4 y_size=4 x_size=5 x_stride=16 pop_next push_next   ; comment
    alu.shr use_imm imm=-3 uop_bgn=5 uop_end=6 iter_out=1 iter_in=8 dst_in=1 src_in=1

A mnemonic is the opcode's name, with the value of its listed field (memory type, ALU operation) after a dot. Fields have the
names of `hw.isa.insns`; absent fields are 0, flags are bare words. `@name` makes an address relative to a buffer, and
`@name:value` names the value moved where several values share a scratch buffer. `.word 0x…` is a raw word of 128 bits. The text
of a program begins with `.isa`, `.config`, `.buffer`, `.data` and `.uop`; `.part` begins a part.
"""

import json
from collections.abc import Iterator

from vtakit.base.errors import one_of
from vtakit.hw.isa.codec import Insn, decode, decode_uop, encode, encode_uop
from vtakit.hw.isa.config import INSN_BITS, NAMED, VTAConfig
from vtakit.hw.isa.errors import AsmError, ConfigError, EncodingError, ProgramError
from vtakit.hw.isa.formats import Field, Kind
from vtakit.hw.isa.insns import BY_NAME, FORMATS, ISA_VERSION, LOADS, MEMORIES, OPCODE, AluOp, MemType, Opcode
from vtakit.hw.isa.pools import described
from vtakit.hw.isa.program import Buffer, BufferKind, Part, Program, Relocation, dotted

_DATA_BYTES_A_LINE = 32


def _listed(op: Opcode) -> Field | None:
    """Return the field whose value is the suffix of the mnemonic."""
    return next((f for f in FORMATS[op].fields if f.kind is Kind.ENUM and f is not OPCODE), None)


def disasm(word: int, cfg: VTAConfig, *, symbol: str | None = None, comment: bool = False) -> str:
    """Return one instruction as text that `asm` reads back; a word that does not decode becomes `.word`.

    symbol    the buffer that dram_base counts from, if it is relocated; with the value that is moved after a colon, if it has one
    comment   append a description after a semicolon
    """
    try:
        insn = decode(cfg, word)
    except EncodingError as error:
        text = f".word 0x{word:032x}"
        return f"{text}  ; {error}" if comment else text
    listed = _listed(insn.op)
    suffix = f".{listed.members(insn[listed.name]).name.lower()}" if listed is not None and listed.members is not None else ""
    text = FORMATS[insn.op].name + suffix
    words, flags = [text], []
    for field in FORMATS[insn.op].fields:
        value = insn.fields.get(field.name, 0)
        if field is OPCODE or field is listed:
            continue
        if field.name == "dram_base" and symbol is not None:
            words.append(f"dram_base=@{symbol}" + (f"+{value}" if value else ""))
        elif field.kind is Kind.FLAG and value:
            flags.append(field.name)
        elif value:
            words.append(f"{field.name}={value}")
    line = " ".join(words + flags)
    return f"{line}  ; {describe(insn)}" if comment else line


def describe(insn: Insn) -> str:
    """Describe an instruction for a reader: its stage, its extents and its elements."""
    stage = insn.stage.name.lower()
    if insn.op is Opcode.FINISH:
        return f"{stage}: raise done"
    if insn.op in (Opcode.GEMM, Opcode.ALU):
        steps = insn["iter_out"] * insn["iter_in"] * max(0, insn["uop_end"] - insn["uop_bgn"])
        if not steps:
            return f"{stage}: tokens only"
        gemm = "reset" if insn.fields.get("reset") else "overwrite" if insn.fields.get("overwrite") else "multiply"
        verb = AluOp(insn["alu_opcode"]).name if insn.op is Opcode.ALU else gemm
        loops = f"{insn['iter_out']} x {insn['iter_in']} x {insn['uop_end'] - insn['uop_bgn']} micro-ops"
        return f"{stage}: {verb} {steps} tiles ({loops})"
    if not insn["rows" if insn.op is Opcode.DWCONV else "x_size"]:
        return f"{stage}: tokens only"
    if insn.op is Opcode.DWCONV:
        return f"{stage}: {insn['rows']} x {insn['columns'] + 1} tiles through a window"
    if insn.op is Opcode.REQUANT:
        return f"{stage}: {described(insn)}"
    memory = MEMORIES[MemType(insn["memory_type"])]
    pads = {name: insn.fields.get(name, 0) for name in ("x_pad_0", "x_pad_1", "y_pad_0", "y_pad_1")}
    across = pads["x_pad_0"] + insn["x_size"] + pads["x_pad_1"]
    down = pads["y_pad_0"] + insn["y_size"] + pads["y_pad_1"]
    span = f"{memory.scratchpad}[{insn['sram_base']}:{insn['sram_base'] + across * down}]"
    size = f"{insn['y_size']} x {insn['x_size']}"
    if (down, across) != (insn["y_size"], insn["x_size"]):
        size += f" padded to {down} x {across}"
    return f"{stage}: {size} elements {'to' if insn.op in LOADS else 'from'} {span}"


def asm(line: str, cfg: VTAConfig) -> int:
    """Return the word of one instruction; the line may end in a comment. Raises `AsmError`."""
    word, symbol = _instruction(line.partition(";")[0].split(), cfg)
    if symbol is not None:
        raise AsmError(f"@{symbol} needs a whole program; a single instruction takes a number")
    return word


def _number(text: str, what: str) -> int:
    try:
        if len(text) > 64:  # beyond any field; int() would also refuse thousands of digits
            raise ValueError
        return int(text, 0)
    except ValueError:
        raise AsmError(f"{what} is {text[:40]!r}, which is not a number") from None


def _instruction(words: list[str], cfg: VTAConfig) -> tuple[int, str | None]:
    if not words:
        raise AsmError("there is no instruction on the line")
    mnemonic, *operands = words
    if mnemonic == ".word":
        value = _number(operands[0], ".word") if len(operands) == 1 else -1
        if not 0 <= value < 1 << INSN_BITS:
            raise AsmError(".word takes one number of 128 bits")
        return value, None
    name, _, suffix = mnemonic.partition(".")
    if name not in BY_NAME:
        raise AsmError(f"unknown instruction {name[:40]!r}; {one_of(BY_NAME, name[:40])}")
    values, symbol = _operands(operands, name)
    listed = _listed(BY_NAME[name])
    if listed is None or listed.members is None:
        if suffix or mnemonic != name:
            raise AsmError(f"{name} takes no suffix, got {mnemonic[:40]!r}")
    else:
        members = {m.name.lower(): m for m in listed.members}
        if suffix not in members:
            known = one_of(members, suffix[:40])
            raise AsmError(f"{name} needs a {listed.name} after a dot, got {mnemonic[:40]!r}; {known}")
        values[listed.name] = members[suffix]
    try:
        return encode(cfg, name, **values), symbol
    except EncodingError as error:
        raise AsmError(str(error)) from None


def _operands(operands: list[str], name: str) -> tuple[dict[str, int], str | None]:
    by_name = {f.name: f for f in FORMATS[BY_NAME[name]].fields if f.kind is not Kind.ENUM}
    values: dict[str, int] = {}
    symbol = None
    for operand in operands:
        key, equals, text = operand.partition("=")
        if key not in by_name:
            raise AsmError(f"{name} has no field {key[:40]!r}; {one_of(by_name, key[:40])}")
        if key in values:
            raise AsmError(f"{name}.{key} is given twice")
        if not equals and by_name[key].kind is not Kind.FLAG:
            raise AsmError(f"{name}.{key} needs a value: {key}=…")
        if key == "dram_base" and text.startswith("@"):
            symbol, plus, text = text[1:].partition("+")
            text = text if plus else "0"
        values[key] = _number(text, f"{name}.{key}") if equals else 1
    return values, symbol


def disasm_program(program: Program, *, comments: bool = True) -> str:
    """Return a program as text that `asm_program` reads back to an equal program."""
    name = next((n for n, c in NAMED.items() if c == program.config), None)
    lines = [f".isa {program.isa_version[0]}.{program.isa_version[1]}"]
    lines.append(f".config {name or json.dumps(program.config.to_dict())}")
    for buffer in program.buffers:
        lines.append(f".buffer {buffer.name} {buffer.kind} {buffer.size_bytes}")
        if buffer.data is not None:
            rows = range(0, max(len(buffer.data), 1), _DATA_BYTES_A_LINE)
            lines += [f".data {buffer.name} {buffer.data[at : at + _DATA_BYTES_A_LINE].hex()}".rstrip() for at in rows]
    for index, word in enumerate(program.uops):
        values = decode_uop(program.config, word)
        if encode_uop(program.config, **values) != word:
            lines.append(f".uop 0x{word:08x}")
        else:
            fields = " ".join(f"{key}={value}" for key, value in values.items())
            lines.append(f".uop {fields}" + (f"  ; {index}" if comments else ""))
    symbols = {entry.insn: str(entry) for entry in program.relocations}
    firsts = [0, *(part.end for part in program.parts)]
    for index, word in enumerate(program.insns):
        lines += [f".part {part.name}" for part, first in zip(program.parts, firsts, strict=False) if first == index]
        if comments and index % 16 == 0:
            lines.append(f"; instruction {index}")
        lines.append(disasm(word, program.config, symbol=symbols.get(index), comment=comments))
    lines += [f".part {part.name}" for part, first in zip(program.parts, firsts, strict=False) if first == len(program.insns)]
    return "\n".join(lines) + "\n"


def _lines(text: str) -> Iterator[tuple[int, list[str], str]]:
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition(";")[0].strip()
        if line:
            yield number, line.split(), line


def asm_program(text: str, config: VTAConfig | None = None) -> Program:
    """Read a program's text. `config` serves text without a `.config` line; without either, the default.

    Raises `AsmError` with the line number.
    """
    reader = _Reader(config)
    for number, words, line in _lines(text):
        try:
            reader.line(words, line)
        except (AsmError, EncodingError, ConfigError, ProgramError) as error:
            raise AsmError(f"line {number}: {error}") from None
    try:
        return reader.program()
    except ProgramError as error:
        raise AsmError(f"the program as a whole: {error}") from None


class _Reader:
    """State of the assembler: everything read so far."""

    def __init__(self, config: VTAConfig | None) -> None:
        self._config = config or NAMED["default"]
        self._isa = ISA_VERSION
        self._buffers: dict[str, tuple[BufferKind, int]] = {}
        self._data: dict[str, bytearray] = {}
        self._uops: list[int] = []
        self._insns: list[int] = []
        self._relocations: list[Relocation] = []
        self._parts: list[tuple[str, int]] = []  # name and first instruction

    def line(self, words: list[str], line: str) -> None:
        directives = {".isa": self._isa_line, ".config": self._config_line, ".buffer": self._buffer_line,
                      ".data": self._data_line, ".uop": self._uop_line}
        if words[0] in directives:
            if self._insns:
                raise AsmError(f"{words[0]} must stand before the first instruction")
            directives[words[0]](words[1:], line)
        elif words[0] == ".part":
            if len(words) != 2:
                raise AsmError(".part takes a name without spaces")
            if self._insns and not self._parts:
                raise AsmError("the first .part must stand before the first instruction")
            self._parts.append((words[1], len(self._insns)))
        elif words[0].startswith(".") and words[0] != ".word":
            raise AsmError(f"unknown directive {words[0][:40]!r}; {one_of([*directives, '.part', '.word'], words[0][:40])}")
        else:
            word, symbol = _instruction(words, self._config)
            if symbol is not None:
                self._relocations.append(Relocation(len(self._insns), *symbol.split(":", 1)))
            self._insns.append(word)

    def _isa_line(self, words: list[str], line: str) -> None:
        major, dot, minor = "".join(words).partition(".")
        self._isa = (_number(major, ".isa"), _number(minor, ".isa") if dot else 0)
        if self._isa[0] != ISA_VERSION[0] or not 0 <= self._isa[1] <= ISA_VERSION[1]:
            raise AsmError(f"the text is for ISA {dotted(self._isa)}; this vtakit knows {dotted(ISA_VERSION)}")

    def _config_line(self, words: list[str], line: str) -> None:
        if self._uops:
            raise AsmError(".config must stand before the first micro-op")
        text = line.removeprefix(".config").strip()
        if text.startswith("{"):
            self._config = VTAConfig.from_json(text, ".config")
        elif text in NAMED:
            self._config = NAMED[text]
        else:
            raise AsmError(f"unknown configuration {text[:40]!r}; {one_of(NAMED, text[:40])}, or a JSON object")

    def _buffer_line(self, words: list[str], line: str) -> None:
        if len(words) != 3:
            raise AsmError(".buffer takes a name, a kind and a size in bytes")
        name, kind, size = words
        if name in self._buffers:
            raise AsmError(f"buffer {name[:40]!r} is declared twice")
        if kind not in list(BufferKind):
            raise AsmError(f"unknown buffer kind {kind[:40]!r}; {one_of(list(BufferKind), kind[:40])}")
        self._buffers[name] = (BufferKind(kind), _number(size, f"size of buffer {name[:40]!r}"))

    def _data_line(self, words: list[str], line: str) -> None:
        name = words[0] if words else ""
        if name not in self._buffers:
            raise AsmError(f".data names no declared buffer: {name[:40]!r}; {one_of(self._buffers, name[:40])}")
        try:
            self._data.setdefault(name, bytearray()).extend(bytes.fromhex("".join(words[1:])))
        except ValueError:
            raise AsmError(f".data of {name!r} is not hexadecimal bytes") from None

    def _uop_line(self, words: list[str], line: str) -> None:
        if len(words) == 1 and "=" not in words[0]:
            self._uops.append(_number(words[0], ".uop"))
            if not 0 <= self._uops[-1] < 1 << 32:
                raise AsmError(".uop takes one number of 32 bits, or dst=, src= and wgt=")
            return
        values: dict[str, int] = {}
        for word in words:
            key, equals, text = word.partition("=")
            if key not in ("dst", "src", "wgt") or not equals or key in values:
                raise AsmError(f".uop takes dst=, src= and wgt= once each, got {word[:40]!r}")
            values[key] = _number(text, f".uop {key}")
        self._uops.append(encode_uop(self._config, **values))

    def program(self) -> Program:
        ends = [*(first for _, first in self._parts[1:]), len(self._insns)]
        return Program(
            config=self._config, insns=tuple(self._insns), uops=tuple(self._uops), relocations=tuple(self._relocations),
            isa_version=self._isa, buffers=tuple(
                Buffer(name=name, kind=kind, size_bytes=size, data=bytes(self._data[name]) if name in self._data else None)
                for name, (kind, size) in self._buffers.items()
            ), parts=tuple(Part(name, end) for (name, _), end in zip(self._parts, ends, strict=False)),
        )
