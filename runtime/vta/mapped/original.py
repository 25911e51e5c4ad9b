"""The original VTA behind its registers: the blocks that its HLS design makes, and the one block of its Chisel design.

Addresses are those of its own drivers and configurations. It says neither what it is nor what went wrong.
"""

import time
from collections.abc import Mapping
from typing import Protocol

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import ISA_VERSION
from vtakit.hw.isa.program import Program
from vtakit.hw.isa.published import PUBLISHED_FEATURES, Isa
from vtakit.runtime.vta.device import Ending
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.runtime.vta.mapped.dma import Memory
from vtakit.runtime.vta.mapped.page import Registers
from vtakit.sim.checker import check_program
from vtakit.sim.faults import DeviceError

PAGE_BYTES = 0x1000  # of the registers of each block
ADDRESS_BITS = 32
_FIRST_PAUSE_S, _LAST_PAUSE_S = 20e-6, 2e-3  # between looks at a register
_RESET_SECONDS = 5.0


class Shell(Protocol):
    """The way in which one of the original's designs is started."""

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start a program."""

    def ended(self) -> bool:
        """Return whether the program has met its FINISH; asked until it has."""

    def rest(self) -> None:
        """Let it rest after a program."""

    def counters(self) -> dict[str, int]:
        """Return what it has counted."""


class Hls:
    """The HLS design: fetch, load, compute and store are blocks with a page of registers each, in this order.

    A block's control register has ap_start (bit 0), ap_done (1, cleared by a read), ap_idle (2) and auto-restart (7). Load,
    compute and store run one instruction a start, so that they start again by themselves. Compute writes 0 to its output `done`
    with every instruction and 1 with FINISH; a bit beside it says that it was written, and is cleared by a read.
    """

    PAGES = 4
    FETCH, LOAD, COMPUTE, STORE = (n * PAGE_BYTES for n in range(PAGES))
    CONTROL, START, RESTART, AP_DONE, AP_IDLE = 0x00, 1 << 0, 1 << 7, 1 << 1, 1 << 2
    INSN_COUNT, INSNS = FETCH + 0x10, FETCH + 0x18
    DONE, DONE_WRITTEN = COMPUTE + 0x18, COMPUTE + 0x1C
    # Base addresses, all 0: programs have physical ones. Compute's first one is the input of `done`.
    BASES = (LOAD + 0x10, LOAD + 0x18, COMPUTE + 0x10, COMPUTE + 0x20, COMPUTE + 0x28, STORE + 0x10)

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        self._fetched = self._written = False

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start a program: `done` of the one before is forgotten first, else it would end this one."""
        write = self._registers.write
        write(self.INSN_COUNT, insn_count)
        write(self.INSNS, insn_addr)
        for base in self.BASES:
            write(base, 0)
        for register in (self.FETCH + self.CONTROL, self.DONE_WRITTEN):
            self._registers.read(register)
        self._fetched = self._written = False
        write(self.FETCH + self.CONTROL, self.START)
        for block in (self.LOAD, self.COMPUTE, self.STORE):
            write(block + self.CONTROL, self.START | self.RESTART)

    def ended(self) -> bool:
        """Return whether fetch has handed out all instructions, and compute has met FINISH since the start."""
        read = self._registers.read
        self._fetched = self._fetched or bool(read(self.FETCH + self.CONTROL) & (self.AP_DONE | self.AP_IDLE))
        self._written = self._written or bool(read(self.DONE_WRITTEN) & 1)
        return self._fetched and self._written and read(self.DONE) == 1

    def rest(self) -> None:
        """End the restarts."""
        for block in (self.LOAD, self.COMPUTE, self.STORE):
            self._registers.write(block + self.CONTROL, 0)

    def counters(self) -> dict[str, int]:
        """Return nothing: it does not count."""
        return {}


