"""A device in use: who may touch its memory when, one program at a time, and what is left after an interrupt."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.program import dram_alignment
from vtakit.runtime.vta.device import Device, Ending
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.runtime.vta.memory import Allocator
from vtakit.sim.faults import DeviceError

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One start of a program.

    held     what it uses of the device's memory, kept alive while it runs
    ending   how it ended, once it has
    error    why that will never be known
    """

    held: tuple[object, ...]
    ending: Ending | None = None
    error: DeviceError | None = None


def check_timeout(timeout_s: float) -> None:
    """Refuse what bounds no wait."""
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise VtakitError(f"timeout_s must be a number of seconds above 0, not {timeout_s!r:.40}")


class Connection:
    """A device with its allocator, and the one program that may run on it.

    Whatever stops a wait but its timeout (Ctrl-C, a broken link) resets the device, so that it can be used again.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.allocator = Allocator(device.name, device.memory)
        self.alignment = dram_alignment(device.config)
        self._running: Run | None = None
        self._gone = ""  # why the device cannot be used any more

    @property
    def name(self) -> str:
        """The device as messages call it."""
        return f"device {self.device.name!r}"

    def require_open(self) -> None:
        """Refuse a device that is closed or lost."""
        if self._gone:
            raise DeviceError(f"{self.name} {self._gone}: connect to it anew")

    def require_idle(self, before: str) -> None:
        """Refuse a device that runs a program, `before` something is done."""
        self.require_open()
        if self._running is not None:
            raise DeviceError(f"{self.name} runs a program: wait for it, or reset the device, before {before}")

    def uses(self, what: object) -> bool:
        """Return whether the program that runs holds an object."""
        return self._running is not None and any(held is what for held in self._running.held)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        self.require_idle("its memory is read")
        return self.device.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        self.require_idle("its memory is written")
        self.device.write(address, data)

    def start(self, insn_addr: int, insn_count: int, held: tuple[object, ...]) -> Run:
        """Start a program."""
        self.require_idle("another is launched")
        run = Run(held=held)
        self._running = run
        self._guarded(lambda: self.device.start(insn_addr, insn_count))
        return run

    def wait(self, run: Run, timeout_s: float) -> Ending:
        """Return the ending of a run; wait for it if the run has not ended."""
        check_timeout(timeout_s)
        if run.ending is None and run.error is None:
            self.require_open()
            run.ending = self._guarded(lambda: self.device.wait(timeout_s))
            self._running, run.held = None, ()
        if run.error is not None:
            raise run.error
        assert run.ending is not None
        return run.ending

    def reset(self) -> None:
        """Stop what runs; memory stays as it is."""
        self.require_open()
        self._stop("was stopped by a reset")
        try:
            self.device.reset()
        except DeviceError:
            self._gone = "did not answer a reset"
            raise

    def halt(self) -> None:
        """Reset the device if a program runs."""
        if self._running is not None:
            self.reset()

    def close(self) -> None:
        """Stop what runs and let go of the device; closing again does nothing."""
        if self._gone == "is closed":
            return
        with suppress(DeviceError):  # it is let go of, whatever it answers
            self.halt()
        self._gone = "is closed"
        self.device.close()

    def _guarded(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except DeviceTimeout:
            raise
        except BaseException:
            with suppress(DeviceError):  # the first error says more; a device that is lost says so when it is used again
                self.reset()
            raise

    def _stop(self, how: str) -> None:
        run, self._running = self._running, None
        if run is not None:
            run.error, run.held = DeviceError(f"the program on {self.name} {how}; launch it again"), ()
