"""From a graph to machine code for the CPU and programs for the accelerator."""

from collections.abc import Callable
from dataclasses import dataclass

from vtakit.compiler.codegen.llvm.target import Target as CpuTarget
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.compile import Network, check_sizes, compile_graph
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.vta.place import Placement, Region, place
from vtakit.compiler.graph.vta.region import Launch, compile_region
from vtakit.compiler.lower.errors import LowerError, VerifyError
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.hw.isa.errors import VtakitError

Progress = Callable[[int, int], None]
Check = Callable[[Launch], None]
UNFIT = VtaError, ScheduleError, LowerError, VerifyError, PassError  # why the accelerator does not take what fits it by itself


@dataclass(frozen=True, slots=True, eq=False)
class CpuPart:
    """Machine code, and the values that are its inputs and outputs."""

    network: Network
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A graph's parts, in order, and where its nodes are."""

    placement: Placement
    parts: tuple[CpuPart | Launch, ...]


def compile_parts(
    graph: Graph, cpu: CpuTarget, target: Target, *, check: Check | None = None, progress: Progress | None = None,
    most_bytes: int | None = None,
) -> Compiled:
    """Compile a graph for the accelerator and the CPU.

    check      : is given each launch, and raises VtaError for one that must not be
    progress   : is called with how many of the parts are done, and of how many
    most_bytes : that a run of a part on the CPU may take; any if None

    What the accelerator turns out not to run is left to the CPU. Raises VtaError for a configuration of other numbers than
    networks in integers have, and what `compile_graph` raises.
    """
    check_sizes(graph)
    without: dict[Node, str] = {}
    tell = progress or _silent
    while True:
        placement = place(graph, target, without)
        tell(0, len(placement.parts))
        launches: dict[Region, Launch] = {}
        refused: dict[Node, str] = {}
        for region in placement.parts:
            if isinstance(region, Region):
                try:
                    launches[region] = _checked(region, target, f"{graph.name}_{len(launches)}", check)
                    tell(len(launches), len(placement.parts))
                except UNFIT as error:
                    refused |= _culprits(region, target, graph.name, error, check)
        if not refused:
            break
        without |= refused
    parts: list[CpuPart | Launch] = []
    done = len(launches)
    for part in placement.parts:
        if isinstance(part, Region):
            parts.append(launches[part])
            continue
        network = compile_graph(part, cpu, most_bytes=most_bytes)
        parts.append(CpuPart(network, part.inputs, tuple([value for _, value in part.outputs])))
        done += 1
        tell(done, len(placement.parts))
    return Compiled(placement, tuple(parts))


def _checked(region: Region, target: Target, name: str, check: Check | None) -> Launch:
    launch = compile_region(region, target, name)
    if check is not None:
        check(launch)
    return launch


def _culprits(region: Region, target: Target, name: str, error: VtakitError, check: Check | None) -> dict[Node, str]:
    """The ends of a region's units that cannot be compiled by themselves, with the reason; all of them if each alone can."""
    found = {}
    for unit in region.units:
        alone = region.of(unit)
        try:
            _checked(alone, target, name, check)
        except UNFIT as own:
            found[unit.nodes[-1]] = _first_line(own)
    return found or {unit.nodes[-1]: _first_line(error) for unit in region.units}


def _silent(done: int, count: int) -> None:
    """Tell nobody."""


def _first_line(error: VtakitError) -> str:
    return str(error).partition("\n")[0]
