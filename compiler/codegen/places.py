"""A network as steps: what runs in order, on operands in which memory."""

from dataclasses import dataclass
from enum import Enum
from math import prod

from vtakit.compiler.ir.dtypes import DType


class Region(Enum):
    """Region of memory that holds a value."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMS = "params"
    ARENA = "arena"


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a value in memory.

    at : the number of the input or output; in bytes in the parameters or arena
    """

    region: Region
    at: int


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a kernel.

    kernel : its number; -1 copies `copied_bytes` from the first argument to the second
    """

    kernel: int
    args: tuple[Place, ...]
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a network."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int:
        """Size of its array."""
        return prod(self.shape) * self.dtype.bytes
