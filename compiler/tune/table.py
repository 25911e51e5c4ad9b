"""A small space as a table: all its candidates, with their features and estimates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Candidates of a task, no two of which have the same program.

    features  : [candidates, features]
    estimates : [candidates], the target's estimates of their costs
    candidate : from a row to the candidate
    """

    features: npt.NDArray[np.float32]
    estimates: npt.NDArray[np.floating[Any]]
    candidate: Callable[[int], dict[str, Any]]

    def __len__(self) -> int:
        return len(self.estimates)
