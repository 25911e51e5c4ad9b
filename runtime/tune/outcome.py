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


def cost_text(cost: float | None, unit: str) -> str:
    """Return a cost for people: cycles, or milliseconds; "" for none."""
    return "" if cost is None else f"{cost:,.0f} {unit}" if unit == "cycles" else f"{1e3 * cost:.4g} ms"


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

    def costs(self, images: Sequence[Any]) -> list[Cost]:
        """Return what whole models take.

        images : `vtakit.runtime.target.Image`, of one target; their times are taken in turn
        """

    def close(self) -> None:
        """End what runs; a second call does nothing."""
