"""From a graph to the code of the whole network."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vtakit.compiler.codegen.places import Place, Port, Region, Step
from vtakit.compiler.graph.decisions import ModelDecisions, of_layer
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.fusion import Group, fuse
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.lower import Kernel, kernel_of, key_of, scheduled
from vtakit.compiler.graph.memory import ALIGN, MemoryPlan, plan_memory
from vtakit.compiler.graph.target import KernelTarget
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower.errors import LowerError, VerifyError
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.schedule.decisions import Decision

Progress = Callable[[int, int], None]
_MOST_ELEMENTS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Layer:
    """One step of a network.

    kernel : the number of its kernel; -1 for a copy
    ops    : its operators; () for a copy
    names  : of the model's nodes that it does
    bytes  : that it reads and writes, each operand once
    macs   : its multiplications that are summed
    """

    kernel: int
    ops: tuple[str, ...]
    names: tuple[str, ...]
    bytes: int
    macs: int


class Left(NamedTuple):
    """An operator that a target leaves to its processor, and why."""

    op: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"# {self.op} {self.name!r} is on the CPU: {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A compiled network.

    code        : what the target made
    params      : what the code finds at its parameters, by offset
    layers      : what each step is
    arena_bytes : of what lies between layers and what they work in
    live_bytes  : of it the most that is needed at one time, which no plan goes below
    """

    code: Any
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[Layer, ...]
    params: tuple[tuple[int, Array], ...]
    params_bytes: int
    arena_bytes: int
    live_bytes: int


def compile_graph(
    graph: Graph, target: KernelTarget, *, decisions: ModelDecisions | None = None, progress: Progress | None = None,
    most_bytes: int | None = None, align: int = ALIGN,
) -> Network:
    """Compile a graph for one target.

    decisions  : given for its layers; those of the kernels' schedules are added
    progress   : called after each kernel with the number done and the number of all
    most_bytes : limit on inputs, outputs, parameters and what lies between, in bytes; None is no limit
    align      : bytes that a place in the parameters or the arena is a multiple of

    Raises GraphError, DecisionError or what the target raises for what cannot be compiled.
    """
    decisions = ModelDecisions() if decisions is None else decisions
    check_sizes(graph)
    groups = fuse(graph, target.machine)
    if most_bytes is not None:
        _check_memory(graph, plan_memory(graph, groups), most_bytes)
    kernels, numbers = _kernels(graph.name, [group for group in groups if not group.view], target, decisions, progress)
    plan = plan_memory(graph, groups, {group: kernels[number].scratch for group, number in numbers.items()}, align)
    steps, layers = [], []
    for group in groups:
        if group.view:
            continue
        number = numbers[group]
        operands = (*[group.inputs[at] for at in kernels[number].reads], *group.outputs)
        steps.append(Step(number, (*[plan.places[value] for value in operands], *plan.scratch.get(group, ()))))
        names = tuple([node.name for node in group.nodes if node.name])
        size = sum(value.type.bytes for value in operands)
        layers.append(Layer(number, tuple([node.op for node in group.nodes]), names, size, kernels[number].macs))
    for output, value in plan.copies:
        size = value.type.bytes
        steps.append(Step(-1, (plan.places[value], Place(Region.OUTPUT, output)), size))
        layers.append(Layer(-1, (), (graph.outputs[output][0],), 2 * size, 0))
    inputs = tuple([Port(value.name, value.type.shape, value.type.dtype) for value in graph.inputs])
    outputs = tuple([Port(name, value.type.shape, value.type.dtype) for name, value in graph.outputs])
    functions: list[Function] = [kernel.function for kernel in kernels]
    code = target.network(
        graph.name, functions, steps, inputs, outputs, params_bytes=plan.params_bytes, arena_bytes=plan.arena_bytes,
    )
    return Network(code, inputs, outputs, tuple(layers), _params(graph, plan), plan.params_bytes, plan.arena_bytes,
                   plan.live_bytes)


def check_sizes(graph: Graph) -> None:
    """Raise GraphError for a value with more elements than code counts, whose places are of int32."""
    for value in (*graph.inputs, *(made for node in graph.nodes for made in node.outputs)):
        if value.type.size > _MOST_ELEMENTS:
            raise GraphError(
                f"network {graph.name!r} has a value of the type {value.type}, which is {value.type.size:,} elements; code "
                f"counts up to {_MOST_ELEMENTS:,}: give smaller shapes or a smaller batch"
            )


def _check_memory(graph: Graph, plan: MemoryPlan, most_bytes: int) -> None:
    ports = sum(value.type.bytes for value in (*graph.inputs, *(value for _, value in graph.outputs)))
    needed = ports + plan.params_bytes + plan.arena_bytes
    if needed > most_bytes:
        raise GraphError(
            f"network {graph.name!r} needs {_gib(needed)} of memory ({_gib(plan.params_bytes)} for parameters, "
            f"{_gib(plan.arena_bytes)} between its layers, {_gib(ports)} for inputs and outputs), and {_gib(most_bytes)} are "
            "there: give smaller shapes or a smaller batch"
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB"


def decide(graph: Graph, target: KernelTarget, decisions: ModelDecisions) -> None:
    """Add the decisions of a graph's kernels, none of which is lowered."""
    made: dict[Hashable, Mapping[str, Decision]] = {}
    for group in fuse(graph, target.machine):
        if not group.view:
            key, layer, given = _asked(group, decisions)
            if key not in made:
                with of_layer(layer):
                    made[key] = scheduled(group, target, given).decisions.made
            decisions.add(layer, made[key])


def _asked(group: Group, decisions: ModelDecisions) -> tuple[Hashable, str, dict[str, Any]]:
    """Return the key of a group's kernel, the group's layer, and the decisions given for its schedule."""
    layer = decisions.kernel(group.nodes)
    given = decisions.given(layer)
    return (key_of(group), repr(sorted(given.items()))), layer, given


def _kernel(group: Group, name: str, target: KernelTarget, layer: str, given: Mapping[str, Any]) -> Kernel:
    """A group's kernel; what is wrong with its program is one sentence here, and as a whole in the error's cause."""
    try:
        with of_layer(layer):
            return kernel_of(group, name, target, given)
    except (LowerError, VerifyError, PassError) as error:
        what = error.found if isinstance(error, LowerError | VerifyError) else str(error).partition("\n")[0]
        nodes = ", ".join(repr(node.name) for node in group.nodes if node.name) or "without a name"
        shapes = ", ".join(str(value.type) for value in group.inputs)
        decided = f", with the decisions {dict(given)}" if given else ""
        raise GraphError(
            f"no correct program was found for {group.name} of {shapes} (nodes {nodes}){decided}: {what}") from error


def _kernels(
    name: str, groups: list[Group], target: KernelTarget, decisions: ModelDecisions, progress: Progress | None
) -> tuple[list[Kernel], dict[Group, int]]:
    """The different kernels of the groups, and the number of each group's."""
    known: dict[Hashable, int] = {}
    kernels: list[Kernel] = []
    numbers = {}
    for done, group in enumerate(groups):
        key, layer, given = _asked(group, decisions)
        if key not in known:
            known[key] = len(kernels)
            kernels.append(_kernel(group, f"{name}_k{len(kernels)}", target, layer, given))
        numbers[group] = known[key]
        decisions.add(layer, kernels[known[key]].decisions)
        if progress is not None:
            progress(done + 1, len(groups))
    return kernels, numbers


def _params(graph: Graph, plan: MemoryPlan) -> tuple[tuple[int, Array], ...]:
    return tuple([(plan.places[value].at, array) for value, array in graph.constants.items()])
