"""The CPU as a target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from vtakit.base.errors import one_of
from vtakit.compiler.codegen.llvm import target as llvm
from vtakit.compiler.codegen.llvm.compile import check_target
from vtakit.compiler.codegen.llvm.machine import Machine, MachineLike, load_machine
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.graph.compile import Left, Network, compile_graph, decide
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, graph_text
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.passes import lower_late
from vtakit.compiler.tune.kernel import kernel_tasks
from vtakit.compiler.tune.task import Tuned
from vtakit.runtime.cpu import function as functions
from vtakit.runtime.cpu.engine import CpuEngine, check_parts
from vtakit.runtime.cpu.library import export
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.cpu.precision import narrowed, said_of
from vtakit.runtime.cpu.tuning import costs_of
from vtakit.runtime.crt.export import export_c
from vtakit.runtime.fields import text, texts
from vtakit.runtime.source import Options
from vtakit.runtime.target import PRECISIONS, Engine, Image, Opening, Part, Progress, Target, TargetError
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.outcome import Cost


@dataclass(frozen=True)
class Cpu(llvm.Target, Target):
    """A processor; fields as in `vtakit.compiler.codegen.llvm.target.Target`."""

    name: ClassVar[str] = "llvm"
    summary: ClassVar[str] = "a processor, through LLVM: this machine's, or another one's by its triple"
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    options: ClassVar[tuple[str, ...]] = ("triple", "cpu", "features", "contract", "threads", "machine")
    kinds: ClassVar[tuple[type[Part], ...]] = (CpuPart,)

    @classmethod
    def make(cls, *, triple: str | None = None, machine: MachineLike | None = None, **changes: Any) -> Self:
        """Return this machine, or the machine of a triple; `changes` are the other fields.

        machine : record that estimates read; or a mapping of the fields that differ from the processor's, or the path of a JSON
                  file of them

        A processor that is named has the features that LLVM gives it, none of this machine's.

        Raises CodegenError for a triple or a processor that LLVM does not know, MachineError for a record that does not exist.
        """
        host = triple is None and "cpu" not in changes
        found = cls.host(**changes) if host else cls(cls.host().triple if triple is None else triple, **changes)
        check_target(found)
        return found if machine is None else replace(found, machine=load_machine(machine, machine_of(found)))

    @classmethod
    def adopt(cls, given: object, **options: Any) -> Self | None:
        """Return the target for a `vtakit.compiler.codegen.llvm.target.Target`."""
        if not isinstance(given, llvm.Target):
            return None
        if options:
            raise TargetError(f"{min(options)} goes with the name of a target, and a Target was given")
        return cls(*[getattr(given, each.name) for each in fields(llvm.Target)])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        found = {"triple": self.triple, "cpu": self.cpu, "features": list(self.features), "contract": self.contract,
                 "threads": self.threads}
        return found if self.machine is None else found | {"machine": self.machine.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the processor of these fields."""
        return cls(text(data["triple"]), text(data["cpu"]), texts(data["features"]), bool(data["contract"]),
                   bool(data["threads"]), Machine().changed(data["machine"]) if "machine" in data else None)

    @property
    def key(self) -> str:
        """Text that is equal for targets with equal code: the fields, and the record, which may have this machine's caches."""
        return f"{self!r} {machine_of(self)!r}"

    @property
    def misfit(self) -> str:
        """Why this machine cannot run its code; "" if it can."""
        return functions.misfit(self)

    def ready(self, what: str) -> Self:
        """Return the target without threads if this machine has no OpenMP runtime."""
        return self if self.misfit else replace(self, threads=functions.for_here(self, what, parallel=True).threads)

    def for_this_machine(self) -> Self:
        """Return this machine."""
        return self.host()

    def function(self, function: Function, options: Mapping[str, Any]) -> functions.Function:
        """Return machine code as a function; options: packed, libraries."""
        for name in options:
            if name not in ("packed", "libraries"):
                raise TargetError(f"{name!r} is no option of a build for a CPU; {one_of(('libraries', 'packed'), name)}")
        return functions.build(lower_late(function), self, **options)

    def check_options(self, options: Options) -> None:
        """Raise TargetError for an unknown precision."""
        if options.precision not in PRECISIONS:
            raise TargetError(f"precision {options.precision!r}: give one of {', '.join(map(repr, PRECISIONS))}")

    def prepared(
        self, graph: Graph, options: Options, evaluate: Evaluate, after: Seen | None = None,
        decisions: ModelDecisions | None = None,
    ) -> Graph:
        """Return a graph after all passes, as kernels are made of it; see `compile`. Their decisions are added."""
        passes = passes_for_cpu(
            evaluate, integer=options.integer, machine=machine_of(self), winograd=options.winograd, precision=options.precision,
            narrowed=narrowed(options.precision, self, winograd=options.winograd), decisions=decisions)
        return run_passes(graph, passes, after)

    def compile(
        self, graph: Graph, options: Options, evaluate: Evaluate, *, after: Seen | None = None, progress: Progress | None = None,
        most_bytes: int | None = None,
    ) -> Image:
        """Compile a graph as one native function."""
        decisions = ModelDecisions(options.decisions)
        graph = self.prepared(graph, options, evaluate, after, decisions)
        network = compile_graph(graph, CpuKernels(self), decisions=decisions, progress=progress, most_bytes=most_bytes)
        decisions.check()
        return image_of(network, self, graph_text(graph), said=said_of(options.precision, self, graph))

    def decisions(self, graph: Graph, options: Options, evaluate: Evaluate) -> ModelDecisions:
        """Return the decisions of passes and schedules."""
        found = ModelDecisions(options.decisions)
        decide(self.prepared(graph, options, evaluate, decisions=found), CpuKernels(self), found)
        found.check()
        return found

    def tasks(self, graph: Graph, options: Options, evaluate: Evaluate, threads: int | None = None) -> list[Tuned]:
        """Return the tasks of a graph's kernels, with the forms and layouts that passes choose by default."""
        decisions = ModelDecisions(options.decisions)
        graph = self.prepared(graph, options, evaluate, decisions=decisions)
        return kernel_tasks(graph, CpuKernels(self), decisions, threads or 1)

    def measurer(self, threads: int | None = None) -> CpuMeasurer:
        """Return what measures candidates on this machine."""
        return CpuMeasurer(threads=threads or 1)

    def cost(self, image: Image) -> Cost:
        """Return the seconds that a model takes on this machine, with one thread."""
        return self.costs([image])[0]

    def costs(self, images: Sequence[Image], threads: int | None = None) -> list[Cost]:
        """Return the seconds that models take on this machine, timed in turn."""
        return costs_of(images, threads or 1)

    def engines(self, image: Image, opening: Opening) -> dict[str, Engine]:
        """Load the machine code of an image."""
        return {CpuPart.kind: CpuEngine(image, opening.threads)}

    def check_code(self, image: Image) -> None:
        """Raise CodegenError for machine code that is damaged, or made for other arrays than the image says."""
        check_parts(image)

    def export_library(self, image: Image, path: str | Path, linker: tuple[str, ...]) -> None:
        """Write a shared library, its C header and its parameters."""
        export(image, path, linker)

    def export_c(self, image: Image, folder: str | Path, *, embed: str, rtl: bool) -> tuple[str, ...]:
        """Write C source."""
        return export_c(image, folder, embed=embed, rtl=rtl)


def image_of(network: Network, target: Target, graph: str, left: tuple[Left, ...] = (), said: str = "") -> Image:
    """Return the image of a network that is one native function; see `Image`."""
    count = len(network.inputs)
    part = CpuPart.of(network, range(count), range(count, count + len(network.outputs)))
    return Image(part.name, target, network.inputs, network.outputs, (), (part,), graph, left, said)
