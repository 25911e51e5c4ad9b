"""The decisions of a user's template: splits, orders, annotations and knobs, each a decision of the schedule.

::

    cfg.define_split("tile_y", y, num_outputs=3)
    yo, ym, yi = cfg["tile_y"].apply(s, C, y)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import factorial, prod
from typing import Any, TypeVar

from vtakit.base.errors import one_of
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule.decisions import Decision, DecisionError, Decisions
from vtakit.compiler.tune.choices import AnnotateChoice, Choice, ReorderChoice, SplitChoice
from vtakit.compiler.tune.splits import MOST, POLICIES, interleaved, orders, splits
from vtakit.compiler.tune.task import TuneError

C = TypeVar("C", bound=Choice)
NO_SPLIT = -1  # stands for the extent of the outermost loop, which follows from the others
ORDERS = ("identity", "all", "interval_all", "candidate", "interleave")
ANNOTATIONS = {"try_unroll": ("none", "unroll"), "try_vec": ("none", "vec"), "try_unroll_vec": ("none", "unroll", "vec")}


class Config:
    """The decisions of one run of a template: each `define_…` makes one, and ``cfg[name]`` is its value.

    decisions : what is given, and what is made
    rule      : the template's name
    """

    def __init__(self, decisions: Decisions, rule: str = "") -> None:
        self._decisions, self._rule = decisions, rule
        self._choices: dict[str, Choice] = {}

    @property
    def space(self) -> Mapping[str, Choice]:
        """The decisions so far, by name."""
        return self._choices

    def __getitem__(self, name: str) -> Any:
        """Return a decision that was defined. Raises TuneError for another."""
        if name not in self._choices:
            cure = one_of(self._choices, str(name)) if self._choices else "none is defined yet"
            raise TuneError(f"cfg[{name!r:.80}] is not defined: {cure}")
        return self._choices[name]

    def __contains__(self, name: object) -> bool:
        return name in self._choices

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        """Return the product of the numbers of candidates."""
        return prod(map(len, self._choices.values()))

    @staticmethod
    def axis(given: IterVar | int) -> IterVar | int:
        """Return what is given, for scripts that call it: loops need no preparation."""
        return given

    def define_split(
        self, name: str, axis: IterVar | Expr | int, num_outputs: int, *, policy: str = "factors", max_factor: int | None = None,
        filter: Callable[[SplitChoice], bool] | None = None, candidate: Sequence[Sequence[int]] | None = None,
        default: Sequence[int] | None = None,
    ) -> SplitChoice:
        """Decide how a loop is split into `num_outputs` loops.

        axis       : a loop, or its extent
        policy     : extents of the loops: "factors" divide the loop's; "power2" are powers of two; "verbose" are both; "all",
                     any
        max_factor : largest extent of the inner loops
        filter     : keeps the candidates for which it is true: ``filter=lambda e: e.size[-1] in (4, 8)``
        candidate  : the candidates, in place of a policy: lists of extents, -1 for the outermost loop
        default    : the candidate that is taken untuned; no split of it if None

        Raises TuneError for a loop whose extent is no number, an unknown policy, or no candidate.
        """
        asked = f"define_split({name!r:.80})"
        if policy not in POLICIES:
            raise TuneError(f"{asked} has the policy {policy!r}: {one_of(POLICIES, str(policy))}")
        if not isinstance(num_outputs, int) or num_outputs < 1:
            raise TuneError(f"{asked} has num_outputs={num_outputs!r}: give the number of loops, at least 1")
        if candidate is not None:
            found = [[*each] for each in candidate]
            if any(len(each) != num_outputs for each in found):
                raise TuneError(f"{asked} has a candidate that is no list of {num_outputs} extents")
        else:
            found = [[NO_SPLIT, *sizes] for sizes in splits(_extent(axis, asked), num_outputs, policy, max_factor)]
        if filter is not None:
            found = [size for size in found if filter(SplitChoice(Decision(name, (), size, size, self._rule)))]
        if not found:
            raise TuneError(f"{asked} has no candidate: its filter or max_factor leaves none")
        return self._define(SplitChoice, name, found, [*default] if default is not None else found[0])

    def define_reorder(
        self, name: str, axes: Sequence[Any], policy: str = "all", *, interval: tuple[int, int] | None = None,
        candidate: Sequence[Sequence[Any]] | None = None, spatial: Sequence[Sequence[Any]] = (),
        reduce: Sequence[Sequence[Any]] = (),
    ) -> ReorderChoice:
        """Decide the order of loops.

        policy : "identity", as given; "all" orders; "interval_all", all of the loops from interval[0] to before interval[1];
                 "candidate", the orders in `candidate`, lists of the loops or of their numbers; "interleave", levels of the loops
                 in `spatial` and `reduce`, one list an axis: data outermost, each axis's loops outer before inner

        Raises TuneError for an unknown policy or loop, or too many orders.
        """
        asked = f"define_reorder({name!r:.80})"
        if policy not in ORDERS:
            raise TuneError(f"{asked} has the policy {policy!r}: {one_of(ORDERS, str(policy))}")
        low, high = interval or (0, len(axes))
        if policy in ("all", "interval_all") and factorial(min(high - low, 20)) > MOST:
            raise TuneError(f"{asked} has {high - low} loops in any order, over {MOST:,} ways: give policy='interval_all' and an "
                            "interval, or policy='candidate'")

        def number(loop: Any) -> int:
            for at, axis in enumerate(axes):
                if axis is loop or (isinstance(loop, int | str) and axis == loop):
                    return at
            if isinstance(loop, int) and 0 <= loop < len(axes):
                return loop
            raise TuneError(f"{asked}: {getattr(loop, 'name', loop)!r} is none of the loops given")

        def numbers(chains: Sequence[Sequence[Any]]) -> list[list[int]]:
            return [[number(loop) for loop in chain] for chain in chains]
        if policy == "candidate":
            found = numbers(candidate or ())
        elif policy == "interleave":
            found = [*interleaved(numbers(spatial), numbers(reduce))]
        elif policy == "identity":
            found = [[*range(len(axes))]]
        else:
            found = [*orders(len(axes), low, high)]
        if not found or any(sorted(each) != [*range(len(axes))] for each in found):
            raise TuneError(f"{asked}: an order is to have each of the {len(axes)} loops once")
        return self._define(ReorderChoice, name, found, found[0])

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str) -> AnnotateChoice:
        """Decide how loops run.

        policy : "try_unroll", each is unrolled or not; "try_vec", one of them at most is vectorised; "try_unroll_vec", the last
                 may be vectorised or unrolled, the others unrolled

        Raises TuneError for an unknown policy, or too many ways.
        """
        asked = f"define_annotate({name!r:.80})"
        if policy not in ANNOTATIONS:
            raise TuneError(f"{asked} has the policy {policy!r}: {one_of(ANNOTATIONS, str(policy))}")
        count = len(axes)
        if count > 12:
            raise TuneError(f"{asked} has {count} loops, over 4,096 ways: give at most 12")
        if policy == "try_vec":
            found = [["none"] * count, *[["none"] * at + ["vec"] + ["none"] * (count - at - 1) for at in range(count)]]
        else:
            last = ANNOTATIONS[policy]
            found = [[*each] for each in product(*[("none", "unroll")] * (count - 1), last)] if count else [[]]
        return self._define(AnnotateChoice, name, found, found[0])

    def define_knob(self, name: str, candidate: Sequence[Any], *, default: Any = None) -> Choice:
        """Decide a value of one's own: numbers, truth values, text, or lists of these; the first one is taken untuned."""
        values = [*candidate]
        if not values:
            raise TuneError(f"define_knob({name!r:.80}) has no candidate: give a list of values")
        return self._define(Choice, name, values, values[0] if default is None else default)

    def require(self, condition: bool, sentence: str) -> None:
        """Refuse the combination of decisions, before anything is lowered, unless a condition holds.

        sentence : why, such as "a tile of 8 by 64 sums does not fit the registers"
        """
        if not condition:
            raise DecisionError(f"{self._rule + ': ' if self._rule else ''}{sentence}")

    def _define(self, kind: type[C], name: str, candidates: list[Any], default: Any) -> C:
        if not isinstance(name, str) or not name:
            raise TuneError(f"the name of a decision is {name!r:.40}: give text")
        if default not in candidates:
            raise TuneError(f"decision {name!r:.80} has the default {default!r:.80}, which is none of its candidates")
        if name in self._choices:
            raise TuneError(f"decision {name!r:.80} is defined twice: give each a name of its own")
        self._decisions.choose(name, candidates, default, self._rule)
        made = self._choices[name] = kind(self._decisions.made[name])
        return made


def _extent(axis: IterVar | Expr | int, asked: str) -> int:
    given = axis.dom.extent if isinstance(axis, IterVar) and axis.dom is not None else axis
    found = given if isinstance(given, int) else int_value(given) if isinstance(given, Expr) else None
    if found is None or isinstance(found, bool) or found < 1:
        name = getattr(axis, "name", axis)
        raise TuneError(f"{asked}: the extent of {name!r} is no number here: give it, as in define_split(name, 64, …)")
    return found
