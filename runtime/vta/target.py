"""The accelerator as a target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from vtakit.base.text import counted
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.codegen.vta import target as codegen
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.vta.compile import Compiled, compile_parts, decide_parts
from vtakit.compiler.graph.vta.region import PADS, STORES, Launch
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.tune.task import Tuned
from vtakit.compiler.tune.vta import tasks_of
from vtakit.hw.isa.config import VTAConfig, load_config
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.published import Isa
from vtakit.hw.system import REFERENCE, System, load_system
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.crt.export import export_c
from vtakit.runtime.fields import number
from vtakit.runtime.source import Options
from vtakit.runtime.target import Array, Engine, Image, Opening, Part, Progress, Target
from vtakit.runtime.tune.cycles import Cycles, image_cycles
from vtakit.runtime.tune.outcome import Cost
from vtakit.runtime.vta.connection import check_timeout
from vtakit.runtime.vta.dram_images import write_images
from vtakit.runtime.vta.driver import Driver
from vtakit.runtime.vta.engine import DEFAULT_DEVICE, VtaEngine
from vtakit.runtime.vta.function import Accelerated
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.placement import warning
from vtakit.runtime.vta.registry import DEVICES, options_of
from vtakit.sim.api import check_options
from vtakit.sim.checker import check_program


@dataclass(frozen=True)
class Vta(codegen.Target, Target):
    """An accelerator beside a processor; the other fields as in `vtakit.compiler.codegen.vta.target.Target`.

    host : the processor, which runs what the accelerator leaves; this machine by default
    """

    host: Cpu | None = None

    name: ClassVar[str] = "vta"
    summary: ClassVar[str] = "the accelerator, with a processor for what it leaves: int8 networks"
    devices: ClassVar[tuple[str, ...]] = tuple(DEVICES)
    options: ClassVar[tuple[str, ...]] = ("config", "copies", "without", "system", "isa", "core", "host")
    kinds: ClassVar[tuple[type[Part], ...]] = (VtaPart,)
    unit: ClassVar[str] = "cycles"
    reported: ClassVar[str] = "cycle"
    forms: ClassVar[tuple[str, ...]] = (PADS, STORES)

    @classmethod
    def make(cls, *, config: Any = "default", system: Any = REFERENCE, host: Any = None, **options: Any) -> Self:
        """Return the accelerator of a configuration.

        config : a VTAConfig, a name, a mapping of LOG_… keys, or the path of a JSON file
        system : its memory: a System, a name, a mapping of fields, or the path of a JSON file
        options : of `vtakit.compiler.codegen.vta.target.Target`: copies, without, core
        host   : the processor, as `vtakit.compile` takes a target
        """
        made = codegen.vta(load_config(config), system=load_system(system), **options)
        return cls(made.config, made.copies, made.without, made.system, made.isa, made.core, _host(host))

    @classmethod
    def adopt(cls, given: object, *, host: Any = None, **options: Any) -> Self | None:
        """Return the target for a `vtakit.compiler.codegen.vta.target.Target`."""
        if not isinstance(given, codegen.Target):
            return None
        if options:
            raise VtaError(f"{min(options)} goes with the name of a target, and a Target was given")
        return cls(given.config, given.copies, given.without, given.system, given.isa, given.core, _host(host))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"config": self.config.to_dict(), "copies": self.copies, "without": int(self.without),
                "system": self.system.to_dict(), "isa": str(self.isa), "core": dict(self.core), "host": self.processor.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the accelerator of these fields."""
        return cls(VTAConfig.from_dict(data["config"]), number(data["copies"]), Feature(number(data["without"])),
                   System.from_dict(data["system"]), Isa.parse(data.get("isa", "vtakit")), _core(data.get("core", {})),
                   Cpu.from_dict(data["host"]))

    @property
    def key(self) -> str:
        """Text that is equal for targets with equal code."""
        return f"{self!r} {self.processor.key}"

    @property
    def processor(self) -> Cpu:
        """The processor beside the accelerator."""
        return self.host or Cpu.host()

    @property
    def misfit(self) -> str:
        """Why this machine is not its processor; "" if it is."""
        return self.processor.misfit

    def ready(self, what: str) -> Self:
        """Return the target with a processor that this machine can run."""
        return replace(self, host=self.processor.ready(what))

    def for_this_machine(self) -> Self:
        """Return the target with this machine as its processor."""
        return replace(self, host=Cpu.host())

    def function(self, function: Function, options: Mapping[str, Any]) -> Accelerated:
        """Return a program as a function; options: device, timeout_s, check, progress, and those of the device."""
        return Accelerated(function, self, **options)

    def check_options(self, options: Options) -> None:
        """Raise VtaError for half precision."""
        if options.precision != "float32":
            raise VtaError(f"precision {options.precision!r} is for a CPU; the accelerator computes in integers")

    def compile(
        self, graph: Graph, options: Options, evaluate: Evaluate, *, after: Seen | None = None, progress: Progress | None = None,
        most_bytes: int | None = None,
    ) -> Image:
        """Compile what the accelerator can run as programs, and the rest for its processor."""
        graph = run_passes(graph, passes_for_cpu(evaluate, integer=options.integer), after)
        host = CpuKernels(self.processor)
        decisions = ModelDecisions(options.decisions)
        check = partial(_checked, isa=self.isa)
        compiled = compile_parts(
            graph, host, self, decisions=decisions, check=check, progress=progress, most_bytes=most_bytes)
        decisions.check()
        return image_of_parts(compiled, self)

    def decisions(self, graph: Graph, options: Options, evaluate: Evaluate) -> ModelDecisions:
        """Return the decisions of placement and schedules."""
        found = ModelDecisions(options.decisions)
        graph = run_passes(graph, passes_for_cpu(evaluate, integer=options.integer))
        decide_parts(graph, CpuKernels(self.processor), self, found)
        found.check()
        return found

    def tasks(self, graph: Graph, options: Options, evaluate: Evaluate, threads: int | None = None) -> list[Tuned]:
        """Return the operators that the accelerator runs; threads of its host change nothing."""
        decisions = ModelDecisions(options.decisions)
        return tasks_of(run_passes(graph, passes_for_cpu(evaluate, integer=options.integer)), self, decisions)

    def measurer(self, threads: int | None = None) -> Cycles:
        """Return the cycle model."""
        return Cycles()

    def cost(self, image: Image) -> Cost:
        """Return the cycles of all launches, by the cycle model."""
        return image_cycles(image.parts_of(VtaPart), self)

    def warning(self, image: Image) -> str:
        """Return a sentence if nothing of a model runs on the accelerator."""
        return warning(image, self.isa)

    def is_device(self, given: object) -> bool:
        """Return whether `given` is a driver."""
        return isinstance(given, Driver)

    def check_opening(self, opening: Opening) -> None:
        """Raise VtakitError for an option that the device does not have, or a driver beside options."""
        if isinstance(opening.device, Driver):
            if opening.options:
                raise VtaError(f"{min(opening.options)} is an option of a device to be opened, and a driver was given: open it "
                               "with that")
        else:
            name = DEFAULT_DEVICE if opening.device is None else opening.device
            check_options(name, options_of(name), opening.options)
        check_timeout(opening.timeout_s)

    def engines(self, image: Image, opening: Opening) -> dict[str, Engine]:
        """Return those of the processor, and one on the device if there are programs."""
        found = self.processor.engines(image, Opening(threads=opening.threads))
        return found | ({VtaPart.kind: VtaEngine(image, opening, self)} if image.parts_of(VtaPart) else {})

    def check_image(self, image: Image) -> None:
        """Raise VtaError for a program of another configuration."""
        if any(part.program.config != self.config for part in image.parts_of(VtaPart)):
            raise VtaError("a program is for another configuration of the accelerator than the module")

    def check_code(self, image: Image) -> None:
        """Raise CodegenError for damaged machine code; programs are checked when they are read."""
        self.processor.check_code(image)

    def portable(self, opening: Opening) -> Opening:
        """Return an opening with the name of its device."""
        return replace(opening, device=opening.device.device.name) if isinstance(opening.device, Driver) else opening

    def export_library(self, image: Image, path: str | Path, linker: tuple[str, ...]) -> None:
        """Write a shared library, if the processor runs everything."""
        if count := len(image.parts_of(VtaPart)):
            raise CodegenError(
                f"model {image.name!r} has {counted(count, 'part')} for the accelerator, and a shared library has machine code "
                "only: write C source with export_c (vtakit export), or a module with save")
        self.processor.export_library(image, path, linker)

    def export_c(self, image: Image, folder: str | Path, *, embed: str, rtl: bool) -> tuple[str, ...]:
        """Write C source for the processor and a driver of the accelerator."""
        return export_c(image, folder, embed=embed, rtl=rtl)

    def dump_images(self, image: Image, folder: str | Path, values: Sequence[Array] | None) -> int:
        """Write the accelerator's DRAM before each launch."""
        return write_images(image, folder, values)


