"""Outcomes of trials, and the interface of what measures candidates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Outcome(NamedTuple):
    """The measurement of one candidate.

    cost    : seconds on a CPU, cycles on the accelerator; None where the trial failed
    spread  : of the samples, in the unit of `cost`; 0 for cycles
    error   : "" or kind and reason in a sentence: "timeout: …", "wrong: …", "crash: …", "memory: …", "refused: …"
    seconds : wall time of the whole trial
    """

    cost: float | None
    spread: float = 0.0
    error: str = ""
    seconds: float = 0.0

    @property
    def kind(self) -> str:
        """Kind of the failure, such as "timeout"; "" for a success."""
        return self.error.partition(":")[0]


class Cost(NamedTuple):
    """The measurement of a whole model.

    total  : in the unit of `Outcome.cost`
    layers : of each layer that has a cost of its own, by all names that it has
    """

    total: float
    layers: Mapping[tuple[str, ...], float]


class Measurer(Protocol):
    """Measure candidates of tasks. A candidate that fails costs its trial and never the session."""

    def measure(self, task: Any, candidates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and the outcome of each candidate, as they end.

        task : a `vtakit.compiler.tune.task.Task`
        """

    def close(self) -> None:
        """End what runs; a second call does nothing."""
