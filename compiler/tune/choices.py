"""Values of a template's decisions, and what they do to a schedule."""

from collections.abc import Sequence
from math import prod
from typing import Any

from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule.decisions import Decision, DecisionError
from vtakit.compiler.schedule.domains import extents
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.tune.task import TuneError

WIDEST = 64  # elements of a vectorised loop, if a template gives no list
LONGEST = 256  # copies of an unrolled body, if a template gives no limit


class Choice:
    """A decision of a template, with its chosen value.

    val : as JSON has it
    """

    def __init__(self, decision: Decision) -> None:
        self.decision, self.val = decision, decision.chosen

    @property
    def name(self) -> str:
        """Name of the decision."""
        return self.decision.name

    def __len__(self) -> int:
        return len(self.decision.candidates)

    def __bool__(self) -> bool:
        raise TuneError(f"cfg[{self.name!r}] is a decision, not its value: ask for cfg[{self.name!r}].val")

    def _stage(self, s: Schedule, of: Any) -> Stage:
        """Return the stage that is changed, with the decision as a step of its trace."""
        stage = s[of]
        known = self.decision
        if f"{stage.label}.{known.name}" not in s.decisions.made:
            stage.choose(known.name, known.candidates, known.default, rule=known.rule, chosen=known.chosen)
        return stage


class SplitChoice(Choice):
    """A split of a loop. size : extents of the loops, outer before inner; -1 for the outermost, which follows from the others"""

    @property
    def size(self) -> list[int]:
        """Extents of the loops; -1 for the outermost."""
        return [*self.val]

    def apply(self, s: Schedule, op: Any, axis: IterVar | str) -> list[IterVar]:
        """Split the loop of a stage; return the loops, outer before inner."""
        stage = self._stage(s, op)
        made: list[IterVar] = []
        rest: Any = axis
        for at in range(1, len(self.val)):
            outer, rest = stage.split(rest, prod(self.val[at:]))
            made.append(outer)
        return [*made, rest]


class ReorderChoice(Choice):
    """An order of loops. perm : their numbers, outermost first"""

    @property
    def perm(self) -> list[int]:
        """Numbers of the loops, outermost first."""
        return [*self.val]

    def apply(self, s: Schedule, op: Any, axes: Sequence[IterVar | str]) -> list[IterVar | str]:
        """Order loops of a stage, given as they were to `define_reorder`; return them outermost first."""
        stage = self._stage(s, op)
        if len(axes) != len(self.val):
            raise TuneError(f"cfg[{self.name!r}].apply is given {len(axes)} loops, and define_reorder was given {len(self.val)}")
        order = [axes[at] for at in self.val]
        stage.reorder(*order)
        return order


class AnnotateChoice(Choice):
    """Marks of loops. anns : "none", "unroll" or "vec", one a loop"""

    @property
    def anns(self) -> list[str]:
        """Marks, one a loop."""
        return [*self.val]

    def apply(
        self, s: Schedule, op: Any, axes: Sequence[IterVar | str], *, max_unroll: int = LONGEST,
        vec_size: Sequence[int] | None = None,
    ) -> list[IterVar | str]:
        """Mark loops of a stage, given as they were to `define_annotate`; return them.

        max_unroll : most copies of the body
        vec_size   : extents that a vectorised loop may have; up to 64 if None

        Raises DecisionError for a loop that is too long.
        """
        stage = self._stage(s, op)
        if len(axes) != len(self.val):
            raise TuneError(f"cfg[{self.name!r}].apply is given {len(axes)} loops, and define_annotate was given {len(self.val)}")
        leaves = [next((leaf for leaf in stage.leaf_iter_vars if leaf is axis or stage.axis_labels[leaf] == axis), None)
                  for axis in axes]
        sizes = {id(leaf): int_value(extent) or 0 for leaf, extent in extents(stage).items()}
        copies = prod([sizes[id(leaf)] for leaf, mark in zip(leaves, self.val, strict=True) if leaf and mark == "unroll"])
        if copies > max_unroll:
            raise DecisionError(f"decision {self.name!r} unrolls {copies} copies of a body, and at most {max_unroll} are allowed")
        for leaf, axis, mark in zip(leaves, axes, self.val, strict=True):
            lanes = sizes[id(leaf)] if leaf else 0
            if mark == "vec" and (lanes not in vec_size if vec_size is not None else lanes > WIDEST):
                allowed = ", ".join(map(str, vec_size)) if vec_size is not None else f"up to {WIDEST}"
                raise DecisionError(f"decision {self.name!r} vectorises a loop of {lanes}, and {allowed} are allowed")
            if mark == "vec":
                stage.vectorize(axis)
            elif mark == "unroll":
                stage.unroll(axis)
        return [*axes]