def image_of_parts(compiled: Compiled, target: Vta) -> Image:
    """Return the image of a graph that was compiled for the accelerator and its processor."""
    graph, placement = compiled.placement.graph, compiled.placement
    inputs = tuple([Port(value.name, value.type.shape, value.type.dtype) for value in graph.inputs])
    outputs = tuple([Port(name, value.type.shape, value.type.dtype) for name, value in graph.outputs])
    if len(compiled.parts) == 1 and not isinstance(compiled.parts[0], Launch):
        return image_of(compiled.parts[0].network, target, str(placement), placement.left)
    numbers = {value: at for at, value in enumerate(graph.inputs)}
    between: list[Port] = []
    parts: list[Part] = []
    for each in compiled.parts:
        reads = [numbers[value] for value in each.reads]
        if each is compiled.parts[-1]:  # it gives the outputs
            writes = list(range(len(inputs), len(inputs) + len(outputs)))
        else:
            for value in each.writes:
                numbers[value] = len(inputs) + len(outputs) + len(between)
                between.append(Port(value.name, value.type.shape, value.type.dtype))
            writes = [numbers[value] for value in each.writes]
        if isinstance(each, Launch):
            parts.append(VtaPart(reads=tuple(reads), writes=tuple(writes), program=each.program, inputs=each.inputs,
                                 outputs=each.outputs, layers=each.layers))
        else:
            parts.append(CpuPart.of(each.network, reads, writes))
    return Image(graph.name, target, inputs, outputs, tuple(between), tuple(parts), str(placement), placement.left)


def _core(data: Any) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a core from a module's header. Raises ValueError for what is no mapping."""
    if not isinstance(data, dict):
        raise ValueError(f"the core is {data!r:.40}, and no mapping")
    return tuple(data.items())


def _host(given: Any) -> Cpu | None:
    """Return a processor, given as a target or the description of one; None is this machine, found when it is needed."""
    if given is None:
        return None
    found = Cpu.adopt(given)
    if found is None:
        raise VtaError(f"host is the processor beside the accelerator, not {given!r:.40}: give vtakit.target('llvm', triple=…)")
    return found


def _checked(launch: Launch, isa: Isa) -> None:
    """Raise VtaError for a program that is not proven free of races and deadlock, or uses what its instruction set lacks."""
    if faults := check_program(launch.program, isa):
        raise VtaError(f"the static checker finds a fault in its program: {faults[0]}")
