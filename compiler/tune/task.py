"""A task of the tuner: one program with a space of decisions."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.schedule.decisions import DecisionError, Decisions, Pick

Candidate = Mapping[str, Any]  # name -> value of every decision, in the order in which the rule makes them


class TuneError(VtakitError, ValueError):
    """A task, option or file that the tuner cannot use."""


class Refused(VtakitError, ValueError):
    """A candidate for which the target makes no code; the message has the reason."""


@runtime_checkable
class Task(Protocol):
    """A program whose decisions are searched.

    name : for people, such as the layer
    key  : what decides the cost of a candidate, as JSON: expression, shapes, target, machine record, configuration, system
    """

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def key(self) -> Mapping[str, Any]:
        """Everything that decides the cost of a candidate, as JSON has it."""

    def decide(self, decisions: Decisions) -> None:
        """Make all decisions, without lowering. Raises DecisionError for a combination that is not legal."""

    def lower(self, given: Candidate) -> Function:
        """Return the loop IR of a candidate. Raises VtakitError where the verifier refuses it."""

    def estimate(self, given: Candidate) -> float | None:
        """Return the target's estimate of the cost, in the unit of measurements; None if it has none."""

    def features(self, given: Candidate) -> npt.NDArray[np.float32]:
        """Return a vector for the cost model, of the same length for all candidates of all tasks of a target."""


class Tuned(NamedTuple):
    """A task of a network, and the layers that it is, by the names that their decisions have."""

    task: Task
    layers: tuple[str, ...]


def decided(task: Task, given: Candidate | None = None, pick: Pick | None = None) -> dict[str, Any]:
    """Return all decisions of a task.

    given : values that are set
    pick  : chooses the others; None for the defaults

    Raises DecisionError for a given value that is no candidate or of no decision, and for a combination that is not legal.
    """
    decisions = Decisions(given, pick)
    task.decide(decisions)
    decisions.check()
    return decisions.values


def identity(given: Candidate) -> str:
    """Return text that is equal for equal candidates."""
    return repr(sorted(given.items()))


def alike(task: Task, given: Candidate) -> str:
    """Return text that is equal for candidates of equal programs, of which one need be measured.

    A task may say so itself by a method of this name.
    """
    own = getattr(task, "alike", None)
    return identity(given) if own is None else str(own(given))


__all__ = ["Candidate", "DecisionError", "Refused", "Task", "TuneError", "Tuned", "alike", "decided", "identity"]
