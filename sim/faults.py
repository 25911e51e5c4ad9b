"""The exceptions that every simulator, device and checker raises: for a program that is wrong, and for hardware that is."""

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.sim.trace import Trace


class ProgramFault(VtakitError):
    """A program did something that the instruction set forbids.

    fault    which of the instruction set's errors
    index    number of the instruction, from 0; -1 if the program has none
    trace    what each stage did up to there, if the device was asked for it
    """

    trace: Trace | None = None

    def __init__(self, fault: Fault, index: int, text: str, detail: str) -> None:
        self.fault = fault
        self.index = index
        self.disassembly = text
        self.detail = detail
        where = f"instruction {index} ({text}): " if index >= 0 else ""
        super().__init__(f"{where}{detail} [{fault.name}]")

    @classmethod
    def at(cls, cfg: VTAConfig, fault: Fault, index: int, word: int, detail: str) -> "ProgramFault":
        """The fault of instruction `index`, whose 128 bits are `word`."""
        return cls(fault, index, disasm(word, cfg), detail)

    def __reduce__(self) -> tuple[object, ...]:
        return (ProgramFault, (self.fault, self.index, self.disassembly, self.detail))


class DeviceError(VtakitError):
    """A device could not do what it was asked to; of the RTL: it hung, or broke the bus's protocol.

    trace   what each stage did up to there, if the device was asked for it
    """

    trace: Trace | None = None
