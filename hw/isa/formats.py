"""The machinery of instruction formats: fields as data, their places, packing and unpacking.

A `Format` lists fields from bit 0 up; a width is a number of bits or the name of a `VTAConfig` property. Nothing
else in the project holds a bit offset: encoder, decoder, assembler, RTL and reference page ask `Format.place`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache, lru_cache
from operator import index
from typing import NamedTuple

from vtakit.base.errors import one_of
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import EncodingError


class Kind(Enum):
    """Encoding of a field's bits."""

    UINT = "unsigned"
    INT = "signed, two's complement"
    FLAG = "flag"
    ENUM = "one of a list"


def listing(members: Iterable[IntEnum]) -> str:
    """The members of a list as messages name them."""
    return ", ".join(f"{member.name} {member.value}" for member in members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A run of bits with a name; `members` lists the legal values of an ENUM."""

    name: str
    width: int | str
    doc: str
    kind: Kind = Kind.UINT
    members: type[IntEnum] | None = None

    def width_in(self, cfg: VTAConfig) -> int:
        """The field's width in bits for `cfg`."""
        return self.width if isinstance(self.width, int) else int(getattr(cfg, self.width))


@dataclass(frozen=True, slots=True)
class Align:
    """A gap: the next field starts at a multiple of `to` bits."""

    to: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A field with its place for one configuration."""

    field: Field
    offset: int
    width: int

    @property
    def low(self) -> int:
        """The smallest value that fits."""
        return -(1 << (self.width - 1)) if self.field.kind is Kind.INT else 0

    @property
    def high(self) -> int:
        """The largest value that fits."""
        return (1 << (self.width - (self.field.kind is Kind.INT))) - 1

    def read(self, word: int) -> int:
        """The field's value in `word`."""
        value = (word >> self.offset) & ((1 << self.width) - 1)
        return value - (1 << self.width) if self.field.kind is Kind.INT and value > self.high else value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Format:
    """The layout of one kind of word; `bits` is its size. Each is itself only, so that looking up its places is quick."""

    name: str
    doc: str
    bits: int
    items: tuple[Field | Align, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, lowest bits first."""
        return _fields(self)

    def width(self, name: str) -> int:
        """Bits of a field whose width is the same in every configuration."""
        (found,) = (field.width for field in self.fields if field.name == name)
        assert isinstance(found, int), f"the width of {self.name}.{name} depends on the configuration"
        return found

    def place(self, cfg: VTAConfig) -> tuple[Placed, ...]:
        """Every field with its offset and width in bits for `cfg`, lowest first."""
        return _place(self, cfg)

    def pack(self, cfg: VTAConfig, values: Mapping[str, int]) -> int:
        """The word that holds `values`; absent fields are zero.

        Raises `EncodingError` naming the field if a name is unknown or a value does not fit.
        """
        columns, word = _columns(self, cfg), 0
        for name, given in values.items():
            column = columns.get(name)
            if column is None:
                raise EncodingError(f"{self.name} has no field {name!r}; {one_of(columns, name)}")
            try:
                value = index(given)
            except TypeError:
                raise EncodingError(f"{self.name}.{name} is {given!r} and must be an integer") from None
            if not column.low <= value <= column.high:
                raise EncodingError(f"{self.name}.{name} is {value} and must be from {column.low} to {column.high} "
                                    f"({column.mask.bit_length()} bits)")
            word |= (value & column.mask) << column.offset
        return word

    def unpack(self, cfg: VTAConfig, word: int) -> dict[str, int]:
        """Every field's value in `word`; bits outside the fields are not looked at (see `reserved_bits`)."""
        return {name: (word >> offset & mask ^ -low) + low for name, (offset, mask, low, _) in _columns(self, cfg).items()}

    def reserved_bits(self, cfg: VTAConfig) -> int:
        """Mask of the bits that belong to no field and must be zero."""
        return _reserved(self, cfg)


class _Column(NamedTuple):
    """A field's place as packing needs it: its first bit, its bits at bit 0, and the values that fit."""

    offset: int
    mask: int
    low: int
    high: int


@cache
def _fields(fmt: Format) -> tuple[Field, ...]:
    return tuple(item for item in fmt.items if isinstance(item, Field))


@lru_cache(maxsize=1024)
def _columns(fmt: Format, cfg: VTAConfig) -> dict[str, _Column]:
    return {p.field.name: _Column(p.offset, (1 << p.width) - 1, p.low, p.high) for p in fmt.place(cfg)}


@lru_cache(maxsize=1024)
def _reserved(fmt: Format, cfg: VTAConfig) -> int:
    used = sum(column.mask << column.offset for column in _columns(fmt, cfg).values())
    return (1 << fmt.bits) - 1 & ~used


@lru_cache(maxsize=1024)
def _place(fmt: Format, cfg: VTAConfig) -> tuple[Placed, ...]:
    placed, offset = [], 0
    for item in fmt.items:
        if isinstance(item, Align):
            if offset > item.to:
                raise EncodingError(f"{fmt.name}: the fields before bit {item.to} end at bit {offset} for {cfg}")
            offset = item.to
            continue
        width = item.width_in(cfg)
        placed.append(Placed(item, offset, width))
        offset += width
    if offset > fmt.bits:
        last = placed[-1].field.name
        raise EncodingError(f"{fmt.name}.{last} ends at bit {offset} but {fmt.name} has only {fmt.bits} bits for {cfg}")
    return tuple(placed)
