"""What can go wrong with a device; all are `DeviceError`, as is a device that cannot do what it is asked to."""

from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.sim.faults import DeviceError


class ProgramStopped(DeviceError):
    """The device stopped a program, which did something that the instruction set forbids; it is ready for the next.

    fault         which of the instruction set's errors
    index         number of the instruction, from 0; -1 if the program has none
    disassembly   that instruction's text
    stage         the stage that runs it; None if there is no instruction
    """

    def __init__(self, device: str, fault: Fault, index: int, disassembly: str, stage: Stage | None, detail: str) -> None:
        self.device, self.fault, self.index, self.disassembly, self.stage = device, fault, index, disassembly, stage
        self.detail = detail
        where = "" if stage is None else f" at instruction {index} ({disassembly}) of the {stage.name.lower()} stage"
        super().__init__(f"device {device!r} stopped the program{where}: {detail} [{fault.name}]")

    def __reduce__(self) -> tuple[object, ...]:
        return (ProgramStopped, (self.device, self.fault, self.index, self.disassembly, self.stage, self.detail))


class DeviceTimeout(DeviceError):
    """A program has not ended in time. It still runs, unless the message says otherwise: wait again, or reset the device.

    passed   the time that has passed in vain, as text: "2 s", "1000 cycles"
    """

    def __init__(self, device: str, passed: str, then: str = "wait longer, or reset it") -> None:
        self.device, self.passed, self.then = device, passed, then
        super().__init__(f"device {device!r} has not finished the program within {passed}: {then}")

    def __reduce__(self) -> tuple[object, ...]:
        return (DeviceTimeout, (self.device, self.passed, self.then))


class DeviceMemoryError(DeviceError):
    """A device's memory is full, or a buffer in it is used outside its bounds or its life."""
