"""The memory system of an accelerator: what its compiler assumes, and what its simulators stand in for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, Self

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.jsons import read_object

BUS_BITS = (64, 128, 256, 512)


class MemorySystemError(VtakitError, ValueError):
    """A memory system that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A memory with a port of its own for reads and one for writes. The default is the reference system of docs/simulators.md.

    bus_bits    : width of the AXI bus: 64, 128, 256 or 512
    latency     : cycles from a read's address to its first data, and from a write's last data to its answer
    outstanding : bursts that the memory accepts at once, in each direction
    bandwidth   : share of the cycles in which the bus moves a beat, in each direction: 0.01 to 1, in steps of 0.01

    Raises MemorySystemError for a value out of range.
    """

    bus_bits: int = BUS_BITS[0]
    latency: int = 40
    outstanding: int = 16
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.bus_bits, int) or self.bus_bits not in BUS_BITS:
            self._refuse("bus_bits", f"one of {BUS_BITS}")
        for name, low, high in (("latency", 0, 100_000), ("outstanding", 1, 256)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                self._refuse(name, f"a whole number from {low} to {high}")
        share = self.bandwidth
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0.01 <= share <= 1:
            self._refuse("bandwidth", "a share of 0.01 to 1")
        object.__setattr__(self, "bandwidth", round(share, 2))

    def _refuse(self, name: str, legal: str) -> NoReturn:
        raise MemorySystemError(f"a memory system's {name} is {getattr(self, name)!r:.40} and must be {legal}")

    @property
    def bytes_a_cycle(self) -> float:
        """Bytes that the bus moves in a cycle at most, in each direction."""
        return self.bus_bits / 8 * self.bandwidth

    @property
    def options(self) -> dict[str, int]:
        """The options of device "rtl" that simulate it."""
        return {"bus_bits": self.bus_bits, "latency": self.latency, "outstanding": self.outstanding,
                "bandwidth": round(100 * self.bandwidth)}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "a memory system") -> Self:
        """Return the memory system of some fields; the others are those of the reference system."""
        known = [each.name for each in fields(cls)]
        for name in data:
            if name not in known:
                raise MemorySystemError(f"{where} has no field {str(name)!r:.40}; {one_of(known, str(name))}")
        try:
            return cls(**data)
        except MemorySystemError as error:
            raise MemorySystemError(f"{where}: {error}" if where != "a memory system" else str(error)) from None


REFERENCE = System()
SYSTEMS = {"reference": REFERENCE, "ideal": System(latency=0)}
SystemLike = System | str | Path | Mapping[str, Any]


def load_system(what: SystemLike) -> System:
    """Return the memory system that `what` means: one already, a name, a mapping of fields, or the path of a JSON file of them.

    A string is a name if it has neither a separator nor the ending .json.
    """
    if isinstance(what, System):
        return what
    if isinstance(what, Mapping):
        return System.from_dict(what)
    if not isinstance(what, str | Path):
        raise MemorySystemError(f"a memory system is a System, a name, a mapping or a path, not {type(what).__name__}")
    if isinstance(what, str) and not what.endswith(".json") and "/" not in what:
        if what not in SYSTEMS:
            raise MemorySystemError(f"unknown memory system {what!r:.80}; {one_of(SYSTEMS, what)}, or the path of a .json file")
        return SYSTEMS[what]
    found = read_object(what, "memory system file", [each.name for each in fields(System)], MemorySystemError)
    return System.from_dict(found, f"memory system file {str(what)!r}")
