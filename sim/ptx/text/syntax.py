"""Syntax tree of PTX: statements with their operands, as the text has them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, symbol or label, with the offset of `symbol+8`."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point constant: its bits in `bits` bits, or the value of a decimal text if `bits` is 0."""

    pattern: int
    bits: int
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Vector:
    """Operands in braces."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations of one instruction: ``%p1|%p2``."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Address:
    """A place in memory: ``[base+offset]``; `more` holds what follows a comma, such as the coordinates of a tensor copy."""

    base: "Operand"
    offset: int = 0
    more: tuple["Operand", ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a predicate operand: ``!%p1``."""

    part: "Operand"


Operand = Name | Integer | Float | Vector | Pair | Address | Not


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `guard` is the name of its predicate, or "" if it has none."""

    name: str
    operands: tuple[Operand, ...]
    line: int
    text: str
    guard: str = ""
    negated: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The name and its modifiers."""
        return tuple(self.name.split("."))


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Defined:
    """A register that LLVM left without a value on purpose: its comment ``// implicit-def``."""

    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Memory with a name.

    size    : bytes
    data    : its first value; None if none is given
    symbols : addresses in it, by byte offset
    """

    name: str
    space: str
    size: int
    align: int
    data: bytes | None = None
    symbols: tuple[tuple[int, Name], ...] = ()
    external: bool = False


@dataclass(slots=True, kw_only=True)
class Kernel:
    """An entry or a function with its body."""

    name: str
    entry: bool
    line: int
    params: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name to type
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label | Defined] = field(default_factory=list)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)  # labels of tables for indirect branches
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)  # such as maxntid


@dataclass(slots=True, kw_only=True)
class Text:
    """A PTX module."""

    version: str = ""
    target: str = ""
    variables: list[Variable] = field(default_factory=list)
    kernels: dict[str, Kernel] = field(default_factory=dict)
