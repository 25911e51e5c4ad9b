"""The memory system of an accelerator: what its compiler assumes, and what its simulators stand in for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

from vtakit.base.errors import one_of
from vtakit.base.jsons import read_object
from vtakit.hw.dram import FIELDS as DRAM_FIELDS
from vtakit.hw.dram import Dram, MemorySystemError, check_kind

BUS_BITS = (64, 128, 256, 512)
FLAT = "flat"
_PORT = ("bus_bits", "latency", "outstanding", "bandwidth")  # fields of every kind


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A memory behind an AXI port. The default is the reference system of docs/simulators.md.

    bus_bits    : width of the AXI bus: 64, 128, 256 or 512
    latency     : cycles from a read's address to its first data, and from a write's last data to its answer; with `dram`, until
                  they are in the controller's queue: what port, controller and pins take on both ways
    outstanding : bursts that the memory accepts at once, in each direction; with `dram`, the controller's queues
    bandwidth   : share of the cycles in which the bus moves a beat, in each direction: 0.01 to 1, in steps of 0.01
    dram        : chip and controller of a memory of kind "sdram" or "ddr"; None: kind "flat", which has a port of its own for
                  reads and one for writes, and nothing behind them that takes time

    As a mapping the fields of `dram` stand beside the others, with "kind".

    Raises MemorySystemError for a value out of range.
    """

    bus_bits: int = BUS_BITS[0]
    latency: int = 40
    outstanding: int = 16
    bandwidth: float = 1.0
    dram: Dram | None = None

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
        if not (self.dram is None or isinstance(self.dram, Dram)):
            self._refuse("dram", "a vtakit.hw.dram.Dram, or None")

    def _refuse(self, name: str, legal: str) -> NoReturn:
        raise MemorySystemError(f"a memory system's {name} is {getattr(self, name)!r:.40} and must be {legal}")

    @property
    def kind(self) -> str:
        """Kind of the memory: "flat", "sdram" or "ddr"."""
        return FLAT if self.dram is None else self.dram.kind

    @property
    def peak_bytes_a_cycle(self) -> float:
        """Bytes that a cycle moves at most, in each direction; a DRAM's directions share its own."""
        return peak_bytes_a_cycle(self.bus_bits / 8, self.bandwidth, self.dram)

    @property
    def bytes_a_cycle(self) -> float:
        """Bytes that a stream moves in a cycle, in each direction: what tiles are chosen for. A DRAM's directions share them."""
        port = self.bus_bits / 8 * self.bandwidth
        return port if self.dram is None else min(port, self.dram.stream_bytes_a_cycle)

    @property
    def read_latency(self) -> int:
        """Cycles from a read's address to its first data while nothing else is read: what tiles are chosen for."""
        return self.latency if self.dram is None else self.latency + self.dram.read_cycles

    @property
    def write_share(self) -> float:
        """Share of a write's time in which nothing can be read: 0 where writes have a bus of their own.

        Of a DRAM that is faster than its port, a read and a write of the port go on side by side.
        """
        return 0.0 if self.dram is None else self.bytes_a_cycle / self.dram.stream_bytes_a_cycle

    @property
    def options(self) -> dict[str, Any]:
        """The options of device "rtl" that simulate it."""
        found: dict[str, Any] = {"bus_bits": self.bus_bits, "latency": self.latency, "outstanding": self.outstanding,
                                 "bandwidth": round(100 * self.bandwidth)}
        return found if self.dram is None else found | {"chip": self.dram}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, those of a DRAM beside the others."""
        found = {name: getattr(self, name) for name in _PORT}
        return found if self.dram is None else found | {name: getattr(self.dram, name) for name in DRAM_FIELDS}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "a memory system") -> Self:
        """Return the memory system of some fields. The others are those of the reference system; with "kind": "sdram" those of
        system `ulx3s`, with "kind": "ddr" those of system `pynq`.
        """
        try:
            kind = data.get("kind", FLAT)
            check_kind(kind, (FLAT,))
            known = (*_PORT, "kind") if kind == FLAT else (*_PORT, *DRAM_FIELDS)
            for name in data:
                if name not in known:
                    cure = ('it belongs to kinds sdram and ddr: add "kind": "sdram" or "kind": "ddr"' if name in DRAM_FIELDS
                            else one_of(known, str(name)))
                    raise MemorySystemError(f"a memory system of kind {kind!r} has no field {str(name)!r:.40}; {cure}")
            port = {name: value for name, value in data.items() if name in _PORT}
            if kind == FLAT:
                return cls(**port)
            begin = _DEFAULTS[kind]
            assert begin.dram is not None
            chip = replace(begin.dram, **{name: value for name, value in data.items() if name in DRAM_FIELDS})
            return cls(**{name: getattr(begin, name) for name in _PORT} | port, dram=chip)
        except MemorySystemError as error:
            raise MemorySystemError(f"{where}: {error}" if where != "a memory system" else str(error)) from None


REFERENCE = System()
# The SDRAM of a ULX3S: MT48LC16M16 or its like, speed -75, on the core's clock of 80 MHz (12.5 ns). Datasheet: tRCD 20, tRP 20,
# tRAS 44, tRC 66, tRRD 15, tWR 15, tRFC 66 ns, 8192 refreshes in 64 ms. Latency: registers at the pins and to the port.
_ULX3S = System(latency=6, outstanding=8, dram=Dram())
# The DDR3 of a PYNQ-Z1 at 525 MHz (1.905 ns), the core at 100 MHz behind a 64-bit HP port. Vivado's presets: CL 7, CWL 6, tRCD 7,
# tRP 7, tRC 48.91 ns, tRAS 35 ns, tFAW 40 ns. tRFC is 260 ns of a 4 Gb chip. Latency of the port: assumed, not measured.
_PYNQ = System(latency=20, outstanding=8, dram=Dram(
    kind="ddr", clock=5.25, width=16, banks=8, rows=32768, columns=1024, burst=8, tcas=7, tcwl=6, trcd=7, trp=7, tras=19, trc=26,
    trrd=6, tfaw=21, twr=8, twtr=4, trtp=4, trtw=2, trfc=137, trefi=4095, ahead=4, batch=8))
# The LPDDR4 of an Ultra96 at 533 MHz, 32 bits, the core at 200 MHz behind a 64-bit HP port. JEDEC at that clock: RL 10, WL 6,
# tRCD 18, tRP 21 (all banks), tRAS 42, tRRD 10, tFAW 40, tWR 18, tWTR 10, tRTP 7.5, tRFC 280 ns, tREFI 3.904 us; commands take
# four clocks. Latency of the port: assumed, not measured.
_ULTRA96 = System(latency=40, outstanding=8, dram=Dram(
    kind="ddr", clock=2.67, width=32, banks=8, rows=65536, columns=1024, burst=16, tcas=10, tcwl=6, trcd=10, trp=12, tras=23,
    trc=35, trrd=6, tfaw=22, twr=10, twtr=6, trtp=8, trtw=2, trfc=150, trefi=2081, tcmd=4, ahead=4, batch=8))
SYSTEMS = {"reference": REFERENCE, "ideal": System(latency=0), "ulx3s": _ULX3S, "pynq": _PYNQ, "ultra96": _ULTRA96}
_DEFAULTS = {"sdram": _ULX3S, "ddr": _PYNQ}
SystemLike = System | str | Path | Mapping[str, Any]


def peak_bytes_a_cycle(bus_bytes: float, bandwidth: float, dram: Dram | None) -> float:
    """Return the bytes that port and DRAM move in a cycle at most, in each direction. `bandwidth` is a share of the cycles."""
    port = bus_bytes * bandwidth
    return port if dram is None else min(port, dram.peak_bytes_a_cycle)


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
    found = read_object(what, "memory system file", [*_PORT, "kind"], MemorySystemError)
    return System.from_dict(found, f"memory system file {str(what)!r}")
