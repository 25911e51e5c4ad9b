"""What targets of GPUs share: a model is kernels of one part, on one arena."""

from abc import abstractmethod
from typing import ClassVar

from vtakit.compiler.graph.compile import compile_graph, decide
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.gpu import GpuKernels
from vtakit.compiler.graph.ir import Graph, graph_text
from vtakit.compiler.graph.memory import ALIGN
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.graph.passes.pipeline import passes_for_gpu
from vtakit.runtime.placed import PlacedPart
from vtakit.runtime.source import Options
from vtakit.runtime.target import Image, Progress, Target


class GpuTarget(Target):
    """A GPU.

    part  : kind of the part that a model becomes
    align : alignment in bytes of a place in the arena or the parameters
    """

    part: ClassVar[type[PlacedPart]]
    align: ClassVar[int] = ALIGN

    @property
    @abstractmethod
    def kernels(self) -> GpuKernels:
        """Back end of kernels: their schedules, and the code of networks."""

    def prepared(
        self, graph: Graph, options: Options, evaluate: Evaluate, after: Seen | None = None,
        decisions: ModelDecisions | None = None,
    ) -> Graph:
        """Return a graph after all passes, as kernels are made of it. Their decisions are added."""
        return run_passes(graph, passes_for_gpu(evaluate, integer=options.integer, decisions=decisions), after)

    def compile(
        self, graph: Graph, options: Options, evaluate: Evaluate, *, after: Seen | None = None, progress: Progress | None = None,
        most_bytes: int | None = None,
    ) -> Image:
        """Compile a graph as kernels on one arena."""
        decisions = ModelDecisions(options.decisions)
        graph = self.prepared(graph, options, evaluate, after, decisions)
        network = compile_graph(
            graph, self.kernels, decisions=decisions, progress=progress, most_bytes=most_bytes, align=self.align)
        decisions.check()
        part = self.part.of(network)
        return Image(part.name, self, network.inputs, network.outputs, (), (part,), graph_text(graph))

    def decisions(self, graph: Graph, options: Options, evaluate: Evaluate) -> ModelDecisions:
        """Return the decisions of passes and schedules."""
        found = ModelDecisions(options.decisions)
        decide(self.prepared(graph, options, evaluate, decisions=found), self.kernels, found)
        found.check()
        return found