class Vcr:
    """The Chisel design: one page, with launch (bit 0) and finish (bit 1) in the first word, and then cycles, the number of
    instructions, and six addresses: of instructions, micro-ops, inputs, weights, accumulators and outputs.

    words    of an address: 1 on a PYNQ, 2 where memory has addresses of 64 bits
    """

    PAGES = 1
    CONTROL, CYCLES, INSN_COUNT, ADDRESSES = 0x00, 0x04, 0x08, 0x0C
    LAUNCH, FINISH = 1 << 0, 1 << 1
    POINTERS = 6

    def __init__(self, registers: Registers, words: int = 1) -> None:
        self._registers, self._words = registers, words

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start a program; finish of the one before is cleared by that."""
        write = self._registers.write
        write(self.INSN_COUNT, insn_count)
        for n in range(self.POINTERS * self._words):
            write(self.ADDRESSES + 4 * n, insn_addr if n == 0 else 0)
        write(self.CONTROL, self.LAUNCH)

    def ended(self) -> bool:
        """Return whether compute has met FINISH."""
        return bool(self._registers.read(self.CONTROL) & self.FINISH)

    def rest(self) -> None:
        """Do nothing: it rests by itself."""

    def counters(self) -> dict[str, int]:
        """Return the cycles."""
        return {"cycles": self._registers.read(self.CYCLES)}


SHELLS: Mapping[str, tuple[int, type[Hls] | type[Vcr], int]] = {  # pages, class, words of an address
    "hls": (Hls.PAGES, Hls, 1), "vcr": (Vcr.PAGES, Vcr, 1), "vcr64": (Vcr.PAGES, Vcr, 2),
}


def pages_of(shell: object) -> int:
    """Return the pages of registers of a shell. Raises VtakitError for an unknown one."""
    if not isinstance(shell, str) or shell not in SHELLS:
        raise VtakitError(f"unknown registers {shell!r:.40}; {one_of(SHELLS, str(shell))}")
    return SHELLS[shell][0]


def shell_of(name: str, registers: Registers) -> Shell:
    """Return a shell by its name."""
    _, kind, words = SHELLS[name]
    return Vcr(registers, words) if kind is Vcr else Hls(registers)


class OriginalDevice:
    """A `Device`: the original, of a configuration and abilities that the user says, since it does not.

    isa      instructions that it has
    checks   each program is checked against the rules of docs/original.md when it is loaded

    Raises DeviceError for memory that it cannot address.
    """

    version = ISA_VERSION
    bus_bytes: float | None = None

    def __init__(
        self, name: str, registers: Registers, shell: Shell, memory: Memory, config: VTAConfig, isa: Isa, *, checks: bool = True,
    ) -> None:
        isa.check_config(config)
        self.name, self.config, self.features = name, config, isa.features(PUBLISHED_FEATURES)
        self.memory = memory.addresses
        self._registers, self._shell, self._shared, self._isa, self._checks = registers, shell, memory, isa, checks
        self._runs = False
        if self.memory.stop > 1 << ADDRESS_BITS:
            raise DeviceError(f"device {name!r} has addresses of {ADDRESS_BITS} bits, and its memory ends at "
                              f"0x{self.memory.stop:x}: give it lower memory")

    def check(self, program: Program) -> None:
        """Raise ProgramError if a program breaks a rule of the published instruction set's implementations."""
        if self._checks and (faults := check_program(program, self._isa)):
            raise ProgramError(f"device {self.name!r} would not run the program right: {faults[0]}; compile it with --isa "
                               f"{self._isa}")

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return self._shared.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        self._shared.write(address, data)

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start the program at a byte address."""
        self._runs = True
        self._shell.start(insn_addr, insn_count)

    def wait(self, timeout_s: float) -> Ending:
        """Wait until the program has met its FINISH."""
        if not self._ends(timeout_s):
            raise DeviceTimeout(
                self.name, f"{timeout_s:g} s", "wait longer; it has no reset: if it hangs, load its bitstream again")
        return Ending(counters=self._shell.counters())

    def reset(self) -> None:
        """Wait for the program that runs, since there is no reset.

        Raises DeviceError if it does not end.
        """
        if self._runs and not self._ends(_RESET_SECONDS):
            raise DeviceError(f"device {self.name!r} does not end its program, and the original has no reset: load its bitstream "
                              "again")

    def close(self) -> None:
        """Let go of registers and memory."""
        self._shared.close()
        self._registers.close()

    def _ends(self, timeout_s: float) -> bool:
        deadline, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while not self._shell.ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LAST_PAUSE_S)
        self._shell.rest()
        self._runs = False
        return True
