"""An accelerator behind its registers (hw.isa.regs): the one protocol of the simulated RTL and of every board."""

from typing import Protocol

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, Feature
from vtakit.hw.isa.program import dotted
from vtakit.hw.isa.regs import COUNTERS, IDENTITY, REGISTER_BYTES, REGISTERS, fields_of, mask_of, offset_of
from vtakit.runtime.vta.device import Ending
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.sim.faults import DeviceError

RESET_SECONDS = 60.0  # a reset waits for the bursts in flight; in a simulation with slow memory that takes seconds
_WORD_BITS = 8 * REGISTER_BYTES


class Port(Protocol):
    """The way to an accelerator's registers and memory: a simulation, a mapped file, a serial line.

    Every method returns or raises `DeviceError` within a bounded time, also for an access that the device refuses.
    """

    memory: range

    def read_register(self, address: int) -> int:
        """The 32 bits of the register at a byte address."""

    def write_register(self, address: int, value: int) -> None:
        """Write the 32 bits of a register."""

    def wait_clear(self, address: int, mask: int, timeout_s: float) -> str | None:
        """Wait until no bit of `mask` is set in a register; the time that passed in vain as text ("2 s"), or None."""

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the accelerator's memory."""

    def write_memory(self, address: int, data: bytes) -> None:
        """Write bytes of the accelerator's memory."""

    def close(self) -> None:
        """Let go of it."""


class RegisterDevice:
    """A `Device` behind a `Port`. What it is it says itself, in its registers.

    config   the configuration that the user wants; None takes the one that is there

    Raises `DeviceError` if there is no accelerator or one of another instruction set, `ConfigError` if its configuration is
    another.
    """

    def __init__(self, name: str, port: Port, config: VTAConfig | None = None) -> None:
        self.name, self.port, self.memory = name, port, port.memory
        identity = self._read("identity")
        if identity != IDENTITY:
            raise DeviceError(f"device {name!r} is no VTA accelerator: its identity is 0x{identity:08x}, not 0x{IDENTITY:08x}")
        version = fields_of("version", self._read("version"))
        self.version = version["major"], version["minor"]
        if self.version[0] != ISA_VERSION[0]:
            raise DeviceError(f"device {name!r} has ISA version {dotted(self.version)}; this vtakit knows {dotted(ISA_VERSION)}")
        self.features = Feature(self._read("features"))
        self.config = VTAConfig(**fields_of("config", self._read("config")))
        if config is not None and config != self.config:
            asked, has = config.to_dict(), self.config.to_dict()
            differ = ", ".join(f"{key} {has[key]} (asked for {asked[key]})" for key in has if has[key] != asked[key])
            raise ConfigError(f"device {name!r} has another configuration than asked for: {differ}")
        bus = fields_of("bus", self._read("bus"))
        self.bus_bytes: float | None = 1 << bus["log_data_bytes"]
        self._counters = COUNTERS[:1] if bus["no_causes"] else COUNTERS  # all cycles, or also those of the stages

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return self.port.read_memory(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        self.port.write_memory(address, data)

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start the program at a byte address."""
        settings = {
            "insn_addr": insn_addr, "insn_count": insn_count, "window_low": self.memory.start, "window_high": self.memory.stop,
            **{f"base_{kind.name.lower()}": 0 for kind in MEMORIES},
        }
        for name, value in settings.items():
            self._write(name, value)
        self._command("clear_counters")
        self._command("start")

    def wait(self, timeout_s: float) -> Ending:
        """Wait until the program has ended."""
        passed = self.port.wait_clear(offset_of("status"), mask_of("status", "busy"), timeout_s)
        status = fields_of("status", self._read("status"))
        if passed is not None and status["error"]:
            raise DeviceError(f"device {self.name!r} cannot go on: {Fault.BUS_TIMEOUT.doc}; reset the system that it is in")
        if passed is not None:
            raise DeviceTimeout(self.name, passed)
        counters = {name: self._read(name) for name in self._counters}
        if status["error"]:
            return self._stopped(counters)
        if not status["done"]:
            raise DeviceError(f"device {self.name!r} neither finished the program nor found a fault: reset it")
        return Ending(counters=counters)

    def reset(self) -> None:
        """Stop what runs and forget it."""
        self._command("reset")
        passed = self.port.wait_clear(offset_of("status"), mask_of("status", "busy"), RESET_SECONDS)
        if passed is not None:
            longer = ", with a larger max_cycles" if passed.endswith("cycles") else ""
            raise DeviceError(f"device {self.name!r} does not answer a reset within {passed}: connect to it anew{longer}")

    def close(self) -> None:
        """Let go of the device."""
        self.port.close()

    def _stopped(self, counters: dict[str, int]) -> Ending:
        code = fields_of("error", self._read("error"))["fault"]
        fault = next((f for f in Fault if f == code), None)
        if fault is None:
            raise DeviceError(f"device {self.name!r} stopped the program with fault {code}, which this vtakit does not know")
        detail = f"in cycle {counters['cycles']}, {fault.doc}"
        return Ending(fault=fault, index=self._read("error_insn"), detail=detail, counters=counters)

    def _read(self, name: str) -> int:
        """A register, low half first, which latches the high one."""
        at, words = offset_of(name), next(r.words for r in REGISTERS if r.name == name)
        return sum(self.port.read_register(at + REGISTER_BYTES * n) << _WORD_BITS * n for n in range(words))

    def _write(self, name: str, value: int) -> None:
        at, words = offset_of(name), next(r.words for r in REGISTERS if r.name == name)
        for n in range(words):
            self.port.write_register(at + REGISTER_BYTES * n, value >> _WORD_BITS * n & (1 << _WORD_BITS) - 1)

    def _command(self, field: str) -> None:
        self.port.write_register(offset_of("control"), mask_of("control", field))
