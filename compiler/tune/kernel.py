"""Tasks of a network on a processor: one for each of its kernels, whose space is what operators' rules decide."""

import re
from collections.abc import Container
from functools import cached_property
from typing import Any

from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.fusion import Group, fuse
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.compiler.graph.lower import THREADS, key_of, scheduled, serial
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.lower.verify.limits import Limits
from vtakit.compiler.schedule.decisions import Decisions, Pick
from vtakit.compiler.tune.loops import LoopTask, Lowered, Program, digest_of
from vtakit.compiler.tune.task import Candidate, Tuned


class KernelTask(LoopTask):
    """A kernel: the nodes of a group, as default schedules compute them.

    On one thread it cannot be measured what threads share: the space has the defaults of these decisions only, so that what is
    found runs well on several, too.
    """

    def __init__(
        self, group: Group, kernels: CpuKernels, *, name: str = "", threads: int = 1, constants: Container[Value] = (),
    ) -> None:
        super().__init__(name or group.name, kernels.target, threads)
        self.group, self.kernels, self._constants = group, kernels, constants

    @cached_property
    def fresh(self) -> tuple[int, ...]:
        """Numbers of the parameters that the layers before have just written: all inputs but weights."""
        reads = scheduled(self.group, self.kernels).reads
        return tuple([at for at, number in enumerate(reads) if self.group.inputs[number] not in self._constants])

    def program(self, decisions: Decisions) -> Program:
        """Return the schedule that decisions lead to. Raises DecisionError for a value that is no candidate."""
        if self.threads == 1 and decisions.pick is not None:
            decisions.pick = _unshared(decisions.pick)
        found = scheduled(self.group, self.kernels, decisions)
        return Program(found.schedule, found.args)

    @property
    def limits(self) -> Limits:
        """Limits of the target, for the verifier."""
        return self.kernels.limits

    def _lower(self, given: Candidate) -> Lowered:
        decisions = Decisions(given)
        with shallow(self.name):
            found = scheduled(self.group, self.kernels, decisions)
            function = lower(found.schedule, found.args, self.symbol, check=False)
            return Lowered(function, function if found.threads else function._replace(body=serial(function.body)))

    @property
    def rule(self) -> str:
        """The rules of operators; records tell their versions apart."""
        return "operators"

    @cached_property
    def _digest(self) -> str:
        return digest_of(re.sub(r" at 0x[0-9a-f]+", "", repr(key_of(self.group))))


def _unshared(pick: Pick) -> Pick:
    """Return a pick that leaves the defaults to decisions about threads."""
    def one(name: str, candidates: tuple[Any, ...], default: Any) -> Any:
        return default if _about_threads(name) else pick(name, candidates, default)
    return one


def _about_threads(name: str) -> bool:
    return name == THREADS or name.endswith(".parallel")


def kernel_tasks(graph: Graph, kernels: CpuKernels, decisions: ModelDecisions, threads: int = 1) -> list[Tuned]:
    """Return the tasks of a network's kernels, equal ones together, in the order of the graph; without those that decide nothing.

    graph     : after all passes
    decisions : gives layers their names
    """
    found: dict[object, tuple[KernelTask, list[str]]] = {}
    for group in fuse(graph, kernels.machine):
        if group.view:
            continue
        layer = decisions.kernel(group.nodes)
        key = key_of(group)
        if key not in found:
            found[key] = KernelTask(group, kernels, name=layer, threads=threads, constants=graph.constants), []
        found[key][1].append(layer)
    return [Tuned(task, tuple(layers)) for task, layers in found.values() if _has_choices(task)]


def _has_choices(task: KernelTask) -> bool:
    decisions = Decisions()
    task.decide(decisions)
    return any(len(each.candidates) > 1 for each in decisions if task.threads > 1 or not _about_threads(each.name))
