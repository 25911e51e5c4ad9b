"""Programs in a device's memory, and their launches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from vtakit.base.process import TIMEOUT_S
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.program import UOPS, BufferKind, Program
from vtakit.runtime.vta.buffer import DeviceBuffer
from vtakit.runtime.vta.connection import Connection, Run
from vtakit.runtime.vta.device import Checks, Ending
from vtakit.runtime.vta.errors import ProgramStopped
from vtakit.sim.api import named
from vtakit.sim.decode import Decoded
from vtakit.sim.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """Result of one launch.

    program     that was launched
    device      the name of the device
    bus_bytes   bytes a cycle that the device's memory port moves at most, in each direction; None if it has no cycles
    counters    bytes by memory, micro-op steps by GEMM and ALU, instructions; and what the device itself has counted
    buffers     contents of the program's buffers by name, after `Driver.run`; else empty
    trace       what each stage did in every cycle, if the device was opened with it
    """

    program: Program = field(repr=False)
    device: str
    bus_bytes: float | None
    counters: dict[str, int]
    buffers: dict[str, bytes] = field(default_factory=dict, repr=False)
    trace: Trace | None = field(default=None, repr=False)


class Launch:
    """A program that runs, or has run, on a device."""

    def __init__(self, connection: Connection, run: Run, program: Program, decoded: Decoded) -> None:
        self._connection, self._run, self._program, self._decoded = connection, run, program, decoded

    def wait(self, timeout_s: float = TIMEOUT_S) -> LaunchResult:
        """Wait until the launch has ended and return its result. A later call returns it again.

        Raises `DeviceTimeout` if that takes longer than `timeout_s` seconds: it then still runs, and may be waited for again.
        Raises `ProgramStopped` if the program did what the instruction set forbids, `DeviceError` if the device was reset or has
        failed. Whatever else stops the wait, such as Ctrl-C, resets the device.
        """
        ending = self._connection.wait(self._run, timeout_s)
        device = self._connection.device
        if ending.fault is not None:
            error = self._stopped(device.name, ending)
            error.trace = ending.trace
            raise error
        return LaunchResult(
            program=self._program, device=device.name, bus_bytes=device.bus_bytes, trace=ending.trace,
            counters=self._decoded.transfer_counters() | dict(ending.counters),
        )

    def _stopped(self, device: str, ending: Ending) -> ProgramStopped:
        assert ending.fault is not None
        if not 0 <= ending.index < self._decoded.count:
            return ProgramStopped(device, ending.fault, -1, "", None, ending.detail)
        text = disasm(self._program.insns[ending.index], self._program.config)
        stage = None if ending.fault is Fault.BUS_FETCH else Stage(int(self._decoded.stage[ending.index]))
        return ProgramStopped(device, ending.fault, ending.index, text, stage, ending.detail)


class LoadedProgram:
    """A program that lies in a device's memory: instructions, micro-ops, constants and scratch buffers, placed once.

    program   what was loaded
    buffers   the buffers that were loaded with it, by name: those with contents, and scratch

    Freed by `free`, at the end of a `with` block, which stops the program if it still runs, or when nothing refers to it.
    """

    def __init__(self, connection: Connection, program: Program) -> None:
        if not isinstance(program, Program):
            raise ProgramError(f"load takes a Program (vtakit.hw.isa.file.load reads one), not {type(program).__name__}")
        device = connection.device
        program.require(device.config, version=device.version, features=device.features)
        if isinstance(device, Checks):
            device.check(program)
        self.program, self._connection = program, connection
        self._own: list[DeviceBuffer] = []
        self._placed: dict[str, int] | None = None  # where the instructions in memory look for each symbol
        code = to_bytes(program.insns)
        self._decoded = Decoded(program.config, code)
        with self._all_or_nothing():
            self._code = self._place(len(program.insns) * INSN_BYTES)
            uops = self._place(len(program.uops) * UOP_BYTES, b"".join(u.to_bytes(UOP_BYTES, "little") for u in program.uops))
            mine = [b for b in program.buffers if b.data is not None or b.kind is BufferKind.SCRATCH]
            self.buffers: Mapping[str, DeviceBuffer] = MappingProxyType({b.name: self._place(b.size_bytes, b.data) for b in mine})
        self._symbols = {UOPS: uops, **self.buffers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if any(map(self._connection.uses, self._own)):
            self._connection.halt()
        self.free()

    def launch(self, buffers: Mapping[str, DeviceBuffer] | None = None) -> Launch:
        """Start the program on these buffers of the device; others that it has keep what the last launch left in them.

        buffers   by name: every input and output without contents of its own; any other too, in place of what was loaded

        Raises `ProgramError` if a buffer is missing, too small, another device's, or one that the program writes and knows by two
        names; `DeviceError` if a program runs.
        """
        self._connection.require_idle("another is launched")
        if not self._own:
            raise ProgramError("the program is launched after it was freed: load it again")
        bound = self._bind(named("buffers", buffers))
        addresses = {name: buffer.address for name, buffer in bound.items()}
        if addresses != self._placed:
            words = self.program.relocated(addresses)
            self._placed = None
            self._code.write(to_bytes(words))
            self._placed = addresses
        held = (self._code, *bound.values())
        run = self._connection.start(self._code.address, len(self.program.insns), held)
        return Launch(self._connection, run, self.program, self._decoded)

    def free(self) -> None:
        """Give the memory of everything that was loaded back.

        Raises `DeviceError` if the program runs.
        """
        if any(map(self._connection.uses, self._own)):
            self._connection.require_idle("it is freed")
        own, self._own = self._own, []
        for buffer in own:
            if buffer.alive:
                buffer.free()

    def _place(self, size: int, data: bytes | None = None) -> DeviceBuffer:
        buffer = DeviceBuffer(self._connection, size, self._connection.alignment)
        self._own.append(buffer)
        if data:
            buffer.write(data)
        return buffer

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.free()
            raise

    def _bind(self, given: Mapping[str, DeviceBuffer]) -> dict[str, DeviceBuffer]:
        """The buffer of every symbol."""
        bound = dict(self._symbols)
        for name, buffer in given.items():
            wanted = self.program.buffer(name)
            if not isinstance(buffer, DeviceBuffer):
                kind = type(buffer).__name__
                raise ProgramError(f"buffer {name!r} must be a DeviceBuffer (`upload` makes one of an array), not {kind}")
            if not buffer.of(self._connection):
                raise ProgramError(f"buffer {name!r} lies on another device: {buffer!r}")
            if buffer.size_bytes < wanted.size_bytes:
                raise ProgramError(f"buffer {name!r} needs {wanted.size_bytes} bytes, got {buffer!r}")
            bound[name] = buffer
        for wanted in self.program.buffers:
            if wanted.name not in bound:
                raise ProgramError(f"{wanted.kind} buffer {wanted.name!r} ({wanted.size_bytes} bytes) is not given")
        for buffer in bound.values():
            buffer.require()
        self._check_apart(bound)
        return bound

    def _check_apart(self, bound: Mapping[str, DeviceBuffer]) -> None:
        """Refuse a buffer that is written and has two names: tokens order what a program does to one name."""
        names: dict[int, str] = {}  # by address: the pieces that a device's memory is given out in lie apart
        written: set[int] = set()
        for wanted in self.program.buffers:
            address = bound[wanted.name].address
            if wanted.kind in (BufferKind.OUTPUT, BufferKind.SCRATCH):
                written.add(address)
            other = names.setdefault(address, wanted.name)
            if other != wanted.name and address in written:
                raise ProgramError(f"{bound[wanted.name]!r} is given as {other!r} and as {wanted.name!r}, and the program writes "
                                   "to it: give each a buffer of its own")
