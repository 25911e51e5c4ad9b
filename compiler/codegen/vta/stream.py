"""Instructions before tokens and micro-ops are placed, with their accesses to scratchpads and DRAM."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.insns import Opcode, Stage

Elements = slice | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of a scratchpad, or of a buffer in DRAM, that an instruction reads or writes."""

    memory: str
    elements: Elements
    write: bool

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """Return the elements as an array."""
        return np.arange(self.elements.start, self.elements.stop) if isinstance(self.elements, slice) else self.elements

    def meets(self, other: "Access") -> bool:
        """Return true if both may touch one element and at least one writes."""
        if self.memory != other.memory or not (self.write or other.write):
            return False
        (a, b), (c, d) = _ends(self.elements), _ends(other.elements)
        return a < d and c < b

    def joined(self, other: "Access") -> "Access":
        """Return an access to the elements of both."""
        return Access(self.memory, np.union1d(self.indices, other.indices), self.write)


def _ends(elements: Elements) -> tuple[int, int]:
    """Return the first element and the one after the last."""
    if isinstance(elements, slice):
        return elements.start, elements.stop
    return int(elements[0]), int(elements[-1]) + 1


@dataclass(slots=True)
class Step:
    """An instruction: its fields without the range of micro-ops, and the micro-ops themselves.

    symbol : the buffer in DRAM that dram_base counts from, or ""
    value  : the value in that buffer that the instruction moves, if the buffer holds several; else ""
    uops   : the words of its micro-ops
    part   : number of the part of the program that it is of; -1 if it is of none
    inside : of a GEMM, whether products with pads may be left out
    between : of a STORE, whether it should be among products
    """

    op: Opcode
    fields: dict[str, int]
    stage: Stage
    accesses: tuple[Access, ...] = ()
    symbol: str = ""
    value: str = ""
    uops: tuple[int, ...] = ()
    part: int = -1
    inside: bool = False
    between: bool = False

    @property
    def cycles(self) -> int:
        """Return the steps of a GEMM or ALU instruction, one micro-op each, or of a DWCONV."""
        if self.op is Opcode.DWCONV:
            return self.fields["rows"] * (self.fields["columns"] + 1)
        return self.fields.get("iter_out", 0) * self.fields.get("iter_in", 0) * len(self.uops)
