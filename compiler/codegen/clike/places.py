"""Memory as a kernel names it: how elements of one type are read and written there."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from vtakit.compiler.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Place(ABC):
    """Elements of one type. Indices are texts that may be sums.

    name   : of the memory
    dtype  : of an element
    kind   : the name of its type
    space  : address space, in the dialect's words
    wide   : whether one access may move several elements
    direct : whether values are read and written, where elements are something else
    """

    name: str
    dtype: DType
    kind: str
    space: str = ""
    wide: bool = False
    direct: bool = False

    def cells(self) -> "Place | None":
        """Return the same memory with elements as they are, for copies; None if it does not hold the type's own elements."""
        return None if self.direct else self

    def read(self, index: str) -> str:
        """Return an element."""
        return f"{self.name}[{index}]"

    def write(self, index: str, text: str) -> str:
        """Return the statement that writes an element."""
        return f"{self.name}[{index}] = {text};"

    @abstractmethod
    def read_run(self, name: str, index: str, width: int) -> str:
        """Return the statement that reads so many elements from an index on, under a name."""

    @abstractmethod
    def lane(self, name: str, lane: int) -> str:
        """Return an element of what `read_run` has named."""

    @abstractmethod
    def write_run(self, index: str, texts: Sequence[str]) -> str:
        """Return the statement that writes elements from an index on."""
