"""Where the operands of a network's steps lie."""

from dataclasses import dataclass
from enum import Enum


class Region(Enum):
    """What memory a value lies in."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMS = "params"
    ARENA = "arena"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies.

    at : the number of the input or output; in bytes in the parameters or arena
    """

    region: Region
    at: int
