"""Layer of a report: the work of one launch, or a part of one, and its cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import MEMORIES, Opcode, Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.vta.loaded import LaunchResult
from vtakit.sim.api import integer
from vtakit.sim.decode import Decoded

FETCH = "insn"  # the name of what is read by fetching instructions, beside the memory types
# By the memory that they fill or empty, in this order.
READS = (*(kind.name.lower() for kind, memory in MEMORIES.items() if Opcode.LOAD in memory.opcodes), FETCH)
WRITES = tuple(kind.name.lower() for kind, memory in MEMORIES.items() if Opcode.STORE in memory.opcodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The work of some instructions, which is known from the instructions alone, and what was measured of them.

    peak           multiplications a cycle of the device
    bus_bytes      bytes a cycle that its memory port moves at most, in each direction; None if that is not known
    macs           multiplications that the program is for; if nobody says, all that its steps do, those with padding too
    gemm_steps, reset_steps, alu_steps   micro-op steps; the compute stage runs one a cycle at most
    read, written  bytes by memory; pads are not counted, and of the bus's beats only what is used
    cycles         None if the device has none
    stages         by stage and cause, what its cycles were spent on: `hw.isa.regs.CYCLE_CAUSES`; empty if that is not known
    read_beats, write_beats   of the bus; None if that is not known
    """

    name: str
    peak: int
    bus_bytes: float | None
    insn_count: int
    macs: int
    gemm_steps: int
    reset_steps: int
    alu_steps: int
    read: Mapping[str, int]
    written: Mapping[str, int]
    cycles: int | None = None
    stages: Mapping[str, Mapping[str, int]]
    read_beats: int | None = None
    write_beats: int | None = None

    @classmethod
    def of(
        cls, name: str, cfg: VTAConfig, words: Sequence[int], counters: Mapping[str, int], *, bus_bytes: float | None = None,
        macs: int | None = None,
    ) -> Self:
        """A run of all instructions `words`.

        counters   what was measured, as in a `Result` of vtakit.sim or a `LaunchResult`; other keys are not looked at
        """
        decoded = Decoded(cfg, to_bytes(list(words)))
        work = decoded.transfer_counters()
        moved = {kind.name.lower(): decoded.moved_bytes(kind) for kind in MEMORIES} | {FETCH: len(words) * INSN_BYTES}
        peak = cfg.batch * cfg.block**2
        known = all(f"{stage}_{cause}" in counters for stage in _STAGES for cause in CYCLE_CAUSES)
        if macs is not None and integer(f"the multiplications of {name!r}", macs) < 0:
            raise VtakitError(f"the multiplications of {name!r} must be at least 0, not {macs}")
        return cls(
            name=name, peak=peak, bus_bytes=bus_bytes, insn_count=len(words),
            macs=work["gemm_counter"] * peak if macs is None else macs, gemm_steps=work["gemm_counter"],
            reset_steps=work["gemm_reset_counter"], alu_steps=work["alu_counter"], read={name: moved[name] for name in READS},
            written={name: moved[name] for name in WRITES}, cycles=counters.get("cycles"),
            stages={s: {cause: counters[f"{s}_{cause}"] for cause in CYCLE_CAUSES} for s in _STAGES} if known else {},
            read_beats=counters.get("read_beats"), write_beats=counters.get("write_beats"),
        )

    @classmethod
    def of_launch(cls, name: str, result: LaunchResult, macs: int | None = None) -> Self:
        """A launch of the driver's."""
        program = result.program
        return cls.of(name, program.config, program.insns, result.counters, bus_bytes=result.bus_bytes, macs=macs)

    @property
    def steps(self) -> int:
        """Micro-op steps of all kinds."""
        return self.gemm_steps + self.reset_steps + self.alu_steps

    @property
    def read_bytes(self) -> int:
        """Bytes read from DRAM, instructions and micro-ops too."""
        return sum(self.read.values())

    @property
    def written_bytes(self) -> int:
        """Bytes written to DRAM."""
        return sum(self.written.values())

    @property
    def intensity(self) -> float | None:
        """Multiplications a byte of the busier direction: the bus reads and writes at once. None if nothing moves."""
        busier = max(self.read_bytes, self.written_bytes)
        return self.macs / busier if busier else None

    @property
    def rate(self) -> float | None:
        """Multiplications a cycle."""
        return self.macs / self.cycles if self.cycles else None

    @property
    def share_of_peak(self) -> float | None:
        """Multiplications of those that its cycles had room for."""
        return None if self.rate is None else self.rate / self.peak

    @property
    def roof(self) -> float | None:
        """Multiplications a cycle that the roofline model allows: the peak, or what the bus feeds at this intensity."""
        if self.bus_bytes is None or self.intensity is None:
            return None
        return min(self.peak, self.intensity * self.bus_bytes)

    @property
    def side(self) -> str | None:
        """In the roofline model, "memory" if the bus keeps it below the peak, else "compute"; None if the bus is not known."""
        return None if self.roof is None else "memory" if self.roof < self.peak else "compute"

    @property
    def share_of_roof(self) -> float | None:
        """Its rate, of what the roofline model allows; None if it multiplies nothing."""
        return self.rate / self.roof if self.rate is not None and self.roof else None

    @property
    def bounds(self) -> dict[str, int]:
        """Cycles that it takes at least, by what takes them: steps, one a cycle; and reads and writes, where the bus is known."""
        found = {"steps": self.steps}
        if self.bus_bytes is not None:
            found |= {"reads": _ceil(self.read_bytes / self.bus_bytes), "writes": _ceil(self.written_bytes / self.bus_bytes)}
        return found

    @property
    def bound_by(self) -> str | None:
        """The largest of `bounds`; None if the bus is not known."""
        return None if self.bus_bytes is None else max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def share_of_bound(self) -> float | None:
        """The largest of `bounds` in its cycles."""
        return max(self.bounds.values()) / self.cycles if self.cycles and self.bus_bytes is not None else None

    def as_json(self) -> dict[str, Any]:
        """Everything, what follows from it too, as plain data; what is not known is null."""
        return {
            "name": self.name, "cycles": self.cycles, "macs": self.macs, "insn_count": self.insn_count,
            "steps": {"gemm": self.gemm_steps, "reset": self.reset_steps, "alu": self.alu_steps},
            "read_bytes": dict(self.read), "written_bytes": dict(self.written),
            "read_beats": self.read_beats, "write_beats": self.write_beats,
            "stages": {stage: dict(causes) for stage, causes in self.stages.items()} or None,
            "macs_a_cycle": self.rate, "share_of_peak": self.share_of_peak, "macs_a_byte": self.intensity,
            "roof_macs_a_cycle": self.roof, "roofline_side": self.side, "share_of_roof": self.share_of_roof,
            "least_cycles": self.bounds, "bound_by": self.bound_by, "share_of_bound": self.share_of_bound,
        }


_STAGES = tuple(stage.name.lower() for stage in Stage)


def _ceil(value: float) -> int:
    return -int(-value // 1)
