"""The interface of a back end: `Target`, and what it makes and runs: `Image`, `Part`, `Engine`.

`vtakit.build`, `vtakit.compile`, module files, caches, reports and the command line ask these objects, never their class.
`vtakit.runtime.targets` finds a target by its name. A new back end is one class of each, and `register`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer, Left
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.base import Seen
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import Limits
from vtakit.compiler.tune.task import Tuned
from vtakit.runtime.report.report import Report
from vtakit.runtime.source import Options, Source
from vtakit.runtime.timed import Timed
from vtakit.runtime.tune.outcome import Cost, Measurer

Array = npt.NDArray[Any]
Values = Sequence[tuple[Array, int]]  # arrays of a model's values, each with the address of its first element
Progress = Callable[[int, int], None]
PRECISIONS = ("float32", "bfloat16", "float16")


class TargetError(VtakitError, ValueError):
    """A target or device that does not exist, or an option that it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A device and its options, for a compiled model.

    device    : a name, or an open device; None for the target's default
    timeout_s : limit on the run of one part, in seconds
    threads   : of the host that one run uses; None for the default of OpenMP
    options   : of the device
    """

    device: Any = None
    timeout_s: float = TIMEOUT_S
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Part(ABC):
    """Layers of a model that one engine runs in one go.

    kind          : in a module file
    reads, writes : numbers of the model's values
    arena_bytes   : size of the host memory that a run needs between the part's layers
    live_bytes    : most of the arena that is live at one time
    """

    kind: ClassVar[str]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    layers: tuple[Layer, ...]
    arena_bytes: int = 0
    live_bytes: int = 0

    @abstractmethod
    def dump(self) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return what a module file holds of the part beside its values and layers: JSON, and blobs."""

    @classmethod
    @abstractmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described.

        values : all values of the model

        Raises VtakitError, ValueError, KeyError, TypeError or IndexError for anything that `dump` does not return.
        """

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of parameters and constants, those in a device's memory included."""
        return 0

    @property
    def weights_bytes(self) -> int:
        """Size in bytes of parameters and constants in the host's memory."""
        return 0

    @property
    def code_bytes(self) -> int:
        """Size in bytes of machine code for the host."""
        return 0


P = TypeVar("P", bound=Part)


class Engine(ABC):
    """Parts of one kind of a compiled model, ready to run.

    exclusive : whether one run must wait for another
    counters  : of the last run of each part; empty if the engine counts nothing
    """

    exclusive: ClassVar[bool] = False

    @property
    def counters(self) -> Sequence[dict[str, int]]:
        """Counters of the last run of each part."""
        return ()

    @abstractmethod
    def run(self, part: Any, values: Values) -> None:
        """Run a part on the arrays of the model's values, in place."""

    @abstractmethod
    def profile(self, part: Any, values: Values, repeat: int) -> tuple[Sequence[Timed], Report | None]:
        """Run a part, each layer by itself if possible; of `repeat` runs the quickest counts.

        Returns the time of each layer, or none and a report of its cycles.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the device, if there is one; a later run opens it again."""


