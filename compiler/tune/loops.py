"""Tasks whose candidates are schedules of tensor expressions for a processor."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower import lower, verify
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.lower.verify.limits import NO_LIMITS, Limits
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.save import save_json
from vtakit.compiler.te.tensor import Tensor
from vtakit.compiler.tune.features import features_of
from vtakit.compiler.tune.task import Candidate, TuneError, identity

KEPT = 512  # lowered candidates
DIGITS = 16  # of a digest, in hexadecimal


class Program(NamedTuple):
    """A schedule, and the tensors that its function takes, in order."""

    schedule: Schedule
    args: tuple[Tensor, ...]


class Lowered(NamedTuple):
    """Loop IR of a candidate: as the verifier is to see it, and as it runs, where parallel loops may be serial."""

    whole: Function
    runs: Function


class LoopTask(ABC):
    """A task of one function for a processor, measured against plain loops of the same expression.

    name    : for people
    target  : processor
    threads : of the function's parallel loops
    """

    def __init__(self, name: str, target: Target | None = None, threads: int = 1) -> None:
        if not isinstance(threads, int) or threads < 1:
            raise TuneError(f"task {name!r:.80} is to run on {threads!r:.20} threads: give a number, at least 1")
        self.name, self.target, self.threads = name, target or Target.host(), threads
        self._lowered: dict[str, Lowered] = {}

    @property
    def machine(self) -> Machine:
        """The record that estimates read."""
        return machine_of(self.target)

    @abstractmethod
    def program(self, decisions: Decisions) -> Program:
        """Return the schedule that decisions lead to. Raises DecisionError for a combination that is not legal."""

    def decide(self, decisions: Decisions) -> None:
        """Make all decisions, without lowering. Raises DecisionError for a combination that is not legal."""
        self.program(decisions)

    def lower(self, given: Candidate) -> Function:
        """Return the loop IR of a candidate. Raises VtakitError for one that is not legal, or that the verifier refuses."""
        found = self._unverified(given)
        with shallow(self.name):
            verify(found.whole, self.limits)
        return found.runs

    def _unverified(self, given: Candidate) -> Lowered:
        """Return loop IR that the verifier has not seen, which takes half of the time: of most candidates only features are read.

        Those of the last candidates are kept: what is ranked by its features is measured soon.
        """
        key = identity(given)
        found = self._lowered.pop(key, None)
        self._lowered[key] = found = self._lower(given) if found is None else found  # behind all others
        while len(self._lowered) > KEPT:
            del self._lowered[next(iter(self._lowered))]
        return found

    def _lower(self, given: Candidate) -> Lowered:
        decisions = Decisions(given)
        with shallow(self.name):
            made = self.program(decisions)
            decisions.check()
            function = lower(made.schedule, made.args, self.symbol, check=False)
            return Lowered(function, function)

    def estimate(self, given: Candidate) -> float | None:
        """Return None: loops have no estimate."""
        return None

    def features(self, given: Candidate) -> npt.NDArray[np.float32]:
        """Return the features of a candidate's loops (`features_of`). Raises VtakitError for one that has no loops."""
        return features_of(self._unverified(given).runs, self.machine)

    @cached_property
    def definition(self) -> Program:
        """The expression with plain loops: the meaning of every candidate."""
        default = self.program(Decisions())
        with shallow(self.name):
            return Program(create_schedule([*default.schedule.outputs]), default.args)

    @cached_property
    def reference(self) -> Function:
        """The loop IR of the definition."""
        with shallow(self.name):
            return lower(self.definition.schedule, self.definition.args, self.symbol)

    @property
    def fresh(self) -> tuple[int, ...] | None:
        """Numbers of the parameters that caches have before each measured run, and nothing else; None for what a run leaves."""
        return None

    @property
    def limits(self) -> Limits:
        """Limits of the device, for the verifier."""
        return NO_LIMITS

    @property
    def symbol(self) -> str:
        """Name of the function."""
        return "candidate"

    @cached_property
    def key(self) -> Mapping[str, Any]:
        """Everything that decides the cost of a candidate, as JSON has it."""
        return {"rule": self.rule, "expression": self._digest, "arguments": [_typed(arg) for arg in self.definition.args],
                "target": _described(self.target), "threads": self.threads,
                "fresh": None if self.fresh is None else [*self.fresh]}

    @property
    @abstractmethod
    def rule(self) -> str:
        """The rule that makes decisions, and its version: candidates of another one mean something else."""

    @cached_property
    def digest(self) -> str:
        """Text that is equal for tasks of equal keys."""
        return digest_of(json.dumps(self.key, sort_keys=True))

    @cached_property
    def _digest(self) -> str:
        schedule, args = self.definition
        return digest_of(save_json({"outputs": schedule.outputs, "args": [*args]}))


def digest_of(text: str) -> str:
    """Return a digest of text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def check_arguments(name: str, outputs: Sequence[Tensor], args: Sequence[Tensor]) -> None:
    """Raise TuneError for a result that the function does not give, which nothing could be compared with, and for a tensor whose
    shape is no list of numbers, which no array has.
    """
    what = f"task {name!r:.80}"
    for tensor in outputs:
        if tensor not in args:
            raise TuneError(f"{what}: {tensor.op.name!r:.80} is computed, but is not among the tensors that the function takes: "
                            "add it at their end")
    for tensor in (*args, *outputs):
        if any(int_value(extent) is None for extent in tensor.shape):
            raise TuneError(f"{what}: {tensor!r} has a size that is known when the program runs: give a number for each")


def _typed(arg: Tensor) -> str:
    return f"{arg.dtype}[{', '.join(map(str, arg.shape))}]"


def _described(target: Target) -> dict[str, Any]:
    found = {each.name: getattr(target, each.name) for each in fields(target)}
    return found | {"features": [*target.features], "machine": machine_of(target).to_dict()}
