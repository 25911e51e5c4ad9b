"""Surroundings of the simulated accelerator: the options of device "rtl", stated once for `vtakit.sim` and for the driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.hw.dram import Dram
from vtakit.hw.system import REFERENCE, SystemLike, load_system, peak_bytes_a_cycle
from vtakit.sim.api import integer

NOWHERE = 2**64 - 1  # an address at which no error is injected


def _number(default: int, low: int, high: int) -> Any:
    return field(default=default, metadata={"bounds": (low, high)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The memory's behaviour and what is recorded. Without options it is the reference system of docs/simulators.md.

    latency         cycles from a read's address to its first beat, and from a write's last beat to its answer; with `chip`, until
                    they are in the controller's queue
    outstanding     bursts that the memory accepts at once, of each direction
    bandwidth       percent of a beat a cycle that it moves at most, in each direction
    chip            DRAM and controller behind the port; None: nothing there takes time
    stall, seed     percent of the cycles in which each channel refuses or withholds a transfer, and the seed of which
    read_error, write_error   a byte of DRAM: accesses that touch it are answered with an error
    max_cycles      a longer run is an error; of the driver's, a longer program or reset
    trace           record what each stage does in every cycle
    wave            a .vcd or .fst file to write all signals to; .fst needs Debian's liblz4-dev

    Raises `VtakitError` for a value that an option cannot have.
    """

    latency: int = _number(REFERENCE.latency, 0, 100_000)
    outstanding: int = _number(REFERENCE.outstanding, 1, 256)
    bandwidth: int = _number(REFERENCE.options["bandwidth"], 1, 100)
    chip: Dram | None = None
    stall: int = _number(0, 0, 99)
    seed: int = _number(0, 0, 2**63)
    read_error: int = _number(NOWHERE, 0, NOWHERE)
    write_error: int = _number(NOWHERE, 0, NOWHERE)
    max_cycles: int = _number(1_000_000_000, 1, 2**62)
    trace: bool = False
    wave: Path | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            if "bounds" in option.metadata:
                low, high = option.metadata["bounds"]
                value = integer(option.name, getattr(self, option.name))
                if not low <= value <= high:
                    raise VtakitError(f"{option.name} is {value} and must be from {low} to {high}")
        if not (self.chip is None or isinstance(self.chip, Dram)):
            raise VtakitError(f"chip must be a vtakit.hw.dram.Dram or None, not {self.chip!r:.40}; system= takes names and files")
        if not isinstance(self.trace, bool):
            raise VtakitError(f"trace must be True or False, not {self.trace!r:.40}")
        if self.wave is not None:
            try:
                object.__setattr__(self, "wave", Path(self.wave))
            except TypeError:
                raise VtakitError(f"wave must be the name of a .vcd or .fst file, got {self.wave!r:.40}") from None
            if self.wave.suffix not in (".vcd", ".fst"):
                raise VtakitError(f"wave must be the name of a .vcd or .fst file, got {str(self.wave)!r}")

    def peak_bytes(self, bus_bytes: int) -> float:
        """Return the bytes that a cycle moves at most, in each direction, over a bus of so many bytes."""
        return peak_bytes_a_cycle(bus_bytes, self.bandwidth / 100, self.chip)

    def check_capacity(self, memory_bytes: int) -> None:
        """Raise VtakitError if memory of this size is more than the DRAM's chip has."""
        if self.chip is not None and memory_bytes > self.chip.capacity_bytes:
            raise VtakitError(f"the program and its data take {memory_bytes:,} bytes of memory, and this memory system has "
                              f"{self.chip.capacity_bytes:,}: rows x banks x columns x width / 8; more rows would hold them")


def surrounded(system: SystemLike, bus_bits: int | None, options: Mapping[str, Any]) -> tuple[Surroundings, int]:
    """Return the surroundings of a memory system with options on top, and the width of its bus in bits."""
    known = load_system(system).options
    bits = known.pop("bus_bits")
    return Surroundings(**{**known, **options}), bits if bus_bits is None else integer("bus_bits", bus_bits)


OPTIONS = tuple(option.name for option in fields(Surroundings))
