"""Errors of a device. All are `DeviceError`, as is a device that cannot do what it is asked to."""

from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.sim.faults import DeviceError


class ProgramStopped(DeviceError):
    """The device stopped a program because of a fault. It is ready for the next program.

    fault         the fault, by its code in the instruction set
    index         number of the instruction, from 0; -1 if the program has none
    disassembly   that instruction's text
    stage         the stage that runs the instruction; None if there is no instruction, or it never reached a stage
    """

    def __init__(self, device: str, fault: Fault, index: int, disassembly: str, stage: Stage | None, detail: str) -> None:
        self.device, self.fault, self.index, self.disassembly, self.stage = device, fault, index, disassembly, stage
        self.detail = detail
        owner = "" if stage is None else f" of the {stage.name.lower()} stage"
        where = "" if index < 0 else f" at instruction {index} ({disassembly}){owner}"
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
