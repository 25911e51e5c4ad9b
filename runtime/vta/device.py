"""Interface of an accelerator, be it simulated or on a board."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import Program
from vtakit.sim.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Ending of a program.

    fault      why the device stopped it; None if it reached its FINISH
    index      with a fault: number of the instruction, -1 if there is none
    detail     with a fault: what the program did
    counters   what the device counted: nothing, or `cycles` and what each stage's cycles were spent on, and perhaps more
    trace      what each stage did in every cycle, if the device was asked for it
    """

    fault: Fault | None = None
    index: int = -1
    detail: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    trace: Trace | None = None


class Device(Protocol):
    """One accelerator with its memory, used by one thread; `Driver` keeps the rules that its methods state.

    name           as the user calls it
    config         its configuration
    version        (major, minor) of the instruction set that it has
    features       its abilities beyond the smallest device
    memory         the byte addresses that it has memory at
    bus_bytes      bytes a cycle that its memory port moves at most, in each direction; None if it has no cycles

    Every method returns or raises within a bounded time, `wait` within about its timeout. What a device cannot do is a
    `DeviceError` of one sentence.
    """

    name: str
    config: VTAConfig
    version: tuple[int, int]
    features: Feature
    memory: range
    bus_bytes: float | None

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of memory. All of them lie in `memory`, and no program runs."""

    def write(self, address: int, data: bytes) -> None:
        """Write memory. All of it lies in `memory`, and no program runs."""

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start the program at a byte address, with base registers 0 and all of `memory` as its window; no other runs."""

    def wait(self, timeout_s: float) -> Ending:
        """Wait until the program that was started has ended.

        Raises `DeviceTimeout` if that takes longer; the program then still runs, and may be waited for again.
        """

    def reset(self) -> None:
        """Stop what runs and forget it, at any time; memory keeps what it holds. Then a program can be started."""

    def close(self) -> None:
        """Let go of the device; nothing else is called after it."""


@runtime_checkable
class Checks(Protocol):
    """A device that looks at programs before they are loaded."""

    def check(self, program: Program) -> None:
        """Raise `ProgramError` for a program that the device would not run right."""
