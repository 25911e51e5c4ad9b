"""Single instructions and micro-ops: encode from named fields, decode to them, route to a stage."""

from collections.abc import Mapping
from dataclasses import dataclass

from vtakit.base.errors import one_of
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.errors import EncodingError, ProgramError
from vtakit.hw.isa.formats import listing
from vtakit.hw.isa.insns import (
    ALU_FEATURES,
    BY_NAME,
    FORMATS,
    MEMORIES,
    OPCODE,
    REQUANT_PARAMS,
    STAGES,
    UOP,
    AluOp,
    Feature,
    MemType,
    Opcode,
    Stage,
)

_OPCODES = {int(opcode): opcode for opcode in Opcode}
_LISTED = {  # for each format, the fields that have a list of legal values, and those by number
    fmt.name: {f.name: {int(member): member for member in f.members} for f in fmt.fields if f.members is not None}
    for fmt in FORMATS.values()
}


@dataclass(frozen=True, slots=True)
class Insn:
    """A decoded instruction: its opcode and the value of every field but the opcode."""

    op: Opcode
    fields: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    @property
    def stage(self) -> Stage:
        """The stage that runs it."""
        stage = STAGES[self.op]
        return MEMORIES[MemType(self["memory_type"])].stage if stage is None else stage

    @property
    def features(self) -> Feature:
        """The abilities beyond the smallest device that it needs."""
        if self.op is Opcode.ALU:
            return ALU_FEATURES[AluOp(self["alu_opcode"])]
        if self.op is Opcode.LOAD and self["memory_type"] == MemType.ACC_8BIT:
            return Feature.ACC_8BIT
        if self.op is Opcode.REQUANT:
            pools = Feature.POOL if self["pool"] or self["pool_step"] else Feature(0)
            return Feature.REQUANT | pools | (Feature.LOOKUP if self["lookup"] else Feature(0))
        if self.op is Opcode.PAD_LOAD:
            return Feature.PAD_VALUE
        if self.op is Opcode.DWCONV:
            return Feature.DWCONV
        if self.op is Opcode.GEMM and self["overwrite"]:
            return Feature.OVERWRITE
        return Feature(0)


def encode(cfg: VTAConfig, op: str, **values: int) -> int:
    """The 128-bit word of instruction `op` ("load", "store", "gemm", …: `BY_NAME`); absent fields are 0.

    Raises `EncodingError` for an unknown instruction or field, or a value that does not fit.
    """
    if op not in BY_NAME:
        raise EncodingError(f"unknown instruction {op!r}; {one_of(BY_NAME, op)}")
    opcode = BY_NAME[op]
    fmt = FORMATS[opcode]
    if "opcode" in values:
        raise EncodingError(f"{op}.opcode is given by the instruction's name")
    for name, members in _LISTED[op].items():
        if name in values and values[name] not in members:
            raise EncodingError(f"{op}.{name} is {values[name]}; known: {listing(members.values())}")
    return fmt.pack(cfg, {"opcode": opcode, **values})


def decode(cfg: VTAConfig, word: int) -> Insn:
    """The instruction that a 128-bit word holds.

    Raises `EncodingError` if the opcode or a listed value is unknown, or if a bit outside every field is set.
    """
    code = word & ((1 << OPCODE.width_in(cfg)) - 1)
    if code not in _OPCODES:
        raise EncodingError(f"opcode {code} is unknown; known: {listing(Opcode)}")
    fmt = FORMATS[_OPCODES[code]]
    if word >> fmt.bits:
        raise EncodingError(f"{fmt.name} has {fmt.bits} bits, but 0x{word:x} has {word.bit_length()}")
    if extra := word & fmt.reserved_bits(cfg):
        raise EncodingError(f"{fmt.name} has reserved bits set: 0x{extra:032x}")
    values = fmt.unpack(cfg, word)
    for name, members in _LISTED[fmt.name].items():
        if values[name] not in members:
            raise EncodingError(f"{fmt.name}.{name} is {values[name]}; known: {listing(members.values())}")
    del values["opcode"]
    return Insn(_OPCODES[code], values)


def encode_uop(cfg: VTAConfig, dst: int = 0, src: int = 0, wgt: int = 0) -> int:
    """The 32-bit word of a micro-op."""
    return UOP.pack(cfg, {"dst": dst, "src": src, "wgt": wgt})


def decode_uop(cfg: VTAConfig, word: int) -> dict[str, int]:
    """dst, src and wgt of a micro-op."""
    return UOP.unpack(cfg, word)


def encode_requant(cfg: VTAConfig, **values: int) -> tuple[int, ...]:
    """The words of one lane's requantization parameters, for accumulator elements params, params + 1 and params + 2.

    bias, multiplier, shift, zero_point, low, high; absent ones are 0. Raises `EncodingError` as `encode` does.
    """
    packed = REQUANT_PARAMS.pack(cfg, values)
    return tuple(packed >> at & 0xFFFFFFFF for at in range(0, REQUANT_PARAMS.bits, 32))


def to_bytes(words: tuple[int, ...] | list[int]) -> bytes:
    """Instructions as they lie in DRAM, 16 bytes each, little-endian."""
    return b"".join(word.to_bytes(INSN_BYTES, "little") for word in words)


def from_bytes(data: bytes) -> tuple[int, ...]:
    """Instructions from their bytes in DRAM."""
    if len(data) % INSN_BYTES:
        raise ProgramError(f"{len(data)} bytes are not a whole number of {INSN_BYTES}-byte instructions")
    return tuple(int.from_bytes(data[at : at + INSN_BYTES], "little") for at in range(0, len(data), INSN_BYTES))
