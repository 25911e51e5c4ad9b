"""Records of machines: what estimates assume of a processor or GPU, each field with its unit, bounds and meaning."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from vtakit.base.errors import VtakitError, one_of

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
T = TypeVar("T", int, float)


class MachineError(VtakitError, ValueError):
    """A record of a processor that does not exist."""


def fact(default: T, unit: str, low: float, high: float, meaning: str) -> T:
    """Return a field of a record, with the bounds of its values."""
    known = {"unit": unit, "low": low, "high": high, "meaning": meaning}
    found: T = field(default=default, metadata=known)
    return found


class Fact(NamedTuple):
    """A field of a record: its default, its unit, the bounds of its values, and what it is."""

    name: str
    default: int | float
    unit: str
    low: float
    high: float
    meaning: str


def facts_of(record: "type[Record]") -> Iterator[Fact]:
    """Yield the fields of a record, in order."""
    for each in fields(record):
        default: Any = each.default
        known: Mapping[str, Any] = each.metadata
        if known:
            yield Fact(each.name, default, known["unit"], known["low"], known["high"], known["meaning"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record whose fields are facts.

    what : names one in errors
    """

    what: ClassVar[str] = "a machine"

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise MachineError for a value out of range; make numbers of fields that are no whole numbers floats."""
        for each in facts_of(type(self)):
            value, whole = getattr(self, each.name), isinstance(each.default, int)
            fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not fits or not each.low <= value <= each.high:
                kind = "a whole number" if whole else "a number"
                raise MachineError(f"{self.what}'s {each.name} is {value!r:.40} and must be {kind} from {each.low:,} to "
                                   f"{each.high:,} ({each.unit})")
            if not whole:
                object.__setattr__(self, each.name, float(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    def changed(self, data: Mapping[str, Any], where: str = "") -> Self:
        """Return the record with other values of some fields.

        where : names what gives them in errors
        """
        known = [each.name for each in fields(self)]
        for name in data:
            if name not in known:
                raise MachineError(f"{where or self.what} has no field {str(name)!r:.40}; {one_of(known, str(name))}")
        try:
            return replace(self, **data)
        except MachineError as error:
            raise MachineError(f"{where}: {error}" if where else str(error)) from None
