"""Decisions: the choices of schedule rules, as data that can be listed, set and learned."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from vtakit.base.errors import VtakitError, one_of

SHOWN = 12  # candidates in a message
Pick = Callable[[str, tuple[Any, ...], Any], Any]  # (name, candidates, default) -> one of the candidates


class Plain(tuple[Any, ...]):
    """Candidates that are as JSON has them already, so that `Decisions.choose` need not look at each."""

    __slots__ = ()


class Chooser(Protocol):
    """Whoever a rule asks: a stage of a schedule, or `Named` decisions."""

    def choose(self, name: str, candidates: Sequence[Any], default: Any, *, rule: str = "") -> Any:
        """Return the value of a decision; see `vtakit.compiler.schedule.stage.Stage.choose`."""


class DecisionError(VtakitError, ValueError):
    """A decision that does not exist, or a value that is no candidate of it."""


class Decision(NamedTuple):
    """A choice of a rule.

    name       : such as "conv.tile": a stage, and what is decided about it
    candidates : values that are legal where the rule asks
    default    : the candidate that the target's estimate prefers
    chosen     : the candidate that was taken
    rule       : the function that asked
    """

    name: str
    candidates: tuple[Any, ...]
    default: Any
    chosen: Any
    rule: str

    @property
    def is_default(self) -> bool:
        """Return whether the estimate's candidate was taken."""
        return bool(self.chosen == self.default)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return self._asdict() | {"candidates": [*self.candidates]}


class Decisions:
    """Decisions of one schedule: values that are given, and all that rules have asked for.

    given : name -> value; rules take these in place of their defaults
    pick  : chooses the value of a decision that is not given; None for the default
    """

    __slots__ = ("given", "made", "pick")

    def __init__(self, given: Mapping[str, Any] | None = None, pick: Pick | None = None) -> None:
        if not isinstance(given, Mapping | None):
            raise DecisionError(f"decisions are {given!r:.40}: give a mapping of names to values")
        self.given = {name: plain(value) for name, value in (given or {}).items()}
        self.made: dict[str, Decision] = {}
        self.pick = pick

    def choose(self, name: str, candidates: Sequence[Any], default: Any, rule: str) -> Any:
        """Return the given value of a decision, or what `pick` chooses, or the default, and keep it as made.

        Raises DecisionError for a given value that is no candidate, and ValueError for a mistake of the rule: no candidate as the
        default, or a name that was used before.
        """
        known = candidates if isinstance(candidates, Plain) else tuple(map(plain, candidates))
        default = plain(default)
        if default not in known:
            raise ValueError(f"decision {name!r} has the default {default!r}, which is none of its candidates {listed(known)}")
        if name in self.made:
            raise ValueError(f"decision {name!r} is made twice: give each a name of its own")
        chosen = self.given[name] if name in self.given else default if self.pick is None else plain(
            self.pick(name, known, default))
        if not any(_equal(chosen, one) for one in known if one == chosen):
            cure = f"give one of {listed(known)}"
            raise DecisionError(f"decision {name!r:.80} is {chosen!r:.80}, which is no candidate here: {cure}")
        self.made[name] = Decision(name, known, default, chosen, rule)
        return chosen

    def check(self) -> None:
        """Raise DecisionError for a given decision that no rule asked for."""
        for name in self.given:
            if name not in self.made:
                cure = one_of(self.made, name) if self.made else "there is none"
                raise DecisionError(f"decision {name!r:.80} does not exist here: {cure}")

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.made.values())

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of all decisions made, by name, in the order of the rule."""
        return {name: decision.chosen for name, decision in self.made.items()}

    def copy(self) -> "Decisions":
        """Return decisions of their own, with the same given and made."""
        new = Decisions(pick=self.pick)
        new.given, new.made = self.given.copy(), self.made.copy()
        return new


class Named:
    """Decisions about one stage, without a schedule: each has the stage's name before its own."""

    __slots__ = ("_decisions", "_stage")

    def __init__(self, decisions: Decisions, stage: str) -> None:
        self._decisions, self._stage = decisions, stage

    def choose(self, name: str, candidates: Sequence[Any], default: Any, *, rule: str = "") -> Any:
        """Return the value of a decision, as `Decisions.choose` does."""
        return self._decisions.choose(f"{self._stage}.{name}", candidates, default, rule)


class _Defaults:
    """A chooser that takes every default, and keeps nothing."""

    def choose(self, name: str, candidates: Sequence[Any], default: Any, *, rule: str = "") -> Any:
        """Return the default."""
        return plain(default)


DEFAULTS = _Defaults()


def _equal(given: Any, candidate: Any) -> bool:
    """Return whether values are the same, of the same types: 3.0 is not 3, and true is not 1."""
    if isinstance(given, list) and isinstance(candidate, list):
        return len(given) == len(candidate) and all(map(_equal, given, candidate))
    return type(given) is type(candidate) and bool(given == candidate)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: tuples become lists, and numbers of NumPy become Python's."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def listed(candidates: Sequence[Any]) -> str:
    """Return candidates as text; the first and the last of many."""
    if len(candidates) <= SHOWN:
        return ", ".join(map(repr, candidates))
    return f"{', '.join(map(repr, candidates[: SHOWN - 1]))}, … {candidates[-1]!r} ({len(candidates)} in all)"
