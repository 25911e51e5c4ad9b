"""Tasks of a network on a processor: one for each of its kernels, whose space is what operators' rules decide."""

import re
from functools import cached_property

from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.fusion import Group, fuse
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.lower import THREADS, key_of, scheduled, serial
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune.loops import LoopTask, Program, digest_of
from vtakit.compiler.tune.task import Candidate, Tuned


class KernelTask(LoopTask):
    """A kernel: the nodes of a group, as default schedules compute them."""

    def __init__(self, group: Group, kernels: CpuKernels, *, name: str = "", threads: int = 1) -> None:
        super().__init__(name or group.name, kernels.target, threads)
        self.group, self.kernels = group, kernels

    def program(self, decisions: Decisions) -> Program:
        """Return the schedule that decisions lead to. Raises DecisionError for a value that is no candidate."""
        found = scheduled(self.group, self.kernels, decisions)
        return Program(found.schedule, found.args)

    def _lower(self, given: Candidate) -> Function:
        decisions = Decisions(given)
        with shallow(self.name):
            found = scheduled(self.group, self.kernels, decisions)
            function = lower(found.schedule, found.args, self.symbol, limits=self.kernels.limits)
            return function if found.threads else function._replace(body=serial(function.body))

    @property
    def rule(self) -> str:
        """The rules of operators; records tell their versions apart."""
        return "operators"

    @cached_property
    def _digest(self) -> str:
        return digest_of(re.sub(r" at 0x[0-9a-f]+", "", repr(key_of(self.group))))


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
            found[key] = KernelTask(group, kernels, name=layer, threads=threads), []
        found[key][1].append(layer)
    return [Tuned(task, tuple(layers)) for task, layers in found.values() if _has_choices(task)]


def _has_choices(task: KernelTask) -> bool:
    decisions = Decisions()
    task.decide(decisions)
    return any(len(decision.candidates) > 1 for decision in decisions if decision.name != THREADS)