class Target(ABC):
    """A back end: what code is made for, how it is made, and how it runs.

    name     : for --target, `vtakit.compile` and module files
    summary  : one line for people
    devices  : names of what its code runs on, the default first
    options  : of `make`: arguments of `vtakit.compile`, such as config
    kinds    : parts that it makes itself; those of its host come on top
    unit     : of the costs that the tuner measures: s, or cycles
    reported : device of a report by default; "" for the default of `devices`
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[type[Part], ...]]
    unit: ClassVar[str] = "s"
    reported: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def make(cls, **options: Any) -> Self:
        """Return the target of these options. Raises VtakitError for a wrong one."""

    @classmethod
    def adopt(cls, given: object, **options: Any) -> Self | None:
        """Return the target for the description of one that its code generator takes; None for anything else."""
        return None

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that decides its code as plain data, for module files."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the target that `to_dict` described; raises VtakitError, ValueError, KeyError or TypeError for other data."""

    @property
    def key(self) -> str:
        """Text that is equal for targets with equal code: part of a cache's key."""
        return repr(self)

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks; none by default."""
        return Limits()

    @property
    def processor(self) -> "Target":
        """The target that runs what this one leaves; itself if it leaves nothing."""
        return self

    @property
    def part_kinds(self) -> dict[str, type[Part]]:
        """The parts of its modules, by kind."""
        return {cls.kind: cls for cls in (*self.processor.kinds, *self.kinds)}

    @property
    def misfit(self) -> str:
        """Why its code cannot run in this process; "" if it can."""
        return ""

    def ready(self, what: str) -> Self:
        """Return the target as this machine can run it; itself if it is another machine's. `what` needs it, in warnings."""
        return self

    def for_this_machine(self) -> Self:
        """Return the target with this machine's processor."""
        return self

    # Functions

    def function(self, function: Function, options: Mapping[str, Any]) -> Any:
        """Return a lowered function as one that takes arrays; see `vtakit.build`, also for the options."""
        raise TargetError(f"target {self.name!r} runs models only: use vtakit.compile")

    # Models

    def check_options(self, options: Options) -> None:
        """Raise VtakitError for options that it does not have."""
        if options.precision not in PRECISIONS:
            raise TargetError(f"precision {options.precision!r}: give one of {', '.join(map(repr, PRECISIONS))}")
        if options.precision != PRECISIONS[0]:
            raise TargetError(f"precision {options.precision!r} is for a CPU; target {self.name!r} has none")
        if options.decisions and type(self).decisions is Target.decisions:
            raise TargetError(f"decisions are given, and target {self.name!r} has none")

    @abstractmethod
    def compile(
        self, graph: Graph, options: Options, evaluate: Evaluate, *, after: Seen | None = None, progress: Progress | None = None,
        most_bytes: int | None = None,
    ) -> "Image":
        """Compile a graph as it was imported.

        evaluate   : runs a graph of constants
        after      : sees each pass
        most_bytes : limit on the memory of a run
        """

    def decisions(self, graph: Graph, options: Options, evaluate: Evaluate) -> ModelDecisions:
        """Return the decisions with which `compile` would compile a graph, without making code; `compile` takes any of them.

        Raises DecisionError for a given one that does not exist or is no candidate.
        """
        raise TargetError(f"target {self.name!r} has no decisions")

    # Tuning

    forms: ClassVar[tuple[str, ...]] = ()  # decisions of a whole layer whose other value the tuner tries in the network

    def tasks(self, graph: Graph, options: Options, evaluate: Evaluate, threads: int | None = None) -> Sequence[Tuned]:
        """Return the tasks of a graph, equal ones together, for the tuner; `decisions` of a layer are those of its task.

        threads : of a processor's parallel loops; None for one
        """
        raise TargetError(f"target {self.name!r} has no tuner for models")

    def measurer(self, threads: int | None = None) -> Measurer:
        """Return what measures candidates of `tasks`."""
        raise TargetError(f"target {self.name!r} has no tuner for models")

    def cost(self, image: "Image") -> Cost:
        """Return what a whole model takes, in the unit of `measurer`."""
        raise TargetError(f"target {self.name!r} has no tuner for models")

    def costs(self, images: Sequence["Image"], threads: int | None = None) -> list[Cost]:
        """Return what whole models take; those whose unit is seconds are timed on this machine, in turn."""
        return [self.cost(image) for image in images]

    def warning(self, image: "Image") -> str:
        """Return a sentence if nothing of a model runs where it was meant to; "" otherwise."""
        return ""

    # Running

    def is_device(self, given: object) -> bool:
        """Return whether `given` is an open device of this target."""
        return False

    def check_opening(self, opening: Opening) -> None:
        """Raise VtakitError for an option that the device does not have; the device is one of `devices`, open, or None."""
        if opening.options:
            name = min(opening.options)
            cure = f": it belongs to the target, vtakit.target({self.name!r}, {name}=…)" if name in self.options else ""
            raise TargetError(f"device {self.devices[0]!r} has no options, and {name} is given{cure}")

    @abstractmethod
    def engines(self, image: "Image", opening: Opening) -> dict[str, Engine]:
        """Return the engine of each kind of part of an image."""

    def check_image(self, image: "Image") -> None:
        """Raise VtakitError if the parts of an image from a file cannot be this target's."""
        return

    def check_code(self, image: "Image") -> None:
        """Raise VtakitError if the code of an image is damaged; none is loaded."""
        return

    def portable(self, opening: Opening) -> Opening:
        """Return an opening that another process can use: the name of a device in place of an open one."""
        return opening

    # Files

    def export_library(self, image: "Image", path: str | Path, linker: tuple[str, ...]) -> None:
        """Write a shared library with its C header; see `Module.export`."""
        raise TargetError(f"target {self.name!r} makes no shared library")

    def export_c(self, image: "Image", folder: str | Path, *, embed: str, rtl: bool) -> tuple[str, ...]:
        """Write C source; see `Module.export_c`."""
        raise TargetError(f"target {self.name!r} exports no C source")

    def dump_images(self, image: "Image", folder: str | Path, values: Sequence[Array] | None) -> int:
        """Write the device's memory before each launch; return how many there are. See `Module.dump_images`."""
        raise TargetError(f"target {self.name!r} has no launches")


class Summary(Protocol):
    """Facts for a report's page about a model; sizes in bytes. Compiled models are such."""

    @property
    def target(self) -> Target:
        """The target."""

    @property
    def params_bytes(self) -> int:
        """Size of parameters."""

    @property
    def arena_bytes(self) -> int:
        """Size of the memory of a run."""


@dataclass(frozen=True, eq=False)
class Image:
    """A compiled model: parts that run in order, and the values that one part passes to another.

    name    : name of the entry function, if one part is the whole model
    between : values that one part passes to a later one; numbered after inputs and outputs
    graph   : text of the graph after all passes, for reading
    left    : operators that the target leaves to its processor, with reasons
    said    : one line on how the computation departs from the model; "" if it does not
    source  : imported graph and options, from which `recompile` builds; None if unknown
    """

    name: str
    target: Target
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    between: tuple[Port, ...]
    parts: tuple[Part, ...]
    graph: str
    left: tuple[Left, ...] = ()
    said: str = ""
    source: Source | None = None

    @cached_property
    def values(self) -> tuple[Port, ...]:
        """All values, indexed by their numbers."""
        return (*self.inputs, *self.outputs, *self.between)

    def parts_of(self, kind: type[P]) -> tuple[P, ...]:
        """Return the parts of a kind, in order."""
        return tuple([part for part in self.parts if isinstance(part, kind)])

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers of all parts, in order."""
        return tuple([layer for part in self.parts for layer in part.layers])

    @property
    def params_bytes(self) -> int:
        """Size in bytes of parameters and constants, those in a device's memory included."""
        return sum(part.constant_bytes for part in self.parts)

    @property
    def arena_bytes(self) -> int:
        """Size in bytes of the host memory that a run needs beside inputs, outputs and parameters."""
        return sum(part.arena_bytes for part in self.parts) + sum(port.bytes for port in self.between)

    @property
    def live_bytes(self) -> int:
        """Most bytes of that memory that are live at one time: the lower bound of any memory plan."""
        return max((part.live_bytes for part in self.parts), default=0) + sum(port.bytes for port in self.between)
