"""From a graph to machine code for the CPU and programs for the accelerator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.vta.compile import Progress
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.compile import Network, check_sizes, compile_graph, decide
from vtakit.compiler.graph.decisions import ModelDecisions, name_of
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.target import KernelTarget
from vtakit.compiler.graph.vta.place import Placement, Region, place
from vtakit.compiler.graph.vta.region import Launch, compile_region, decide_region
from vtakit.compiler.graph.vta.signals import as_signals
from vtakit.compiler.graph.vta.unit import Unit
from vtakit.compiler.lower.errors import LowerError, VerifyError
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.compiler.schedule.errors import ScheduleError

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
    graph: Graph, host: KernelTarget, target: Target, *, decisions: ModelDecisions | None = None, check: Check | None = None,
    progress: Progress | None = None, most_bytes: int | None = None,
) -> Compiled:
    """Compile a graph for the accelerator and its host.

    decisions  : given for its layers; those that are made are added
    check      : is given each launch, and raises VtaError for one that must not be
    progress   : is called with how many of the nodes are done, and of how many
    most_bytes : that a run of a part on the host may take; any if None

    What the accelerator turns out not to run is left to the host, unless decisions are given for its schedule. Raises VtaError
    for a configuration of other numbers than networks in integers have, DecisionError for such a layer, and what `compile_graph`
    raises.
    """
    check_sizes(graph)
    graph = as_signals(graph, target)
    decisions = ModelDecisions() if decisions is None else decisions
    without: dict[Node, str] = {}
    tell = progress or _silent
    while True:
        made = decisions.copy()
        placement = place(graph, target, without, made)
        done, count = 0, sum(map(_nodes, placement.parts))
        tell(done, count)
        launches: dict[Region, Launch] = {}
        refused: dict[Node, str] = {}
        for region in placement.parts:
            if isinstance(region, Region):
                try:
                    name = f"{graph.name}_{len(launches)}"
                    launches[region] = _checked(region, target, name, check, _within(tell, done, _nodes(region), count), made)
                    done += _nodes(region)
                    tell(done, count)
                except UNFIT as error:
                    refused |= _culprits(region, target, graph.name, error, check, decisions)
        if not refused:
            break
        without |= refused
    decisions.take(made)
    parts: list[CpuPart | Launch] = []
    for part in placement.parts:
        if isinstance(part, Region):
            parts.append(launches[part])
            continue
        network = compile_graph(
            part, host, decisions=decisions, progress=_within(tell, done, _nodes(part), count), most_bytes=most_bytes)
        parts.append(CpuPart(network, part.inputs, tuple([value for _, value in part.outputs])))
        done += _nodes(part)
        tell(done, count)
    return Compiled(placement, tuple(parts))


def _nodes(part: Graph | Region) -> int:
    """Return the number of nodes of a part, which progress counts."""
    return sum(len(unit.nodes) for unit in part.units) if isinstance(part, Region) else len(part.nodes)


def _within(tell: Progress, done: int, more: int, count: int) -> Progress:
    """Progress within a part of `more` nodes, `done` being done before, as that of the whole."""
    return lambda part, of: tell(done + more * part // of, count)


def decide_parts(graph: Graph, host: KernelTarget, target: Target, decisions: ModelDecisions) -> None:
    """Add the decisions of a graph's layers, of which no code is made: the accelerator is taken to run all that it schedules."""
    check_sizes(graph)
    for part in place(as_signals(graph, target), target, decisions=decisions).parts:
        if isinstance(part, Region):
            decide_region(part, target, graph.name, decisions)
        else:
            decide(part, host, decisions)


def _checked(
    region: Region, target: Target, name: str, check: Check | None, progress: Progress | None, decisions: ModelDecisions,
) -> Launch:
    launch = compile_region(region, target, name, progress, decisions)
    if check is not None:
        check(launch)
    return launch


def _culprits(
    region: Region, target: Target, name: str, error: VtakitError, check: Check | None, decisions: ModelDecisions,
) -> dict[Node, str]:
    """The ends of a region's units that cannot be compiled by themselves, with the reason; all of them if each alone can.

    Raises DecisionError for one whose schedule has given decisions, and for all of them if one has.
    """
    found, made = {}, decisions.copy()
    for unit in region.units:
        alone = region.of(unit)
        try:
            _checked(alone, target, name, check, None, made)
        except UNFIT as own:
            _refuse_given([unit], decisions, own)
            found[unit.nodes[-1]] = _first_line(own)
    if not found:
        _refuse_given(region.units, decisions, error)
    return found or {unit.nodes[-1]: _first_line(error) for unit in region.units}


def _refuse_given(units: Sequence[Unit], decisions: ModelDecisions, error: VtakitError) -> None:
    """Raise DecisionError if decisions are given for schedules of units that cannot be compiled."""
    given = {layer: values for unit in units if (values := decisions.given(layer := name_of(unit.nodes)))}
    if given:
        layers = ", ".join(map(repr, given))
        raise DecisionError(f"layer {layers} cannot be compiled with {given}: {_first_line(error)}") from error


def _silent(done: int, count: int) -> None:
    """Tell nobody."""


def _first_line(error: VtakitError) -> str:
    return str(error).partition("\n")[0]
